//! Append-only files with one JSON document a line, to which several processes may append: how they are read, written,
//! and repaired after others wrote to them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{StateError, check_version};
use crate::fs::{
    append, append_line, copy_beside, create_folder, failed, folder_of, if_exists, move_away, move_irregular_away,
    open_locked, read_at_most, read_tail, write_atomic,
};

/// The largest file, in bytes: some hundred thousand lines.
pub(super) const LARGEST: u64 = 64 << 20;

/// Reads a file; empty if there is none.
pub(super) fn content(path: &Path) -> Result<Vec<u8>, StateError> {
    Ok(if_exists(read_at_most(path, LARGEST)).map_err(failed("read", path))?.unwrap_or_default())
}

/// The lines that are not blank.
pub(super) fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

/// The text of a line, without its end.
fn text(path: &Path, line: &impl Serialize) -> Result<String, StateError> {
    serde_json::to_string(line).map_err(|source| StateError::Json { path: path.to_owned(), source })
}

/// Appends a line; the system writes it to the disk at any time.
pub(super) fn add(path: &Path, line: &impl Serialize) -> Result<(), StateError> {
    append(path, &text(path, line)?)?;
    Ok(())
}

/// Appends a line; it is on the disk when this returns, as is the name of a new file.
pub(super) fn add_durably(path: &Path, line: &impl Serialize) -> Result<(), StateError> {
    append_line(path, &text(path, line)?)?;
    let folder = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    Ok(folder.map_err(failed("write", path))?)
}

/// Replaces all lines.
pub(super) fn replace(path: &Path, all: &[impl Serialize]) -> Result<(), StateError> {
    let text = all.iter().map(|line| Ok(text(path, line)? + "\n")).collect::<Result<String, StateError>>()?;
    Ok(write_atomic(path, text.as_bytes())?)
}

/// Locks a file, and makes it with its folder if there is none.
pub(super) fn lock(path: &Path) -> Result<File, StateError> {
    create_folder(folder_of(path))?;
    let Some((file, _)) = open_locked(path).map_err(failed("write", path))? else {
        return Err(failed("lock", path)(io::ErrorKind::TimedOut.into()).into());
    };
    Ok(file)
}

/// The valid lines of a content, and the number of others. `parse` gives the document of a valid line.
pub(super) fn valid<'a, T>(
    content: &'a [u8],
    parse: impl Fn(&'a [u8]) -> Result<Option<T>, StateError>,
) -> Result<(Vec<T>, usize), StateError> {
    let (mut found, mut damaged) = (Vec::new(), 0);
    for line in lines(content) {
        match parse(line)? {
            Some(line) => found.push(line),
            None => damaged += 1,
        }
    }
    Ok((found, damaged))
}

/// Parses a line with a version; `None` if it is torn.
pub(super) fn versioned<T: DeserializeOwned>(path: &Path, line: &[u8]) -> Result<Option<T>, StateError> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return Ok(None) };
    check_version(path, value.get("version"))?;
    Ok(serde_json::from_value(value).ok())
}

/// The documents in the last 64 KiB of a file, oldest first.
pub(super) fn newest<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, StateError> {
    let tail = read_tail(path, 0)?;
    Ok(lines(&tail).filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// The last document in the last 64 KiB of a file.
pub(super) fn last<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let tail = read_tail(path, 0)?;
    Ok(tail.rsplit(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok()))
}

/// A file after `repair`.
#[derive(Debug)]
pub struct RepairedLines {
    /// Its content.
    pub content: Vec<u8>,
    /// The number of invalid lines that were removed.
    pub removed: usize,
    /// True if known lines were missing and are restored.
    pub restored: bool,
    /// The file as it was found, if lines were removed.
    pub copy: Option<PathBuf>,
}

/// Removes the lines of a file that `parse` refuses, and restores those of a `known` content that are missing, before all
/// that was added since. What it held is kept beside it.
pub(super) fn repair<T>(
    path: &Path,
    known: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<T>, StateError>,
) -> Result<RepairedLines, StateError> {
    let is_irregular = || fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file());
    let is_whole =
        |found: &Vec<u8>| found.starts_with(known) && valid(found, &parse).is_ok_and(|(_, others)| others == 0);
    if let Some(content) = content(path).ok().filter(|found| is_whole(found) && !is_irregular()) {
        return Ok(RepairedLines { content, removed: 0, restored: false, copy: None });
    }
    if is_irregular() {
        move_irregular_away(path).map_err(failed("move", path))?;
    }
    if fs::metadata(path).is_ok_and(|meta| meta.len() > LARGEST) {
        move_away(path).map_err(failed("move", path))?;
    }
    let _lock = lock(path)?;
    let found = content(path)?;
    let (mine, _) = valid(known, |line| Ok(parse(line)?.map(|_| line)))?;
    let (theirs, removed) = valid(&found, |line| Ok(parse(line)?.map(|_| line)))?;
    let known_to_others: HashSet<&[u8]> = theirs.iter().copied().collect();
    let restored = mine.iter().any(|line| !known_to_others.contains(line));
    let mut seen = HashSet::new();
    let whole = mine.into_iter().chain(theirs).filter(|line| seen.insert(*line));
    let whole: Vec<u8> = whole.flat_map(|line| [line, b"\n"].concat()).collect();
    let copy = if removed > 0 { Some(copy_beside(path, &found, ".damaged")?) } else { None };
    if whole != found {
        write_atomic(path, &whole)?;
    }
    Ok(RepairedLines { content: whole, removed, restored, copy })
}
