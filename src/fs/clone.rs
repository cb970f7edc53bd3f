//! Copies of files that share no later change with the original, and moves that leave none behind.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::error::if_exists;
use super::names::in_writable_folder;
use super::read::only_regular;
use super::stamp::FileStamp;

/// Maximum number of attempts to copy a file that keeps changing.
const TRIES: u32 = 3;

/// Copies a regular file to `to`, where nothing stands: as a clone if the file system has those, else byte by byte if there
/// `is_room` for as many. The copy is on the disk afterwards, with the permissions and the time of the original.
///
/// # Errors
///
/// There is no room; it is a link, a FIFO or a device; a process goes on writing it. What was copied by then is removed.
pub fn clone_file(from: &Path, to: &Path, is_room: impl Fn(u64) -> bool) -> io::Result<u64> {
    let mut tries = 1;
    loop {
        match try_clone(from, to, &is_room) {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) if tries < TRIES => tries += 1,
            failed => {
                // The first error is the one that counts.
                let _ = fs::remove_file(to);
                return failed.and_then(|_| Err(io::Error::other("it changes while it is copied")));
            }
        }
    }
}

/// Copies it once; `None` if it changed meanwhile.
fn try_clone(from: &Path, to: &Path, is_room: &impl Fn(u64) -> bool) -> io::Result<Option<u64>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let source = only_regular(OpenOptions::new().read(true).custom_flags(flags).open(from)?)?;
    let before = source.metadata()?;
    if_exists(fs::remove_file(to))?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if !is_cloned(&source, &copy) {
        if !is_room(before.len()) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        // A file that grows is not followed.
        io::copy(&mut (&source).take(before.len()), &mut copy)?;
    }
    let after = source.metadata()?;
    if FileStamp::from_metadata(&before) != FileStamp::from_metadata(&after) || copy.metadata()?.len() != before.len() {
        return Ok(None);
    }
    copy.set_permissions(Permissions::from_mode(before.mode() & 0o777))?;
    copy.set_modified(before.modified()?)?;
    copy.sync_all()?;
    Ok(Some(before.len()))
}

#[cfg(target_os = "linux")]
fn is_cloned(source: &File, copy: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, source).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn is_cloned(_: &File, _: &File) -> bool {
    false
}

/// Moves a regular file to `to`, which is replaced. One that has another name, or stands on another file system, is copied
/// first, by way of `by`. It is on the disk afterwards.
///
/// # Errors
///
/// Those of [`clone_file`]; the folder of the file cannot be changed.
pub fn take_file(from: &Path, to: &Path, by: &Path, is_room: impl Fn(u64) -> bool) -> io::Result<u64> {
    let there = fs::symlink_metadata(from)?;
    if !there.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if there.nlink() == 1 {
        match in_writable_folder(from, || fs::rename(from, to)) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            moved => {
                moved?;
                match File::open(to) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    moved => moved?.sync_all()?,
                }
                return Ok(there.len());
            }
        }
    }
    let bytes = clone_file(from, by, is_room)?;
    fs::rename(by, to)?;
    in_writable_folder(from, || fs::remove_file(from))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_copy_has_what_the_file_had_and_depends_on_it_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::write(&from, "one").unwrap();
        fs::set_permissions(&from, Permissions::from_mode(0o750)).unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(&from).unwrap().set_times(FileTimes::new().set_modified(hour_ago)).unwrap();
        assert_eq!(clone_file(&from, &to, |bytes| bytes == 3).unwrap(), 3);
        fs::write(&from, "other").unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"one");
        let meta = fs::metadata(&to).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.modified().unwrap()), (0o750, hour_ago));
    }

    #[test]
    fn what_is_no_file_has_no_room_or_changes_meanwhile_leaves_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        let [from, link, fifo, to] = ["from", "link", "fifo", "to"].map(|name| folder.path().join(name));
        fs::write(&from, "one").unwrap();
        std::os::unix::fs::symlink(&from, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for odd in [&link, &fifo, &folder.path().to_owned()] {
            clone_file(odd, &to, |_| true).unwrap_err();
        }
        if clone_file(&from, &to, |_| false).is_ok() {
            eprintln!("skipped the rest: this file system clones, which takes no room");
            return;
        }
        let grows = |_| {
            let mut file = File::options().append(true).open(&from).unwrap();
            io::Write::write_all(&mut file, b"more").is_ok()
        };
        let error = clone_file(&from, &to, grows).unwrap_err();
        assert_eq!(error.to_string(), "it changes while it is copied");
        let grew = AtomicBool::new(false);
        let once = |bytes| grew.swap(true, Ordering::Relaxed) || grows(bytes);
        let bytes = clone_file(&from, &folder.path().join("whole"), once).unwrap();
        assert_eq!(bytes, fs::metadata(&from).unwrap().len());
        assert!(!to.exists());
    }

    #[test]
    fn a_file_with_another_name_is_copied_and_any_other_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let [one, name, other, to, by] = ["one", "name", "other", "to", "by"].map(|name| folder.path().join(name));
        fs::write(&one, "one").unwrap();
        fs::hard_link(&one, &name).unwrap();
        fs::write(&other, "other").unwrap();
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let moved = inode(&other);
        take_file(&other, &to, &by, |_| false).unwrap();
        assert_eq!(inode(&to), moved);
        take_file(&one, &to, &by, |_| true).unwrap();
        assert!(!one.exists() && !by.exists() && inode(&to) != inode(&name));
        assert_eq!(fs::read(&to).unwrap(), b"one");
    }
}
