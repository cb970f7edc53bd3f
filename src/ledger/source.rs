//! A foreign ledger in its file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::read::read;
use super::rows::{Ledger, Said, Segment};
use crate::domain::{bytes_text, count_of, shell_word};
use crate::fs::read_at_most;

/// Largest ledger that is only read, in bytes: some ten million rows.
const LARGEST: u64 = 1 << 30;

/// Number of bytes at the start of a file that decide whether it is text.
const HEAD: usize = 1024;

/// Usual paths of ledgers in a folder.
const USUAL: [&str; 4] = ["results.tsv", ".auto/log.jsonl", "autoresearch.jsonl", "results.csv"];

/// The reason why a foreign ledger cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is a folder.
    #[error("{path} is a folder, not a ledger", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// A ledger in it, where there is one.
        inside: Option<PathBuf>,
    },
    /// It is a pipe or a device.
    #[error("{path} is not a regular file", path = .0.display())]
    NotAFile(PathBuf),
    /// It is no text.
    #[error("{path} is {what}, not text", path = .path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// The kind of its content.
        what: &'static str,
    },
    /// It is larger than a ledger may be.
    #[error("{path} is larger than {limit}", path = .0.display(), limit = bytes_text(LARGEST))]
    TooLarge(PathBuf),
    /// It has no such segment.
    #[error("{path} has no segment {wanted}: {there}", path = .path.display(), there = segments_text(.there))]
    NoSegment {
        /// The file.
        path: PathBuf,
        /// The number of the segment that was asked for.
        wanted: usize,
        /// Those that are there.
        there: Vec<Segment>,
    },
    /// It cannot be opened or read.
    #[error("cannot read {path}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl SourceError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> String {
        match self {
            SourceError::Folder { inside: Some(file), .. } => format!("`--ledger {}`", shell_word(file)),
            SourceError::Folder { path, inside: None } => {
                format!("name a file in it; `ls {}` lists them", shell_word(path))
            }
            SourceError::NotAFile(path) => {
                format!(
                    "copy it to a file with `cat {} > ledger.tsv`, then pass `--ledger ledger.tsv`",
                    shell_word(path)
                )
            }
            SourceError::Binary { path, what: GZIP } => {
                format!("unpack it with `zcat {} > ledger.tsv`, then pass `--ledger ledger.tsv`", shell_word(path))
            }
            SourceError::Binary { path, .. } => {
                format!(
                    "use tab- or comma-separated text, a Markdown table or JSON lines; `file {}` identifies this file",
                    shell_word(path)
                )
            }
            SourceError::TooLarge(path) => {
                format!(
                    "extract the newest rows with `(head -n 1 {0}; tail -n 1000000 {0}) > newest.tsv`",
                    shell_word(path)
                )
            }
            SourceError::NoSegment { there, .. } if there.is_empty() => {
                "omit `--segment`: only JSON lines with config lines have segments".to_owned()
            }
            SourceError::NoSegment { .. } => "omit `--segment` for the newest".to_owned(),
            SourceError::Io { source, path } if source.kind() == io::ErrorKind::PermissionDenied => {
                format!("run `ls -l {}` to see the owner", shell_word(path))
            }
            SourceError::Io { .. } => format!("the usual names are {}", USUAL.join(", ")),
        }
    }

    /// Returns whether the arguments are wrong, and not the file.
    pub fn is_usage(&self) -> bool {
        matches!(self, SourceError::NoSegment { .. })
    }
}

/// Maximum number of segments that an error names.
const MOST_NAMED: usize = 10;

fn segments_text(there: &[Segment]) -> String {
    let named = |segment: &Segment| {
        let name = segment.name.as_deref().or(segment.metric.as_deref()).unwrap_or("without a name");
        let rows = count_of(segment.rows, "row");
        format!("{} is {name}, {rows}", segment.number)
    };
    let mut names: Vec<String> = there.iter().take(MOST_NAMED).map(named).collect();
    if let Some(more) = there.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        names.push(format!("and {more} more"));
    }
    if names.is_empty() { "it has none".to_owned() } else { names.join("; ") }
}

const GZIP: &str = "compressed";

/// Reads a ledger from its file; see [`read`].
///
/// # Errors
///
/// It is not there, no regular file, no text, larger than 1 GiB, cannot be read, or has no segment of that number.
pub fn read_file(path: &Path, said: &Said<'_>) -> Result<Ledger, SourceError> {
    let failed = |source| SourceError::Io { path: path.to_owned(), source };
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        let inside = USUAL.iter().map(|name| path.join(name)).find(|file| file.is_file());
        return Err(SourceError::Folder { path: path.to_owned(), inside });
    }
    if !meta.is_file() {
        return Err(SourceError::NotAFile(path.to_owned()));
    }
    let bytes = read_at_most(path, LARGEST).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => SourceError::TooLarge(path.to_owned()),
        _ => failed(error),
    })?;
    if let Some(what) = not_text(&bytes[..bytes.len().min(HEAD)]) {
        return Err(SourceError::Binary { path: path.to_owned(), what });
    }
    let ledger = read(bytes, said);
    match said.segment {
        Some(wanted) if ledger.segments.iter().all(|segment| segment.number != wanted) => {
            Err(SourceError::NoSegment { path: path.to_owned(), wanted, there: ledger.segments })
        }
        _ => Ok(Ledger { file: Some(path.to_owned()), ..ledger }),
    }
}

/// Returns the kind of content that is not text, by its first bytes. Text has no NUL, unless a mark says that it is UTF-16.
fn not_text(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some(GZIP),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => None,
        _ => head.contains(&0).then_some("binary"),
    }
}
