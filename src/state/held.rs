//! The contents of files at one moment, to detect and undo later changes by others.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::StateError;
use crate::fs::{FileStamp, create_folder, failed, free_beside, read_at_most, write_atomic};

/// The largest file to hold, in bytes: 4 MiB, the size of the event logs of about a thousand experiments.
const HELD_SIZE: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
struct HeldFile {
    path: PathBuf,
    stamp: Option<FileStamp>,
    /// Absent if there was no file or if it is too large.
    content: Option<Vec<u8>>,
}

impl HeldFile {
    fn take(path: PathBuf) -> Self {
        let stamp = FileStamp::of(&path);
        let is_small = stamp.is_some_and(|stamp| stamp.size() <= HELD_SIZE);
        let content = if is_small { read_at_most(&path, HELD_SIZE).ok() } else { None };
        HeldFile { path, stamp, content }
    }

    /// Takes the file again if it changed.
    fn take_again(&mut self) {
        if FileStamp::of(&self.path) != self.stamp {
            *self = HeldFile::take(std::mem::take(&mut self.path));
        }
    }

    /// Returns whether a file existed, of which only the stamp is known.
    fn is_unknown(&self) -> bool {
        self.stamp.is_some() && self.content.is_none()
    }

    /// Returns whether the file's content is unchanged. Does not read a file of another size.
    fn is_same(&self) -> bool {
        let Some(content) = &self.content else { return false };
        let size = content.len() as u64;
        fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_file() && meta.len() == size)
            && read_at_most(&self.path, size).is_ok_and(|now| now == *content)
    }

    /// Restores the file with the time of its last change, and keeps the one found in its place. By its index's time, git knows
    /// which files may have changed after it looked at them.
    fn restore(&self) -> Result<Option<PathBuf>, StateError> {
        let aside = free_beside(&self.path, ".rewritten");
        let is_there = fs::symlink_metadata(&self.path).is_ok();
        if is_there {
            // A hard link leaves no moment without a file; folders cannot have one.
            let kept = match &self.content {
                Some(_) => fs::hard_link(&self.path, &aside).or_else(|_| fs::rename(&self.path, &aside)),
                None => fs::rename(&self.path, &aside),
            };
            kept.map_err(failed("move", &self.path))?;
        }
        if let Some(content) = &self.content {
            create_folder(self.path.parent().unwrap_or(Path::new(".")))?;
            write_atomic(&self.path, content)?;
            if let Some(modified) = self.stamp.and_then(|stamp| stamp.modified()) {
                let set = |file: File| file.set_modified(modified);
                File::options().write(true).open(&self.path).and_then(set).map_err(failed("write", &self.path))?;
            }
        }
        Ok(is_there.then_some(aside))
    }
}

/// The repair of a file that another process changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// It was deleted, and is restored.
    Deleted(PathBuf),
    /// It is restored, and the version found is kept in the second file.
    PutBack(PathBuf, PathBuf),
    /// It is too large to hold, and stays changed.
    Left(PathBuf),
}

/// A set of files at one moment, including missing ones.
#[derive(Debug, Default)]
pub struct Held {
    files: Vec<HeldFile>,
}

impl Held {
    /// Takes the files at `paths`: contents up to 4 MiB each, only stamps of larger ones.
    pub fn take(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Held::default().take_on(paths)
    }

    /// Like [`Held::take`], but does not read unchanged files again.
    pub fn take_on(self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut before: HashMap<PathBuf, HeldFile> =
            self.files.into_iter().map(|file| (file.path.clone(), file)).collect();
        let take = |path: PathBuf| match before.remove(&path) {
            Some(mut file) => {
                file.take_again();
                file
            }
            None => HeldFile::take(path),
        };
        Held { files: paths.into_iter().map(take).collect() }
    }

    /// Takes the file at `path`, or those in that folder, again after this process wrote to them.
    pub fn take_again(&mut self, path: &Path) {
        self.files.iter_mut().filter(|file| file.path.starts_with(path)).for_each(HeldFile::take_again);
    }

    /// Restores the `meant` files that changed or are no longer files. A new file is moved away.
    ///
    /// # Errors
    ///
    /// Moving or writing a file failed.
    pub fn restore(&mut self, meant: impl Fn(&Path) -> bool) -> Result<Vec<Repaired>, StateError> {
        let mut mended = Vec::new();
        for held in self.files.iter_mut().filter(|held| meant(&held.path)) {
            let now = FileStamp::of(&held.path);
            if now == held.stamp {
                continue;
            }
            if held.is_unknown() {
                held.stamp = now;
                mended.push(Repaired::Left(held.path.clone()));
                continue;
            }
            if !held.is_same() {
                mended.push(match held.restore()? {
                    Some(kept) => Repaired::PutBack(held.path.clone(), kept),
                    None => Repaired::Deleted(held.path.clone()),
                });
            }
            held.stamp = FileStamp::of(&held.path);
        }
        Ok(mended)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn what_is_put_in_the_place_of_a_file_is_kept_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["text", "link", "folder", "gone", "same"] {
            fs::write(path(name), name).unwrap();
        }
        let then = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        File::options().write(true).open(path("text")).unwrap().set_modified(then).unwrap();
        let mut held = Held::take(["text", "link", "folder", "gone", "same", "new"].map(path));
        assert_eq!(held.restore(|_| true).unwrap(), []);
        fs::write(path("text"), "else").unwrap();
        for name in ["link", "folder", "gone"] {
            fs::remove_file(path(name)).unwrap();
        }
        std::os::unix::fs::symlink("text", path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("same"), "same").unwrap();
        fs::write(path("new"), "new").unwrap();
        let restore = |name: &str| Repaired::PutBack(path(name), path(&format!("{name}.rewritten")));
        assert_eq!(
            held.restore(|_| true).unwrap(),
            [restore("text"), restore("link"), restore("folder"), Repaired::Deleted(path("gone")), restore("new")]
        );
        for name in ["text", "link", "folder", "gone", "same"] {
            assert_eq!(fs::read_to_string(path(name)).unwrap(), name);
        }
        assert_eq!(fs::read_to_string(path("text.rewritten")).unwrap(), "else");
        assert!(fs::read_link(path("link.rewritten")).is_ok());
        assert!(!path("new").exists());
        assert_eq!(fs::metadata(path("text")).unwrap().modified().unwrap(), then, "as git looks at its index");
        fs::write(path("text"), "by this process").unwrap();
        held.take_again(&path("text"));
        assert_eq!(held.restore(|_| true).unwrap(), []);
    }

    #[test]
    fn what_is_held_already_is_held_on_and_a_log_with_what_was_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let names = ["log.jsonl", "state.json", "same", "new"];
        for name in &names[..3] {
            fs::write(path(name), "one\n").unwrap();
        }
        let held = Held::take(names[..3].iter().map(|name| path(name)));
        let append = || {
            let mut log = fs::OpenOptions::new().append(true).open(path("log.jsonl")).unwrap();
            Write::write_all(&mut log, b"two\n").unwrap();
        };
        append();
        fs::write(path("state.json"), "another\n").unwrap();
        let mut held = held.take_on(names.map(path));
        append();
        held.take_again(folder.path());
        for name in &names[..3] {
            fs::remove_file(path(name)).unwrap();
        }
        fs::write(path("new"), "new").unwrap();
        assert_eq!(held.restore(|_| true).unwrap().len(), 4);
        assert_eq!(fs::read_to_string(path("log.jsonl")).unwrap(), "one\ntwo\ntwo\n");
        assert_eq!(fs::read_to_string(path("state.json")).unwrap(), "another\n");
        assert_eq!(fs::read_to_string(path("same")).unwrap(), "one\n");
        assert!(!path("new").exists());
    }

    #[test]
    fn a_long_log_is_put_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let lines = |from: u32, to: u32| -> String {
            (from..to).map(|n| format!("{{\"experiment\": {n}, \"event\": \"run_finished\"}}\n")).collect()
        };
        fs::write(&path, lines(0, 9_000)).unwrap();
        let mut held = Held::take([path.clone()]);
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(lines(9_000, 20_000).as_bytes()).unwrap();
        held.take_again(&path);
        assert_eq!(held.restore(|_| true).unwrap(), []);
        fs::write(&path, lines(0, 20_000).replace("777", "778")).unwrap();
        assert_eq!(held.restore(|_| true).unwrap().len(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), lines(0, 20_000));
    }
}
