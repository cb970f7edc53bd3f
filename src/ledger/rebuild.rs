//! Which rows of a ledger belong to which experiment, and what a ledger looks like when each experiment has one. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Entry, RowFormat, classify, number};

/// The differences between a ledger and the experiments that should be in it. Lines count from 1, experiments from 0 in their
/// given order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerDifferences {
    /// The experiments that have no whole row and need one.
    pub missing: Vec<usize>,
    /// The lines of rows, or of a header, that were cut short.
    pub torn: Vec<u64>,
    /// The lines of rows that say the same once more.
    pub repeated: Vec<u64>,
    /// The lines of rows that have another number or verdict than their experiment, with the experiment.
    pub differing: Vec<(u64, usize)>,
    /// Number of experiments that have a row.
    pub own: usize,
    /// Number of rows that belong to none of the experiments.
    pub foreign: usize,
}

impl LedgerDifferences {
    /// Returns whether a rebuilt file would be the same.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.torn.is_empty() && self.repeated.is_empty()
    }
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// Header, comment or blank.
    Frame,
    /// A row that belongs to no experiment.
    Foreign,
    /// The row of an experiment.
    Row(usize),
    /// The row of an experiment, with other numbers or another verdict.
    Differing(usize),
    /// The beginning of the row of an experiment that has no other.
    Torn(usize),
    /// The beginning of a row that stands elsewhere as well.
    TornAgain,
    /// A row that stands elsewhere as well.
    Repeated,
    /// A baseline's row once more: a deleted session that began at its commit may have had it.
    RepeatedBaseline,
}

/// A ledger beside the experiments that should be in it.
#[derive(Debug)]
pub(super) struct Rebuild<'a> {
    text: &'a str,
    format: &'a RowFormat,
    /// True if the text has its header.
    has_header: bool,
    lines: Vec<LineKind>,
    /// The rows of the experiments as they are written, without line ends.
    rows: Vec<String>,
    /// Which of the experiments need no row.
    omitted: Vec<bool>,
}

impl<'a> Rebuild<'a> {
    /// Finds out whose the rows are. Without a header, all that is there are comments and blanks.
    ///
    /// A row is an experiment's if it is what would be written, else if it has its commit, number and verdict, else if it
    /// has its commit. Each row belongs to one experiment, as two sessions can share a baseline's commit.
    pub(super) fn new(text: &'a str, format: &'a RowFormat, has_header: bool, entries: &[Entry<'_>]) -> Self {
        let rows: Vec<String> =
            entries.iter().map(|entry| format.row(entry).trim_end_matches(['\r', '\n']).to_owned()).collect();
        let omitted = entries.iter().map(|entry| format.omits(entry)).collect();
        let mut rebuild = Rebuild { text, format, has_header, lines: Vec::new(), rows, omitted };
        let mut header = has_header;
        rebuild.lines = text
            .split_inclusive('\n')
            .map(|line| {
                let line = line.trim_start_matches('\u{feff}').trim();
                if line.is_empty() || line.starts_with('#') || std::mem::take(&mut header) {
                    LineKind::Frame
                } else {
                    LineKind::Foreign
                }
            })
            .collect();
        let mut missing = rebuild.claim_exact(entries);
        rebuild.claim_torn(&mut missing);
        rebuild.claim_by_commit(entries, &mut missing);
        rebuild
    }

    /// Gives each experiment the row that is as it would be written; gives which have none. More rows like that are repeated,
    /// but for those of baselines.
    fn claim_exact(&mut self, entries: &[Entry<'_>]) -> Vec<bool> {
        let mut wanted: HashMap<&str, (VecDeque<usize>, LineKind)> = HashMap::new();
        for (index, (row, entry)) in self.rows.iter().zip(entries).enumerate() {
            let more = if entry.is_baseline { LineKind::RepeatedBaseline } else { LineKind::Repeated };
            wanted.entry(row).or_insert((VecDeque::new(), more)).0.push_back(index);
        }
        let mut missing = vec![true; self.rows.len()];
        for (line, text) in self.lines.iter_mut().zip(self.text.split_inclusive('\n')) {
            if *line != LineKind::Foreign {
                continue;
            }
            let Some((experiments, more)) = wanted.get_mut(content(text)) else { continue };
            *line = match experiments.pop_front() {
                Some(index) => {
                    missing[index] = false;
                    LineKind::Row(index)
                }
                None => *more,
            };
        }
        missing
    }

    /// Finds the rows that were cut short: the last line if it has no end, and lines with too few cells; then also those
    /// that begin like a row that stands elsewhere.
    fn claim_torn(&mut self, missing: &mut [bool]) {
        let column = self.format.columns.commit.unwrap_or_default();
        for is_again in [false, true] {
            for (line, text) in self.lines.iter_mut().zip(self.text.split_inclusive('\n')) {
                if *line != LineKind::Foreign {
                    continue;
                }
                let is_ended = text.ends_with('\n');
                // Bytes that were not written before a power failure read as zeros.
                let start = if is_ended { content(text) } else { text.trim_end_matches('\0') };
                let cells: Vec<&str> = start.split('\t').collect();
                // The commit's cell is whole: something follows it.
                let is_named = cells.len() > column + 1 && cells[column].len() >= 4;
                let is_short = cells.len() < self.format.header.len();
                let mut begun = (0..self.rows.len())
                    .filter(|&index| self.rows[index].starts_with(start) && self.rows[index] != start);
                if is_again {
                    if is_named && begun.any(|index| !missing[index]) {
                        *line = LineKind::TornAgain;
                    }
                } else if (!is_ended || (is_named && is_short))
                    && let Some(index) = begun.find(|&index| missing[index])
                {
                    missing[index] = false;
                    *line = LineKind::Torn(index);
                }
            }
        }
    }

    /// Gives the experiments that are left the rows that have their commit.
    fn claim_by_commit(&mut self, entries: &[Entry<'_>], missing: &mut [bool]) {
        let mut by_commit: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate().filter(|(index, _)| missing[*index]) {
            by_commit.entry(entry.commit.as_str()).or_default().push(index);
        }
        for must_agree in [true, false] {
            for (line, text) in self.lines.iter_mut().zip(self.text.split_inclusive('\n')) {
                if *line != LineKind::Foreign {
                    continue;
                }
                let cells: Vec<&str> = content(text).split('\t').collect();
                let Some(commit) = self.format.commit_cell(&cells) else { continue };
                let candidates = by_commit.range(commit..).take_while(|(full, _)| full.starts_with(commit));
                let found = candidates
                    .flat_map(|(_, indices)| indices)
                    .copied()
                    .find(|&index| missing[index] && (!must_agree || agree(self.format, &cells, &self.rows[index])));
                if let Some(index) = found {
                    missing[index] = false;
                    *line = if must_agree { LineKind::Row(index) } else { LineKind::Differing(index) };
                }
            }
        }
    }

    /// Compares the ledger with what it should be.
    pub(super) fn comparison(&self) -> LedgerDifferences {
        let mut found = LedgerDifferences::default();
        let mut has_row = vec![false; self.rows.len()];
        for (number, (line, text)) in (1..).zip(self.lines.iter().zip(self.text.split_inclusive('\n'))) {
            match *line {
                LineKind::Frame => {}
                LineKind::Foreign | LineKind::RepeatedBaseline => found.foreign += 1,
                LineKind::Row(index) | LineKind::Differing(index) => {
                    has_row[index] = true;
                    if !text.ends_with('\n') {
                        found.torn.push(number);
                    }
                    if *line == LineKind::Differing(index) {
                        found.differing.push((number, index));
                    }
                }
                LineKind::Torn(_) | LineKind::TornAgain => found.torn.push(number),
                LineKind::Repeated => found.repeated.push(number),
            }
        }
        found.own = has_row.iter().filter(|has_row| **has_row).count();
        found.missing = (0..self.rows.len()).filter(|&index| !has_row[index] && !self.omitted[index]).collect();
        found
    }

    /// The ledger with one whole row for each experiment, and where each of these rows begins, in bytes.
    ///
    /// Rows that are there, those of others with them, stay as they are and in their order. A row that was cut short becomes
    /// whole where it is; one that is missing goes behind that of the experiment before it.
    pub(super) fn text(&self) -> (String, Vec<u64>) {
        let count = self.rows.len();
        let mut is_there = vec![false; count];
        for line in &self.lines {
            if let LineKind::Row(index) | LineKind::Differing(index) | LineKind::Torn(index) = *line {
                is_there[index] = true;
            }
        }
        let mut written = GrowingLedger { text: String::new(), places: vec![0; count], line_end: self.format.line_end };
        let first = is_there.iter().position(|there| *there);
        let needs_row = |index: &usize| !self.omitted[*index];
        let following = |index: usize| (index + 1..count).take_while(|&next| !is_there[next]).filter(needs_row);
        let preceding = |index: usize| (0..if first == Some(index) { index } else { 0 }).filter(needs_row);
        for (line, text) in self.lines.iter().zip(self.text.split_inclusive('\n')) {
            match *line {
                LineKind::Frame | LineKind::Foreign | LineKind::RepeatedBaseline => written.line(text),
                LineKind::TornAgain | LineKind::Repeated => {}
                LineKind::Row(index) | LineKind::Differing(index) | LineKind::Torn(index) => {
                    preceding(index).for_each(|index| written.row(index, &self.rows[index]));
                    match *line {
                        LineKind::Torn(_) => written.row(index, &self.rows[index]),
                        _ => written.place(index, text),
                    }
                    following(index).for_each(|index| written.row(index, &self.rows[index]));
                }
            }
        }
        if !self.has_header && (0..count).any(|index| needs_row(&index)) {
            written.line(&self.format.header_line());
        }
        if first.is_none() {
            (0..count).filter(needs_row).for_each(|index| written.row(index, &self.rows[index]));
        }
        (written.text, written.places)
    }
}

/// A ledger that grows line by line.
struct GrowingLedger {
    text: String,
    places: Vec<u64>,
    line_end: &'static str,
}

impl GrowingLedger {
    fn line(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text += self.line_end;
        }
        self.text += line;
    }

    /// Writes the row of an experiment, which is new.
    fn row(&mut self, index: usize, row: &str) {
        self.place(index, &format!("{row}{}", self.line_end));
    }

    /// Writes the line of an experiment's row as it is.
    fn place(&mut self, index: usize, line: &str) {
        self.line("");
        self.places[index] = self.text.len() as u64;
        self.text += line;
        self.line("");
    }
}

/// A line without its end.
fn content(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Returns whether a row has the same value and verdict as one that would be written.
fn agree(format: &RowFormat, cells: &[&str], row: &str) -> bool {
    let row: Vec<&str> = row.split('\t').collect();
    let value =
        |cells: &[&str]| format.columns.metric.and_then(|column| number(cells[column])).map(|number| number.value);
    let status = |cells: &[&str]| format.columns.status.map(|column| classify(cells[column], format.verdict()));
    value(cells) == value(&row) && status(cells) == status(&row)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strum::VariantArray;

    use super::super::columns::ColumnPositions;
    use super::*;
    use crate::domain::{CommitId, LedgerDialect, Number, Outcome};
    use crate::ledger::{ReadOptions, RowStatus, read};

    const HEADER: [&str; 5] = ["commit_hash", "val_bpb", "memory_gb", "status", "description"];

    /// An experiment whose commit is `digit` forty times.
    fn experiment(digit: char, value: Option<&str>, description: &str) -> (CommitId, Option<Number>, String) {
        let value = value.map(|value| value.parse().unwrap());
        (CommitId::new(digit.to_string().repeat(40)), value, description.to_owned())
    }

    fn entries(experiments: &[(CommitId, Option<Number>, String)]) -> Vec<Entry<'_>> {
        experiments
            .iter()
            .map(|(commit, value, description)| Entry {
                commit,
                value: value.clone(),
                memory_gb: None,
                outcome: if value.is_some() { Outcome::Keep } else { Outcome::Crash },
                failure: None,
                description,
                is_partial: false,
                is_refused: false,
                is_baseline: description == "baseline",
            })
            .collect()
    }

    fn format_of(text: &str) -> (RowFormat, bool) {
        match text.strip_prefix(&(HEADER.join("\t") + "\n")) {
            Some(rows) => {
                let records = crate::ledger::table::records(rows).map(|(_, row)| row);
                (RowFormat::continued(&HEADER, ColumnPositions::by_name(&HEADER, Some("val_bpb")), records, "\n"), true)
            }
            None => (RowFormat::new("val_bpb", LedgerDialect::Ar), false),
        }
    }

    /// The comparison, the rebuilt text, and where the rows are.
    fn rebuilt(
        text: &str,
        experiments: &[(CommitId, Option<Number>, String)],
    ) -> (LedgerDifferences, String, Vec<u64>) {
        let (format, has_header) = format_of(text);
        let rebuild = Rebuild::new(text, &format, has_header, &entries(experiments));
        let (text, places) = rebuild.text();
        (rebuild.comparison(), text, places)
    }

    #[test]
    fn a_refused_change_needs_no_row_in_karpathys_dialect() {
        let experiments = [
            experiment('a', Some("1.50"), "baseline"),
            experiment('b', None, "refused"),
            experiment('c', Some("1.25"), "c"),
        ];
        let mut entries = entries(&experiments);
        entries[1].is_refused = true;
        for (dialect, expected) in [(LedgerDialect::Karpathy, 2), (LedgerDialect::Ar, 3)] {
            let format = RowFormat::new("val_bpb", dialect);
            let rows: Vec<String> = entries.iter().map(|entry| format.row(entry)).collect();
            let header = format.header_line();
            let (text, places) = Rebuild::new("", &format, false, &entries).text();
            assert_eq!((text.lines().count(), text.starts_with(&header), places.len()), (expected + 1, true, 3));
            let again = Rebuild::new(&text, &format, true, &entries);
            assert!(again.comparison().is_whole() && again.text().0 == text, "{text}");
            // A row that is there, also a torn one, stays.
            let old = header + &rows.concat();
            let whole = Rebuild::new(&old, &format, true, &entries);
            assert_eq!((whole.comparison().is_whole(), whole.comparison().own, whole.text().0 == old), (true, 3, true));
            let torn = old.replace("refused\n", "refu\n");
            assert_eq!(Rebuild::new(&torn, &format, true, &entries).text().0.lines().count(), 4);
        }
        let format = RowFormat::new("val_bpb", LedgerDialect::Karpathy);
        assert_eq!(Rebuild::new("", &format, false, &entries[1..2]).text().0, "");
    }

    #[test]
    fn every_kind_of_damage_is_found_and_mended() {
        let three = [
            experiment('a', Some("1.50"), "baseline"),
            experiment('b', None, "a typo in the loss"),
            experiment('c', Some("1.25"), "say µ and ü"),
        ];
        let (header, [a, b, c]) = (
            HEADER.join("\t") + "\n",
            [
                "aaaaaaaa\t1.50\tnan\timproved\tbaseline\n",
                "bbbbbbbb\tnan\tnan\tfailed\ta typo in the loss\n",
                "cccccccc\t1.25\tnan\timproved\tsay µ and ü\n",
            ],
        );
        let whole = format!("{header}{a}{b}{c}");
        let mine = "deadbeef\t1.1\t2.0\timproved\tby hand\n";
        let half = &b[..b.len() - 9];
        for (what, text, expected, missing, torn, repeated) in [
            ("all is there", whole.clone(), whole.clone(), vec![], vec![], vec![]),
            ("no file", String::new(), whole.clone(), vec![0, 1, 2], vec![], vec![]),
            ("only a remark", "# mine\n".into(), format!("# mine\n{whole}"), vec![0, 1, 2], vec![], vec![]),
            (
                "one is missing",
                format!("{header}{a}{mine}{c}"),
                format!("{header}{a}{b}{mine}{c}"),
                vec![1],
                vec![],
                vec![],
            ),
            (
                "the first is missing",
                format!("{header}{mine}{b}{c}"),
                format!("{header}{mine}{whole}").replace(&format!("{mine}{header}"), mine),
                vec![0],
                vec![],
                vec![],
            ),
            ("the last is torn", format!("{header}{a}{b}{}", &c[..20]), whole.clone(), vec![2], vec![4], vec![]),
            ("only its end is missing", whole.trim_end().into(), whole.clone(), vec![], vec![4], vec![]),
            (
                "zeros after a power cut",
                format!("{header}{a}{b}{}\0\0", &c[..9]),
                whole.clone(),
                vec![2],
                vec![4],
                vec![],
            ),
            ("torn, and written again", format!("{header}{a}{half}\n{b}{c}"), whole.clone(), vec![], vec![3], vec![]),
            ("torn in the middle", format!("{header}{a}bbbbbbbb\tnan\n{c}"), whole.clone(), vec![1], vec![3], vec![]),
            ("twice", format!("{header}{a}{b}{b}{c}"), whole.clone(), vec![], vec![], vec![4]),
            ("in another order", format!("{header}{c}{a}{b}"), format!("{header}{c}{a}{b}"), vec![], vec![], vec![]),
            (
                "a line end of others",
                format!("{header}{a}{b}{c}{}", mine.trim_end()),
                format!("{header}{a}{b}{c}{}", mine.trim_end()),
                vec![],
                vec![],
                vec![],
            ),
        ] {
            let (found, text, places) = rebuilt(&text, &three);
            assert_eq!(text, expected, "{what}");
            assert_eq!((found.missing, found.torn, found.repeated), (missing, torn, repeated), "{what}");
            for (place, row) in places.iter().zip([a, b, c]) {
                assert!(text[usize::try_from(*place).unwrap()..].starts_with(row), "{what}: {place} in {text}");
            }
        }
    }

    #[test]
    fn a_row_that_was_edited_is_still_the_row_of_its_experiment() {
        let one = [experiment('a', Some("1.50"), "baseline")];
        for (row, differs) in [
            ("aaaaaaaa\t1.5\t14.0\tIMPROVED\tthe start", false),
            ("aaaaaaa\t1.50\tnan\tkeep\tbaseline", false),
            ("aaaaaaaa\t1.40\tnan\timproved\tbaseline", true),
            ("aaaaaaaa\t1.50\tnan\trejected\tbaseline", true),
        ] {
            let text = format!("{}\n{row}\n", HEADER.join("\t"));
            let (found, after, _) = rebuilt(&text, &one);
            assert_eq!(found.differing, if differs { vec![(2, 0)] } else { vec![] }, "{row}");
            assert!(found.is_whole() && found.foreign == 0, "{row}: {found:?}");
            assert_eq!(after, text);
        }
    }

    #[test]
    fn a_keep_whose_train_has_the_number_is_no_zero_in_any_dialect() {
        let experiments = [experiment('a', None, "rides"), experiment('b', Some("1.5"), "leads")];
        for dialect in LedgerDialect::VARIANTS {
            let format = RowFormat::new("loss", *dialect);
            let mut entries = entries(&experiments);
            entries.iter_mut().for_each(|entry| entry.outcome = Outcome::Keep);
            entries[0].memory_gb = Some(2.0);
            let row = format.row(&entries[0]);
            let cells: Vec<&str> = row.trim_end().split('\t').collect();
            assert_eq!((cells[1], cells[2]), ("nan", "2.0"), "{dialect:?}");
            let text = format.header_line() + &row + &format.row(&entries[1]);
            assert!(Rebuild::new(&text, &format, true, &entries).comparison().is_whole());
            let ledger = read(text.as_bytes(), &ReadOptions::default());
            let rows: Vec<_> =
                ledger.rows.iter().map(|row| (row.status, row.value.is_some(), row.problem.clone())).collect();
            assert_eq!(rows, [(RowStatus::Keep, false, None), (RowStatus::Keep, true, None)]);
        }
    }

    #[test]
    fn two_sessions_on_one_commit_have_a_row_each() {
        let two = [experiment('a', Some("1.50"), "baseline"), experiment('a', Some("1.50"), "baseline")];
        let row = "aaaaaaaa\t1.50\tnan\timproved\tbaseline\n";
        let (found, text, _) = rebuilt(&format!("{}\n{row}", HEADER.join("\t")), &two);
        assert_eq!(found.missing, [1]);
        assert_eq!(text, format!("{}\n{row}{row}", HEADER.join("\t")));
        assert_eq!(rebuilt(&text, &two).0, LedgerDifferences { own: 2, ..LedgerDifferences::default() });
    }

    #[test]
    fn the_baseline_of_a_deleted_session_keeps_its_row_and_is_no_other_sessions() {
        let experiments = [
            experiment('a', Some("1.50"), "baseline"),
            experiment('a', Some("1.75"), "baseline"),
            experiment('b', Some("1.25"), "b"),
        ];
        let row = "aaaaaaaa\t1.50\tnan\timproved\tbaseline\n";
        let (other, b) = (row.replace("1.50", "1.75"), "bbbbbbbb\t1.25\tnan\timproved\tb\n");
        let header = HEADER.join("\t") + "\n";
        for (text, expected, missing, repeated) in [
            (format!("{row}{row}{other}{b}"), format!("{row}{row}{other}{b}"), vec![], vec![]),
            (format!("{row}{row}{b}{b}"), format!("{row}{other}{row}{b}"), vec![1], vec![5]),
        ] {
            let (found, text, _) = rebuilt(&format!("{header}{text}"), &experiments);
            assert_eq!(text, format!("{header}{expected}"));
            assert_eq!((found.foreign, found.missing, found.repeated), (1, missing, repeated));
        }
    }

    /// Damage to a row of a file.
    #[derive(Debug, Clone)]
    enum Damage {
        None,
        Lost,
        Twice,
        TornAndAgain(usize),
        Foreign(String),
    }

    fn damages() -> impl Strategy<Value = Vec<Damage>> {
        let damage = prop_oneof![
            3 => Just(Damage::None),
            1 => Just(Damage::Lost),
            1 => Just(Damage::Twice),
            1 => (9usize..40).prop_map(Damage::TornAndAgain),
            2 => "[ -~]{0,12}(\t[ -~]{0,6}){0,5}".prop_map(Damage::Foreign),
        ];
        proptest::collection::vec(damage, 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn each_experiment_has_one_row_and_nothing_of_others_is_lost(
            damages in damages(),
            cut in proptest::option::of(1usize..60),
            descriptions in proptest::collection::vec("\\PC{0,16}", 12),
            has_header in any::<bool>(),
        ) {
            let experiments: Vec<_> = descriptions
                .iter()
                .zip("0123456789abcdef".chars())
                .map(|(description, digit)| experiment(digit, (digit != '3').then_some("1.5"), description))
                .collect();
            let (format, _) = format_of("");
            let rows: Vec<String> = entries(&experiments).iter().map(|entry| format.row(entry)).collect();
            let mut text = if has_header { format.header_line() } else { String::new() };
            let mut foreign = Vec::new();
            if has_header {
                for (damage, row) in damages.iter().zip(&rows) {
                    let end = |cut: usize| (0..=cut.min(row.len() - 1)).rev().find(|end| row.is_char_boundary(*end)).unwrap();
                    match damage {
                        Damage::None => text += row,
                        Damage::Lost => {}
                        Damage::Twice => text += &row.repeat(2),
                        Damage::TornAndAgain(cut) => text += &format!("{}\n{row}", &row[..end(*cut)].trim_end_matches('\n')),
                        Damage::Foreign(line) => {
                            text += &format!("{row}{line}\n");
                            foreign.push(line.clone());
                        }
                    }
                }
                if let Some(cut) = cut
                    && text.ends_with('\n')
                    && matches!(damages.last(), Some(Damage::None | Damage::Twice | Damage::TornAndAgain(_)))
                {
                    let from = text.trim_end().rfind('\n').unwrap_or_default() + 2;
                    let to = (from..text.len()).filter(|end| text.is_char_boundary(*end)).nth(cut).unwrap_or(text.len());
                    text.truncate(to);
                }
            }
            let (before, after, places) = rebuilt(&text, &experiments);
            for (row, place) in rows.iter().zip(&places) {
                prop_assert!(after[usize::try_from(*place).unwrap()..].starts_with(row.as_str()), "{after:?} has no {row:?}");
                prop_assert_eq!(after.split_inclusive('\n').filter(|line| line == row).count(), 1);
            }
            let mut left = after.lines();
            for line in &foreign {
                prop_assert!(left.any(|found| found == line), "{line:?} is lost or moved in {after:?}");
            }
            if before.is_whole() {
                prop_assert_eq!(&after, &text);
            }
            let (again, same, _) = rebuilt(&after, &experiments);
            prop_assert!(again.is_whole(), "{again:?} in {after:?}");
            prop_assert_eq!(same, after);
        }
    }
}
