//! The file that a session appends its rows to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{ColumnPositions, Entry, RowFormat, number, table};
use crate::crash;
use crate::domain::{CommitId, LedgerDialect, one_line, shell_word};
use crate::fs::{APPEND_WAIT, if_exists, move_command, open_locked, open_regular, read_at_most, replace_through};

/// Largest ledger, in bytes: some hundred thousand rows.
pub(super) const LARGEST: u64 = 64 << 20;

/// The hint for a truncated file.
const CUT_SHORT: &str = "`ar doctor --repair` repairs a truncated one";

/// The reason why `ar` cannot continue a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It is a folder, a device or the like.
    #[error("`{0}` is not a regular file")]
    NotAFile(PathBuf),
    /// Its permissions forbid writing.
    #[error("`{0}` is read-only")]
    ReadOnly(PathBuf),
    /// It cannot be read or written.
    #[error("cannot {action} `{path}`")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is no UTF-8.
    #[error("`{0}` is not UTF-8 text")]
    Encoding(PathBuf),
    /// It belongs to another metric.
    #[error("`{path}` is a ledger for `{found}`, not for `{metric}`")]
    OtherMetric {
        /// The file.
        path: PathBuf,
        /// The metric in its header.
        found: String,
        /// The session's metric.
        metric: String,
    },
    /// Its first line is no header that rows can be written under.
    #[error("cannot continue the ledger `{path}`: {problem}")]
    Header {
        /// The file.
        path: PathBuf,
        /// The part that is missing.
        problem: String,
    },
    /// Another process holds its lock.
    #[error("another process has held the lock on `{0}` for {wait} s", wait = APPEND_WAIT.as_secs())]
    Locked(PathBuf),
}

impl LedgerError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<String> {
        let aside =
            |path: &Path| format!("move it aside with `{}`; ar then starts a new one", move_command(path, ".old"));
        Some(match self {
            LedgerError::NotAFile(path) | LedgerError::OtherMetric { path, .. } => aside(path),
            LedgerError::Encoding(path) => format!("{}; {CUT_SHORT}", aside(path)),
            LedgerError::ReadOnly(path) => format!("make it writable: chmod u+w {}", shell_word(path)),
            LedgerError::Header { path, .. } => {
                format!("see its content with `ar report --ledger {}`; {}; {CUT_SHORT}", shell_word(path), aside(path))
            }
            LedgerError::Locked(path) => format!("run `fuser {}` to find the process", path.display()),
            LedgerError::Io { path, source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                format!("run `ls -l {}` to see the owner", path.display())
            }
            LedgerError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "run `df -h .` to see the free disk space".to_owned()
            }
            LedgerError::Io { .. } => return None,
        })
    }
}

/// A results.tsv that rows are appended to; rows that are there are never touched.
///
/// A new file is made with the first row. One that exists is continued in its own columns, words, letter case and
/// hash length. Several processes can append at the same time.
#[derive(Debug)]
pub struct LedgerFile {
    path: PathBuf,
    metric: String,
    dialect: LedgerDialect,
    /// The columns; absent while the file has no header.
    format: Option<RowFormat>,
}

/// Returns whether a line is a complete row of a commit.
fn is_row_of(format: &RowFormat, line: &[u8], commit: &CommitId) -> bool {
    let cells: Vec<&[u8]> = line.strip_suffix(b"\r").unwrap_or(line).split(|&byte| byte == b'\t').collect();
    let column = format.columns.commit.unwrap_or_default();
    cells.len() == format.header.len() && cells[column] == format.commit(commit).as_bytes()
}

/// Returns whether a file is the ledger of a metric; `None` if it is missing or damaged.
fn is_of(path: &Path, metric: &str) -> Option<bool> {
    let ledger = LedgerFile::unread(path, metric, LedgerDialect::default());
    let bytes = ledger.bytes().ok().flatten()?;
    match ledger.format_of(&bytes) {
        Ok(format) => format.map(|_| true),
        // A header that is cut off may be this metric's.
        Err(LedgerError::OtherMetric { .. }) if bytes.contains(&b'\n') => Some(false),
        Err(_) => None,
    }
}

/// The most metrics whose names differ only in signs.
const MOST_ALIKE: usize = 9;

/// The ledger of a repository's first metric.
pub const RESULTS: &str = "results.tsv";

impl LedgerFile {
    /// The ledger of a metric in the repository at `root`: results.tsv, or `results-METRIC.tsv` where that is the ledger of
    /// another metric.
    pub fn place(root: &Path, metric: &str) -> PathBuf {
        let (common, own) = (root.join(RESULTS), LedgerFile::own_place(root, metric, |_| false));
        match is_of(&common, metric) {
            Some(true) => common,
            Some(false) => own,
            // The file is missing or damaged: it may have been the other metric's.
            None if own.exists() => own,
            None => common,
        }
    }

    /// The ledger of a metric that is not the repository's first. Names that differ only in signs have numbered files.
    pub fn own_place(root: &Path, metric: &str, is_taken: impl Fn(&Path) -> bool) -> PathBuf {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
        let name: String = metric.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        let first = root.join(format!("results-{name}.tsv"));
        let others = (2..=MOST_ALIKE).map(|nth| root.join(format!("results-{name}-{nth}.tsv")));
        let places: Vec<PathBuf> = [first].into_iter().chain(others).filter(|place| !is_taken(place)).collect();
        let with = |wanted| places.iter().find(|place| is_of(place, metric) == wanted);
        with(Some(true)).or(with(None)).or(places.last()).cloned().unwrap_or_else(|| root.join(RESULTS))
    }

    /// Reads the file and changes nothing; `dialect` is for a file that is missing or has no header.
    ///
    /// # Errors
    ///
    /// The file is not regular, is larger than 64 MiB, unreadable, read-only or of another metric, or its header lacks a
    /// commit, metric or status column.
    pub fn open(path: &Path, metric: &str, dialect: LedgerDialect) -> Result<Self, LedgerError> {
        let mut ledger = LedgerFile::unread(path, metric, dialect);
        let meta = if_exists(fs::metadata(path)).map_err(|error| ledger.io("read", error))?;
        let Some(meta) = meta else { return Ok(ledger) };
        if !meta.is_file() {
            return Err(LedgerError::NotAFile(path.to_owned()));
        }
        if meta.permissions().readonly() {
            return Err(LedgerError::ReadOnly(path.to_owned()));
        }
        let bytes = read_at_most(path, LARGEST).map_err(|error| ledger.io("read", error))?;
        if let Err(error) = OpenOptions::new().append(true).open(path) {
            return Err(match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    LedgerError::ReadOnly(path.to_owned())
                }
                _ => ledger.io("write", error),
            });
        }
        ledger.format = ledger.format_of(&bytes)?;
        Ok(ledger)
    }

    /// Names the file, without a look at it.
    pub(super) fn unread(path: &Path, metric: &str, dialect: LedgerDialect) -> Self {
        LedgerFile { path: path.to_owned(), metric: one_line(metric), dialect, format: None }
    }

    /// The columns of a new file.
    pub(super) fn new_format(&self) -> RowFormat {
        RowFormat::new(&self.metric, self.dialect)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the file.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The dialect whose words the rows have.
    pub fn dialect(&self) -> LedgerDialect {
        self.format.as_ref().map_or(self.dialect, RowFormat::dialect)
    }

    /// Returns whether the file existed, with a header, when it was last opened or written to.
    pub fn was_there(&self) -> bool {
        self.format.is_some()
    }

    /// Returns whether the last line of the file lacks a line end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn is_torn(&self) -> Result<bool, LedgerError> {
        let look = || {
            let mut file = open_regular(&self.path)?;
            Ok::<bool, io::Error>(file.metadata()?.len() > 0 && last_byte(&mut file)? != Some(b'\n'))
        };
        Ok(if_exists(look()).map_err(|error| self.io("read", error))?.unwrap_or(false))
    }

    /// Returns whether the file is missing or empty: a process that was killed while it created the file leaves it empty.
    pub fn is_missing(&self) -> bool {
        !has_content(&self.path)
    }

    /// The file's length in bytes, 0 when it is not there: what [`has_row`](Self::has_row) may skip later.
    ///
    /// # Errors
    ///
    /// The file cannot be looked at.
    pub fn length(&self) -> Result<u64, LedgerError> {
        let meta = if_exists(fs::metadata(&self.path)).map_err(|error| self.io("read", error))?;
        Ok(meta.map_or(0, |meta| meta.len()))
    }

    /// Returns whether a complete row of `commit` follows the first `from` bytes.
    ///
    /// Other sessions append to the same file, and two sessions can start from the same commit: remember
    /// [`length`](Self::length) before an append to ask for that very row. A file that is shorter by now is searched whole.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its header has become one that cannot be continued.
    pub fn has_row(&self, commit: &CommitId, from: u64) -> Result<bool, LedgerError> {
        let Some(bytes) = self.bytes()? else { return Ok(false) };
        let Some(format) = self.format_of(&bytes)? else { return Ok(false) };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let behind = if from > bytes.len() { &bytes[..] } else { &bytes[from..] };
        let complete = behind.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        Ok(behind[..complete].split(|&byte| byte == b'\n').any(|line| is_row_of(&format, line, commit)))
    }

    /// Puts a row in the place of the last one of `commit`, or appends it where there is none. It is on disk when this
    /// returns. Temporary files are in `folder`.
    ///
    /// # Errors
    ///
    /// See [`append`](Self::append).
    pub fn replace(&mut self, commit: &CommitId, entry: &Entry<'_>, folder: &Path) -> Result<(), LedgerError> {
        let mut bytes = Vec::new();
        if self.path.exists() {
            let mut file = self.open_locked()?;
            file.read_to_end(&mut bytes).map_err(|error| self.io("read", error))?;
            let format = self.format_of(&bytes)?;
            let mut end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
            while let Some(format) = format.as_ref().filter(|_| end > 0) {
                let start = bytes[..end - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
                if is_row_of(format, &bytes[start..end - 1], commit) {
                    let text = [&bytes[..start], format.row(entry).as_bytes(), &bytes[end..]].concat();
                    // A link stays one, and the file that it leads to is written.
                    let path = self.path.canonicalize().map_err(|error| self.io("find", error))?;
                    return replace_through(folder, &path, &text).map_err(|error| self.io("write", error.source));
                }
                end = start;
            }
        }
        self.append(entry)
    }

    /// Moves on to a file of its own if a session with another metric made this one since it was found missing.
    pub fn give_way(&mut self) -> bool {
        let is_taken = self.format.is_none() && is_of(&self.path, &self.metric) == Some(false);
        if is_taken {
            let root = self.path.parent().unwrap_or(Path::new("."));
            self.path = LedgerFile::own_place(root, &self.metric, |_| false);
        }
        is_taken
    }

    /// Appends a row in one write, and the header before the first one; both are on disk when it returns. Where the dialect
    /// has no row for the experiment, the file stays as it is.
    ///
    /// Tabs and line breaks in the description become spaces, and `"` becomes `'`, since pandas would read it as the
    /// start of a quoted cell. A last line without an end is ended first.
    ///
    /// # Errors
    ///
    /// The file cannot be written, is locked by another process for too long, or has become one that cannot be
    /// continued. What a failed write left is taken back.
    pub fn append(&mut self, entry: &Entry<'_>) -> Result<(), LedgerError> {
        let created = !self.path.exists();
        if created && self.new_format().omits(entry) {
            return Ok(());
        }
        let mut file = self.open_locked()?;
        let length = file.metadata().map_err(|error| self.io("read", error))?.len();
        let mut text = String::new();
        let torn = length > 0 && last_byte(&mut file).map_err(|error| self.io("read", error))? != Some(b'\n');
        if self.format.is_none() && length > 0 {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0))
                .and_then(|_| file.read_to_end(&mut bytes))
                .map_err(|error| self.io("read", error))?;
            self.format = match self.format_of(&bytes) {
                Err(LedgerError::OtherMetric { .. }) if self.give_way() => return self.append(entry),
                format => format?,
            };
        }
        crash::point("ledger.locked");
        let missing = self.format.is_none() || length == 0;
        let format = self.format.get_or_insert_with(|| RowFormat::new(&self.metric, self.dialect));
        if format.omits(entry) {
            return Ok(());
        }
        if torn {
            text.push_str(format.line_end);
        }
        if missing {
            text.push_str(&format.header_line());
        }
        text.push_str(&format.row(entry));
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            // Under the lock nobody else has written behind it.
            return Err(match file.set_len(length) {
                Ok(()) => self.io("write", error),
                Err(worse) => self.io("take back what was written to", worse),
            });
        }
        if created {
            self.sync_folder().map_err(|error| self.io("write", error))?;
        }
        Ok(())
    }

    /// Opens the file, which is made if it is not there, and locks it. A file that was replaced by another one meanwhile is
    /// let go, and its columns are read anew.
    pub(super) fn open_locked(&mut self) -> Result<File, LedgerError> {
        let opened = open_locked(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => LedgerError::NotAFile(self.path.clone()),
            _ => self.io("write", error),
        })?;
        let (file, was_replaced) = opened.ok_or_else(|| LedgerError::Locked(self.path.clone()))?;
        if was_replaced {
            self.format = None;
        }
        Ok(file)
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// The columns of a file with these bytes; absent when it has nothing but blanks and comments.
    pub(super) fn format_of(&self, bytes: &[u8]) -> Result<Option<RowFormat>, LedgerError> {
        let text = std::str::from_utf8(bytes).map_err(|_| LedgerError::Encoding(self.path.clone()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rows = table::records(text);
        let Some((start, first)) = rows.next() else { return Ok(None) };
        let header: Vec<&str> = first.iter().collect();
        let refuse = |problem: &str| LedgerError::Header { path: self.path.clone(), problem: problem.to_owned() };
        if header[0].starts_with('{') {
            return Err(refuse("it holds JSON lines"));
        }
        if header.iter().any(|cell| number(cell).is_some()) {
            return Err(refuse("it has no header"));
        }
        let columns = ColumnPositions::by_name(&header, Some(&self.metric));
        if columns.commit.is_none() {
            return Err(refuse("it has no commit column"));
        }
        if columns.metric.is_none_or(|column| header[column] != self.metric) {
            return Err(match header.get(1) {
                Some(found) if columns.commit == Some(0) && columns.status != Some(1) => LedgerError::OtherMetric {
                    path: self.path.clone(),
                    found: (*found).to_owned(),
                    metric: self.metric.clone(),
                },
                _ => refuse(&format!("it has no column `{}`", self.metric)),
            });
        }
        if columns.status.is_none_or(|column| header[column].to_lowercase().starts_with("correct")) {
            return Err(refuse("it has no status column"));
        }
        let is_crlf =
            text[start..].trim_start().split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n"));
        let rows = rows.map(|(_, row)| row);
        Ok(Some(RowFormat::continued(&header, columns, rows, if is_crlf { "\r\n" } else { "\n" })))
    }

    /// The content of the file, if it exists.
    pub(super) fn bytes(&self) -> Result<Option<Vec<u8>>, LedgerError> {
        if_exists(read_at_most(&self.path, LARGEST)).map_err(|error| self.io("read", error))
    }

    pub(super) fn io(&self, action: &'static str, source: io::Error) -> LedgerError {
        LedgerError::Io { action, path: self.path.clone(), source }
    }
}

/// Returns whether there is a file with content at `path`.
pub(super) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
}

fn last_byte(file: &mut File) -> io::Result<Option<u8>> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    Ok((file.read(&mut byte)? == 1).then_some(byte[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_whose_names_differ_only_in_signs_have_ledgers_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let place =
            |metric: &str| LedgerFile::place(root, metric).strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let begin = |metric: &str, file: &str| {
            assert_eq!(place(metric), file);
            fs::write(root.join(file), format!("commit\t{metric}\tmemory_gb\tstatus\tdescription\n")).unwrap();
        };
        begin("val_bpb", "results.tsv");
        begin("eval/acc", "results-eval-acc.tsv");
        begin("eval-acc", "results-eval-acc-2.tsv");
        assert_eq!(place("eval acc"), "results-eval-acc-3.tsv");
        fs::remove_file(root.join("results-eval-acc.tsv")).unwrap();
        // One was made while another session measured its baseline.
        let mut late = LedgerFile::open(&root.join("results-loss.tsv"), "loss", LedgerDialect::default()).unwrap();
        assert!(!late.give_way());
        fs::write(root.join("results-loss.tsv"), "commit\tacc\tmemory_gb\tstatus\tdescription\n").unwrap();
        assert!(late.give_way() && late.name() == "results-loss-2.tsv");
        assert_eq!(
            (place("eval-acc"), place("eval/acc")),
            ("results-eval-acc-2.tsv".to_owned(), "results-eval-acc.tsv".to_owned())
        );
    }
}
