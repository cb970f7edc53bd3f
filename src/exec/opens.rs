//! Detects the files of a folder that processes open while something else runs.

use std::io;
use std::path::{Path, PathBuf};

/// The most files to watch: each can give two events, and the kernel keeps 16,384 unread ones.
#[cfg(target_os = "linux")]
const MOST: usize = 8000;

/// A watch for the first time that each of some files is opened. It sees every process, this one too.
#[derive(Debug)]
pub struct OpensWatch {
    #[cfg(target_os = "linux")]
    inotify: rustix::fd::OwnedFd,
    /// The file that each watch stands for.
    #[cfg(target_os = "linux")]
    watched: std::collections::BTreeMap<i32, PathBuf>,
}

#[cfg(target_os = "linux")]
impl OpensWatch {
    /// Watches `files`, relative to `root`, and the bytecode that Python has of them and reads instead of them: the first 8,000,
    /// as far as the kernel's limits allow.
    pub fn start(root: &Path, files: &[PathBuf]) -> io::Result<OpensWatch> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut watched = std::collections::BTreeMap::new();
        let flags = WatchFlags::OPEN | WatchFlags::ONESHOT | WatchFlags::DONT_FOLLOW;
        let all = files.iter().flat_map(|file| {
            let bytecode = bytecode_of(&root.join(file));
            std::iter::once(root.join(file)).chain(bytecode).map(move |path| (file, path))
        });
        for (file, path) in all.take(MOST) {
            // A file that is missing is not opened; where the kernel's limit is reached, the rest stays unseen.
            if let Ok(id) = add_watch(&inotify, &path, flags) {
                watched.insert(id, file.clone());
            }
        }
        Ok(OpensWatch { inotify, watched })
    }

    /// The files that were opened since the start; sorted.
    pub fn finish(self) -> Vec<PathBuf> {
        use rustix::fs::inotify::{ReadFlags, Reader};

        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut opened = Vec::new();
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::OPEN) {
                opened.extend(self.watched.get(&event.wd()).cloned());
            }
        }
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
