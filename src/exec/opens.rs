//! Detects the files of a folder that processes open, read or write while something runs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs::FileStamp;

/// The most files to watch: each can give two events, and the kernel keeps 16,384 unread ones.
pub const MOST_WATCHED: usize = 8000;

/// Files, each watched until the first event of a kind that it sees of any process, this one too.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Once<K> {
    inotify: rustix::fd::OwnedFd,
    /// The file that each watch stands for.
    watched: std::collections::BTreeMap<i32, K>,
    /// False if the kernel's limit on watches left files out.
    is_whole: bool,
}

#[cfg(target_os = "linux")]
impl<K> Once<K> {
    /// Watches the first 8,000 of these files, as far as the kernel's limits allow.
    fn start(files: impl Iterator<Item = (K, PathBuf)>, events: rustix::fs::inotify::WatchFlags) -> io::Result<Self> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let (mut watched, mut is_whole) = (std::collections::BTreeMap::new(), true);
        for (file, path) in files.take(MOST_WATCHED) {
            match add_watch(&inotify, &path, events | WatchFlags::ONESHOT | WatchFlags::DONT_FOLLOW) {
                Ok(id) => drop(watched.insert(id, file)),
                // A file that is missing has no events.
                Err(error) => is_whole &= error != rustix::io::Errno::NOSPC,
            }
        }
        Ok(Once { inotify, watched, is_whole })
    }

    /// The files that had such an event since the start, with its kind.
    fn finish(mut self) -> Vec<(K, rustix::fs::inotify::ReadFlags)> {
        use rustix::fs::inotify::{ReadFlags, Reader};

        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut seen = Vec::new();
        while let Ok(event) = reader.next() {
            if !event.events().contains(ReadFlags::IGNORED) {
                seen.extend(self.watched.remove(&event.wd()).map(|file| (file, event.events())));
            }
        }
        seen
    }
}

/// A watch for the first time that each of some files is opened.
#[derive(Debug)]
pub struct OpensWatch {
    #[cfg(target_os = "linux")]
    opens: Once<PathBuf>,
}

#[cfg(target_os = "linux")]
impl OpensWatch {
    /// Watches `files`, relative to `root`, and the bytecode that Python has of them and reads instead of them: the first 8,000,
    /// as far as the kernel's limits allow.
    pub fn start(root: &Path, files: &[PathBuf]) -> io::Result<OpensWatch> {
        let all = files.iter().flat_map(|file| {
            let bytecode = bytecode_of(&root.join(file));
            std::iter::once(root.join(file)).chain(bytecode).map(move |path| (file.clone(), path))
        });
        Ok(OpensWatch { opens: Once::start(all, rustix::fs::inotify::WatchFlags::OPEN)? })
    }

    /// The files that were opened since the start; sorted.
    pub fn finish(self) -> Vec<PathBuf> {
        let mut opened: Vec<PathBuf> = self.opens.finish().into_iter().map(|(file, _)| file).collect();
        opened.sort();
        opened.dedup();
        opened
    }
}

/// Elsewhere nothing is seen.
#[cfg(not(target_os = "linux"))]
#[expect(missing_docs, reason = "they do what they do on Linux")]
impl OpensWatch {
    pub fn start(_: &Path, _: &[PathBuf]) -> io::Result<OpensWatch> {
        Ok(OpensWatch {})
    }

    pub fn finish(self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// The processes' use of a list of files, by the files' places in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uses {
    /// Those that were read.
    pub read: BTreeSet<usize>,
    /// Those that were changed through a memory map alone, while they were watched.
    #[serde(default)]
    pub mapped: BTreeSet<usize>,
    /// Those that were written or truncated before anybody read them.
    pub written_first: BTreeSet<usize>,
}

/// The file in a run's folder that lists what was there before the run: its shim notes the use of these files.
pub const FILES_BEFORE: &str = "files.before";

/// Untracked files just before a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FilesBefore {
    /// The format's version.
    pub version: u32,
    /// Their paths, relative to the folder of the run, and their stamps.
    pub files: Vec<(PathBuf, FileStamp)>,
    /// The last eight bytes of the first of them: a file that is appended to keeps them where they are.
    #[serde(default)]
    pub ends: Vec<Option<u64>>,
}

/// Watches `files`, relative to `root`, and returns what tells their use since; `None` if the kernel does not watch all of them.
#[cfg(target_os = "linux")]
pub(super) fn watch_uses(root: &Path, files: &[(PathBuf, FileStamp)]) -> Option<impl FnOnce() -> Uses + use<>> {
    use rustix::fs::inotify::{ReadFlags, WatchFlags};

    let paths: Vec<PathBuf> = files.iter().map(|(file, _)| root.join(file)).collect();
    let start = |events| Once::start(paths.iter().cloned().enumerate(), events).ok().filter(|watch| watch.is_whole);
    // A file that is mapped for reading is not accessed, but closed.
    let reads = WatchFlags::ACCESS | WatchFlags::CLOSE_NOWRITE;
    let written = start(WatchFlags::MODIFY | WatchFlags::ATTRIB)?;
    let (read, first) = (start(reads)?, start(reads | WatchFlags::MODIFY)?);
    let all = |seen: Vec<(usize, ReadFlags)>| -> BTreeSet<usize> { seen.into_iter().map(|(file, _)| file).collect() };
    // Others may write to a file before and after it is watched, too.
    let stamps: Vec<Option<FileStamp>> = paths.iter().map(|path| FileStamp::of(path)).collect();
    Some(move || {
        let is_written = |path: &Path, before: &FileStamp| {
            FileStamp::of(path).is_some_and(|now| now.is_same_file(before) && !now.has_content_of(before))
        };
        let stamped = paths.iter().zip(stamps).enumerate();
        let mut mapped: BTreeSet<usize> = stamped
            .filter(|(_, (path, before))| before.as_ref().is_some_and(|before| is_written(path, before)))
            .map(|(file, _)| file)
            .collect();
        let first = first.finish().into_iter().filter(|(_, kind)| kind.contains(ReadFlags::MODIFY)).collect();
        let (read, written_first) = (all(read.finish()), all(first));
        for file in all(written.finish()) {
            mapped.remove(&file);
        }
        Uses { read, mapped, written_first }
    })
}

/// Elsewhere nothing is seen.
#[cfg(not(target_os = "linux"))]
pub(super) fn watch_uses(_: &Path, _: &[(PathBuf, FileStamp)]) -> Option<fn() -> Uses> {
    None
}

/// The files with Python's bytecode of a file.
#[cfg(target_os = "linux")]
fn bytecode_of(file: &Path) -> Vec<PathBuf> {
    let stem =
        file.file_stem().and_then(|stem| stem.to_str()).filter(|_| file.extension().is_some_and(|of| of == "py"));
    let (Some(folder), Some(stem)) = (file.parent(), stem) else { return Vec::new() };
    let below = std::fs::read_dir(folder.join("__pycache__")).into_iter().flatten().flatten();
    let is_of = |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
    below.filter(|entry| entry.file_name().to_str().is_some_and(is_of)).map(|entry| entry.path()).collect()
}

#[cfg(all(test, target_os = "linux"))]
#[path = "opens_tests.rs"]
mod tests;
