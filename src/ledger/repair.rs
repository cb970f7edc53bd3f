//! Mending the file of a ledger from the records, and comparing it with what it was before other processes could write to
//! it.

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{Entry, LARGEST, LedgerDifferences, LedgerError, LedgerFile, Rebuild, RowFormat, has_content};
use crate::domain::{CommitId, LedgerDialect, Record, Tag};
use crate::fs::{FileError, FileStamp, copy_beside, free_beside, if_exists, read_at_most, replace_through};

/// The outcome of a ledger's repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The differences found before the repair.
    pub found: LedgerDifferences,
    /// The copy of what it was; absent when there was no file.
    pub copy: Option<PathBuf>,
    /// Byte offset of each record's row, in the order of the records; 0 for a record without a row.
    pub places: Vec<u64>,
}

/// A ledger as it was at one moment.
#[derive(Debug)]
pub struct HeldRows {
    stamp: [Option<FileStamp>; 2],
    /// The target of the link, if the ledger was one.
    link: Option<PathBuf>,
    text: String,
}

impl LedgerFile {
    /// Compares the file at `path` with the records that should be in it, and changes nothing. `dialect` is for a file that
    /// is missing or has no header. Experiments count by their position in `records`.
    ///
    /// # Errors
    ///
    /// The file is unreadable, or is no ledger of the metric.
    pub fn compare(
        path: &Path,
        metric: &str,
        dialect: LedgerDialect,
        records: &[&Record],
    ) -> Result<LedgerDifferences, LedgerError> {
        let ledger = LedgerFile::unread(path, metric, dialect);
        let bytes = if_exists(read_at_most(path, LARGEST)).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => LedgerError::NotAFile(path.to_owned()),
            _ => ledger.io("read", error),
        });
        Ok(ledger.rebuilt(&bytes?.unwrap_or_default(), records)?.0)
    }

    /// Gives each record one complete row in the file at `path`, which is created if it is missing. Existing rows, also
    /// foreign ones, stay as they are and in their order. Missing rows are inserted in the order of `records`, which should
    /// be that in which they finished. A copy of the old file stays beside it as `results.tsv.before-repair`. Returns nothing
    /// if there is nothing to repair. Temporary files are in `folder`. All is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The file is unreadable, read-only, locked by another process for too long, or is no ledger of the metric.
    pub fn rebuild(
        path: &Path,
        metric: &str,
        dialect: LedgerDialect,
        records: &[&Record],
        folder: &Path,
    ) -> Result<Option<Rebuilt>, LedgerError> {
        let existed = has_content(path);
        if existed && LedgerFile::compare(path, metric, dialect, records)?.is_whole() {
            return Ok(None);
        }
        let mut ledger = LedgerFile::unread(path, metric, dialect);
        if !existed && records.iter().all(|record| ledger.new_format().omits(&Entry::of(record))) {
            return Ok(None);
        }
        let mut file = ledger.open_locked()?;
        // A link stays one, and the file that it leads to is mended.
        let path = &path.canonicalize().map_err(|error| ledger.io("find", error))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| ledger.io("read", error))?;
        let (found, text, places) = ledger.rebuilt(&bytes, records)?;
        if found.is_whole() {
            return Ok(None);
        }
        let failed = |action, error: FileError| ledger.io(action, error.source);
        let copy = match existed || !bytes.is_empty() {
            true => Some(copy_beside(path, &bytes, ".before-repair").map_err(|error| failed("copy", error))?),
            false => None,
        };
        // A process that waits for the lock of the replaced file notices the replacement and opens the new file.
        replace_through(folder, path, text.as_bytes()).map_err(|error| failed("write", error))?;
        Ok(Some(Rebuilt { found, copy, places }))
    }

    /// The file as it is now, for [`LedgerFile::repair_since`]; without text if it is missing.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn hold(&self) -> Result<HeldRows, LedgerError> {
        let text = String::from_utf8(self.bytes()?.unwrap_or_default())
            .map_err(|_| LedgerError::Encoding(self.path().to_owned()))?;
        Ok(HeldRows { stamp: self.stamp(), link: fs::read_link(self.path()).ok(), text })
    }

    /// Restores the file as it was `held` if lines are missing or changed, or if a new row falsely claims a commit of
    /// `records` or `commits`. New rows of records follow the old lines, and so do new foreign rows if `others_stay`.
    /// Retains the replaced file as `results.tsv.before-repair`, unless it had only added rows and `others_stay` is
    /// false. If it had no header, a new one of this metric stays, and so does the file of another metric. Returns nothing if
    /// the file is unharmed and has no new foreign rows. Temporary files are in `folder`. `tag` is the session that held it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, moved or written, or is locked by another process for too long.
    pub fn repair_since(
        &mut self,
        held: &HeldRows,
        records: impl FnOnce() -> Vec<Record>,
        commits: &[CommitId],
        others_stay: bool,
        (tag, folder): (&Tag, &Path),
    ) -> Result<Option<(LedgerChanges, Option<PathBuf>)>, LedgerError> {
        if self.stamp() == held.stamp {
            return Ok(None);
        }
        let known_format = self.format_of(held.text.as_bytes())?;
        let is_relinked = fs::read_link(self.path()).ok() != held.link;
        let mut aside = if is_relinked { self.move_away(held.link.as_deref())? } else { self.move_irregular_away()? };
        let mut file = self.open_locked()?;
        let path = self.path().canonicalize().map_err(|error| self.io("find", error))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| self.io("read", error))?;
        let format = match (known_format, self.format_of(&bytes)) {
            (Some(format), _) => format,
            // A session with another metric made it.
            (None, Err(LedgerError::OtherMetric { .. })) => return Ok(None),
            (None, found) => found.ok().flatten().unwrap_or_else(|| self.new_format()),
        };
        // A row is written after its record, so that each row that was read has one by now.
        let records = records();
        let line_of = |row: String| row.trim_end_matches(['\r', '\n']).to_owned();
        let mut row_counts = HashMap::from([(line_of(format.header_line()), 1)]);
        let mut begun_elsewhere: HashMap<String, usize> = HashMap::new();
        for record in &records {
            let entry = Entry::of(record);
            if !format.omits(&entry) {
                let row = line_of(format.row(&entry));
                *begun_elsewhere.entry(row.clone()).or_default() +=
                    usize::from(entry.is_baseline && record.tag != *tag);
                *row_counts.entry(row).or_default() += 1;
            }
        }
        // The held rows like the baseline of another session may all be those of deleted ones, and its own be new.
        for (row, count) in &mut row_counts {
            let begun = begun_elsewhere.get(row).copied().unwrap_or_default();
            if begun > 0 {
                *count = (*count).max(begun + held.text.lines().filter(|line| line == row).count());
            }
        }
        let commits: Vec<&CommitId> = records.iter().map(|record| &record.commit).chain(commits).collect();
        let is_known = |cell: &str| commits.iter().any(|commit| commit.as_str().starts_with(cell));
        let (found, text) =
            since(&held.text, &String::from_utf8_lossy(&bytes), &format, &row_counts, is_known, others_stay);
        if !found.is_harmed() {
            return Ok((found.foreign > 0 || aside.is_some()).then_some((found, aside)));
        }
        let failed = |action, error| self.io(action, io::Error::other(error));
        let has_only_added_rows = found.lost == 0 && !found.reordered && !others_stay;
        if aside.is_none() && !has_only_added_rows {
            aside = Some(copy_beside(&path, &bytes, ".before-repair").map_err(|error| failed("copy", error))?);
        }
        replace_through(folder, &path, text.as_bytes()).map_err(|error| failed("write", error))?;
        Ok(Some((found, aside)))
    }

    /// Moves what stands in the file's place and is no file, such as a pipe that would be waited for, or has more than 64
    /// MiB, to a name beside it, which it gives.
    ///
    /// # Errors
    ///
    /// It cannot be moved.
    pub fn move_irregular_away(&self) -> Result<Option<PathBuf>, LedgerError> {
        match fs::metadata(self.path()) {
            Ok(meta) if !meta.is_file() || meta.len() > LARGEST => self.move_away(None),
            _ => Ok(None),
        }
    }

    /// Moves what stands in the file's place to a name beside it, which it gives, and puts the link back that was there.
    fn move_away(&self, link: Option<&Path>) -> Result<Option<PathBuf>, LedgerError> {
        let aside = free_beside(self.path(), ".before-repair");
        let moved = if_exists(fs::rename(self.path(), &aside)).map_err(|error| self.io("move", error))?;
        if let Some(target) = link {
            symlink(target, self.path()).map_err(|error| self.io("link", error))?;
        }
        Ok(moved.map(|()| aside))
    }

    /// Returns the stamps of the path itself and of the file that it leads to.
    fn stamp(&self) -> [Option<FileStamp>; 2] {
        [Some(self.path().to_owned()), self.path().canonicalize().ok()]
            .map(|path| path.and_then(|path| FileStamp::of(&path)))
    }

    /// Compares the bytes of a file with the records. Returns the differences, the rebuilt text, and the byte offset of each
    /// row.
    fn rebuilt(&self, bytes: &[u8], records: &[&Record]) -> Result<(LedgerDifferences, String, Vec<u64>), LedgerError> {
        let entries: Vec<Entry<'_>> = records.iter().map(|record| Entry::of(record)).collect();
        // A character that was cut short at the end belongs to a row that was.
        let whole = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
            _ => bytes,
        };
        let is_torn_header = self.is_torn_header(whole);
        let whole = if is_torn_header { &[] } else { whole };
        let format = self.format_of(whole)?;
        let text = std::str::from_utf8(whole).map_err(|_| LedgerError::Encoding(self.path().to_owned()))?;
        let has_header = format.is_some();
        let format = format.unwrap_or_else(|| self.new_format());
        let rebuild = Rebuild::new(text, &format, has_header, &entries);
        let mut found = rebuild.comparison();
        if is_torn_header {
            found.torn.push(1);
        }
        if whole.len() < bytes.len() && found.torn.is_empty() {
            return Err(LedgerError::Encoding(self.path().to_owned()));
        }
        let (text, places) = rebuild.text();
        Ok((found, text, places))
    }

    /// Returns whether the first write into the file stopped before the header was complete.
    fn is_torn_header(&self, bytes: &[u8]) -> bool {
        let header = self.new_format().header_line();
        !bytes.is_empty() && bytes.len() < header.len() && header.as_bytes().starts_with(bytes)
    }
}

/// The changes to a ledger since it was last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerChanges {
    /// Number of its lines that were deleted or changed.
    pub lost: usize,
    /// The new rows that are taken out: they claim the commit of an experiment and are not its row, or nobody may add
    /// rows now.
    pub false_rows: Vec<String>,
    /// Number of new rows that belong to no experiment, and stay.
    pub foreign: usize,
    /// True if the old lines are in another order.
    pub reordered: bool,
}

impl LedgerChanges {
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
) -> (LedgerChanges, String) {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in was.lines() {
        *left.entry(line).or_default() += 1;
    }
    let missing = rows
        .iter()
        .map(|(row, count)| (row.as_str(), count.saturating_sub(left.get(row.as_str()).copied().unwrap_or(0))));
    let mut missing: HashMap<&str, usize> = missing.collect();
    let (mut found, mut old, mut new, mut odd) = (LedgerChanges::default(), Vec::new(), Vec::new(), Vec::new());
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

    fn compare(was: &[&str], now: &[&str], others_stay: bool) -> (LedgerChanges, String) {
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
        let found = |lost, false_rows: &[&str], foreign, reordered| LedgerChanges {
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
