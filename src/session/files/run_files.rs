//! Files of a run, read while they are written or afterwards: its log, and the files that may hold the metric.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use crate::domain::{Composite, Contract, MetricSpec, UserError};
use crate::fs::{open_regular, read_at_most, retry_if_removed};
use crate::measure::{LogSummary, Scanner, place_of};
use crate::rules::glob;
use crate::session::errors::SessionError;
use crate::session::files::{is_own, stamp};
use crate::state::plain_log;

/// Size of one read of a log, in bytes.
const CHUNK: usize = 256 * 1024;

/// Summarises the log at `path` by its metric, or by the axes of a composite, compressed or not; `-` is standard input. If a
/// log is still growing, this is its summary so far.
///
/// # Errors
///
/// The log cannot be read, or the metric cannot be looked for.
pub fn read_log(path: &Path, metric: &MetricSpec, axes: Option<&Composite>) -> Result<LogSummary, SessionError> {
    let mut scanner = Scanner::new(metric)?.with_axes(axes);
    let mut read = || -> io::Result<()> {
        let is_input = path == Path::new("-");
        let mut log = if is_input { plain_log(io::stdin().lock())? } else { plain_log(File::open(path)?)? };
        let mut buffer = vec![0; CHUNK];
        loop {
            match log.read(&mut buffer)? {
                0 => return Ok(()),
                count => scanner.push(&buffer[..count]),
            }
        }
    };
    read().map_err(|source| SessionError::Io { action: "read", path: path.to_owned(), source })?;
    Ok(scanner.finish())
}

/// Reads a log as it grows.
pub(crate) struct LogFollower {
    path: PathBuf,
    spec: MetricSpec,
    axes: Option<Composite>,
    file: Option<File>,
    /// True if the file is the one that the command writes to, even if its name now leads elsewhere.
    is_held: bool,
    /// Number of bytes read from the file.
    taken: u64,
    /// Its first bytes, which reveal a log that was begun again.
    head: Vec<u8>,
    pub(crate) scanner: Scanner,
    buffer: Vec<u8>,
}

impl LogFollower {
    /// Number of first bytes that are compared.
    const HEAD: usize = 4096;
    /// Maximum number of bytes read in one poll, so that a flood cannot block the loop.
    const LOOK: u64 = 256 * 1024 * 1024;

    /// Follows the log at `path` for the numbers that decide.
    pub(crate) fn new(path: PathBuf, contract: &Contract) -> Result<Self, UserError> {
        let (spec, axes) = (&contract.metric, contract.deciding_composite());
        let scanner = Scanner::new(spec)?.with_axes(axes);
        Ok(LogFollower {
            path,
            spec: spec.clone(),
            axes: axes.cloned(),
            file: None,
            is_held: false,
            taken: 0,
            head: Vec::new(),
            scanner,
            buffer: vec![0; CHUNK],
        })
    }

    /// Reads the file that the command writes to, if it is given, whatever the log's name leads to.
    pub(crate) fn hold(&mut self, log: Option<File>) {
        (self.is_held, self.file) = (log.is_some(), log);
    }

    /// Begins again if the log's name leads to another file by now: then the shim has restored the log, and what was read did
    /// not come from the command.
    pub(crate) fn follow_name(&mut self) {
        if self.is_held {
            return;
        }
        let held = self.file.as_ref().and_then(|file| file.metadata().ok());
        let named = fs::metadata(&self.path).ok();
        if let (Some(held), Some(named)) = (held, named)
            && (held.dev(), held.ino()) != (named.dev(), named.ino())
        {
            self.file = None;
        }
    }

    /// Restores the deleted log of a finished run, if its file is held.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.is_held && !self.path.exists()) else { return Ok(()) };
        retry_if_removed(&self.path, || {
            file.rewind()?;
            io::copy(file, &mut File::create_new(&self.path)?).map(drop)
        })
    }

    /// Reads what was added. Returns whether it reached the end.
    pub(crate) fn look(&mut self) -> Result<bool, SessionError> {
        let failed = |source| SessionError::Io { action: "read", path: self.path.clone(), source };
        if self.file.is_none() {
            match open_regular(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(failed(error)),
            }
        }
        let Some(file) = &mut self.file else { return Ok(true) };
        // A command that redirects into run.log itself begins the log again; earlier output does not count.
        let mut head = vec![0; self.head.len()];
        let is_new = match file.read_exact_at(&mut head, 0) {
            Ok(()) => head != self.head || file.metadata().map_err(failed)?.len() < self.taken,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
            Err(error) => return Err(failed(error)),
        };
        if is_new {
            file.rewind().map_err(failed)?;
            self.scanner = Scanner::new(&self.spec)?.with_axes(self.axes.as_ref());
            self.taken = 0;
            self.head.clear();
        }
        let end = self.taken + Self::LOOK;
        while self.taken < end {
            let count = file.read(&mut self.buffer).map_err(failed)?;
            if count == 0 {
                return Ok(true);
            }
            let read = &self.buffer[..count];
            let missing = Self::HEAD.saturating_sub(self.head.len()).min(count);
            if self.taken == self.head.len() as u64 {
                self.head.extend_from_slice(&read[..missing]);
            }
            self.scanner.push(read);
            self.taken += count as u64;
        }
        Ok(false)
    }
}

/// Limits of a search: files and folders seen, folders deep, and bytes of a file to read.
const MOST: usize = 20_000;

const DEEPEST: usize = 8;

const LARGEST: u64 = 8 << 20;

/// Names of files that may hold a metric end so.
const ENDS: [&str; 5] = ["csv", "tsv", "json", "jsonl", "ndjson"];

/// Returns whether a metric file's path is a pattern.
pub(crate) fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// The file at a path below `root`; of a pattern, the one that changed last.
pub(crate) fn last_changed(root: &Path, path: &Path) -> PathBuf {
    let Some(files) = files_of(root, path) else { return root.join(path) };
    files.into_iter().max_by_key(|(_, meta)| changed(meta)).map_or(root.join(path), |(file, _)| root.join(file))
}

/// The file at a path below `root`; of a pattern, the newest one of those that changed since `before`, the stamp of
/// [`last_changed`] at the time.
pub(crate) fn newest_file(root: &Path, path: &Path, before: Option<&str>) -> PathBuf {
    let Some(files) = files_of(root, path) else { return root.join(path) };
    let known = before.and_then(|stamp| serde_json::from_str::<[i64; 4]>(stamp.rsplit_once(':')?.1).ok());
    let is_new = |file: &Path, meta: &Metadata| {
        known.is_none_or(|[_, _, seconds, nanos]| changed(meta) >= (seconds, nanos))
            && stamp(&root.join(file)).as_deref() != before
    };
    let files = files.into_iter().filter(|(file, meta)| is_new(file, meta));
    let newest = files.max_by_key(|(file, meta)| (modified(meta), file.clone()));
    newest.map_or(root.join(path), |(file, _)| root.join(file))
}

/// The files of a pattern; `None` for the path of one file.
fn files_of(root: &Path, path: &Path) -> Option<Vec<(PathBuf, Metadata)>> {
    let pattern = glob(&path.to_string_lossy()).ok().filter(|_| is_pattern(path) && !root.join(path).exists())?;
    let pattern = pattern.compile_matcher();
    let start: PathBuf = path.components().take_while(|part| !is_pattern(Path::new(part))).collect();
    Some(files_below(root, &start).into_iter().filter(|(file, _)| pattern.is_match(file)).collect())
}

fn changed(meta: &Metadata) -> (i64, i64) {
    (meta.ctime(), meta.ctime_nsec())
}

/// A file below `root`, written since a run began, that has a number of this name, and its place there.
pub(crate) fn file_with(root: &Path, name: &str, since: SystemTime) -> Option<(PathBuf, String)> {
    let is_readable = |file: &Path| file.extension().is_some_and(|end| ENDS.iter().any(|known| end == *known));
    let mut files = files_below(root, Path::new(""));
    let may_have_it = |file: &Path| is_readable(file) && !is_own(file);
    files.retain(|(file, meta)| may_have_it(file) && meta.len() <= LARGEST && modified(meta) >= Some(since));
    files.sort_by_cached_key(|(file, _)| (file.components().count(), file.clone()));
    files.into_iter().find_map(|(file, _)| {
        let text = read_at_most(&root.join(&file), LARGEST).ok()?;
        Some((file.clone(), place_of(&file, &text, name)?))
    })
}

fn modified(meta: &Metadata) -> Option<SystemTime> {
    meta.modified().ok()
}

/// The regular files below a folder, relative to `root`; hidden ones and those behind links are left out.
fn files_below(root: &Path, start: &Path) -> Vec<(PathBuf, Metadata)> {
    let (mut folders, mut files, mut seen) = (vec![start.to_owned()], Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            seen += 1;
            let Some(meta) = entry.metadata().ok().filter(|_| seen <= MOST) else { continue };
            let path = folder.join(entry.file_name());
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if meta.is_dir() && path.components().count() <= DEEPEST {
                folders.push(path);
            } else if meta.is_file() {
                files.push((path, meta));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    /// Writes a file this many seconds after the epoch.
    fn write(root: &Path, file: &str, text: &str, seconds: u64) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn the_newest_file_of_a_pattern_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (file, seconds) in [("out/b/m.csv", 5), ("out/a/m.csv", 9), ("out/c/m.csv", 7), ("out/c/d/m.csv", 11)] {
            write(root, file, "", seconds);
        }
        let newest = |pattern: &str| newest_file(root, Path::new(pattern), None).strip_prefix(root).unwrap().to_owned();
        assert_eq!(newest("out/*/m.csv"), Path::new("out/a/m.csv"));
        assert_eq!(newest("out/**/m.csv"), Path::new("out/c/d/m.csv"));
        assert_eq!(newest("out/?/d/*.csv"), Path::new("out/c/d/m.csv"));
        assert_eq!(newest("out/*.csv"), Path::new("out/*.csv"), "no file");
        assert_eq!(newest("out/b/m.csv"), Path::new("out/b/m.csv"));
    }

    #[test]
    fn of_a_pattern_only_a_file_that_changed_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (root, pattern) = (folder.path(), Path::new("out/*/m.csv"));
        write(root, "out/a/m.csv", "", 5);
        write(root, "out/b/m.csv", "", 9);
        let time = |file: &str| changed(&fs::metadata(root.join(file)).unwrap());
        while time("out/b/m.csv") == time("out/a/m.csv") {
            write(root, "out/b/m.csv", "", 9);
        }
        let before = stamp(&last_changed(root, pattern));
        let newest = || newest_file(root, pattern, before.as_deref()).strip_prefix(root).unwrap().to_owned();
        assert_eq!(newest(), pattern, "nothing changed");
        fs::remove_file(root.join("out/b/m.csv")).unwrap();
        assert_eq!(newest(), pattern, "the newest one was deleted");
        write(root, "out/a/m.csv", "x", 5);
        assert_eq!(newest(), Path::new("out/a/m.csv"));
    }

    #[test]
    fn a_file_with_the_number_is_found_if_the_run_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "old.csv", "loss\n1\n", 5);
        write(root, "a/deep.csv", "epoch,loss\n1,2\n", 20);
        write(root, "m.json", "{\"eval\": {\"loss\": 1}}", 20);
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        assert_eq!(file_with(root, "loss", since), Some(("m.json".into(), "/eval/loss".into())));
        fs::remove_file(root.join("m.json")).unwrap();
        assert_eq!(file_with(root, "loss", since), Some(("a/deep.csv".into(), String::new())));
        assert_eq!(file_with(root, "acc", since), None);
    }
}
