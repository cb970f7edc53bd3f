//! Mending the file of a ledger from the records.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::file::{LARGEST, LedgerError, LedgerFile, has_content};
use super::rebuild::{Comparison, Rebuild};
use super::row_format::Entry;
use super::since::{Since, since};
use crate::domain::{CommitId, LedgerDialect, Record};
use crate::fs::{FileError, FileStamp, copy_beside, free_beside, if_exists, read_at_most, replace_through};

/// The outcome of a ledger's repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The differences found before the repair.
    pub found: Comparison,
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
    ) -> Result<Comparison, LedgerError> {
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

    /// The file as it is now, for [`LedgerFile::repair_since`]; nothing when there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn hold(&self) -> Result<Option<HeldRows>, LedgerError> {
        let Some(bytes) = self.bytes()? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| LedgerError::Encoding(self.path().to_owned()))?;
        Ok(Some(HeldRows { stamp: self.stamp(), link: fs::read_link(self.path()).ok(), text }))
    }

    /// Restores the file as it was `held` if lines are missing or changed, or if a new row falsely claims a commit of
    /// `records` or `commits`. New rows of records follow the old lines, and so do new foreign rows if `others_stay`.
    /// Retains the replaced file as `results.tsv.before-repair`, unless it had only added rows and `others_stay` is
    /// false. Returns nothing if the file is unharmed and has no new foreign rows, or had no header. Temporary
    /// files are in `folder`.
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
        folder: &Path,
    ) -> Result<Option<(Since, Option<PathBuf>)>, LedgerError> {
        if self.stamp() == held.stamp {
            return Ok(None);
        }
        let Some(format) = self.format_of(held.text.as_bytes())? else { return Ok(None) };
        let is_relinked = fs::read_link(self.path()).ok() != held.link;
        let mut aside = if is_relinked { self.move_away(held.link.as_deref())? } else { self.move_odd_away()? };
        let mut file = self.open_locked()?;
        let path = self.path().canonicalize().map_err(|error| self.io("find", error))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| self.io("read", error))?;
        // A row is written after its record, so that each row that was read has one by now.
        let records = records();
        let entries = records.iter().map(Entry::of).filter(|entry| !format.omits(entry));
        let rows = entries.map(|entry| format.row(&entry));
        let mut row_counts: HashMap<String, usize> = HashMap::new();
        for row in rows {
            *row_counts.entry(row.trim_end_matches(['\r', '\n']).to_owned()).or_default() += 1;
        }
        let commits: Vec<&CommitId> = records.iter().map(|record| &record.commit).chain(commits).collect();
        let is_known = |cell: &str| commits.iter().any(|commit| commit.as_str().starts_with(cell));
        let (found, text) =
            since(&held.text, &String::from_utf8_lossy(&bytes), &format, &row_counts, is_known, others_stay);
        if !found.is_harmed() {
            return Ok((found.foreign > 0).then_some((found, None)));
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
    pub fn move_odd_away(&self) -> Result<Option<PathBuf>, LedgerError> {
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
    fn rebuilt(&self, bytes: &[u8], records: &[&Record]) -> Result<(Comparison, String, Vec<u64>), LedgerError> {
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
