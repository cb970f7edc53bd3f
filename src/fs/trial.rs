//! Tries what a file system can do, in a folder that is removed afterwards.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;
use strum::{Display, VariantArray};
use tempfile::TempDir;

use super::age::age;
use super::names::remove_all;

/// The start of the names of folders for trials. None is the tag of a session.
const PREFIX: &str = ".ar-trial-";

/// The age from which on a folder for a trial was left behind: a trial may wait for a job.
const LEFT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often a file is replaced while another thread reads it.
const REPLACEMENTS: u8 = 16;

/// The size of that file in bytes, more than a page.
const SIZE: usize = 3 * 4096;

/// What this program needs of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Ability {
    /// A rename replaces a file: whoever reads the name finds the old content or the new one.
    Rename,
    /// A file can have a second name.
    Link,
    /// An exclusive lock refuses a second holder until it is released.
    Lock,
    /// Files and folders can be written to the disk on request.
    Sync,
}

/// What was found of a file system.
#[derive(Debug)]
pub struct FileSystemTrial {
    /// Whether each ability works, or why it does not.
    pub works: Vec<(Ability, io::Result<()>)>,
    /// How far its clock is ahead of the local one.
    pub skew: SignedDuration,
}

impl FileSystemTrial {
    /// Tries the file system of the folder `above`, where another folder exists for a moment.
    ///
    /// # Errors
    ///
    /// No file can be made there.
    pub fn run(above: &Path) -> io::Result<FileSystemTrial> {
        let folder = trial_folder(above)?;
        let works = Ability::VARIANTS.iter().map(|ability| (*ability, ability.try_in(folder.path()))).collect();
        let stamped = folder.path().join("stamped");
        let before = SystemTime::now();
        fs::write(&stamped, "x")?;
        let skew = skew(fs::metadata(&stamped)?.modified()?, before);
        Ok(FileSystemTrial { works, skew })
    }
}

/// Makes a folder for a trial in `above`, which is removed with the result. Removes such folders that killed processes left.
pub fn trial_folder(above: &Path) -> io::Result<TempDir> {
    for entry in fs::read_dir(above)?.flatten() {
        let is_trial = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_left = || entry.file_type().is_ok_and(|kind| kind.is_dir()) && age(&entry.path()) >= Some(LEFT);
        if is_trial && is_left() {
            // One that cannot be removed is in nobody's way.
            let _ = remove_all(&entry.path());
        }
    }
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(above)
}

/// How far `stamp` is ahead of `clock`.
fn skew(stamp: SystemTime, clock: SystemTime) -> SignedDuration {
    let length = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    match stamp.duration_since(clock) {
        Ok(ahead) => length(ahead),
        Err(behind) => -length(behind.duration()),
    }
}

impl Ability {
    fn try_in(self, folder: &Path) -> io::Result<()> {
        let path = folder.join(self.to_string());
        match self {
            Ability::Rename => renames(&path, &path.with_extension("new")),
            Ability::Link => links(&path, &path.with_extension("second")),
            Ability::Lock => locks(&path),
            Ability::Sync => syncs(&path, folder),
        }
    }
}

/// Replaces a file by renames while another thread reads it.
fn renames(path: &Path, new: &Path) -> io::Result<()> {
    let content = |byte| vec![byte; SIZE];
    fs::write(path, content(0))?;
    let is_over = AtomicBool::new(false);
    let check = || {
        let read = fs::read(path)?;
        let is_whole = read.len() == SIZE && read.iter().all(|byte| *byte == read[0]);
        if is_whole { Ok(read[0]) } else { Err(io::Error::other("a reader found half of a file that was replaced")) }
    };
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                check()?;
            }
            Ok(())
        });
        let replace = |byte| {
            fs::write(new, content(byte))?;
            fs::rename(new, path)?;
            let found = check()?;
            if found == byte { Ok(()) } else { Err(io::Error::other("a file was replaced and has its old content")) }
        };
        let replaced = (1..=REPLACEMENTS).try_for_each(replace);
        is_over.store(true, Ordering::Relaxed);
        let read = reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader died")));
        replaced.and(read)
    })
}

/// Gives a file a second name.
fn links(path: &Path, second: &Path) -> io::Result<()> {
    fs::write(path, "x")?;
    fs::hard_link(path, second)?;
    let inode = |path| fs::metadata(path).map(|meta| meta.ino());
    if inode(path)? == inode(second)? { Ok(()) } else { Err(io::Error::other("the second name is another file")) }
}

/// Locks a file by one handle, and tries to lock it by another one meanwhile and afterwards.
fn locks(path: &Path) -> io::Result<()> {
    let open = || File::options().create(true).truncate(false).read(true).write(true).open(path);
    let (first, second) = (open()?, open()?);
    first.try_lock()?;
    match second.try_lock() {
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => return Err(io::Error::other("two holders have the same lock")),
    }
    first.unlock()?;
    Ok(second.try_lock()?)
}

/// Writes a file and its folder to the disk.
fn syncs(path: &Path, folder: &Path) -> io::Result<()> {
    fs::write(path, "x")?;
    File::open(path)?.sync_all()?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_system_of_this_host_can_do_everything_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let trial = FileSystemTrial::run(folder.path()).unwrap();
        let failed: Vec<_> = trial.works.iter().filter(|(_, works)| works.is_err()).collect();
        assert!(failed.is_empty() && trial.works.len() == Ability::VARIANTS.len(), "{trial:?}");
        assert!(trial.skew.as_secs().abs() < 5, "{}", trial.skew);
        assert_eq!(entries(folder.path()), 0);
        assert!(FileSystemTrial::run(&folder.path().join("missing")).is_err());
    }

    #[test]
    fn what_does_not_work_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(renames(&path, &folder.path().join("missing/new")).is_err());
        assert!(links(&path, &path).is_err());
        let held = File::create(&path).unwrap();
        held.try_lock().unwrap();
        assert!(locks(&path).is_err());
        assert!(syncs(&path, &folder.path().join("missing")).is_err());
        let now = SystemTime::now();
        assert_eq!(skew(now - Duration::from_secs(90), now).as_secs(), -90);
        assert_eq!(skew(now + Duration::from_secs(90), now).as_secs(), 90);
    }

    #[test]
    fn what_a_killed_process_left_goes_later_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - LEFT - Duration::from_secs(60);
        for name in [".ar-trial-old", ".ar-trial-new", "session"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "").unwrap();
            if name != ".ar-trial-new" {
                File::open(&path).unwrap().set_modified(old).unwrap();
            }
        }
        drop(trial_folder(folder.path()).unwrap());
        assert!(!folder.path().join(".ar-trial-old").exists());
        assert_eq!(entries(folder.path()), 2);
    }
}
