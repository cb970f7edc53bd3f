//! Compares a ledger with what it was before other processes could write to it. Pure.

use std::collections::HashMap;

use super::row_format::RowFormat;

/// The changes to a ledger since it was last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Since {
    /// Number of its lines that were deleted or changed.
    pub lost: usize,
    /// The new rows that are taken out: they claim the commit of an experiment and are not its row, or nobody may add
    /// rows.
    pub false_rows: Vec<String>,
    /// Number of new rows that belong to no experiment, and stay.
    pub foreign: usize,
    /// True if the old lines are in another order.
    pub reordered: bool,
}

impl Since {
    /// Returns whether the ledger must be restored.
    pub fn is_harmed(&self) -> bool {
        self.lost > 0 || !self.false_rows.is_empty() || self.reordered
    }
}

/// Compares a ledger with what it `was`. `rows` are those of experiments, as they are written, and how many experiments
/// have each: two sessions that make the same commit have the same row. `is_known` says whether a commit's cell is that
/// of an experiment, and `others_stay` whether others may add rows. Gives the ledger as it should be as well: the lines
/// that were there, then new rows of experiments and of others.
pub(super) fn since(
    was: &str,
    now: &str,
    format: &RowFormat,
    rows: &HashMap<String, usize>,
    is_known: impl Fn(&str) -> bool,
    others_stay: bool,
) -> (Since, String) {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in was.lines() {
        *left.entry(line).or_default() += 1;
    }
    let missing = rows
        .iter()
        .map(|(row, count)| (row.as_str(), count.saturating_sub(left.get(row.as_str()).copied().unwrap_or(0))));
    let mut missing: HashMap<&str, usize> = missing.collect();
    let (mut found, mut old, mut new, mut odd) = (Since::default(), Vec::new(), Vec::new(), Vec::new());
    for line in now.lines() {
        match left.get_mut(line) {
            Some(count) if *count > 0 => {
                *count -= 1;
                old.push(line);
                continue;
            }
            _ => {}
        }
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.split('\t').collect();
        if let Some(count) = missing.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            new.push(line);
        } else if !others_stay || rows.contains_key(line) || format.commit_cell(&cells).is_some_and(&is_known) {
            found.false_rows.push(line.to_owned());
        } else if cells.len() == format.header.len() || line.starts_with('#') {
            found.foreign += 1;
            new.push(line);
        } else {
            odd.push(line);
        }
    }
    found.lost = left.values().sum();
    found.reordered = found.lost == 0 && !was.lines().eq(old);
    // A line that is no row is somebody's remark, or what somebody put in the place of rows.
    if found.is_harmed() {
        found.false_rows.extend(odd.into_iter().map(str::to_owned));
    } else {
        found.foreign += odd.len();
        new.append(&mut odd);
    }
    let mut text: String = was.to_owned();
    for line in new {
        if !text.is_empty() && !text.ends_with('\n') {
            text += format.line_end;
        }
        text += line;
        text += format.line_end;
    }
    (found, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::LedgerDialect;

    const HEADER: &str = "commit_hash\tm\tmemory_gb\tstatus\tdescription\n";

    #[test]
    fn two_sessions_may_have_the_same_row() {
        let row = "aaaaaaaa\t2\t1\timproved\ta";
        let text = format!("{HEADER}{row}\n{row}\n");
        let format = RowFormat::new("m", LedgerDialect::Ar);
        for (times, false_rows) in [(2, 0), (1, 1)] {
            let rows = [(row.to_owned(), times)].into();
            let (found, _) = since(&format!("{HEADER}{row}\n"), &text, &format, &rows, |_| true, true);
            assert_eq!(found.false_rows.len(), false_rows);
        }
    }

    fn compare(was: &[&str], now: &[&str], others_stay: bool) -> (Since, String) {
        let format = RowFormat::new("m", LedgerDialect::Ar);
        let text = |rows: &[&str]| HEADER.to_owned() + &rows.iter().map(|row| format!("{row}\n")).collect::<String>();
        let rows = ["aaaaaaaa\t2\t1\timproved\ta", "bbbbbbbb\t1\t1\timproved\tb"].map(|row| (row.to_owned(), 1)).into();
        let known = |cell: &str| ["aaaaaaaa", "bbbbbbbb"].iter().any(|commit| commit.starts_with(cell));
        let (found, rebuilt) = since(&text(was), &text(now), &format, &rows, known, others_stay);
        (found, rebuilt.strip_prefix(HEADER).unwrap().to_owned())
    }

    #[test]
    fn rows_of_others_stay_and_those_that_claim_an_experiment_go() {
        let (a, b) = ("aaaaaaaa\t2\t1\timproved\ta", "bbbbbbbb\t1\t1\timproved\tb");
        let (mine, more) = ("cccccccc\t3\t1\trejected\tby hand", "dddddddd\t0.1\t1\timproved\tmore");
        let (lie, short) = ("aaaaaaaa\t0.1\t1\timproved\ta", "bbbbbbb\t0.1\t1\timproved\tb");
        let found = |lost, false_rows: &[&str], foreign, reordered| Since {
            lost,
            false_rows: false_rows.iter().map(|&row| row.to_owned()).collect(),
            foreign,
            reordered,
        };
        for (was, now, expected, text) in [
            (vec![a], vec![a], found(0, &[], 0, false), vec![a]),
            (vec![a], vec![a, b, more], found(0, &[], 1, false), vec![a, b, more]),
            (vec![a, mine], vec![a], found(1, &[], 0, false), vec![a, mine]),
            (vec![a], vec![lie], found(1, &[lie], 0, false), vec![a]),
            (vec![a], vec![a, a], found(0, &[a], 0, false), vec![a]),
            (vec![a], vec![a, short], found(0, &[short], 0, false), vec![a]),
            (vec![a, mine], vec![mine, b, a], found(0, &[], 0, true), vec![a, mine, b]),
            (vec![a], vec![a, "what is this?"], found(0, &[], 1, false), vec![a, "what is this?"]),
            (vec![a], vec!["what is this?"], found(1, &["what is this?"], 0, false), vec![a]),
        ] {
            let (since, rebuilt) = compare(&was, &now, true);
            let rows: String = text.iter().map(|row| format!("{row}\n")).collect();
            assert_eq!((since, rebuilt), (expected, rows), "{now:?}");
        }
        let (since, rebuilt) = compare(&[a, mine], &[a, mine, b, more, "# mine"], false);
        assert_eq!((since, rebuilt), (found(0, &[more, "# mine"], 0, false), format!("{a}\n{mine}\n{b}\n")));
    }
}
