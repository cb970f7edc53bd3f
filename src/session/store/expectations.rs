//! Refs, rows and files as they were last known or written, by which changes of others are found and undone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::domain::{Actor, Actors, ExperimentId};
use crate::fs::{FileStamp, create_folder, failed, folder_of, free_beside, read_at_most, write_atomic};
use crate::git::{ProgramFiles, WatchedSettings};
use crate::ledger::HeldRows;
use crate::session::files::{HeldSessions, IgnoredFiles, OwnFolder};
use crate::state::{CARRIED, PROTECTED, StateError, UNTRACKED, json_text};

/// The largest file whose content is known, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Refs, rows and files as they were last known, by which changes of others are found.
#[derive(Default)]
pub(crate) struct Expected {
    /// The active actors, each with its experiment.
    pub(crate) at_work: Vec<(Actor, ExperimentId)>,
    /// The state that must survive while an actor is active.
    pub(crate) watch: Option<Detection>,
    /// The state files that must survive, and git's files that hide changes, at the last activity or as this process wrote them
    /// since.
    pub(crate) files: KnownFiles,
    /// Git's own files, which are put back only where they are no files any more.
    pub(crate) git: KnownFiles,
    /// The memory files, which are written from the records when they change, and the event logs, which are named.
    pub(crate) memory: BTreeMap<PathBuf, Option<FileStamp>>,
    /// The rows as they were just before the last watch put them right.
    pub(crate) rows: Option<HeldRows>,
    /// The refs as they were once the last watch had put them right.
    pub(crate) refs: Option<Vec<(String, String)>>,
}

/// Files with their contents at one moment, those among them that were missing then.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles(BTreeMap<PathBuf, KnownFile>);

#[derive(Debug)]
struct KnownFile {
    stamp: Option<FileStamp>,
    /// Absent if there was no file, or if it was too large.
    content: Option<Vec<u8>>,
}

impl KnownFile {
    fn read(path: &Path) -> KnownFile {
        KnownFile { stamp: FileStamp::of(path), content: read_at_most(path, LARGEST).ok() }
    }

    /// Returns whether there was a file whose content is not known.
    fn is_unread(&self) -> bool {
        self.stamp.is_some() && self.content.is_none()
    }

    /// Returns whether `path` is a file with the known content.
    fn is_at(&self, path: &Path) -> bool {
        let Some(content) = &self.content else { return false };
        let size = content.len() as u64;
        fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == size)
            && read_at_most(path, size).is_ok_and(|now| now == *content)
    }

    /// Restores the file with the time of its last change, and moves what is there aside. By its index's time, git knows which
    /// files may have changed after it looked at them.
    fn restore(&self, path: &Path) -> Result<Option<PathBuf>, StateError> {
        let aside = free_beside(path, ".rewritten");
        let is_there = fs::symlink_metadata(path).is_ok();
        if is_there {
            // A hard link leaves no moment without a file; folders cannot have one.
            let moved = match &self.content {
                Some(_) => fs::hard_link(path, &aside).or_else(|_| fs::rename(path, &aside)),
                None => fs::rename(path, &aside),
            };
            moved.map_err(failed("move", path))?;
        }
        if let Some(content) = &self.content {
            create_folder(folder_of(path))?;
            write_atomic(path, content)?;
            if let Some(modified) = self.stamp.and_then(|stamp| stamp.modified()) {
                let set = |file: File| file.set_modified(modified);
                File::options().write(true).open(path).and_then(set).map_err(failed("write", path))?;
            }
        }
        Ok(is_there.then_some(aside))
    }
}

impl KnownFiles {
    /// Reads files, except those that are known and unchanged.
    pub(crate) fn learn(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            if self.0.get(&path).is_none_or(|known| FileStamp::of(&path) != known.stamp) {
                let known = KnownFile::read(&path);
                self.0.insert(path, known);
            }
        }
    }

    /// Reads the known files at or below `path` again, after this process wrote there.
    fn learn_again(&mut self, path: &Path) {
        let paths: Vec<PathBuf> = self.0.keys().filter(|known| known.starts_with(path)).cloned().collect();
        self.learn(paths);
    }

    /// Restores the `meant` files that changed or are no longer files. A new file is moved away. Returns the paths, each with
    /// that of the version found there.
    pub(crate) fn restore(
        &mut self,
        meant: impl Fn(&Path) -> bool,
    ) -> Result<Vec<(PathBuf, Option<PathBuf>)>, StateError> {
        let mut restored = Vec::new();
        for (path, known) in self.0.iter_mut().filter(|(path, _)| meant(path)) {
            if known.is_unread() || FileStamp::of(path) == known.stamp {
                continue;
            }
            if !known.is_at(path) {
                restored.push((path.clone(), known.restore(path)?));
            }
            known.stamp = FileStamp::of(path);
        }
        Ok(restored)
    }

    /// Returns the files of unknown content that changed since they were learned, or since they were last returned.
    fn changed_unread(&mut self) -> Vec<PathBuf> {
        let unread = self.0.iter_mut().filter(|(_, known)| known.is_unread());
        changed(unread.map(|(path, known)| (path, &mut known.stamp)))
    }
}

/// Returns the files that no longer have their stamps, and gives them the present ones.
fn changed<'a>(stamps: impl Iterator<Item = (&'a PathBuf, &'a mut Option<FileStamp>)>) -> Vec<PathBuf> {
    let is_changed = |(path, stamp): (&PathBuf, &mut Option<FileStamp>)| {
        let now = FileStamp::of(path);
        (std::mem::replace(stamp, now) != now).then(|| path.clone())
    };
    stamps.filter_map(is_changed).collect()
}

impl Expected {
    /// Reads the state files that are restored when somebody changes them.
    pub(crate) fn of(state: &Path) -> Expected {
        let mut expected = Expected::default();
        expected
            .files
            .learn([UNTRACKED, PROTECTED, CARRIED].iter().map(|name| state.join(name)).filter(|path| path.is_file()));
        expected
    }

    /// Writes a state file, and keeps its content in case a process deletes it.
    pub(crate) fn write_file(&mut self, path: PathBuf, value: &impl Serialize) -> Result<(), StateError> {
        write_atomic(&path, &json_text(&path, value)?)?;
        self.files.learn([path]);
        Ok(())
    }

    /// Returns whether a state file still exists as this process wrote it.
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        self.files.0.get(path).is_some_and(|known| known.stamp.is_some() && FileStamp::of(path) == known.stamp)
    }

    /// Accepts what this process wrote itself, in the file or folder `path`, as the expected content.
    pub(crate) fn expect_again(&mut self, path: &Path) {
        if self.watch.is_some() {
            self.files.learn_again(path);
            let written = self.memory.iter_mut().filter(|(known, _)| known.starts_with(path));
            written.for_each(|(path, stamp)| *stamp = FileStamp::of(path));
        }
    }

    /// Returns the memory files and event logs that changed since the watch began, or since they were last returned.
    pub(crate) fn changed_memory(&mut self) -> Vec<PathBuf> {
        if self.watch.is_some() { changed(self.memory.iter_mut()) } else { Vec::new() }
    }

    /// Returns the state files and git's files that changed likewise and are too large to be put back.
    pub(crate) fn changed_large(&mut self) -> Vec<PathBuf> {
        if self.watch.is_some() { self.files.changed_unread() } else { Vec::new() }
    }

    /// Returns the active actors.
    pub(crate) fn actors(&self) -> Actors {
        self.at_work.iter().map(|(who, _)| *who).collect()
    }

    /// Returns whether an agent, a reviewer or the baseline is active. `ar` removes rows that they write.
    pub(crate) fn removes_rows(&self) -> bool {
        self.at_work.iter().any(|(who, id)| matches!(who, Actor::Agent | Actor::Reviewer) || id.is_baseline())
    }

    /// Returns the experiments that an agent is working on. Their runs are yet to come.
    pub(crate) fn coming(&self) -> impl Iterator<Item = ExperimentId> {
        self.at_work.iter().filter(|(who, _)| *who == Actor::Agent).map(|(_, id)| *id)
    }
}

/// The state just before an agent or a run began.
#[derive(Debug)]
pub(crate) struct Detection {
    pub(crate) own: OwnFolder,
    /// The ignored files, while an agent is active.
    pub(crate) ignored: Option<IgnoredFiles>,
    pub(crate) memories: HeldMemories,
    pub(crate) rows: HeldRows,
    pub(crate) refs: Vec<(String, String)>,
    pub(crate) sessions: HeldSessions,
    /// Files that are named when they change, and left as they are.
    pub(crate) stamps: Stamps,
    /// Git's settings that are named by their effect.
    pub(crate) settings: WatchedSettings,
    /// The files of the programs in git's configuration, which are not started any more once they change.
    pub(crate) programs: ProgramFiles,
}

/// Files that are there, with what the file system says of each.
pub(crate) type Stamps = BTreeMap<PathBuf, FileStamp>;

/// Contents of the memory files before an agent or a run began.
#[derive(Debug)]
pub(crate) struct HeldMemories {
    pub(crate) lessons: Vec<u8>,
    pub(crate) ideas: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_file_that_is_too_large_to_put_back_is_named_once_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (large, small) = (folder.path().join("large"), folder.path().join("small"));
        let size = usize::try_from(LARGEST).unwrap() + 1;
        fs::write(&large, vec![b'a'; size]).unwrap();
        fs::write(&small, "a").unwrap();
        let mut known = KnownFiles::default();
        known.learn([large.clone(), small.clone(), folder.path().join("none")]);
        assert!(known.changed_unread().is_empty());
        fs::write(&large, vec![b'b'; size + 1]).unwrap();
        fs::write(&small, "ab").unwrap();
        assert_eq!(known.restore(|_| true).unwrap().len(), 1, "the small one");
        assert_eq!((known.changed_unread(), known.changed_unread()), (vec![large.clone()], vec![]));
        fs::remove_file(&large).unwrap();
        assert_eq!((known.changed_unread(), known.changed_unread()), (vec![large], vec![]));
    }

    #[test]
    fn what_is_put_in_the_place_of_a_file_is_kept_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["text", "link", "folder", "gone", "same"] {
            fs::write(path(name), name).unwrap();
        }
        let then = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        File::options().write(true).open(path("text")).unwrap().set_modified(then).unwrap();
        let mut known = KnownFiles::default();
        known.learn(["text", "link", "folder", "gone", "same", "new"].map(path));
        assert_eq!(known.restore(|_| true).unwrap(), []);
        fs::write(path("text"), "else").unwrap();
        for name in ["link", "folder", "gone"] {
            fs::remove_file(path(name)).unwrap();
        }
        std::os::unix::fs::symlink("text", path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("same"), "same").unwrap();
        fs::write(path("new"), "new").unwrap();
        let restored = |name: &str| (path(name), Some(path(&format!("{name}.rewritten"))));
        assert_eq!(
            known.restore(|_| true).unwrap(),
            [restored("folder"), (path("gone"), None), restored("link"), restored("new"), restored("text")]
        );
        for name in ["text", "link", "folder", "gone", "same"] {
            assert_eq!(fs::read_to_string(path(name)).unwrap(), name);
        }
        assert_eq!(fs::read_to_string(path("text.rewritten")).unwrap(), "else");
        assert!(fs::read_link(path("link.rewritten")).is_ok());
        assert!(!path("new").exists());
        assert_eq!(fs::metadata(path("text")).unwrap().modified().unwrap(), then, "as git looks at its index");
        fs::write(path("text"), "by this process").unwrap();
        known.learn_again(folder.path());
        assert_eq!(known.restore(|_| true).unwrap(), []);
    }
}
