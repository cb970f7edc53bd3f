//! Free names, moves to them of what stands in the way, copies that share no later change with the original, and links
//! from one working tree to another.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use super::{FileError, FileStamp, folder_of, if_exists, if_there, only_regular, write_atomic};
use crate::domain::shell_word;

/// The first of `path`, `path-2`, `path-3` … at which nothing stands.
pub fn free_name(path: &Path) -> PathBuf {
    let mut free = path.to_owned();
    for n in 2.. {
        if fs::symlink_metadata(&free).is_err() {
            break;
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-{n}"));
        free = name.into();
    }
    free
}

/// A free name beside `path`: its own with `suffix`, and a number where that is taken.
pub fn free_beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    free_name(Path::new(&name))
}

/// The shell command that moves `path` to a free name beside it, and so overwrites nothing.
pub fn move_command(path: &Path, suffix: &str) -> String {
    format!("mv {} {}", shell_word(path), shell_word(&free_beside(path, suffix)))
}

/// Moves what stands at `path` and is no regular file, or has a second name by which it is written through, to a free name
/// beside it, which it gives; nothing when there is nothing of that kind.
pub fn move_irregular_away(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() || there.nlink() > 1 => {}
        _ => return Ok(None),
    }
    move_away(path).map(Some)
}

/// Moves what stands in the place of a folder and is none, a link among them, as [`move_irregular_away`] does.
pub fn move_no_folder_away(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_dir() => move_away(path).map(Some),
        _ => Ok(None),
    }
}

/// Moves whatever stands at `path` to a free name beside it, which it gives.
pub fn move_away(path: &Path) -> io::Result<PathBuf> {
    let free = free_beside(path, ".replaced");
    fs::rename(path, &free)?;
    Ok(free)
}

/// Moves a file, a link or a folder to `to`, where nothing stands; to another file system by copying it.
pub fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        moved => return moved,
    }
    let meta = fs::symlink_metadata(from)?;
    if meta.is_dir() {
        fs::create_dir(to)?;
        make_writable(from)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            move_to(&entry.path(), &to.join(entry.file_name()))?;
        }
        return fs::remove_dir(from);
    }
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if meta.is_file() {
        fs::copy(from, to)?;
    }
    // There is nothing in a pipe or a socket that could be kept.
    fs::remove_file(from)
}

/// Writes `content`, which is that of `path`, durably into a file of its own beside it whose name ends in `suffix`, and
/// gives the name. No file is overwritten.
pub fn copy_beside(path: &Path, content: &[u8], suffix: &str) -> Result<PathBuf, FileError> {
    let copy = free_beside(path, suffix);
    write_atomic(&copy, content)?;
    Ok(copy)
}

/// Gives the owner of a folder all rights to it; does nothing to what is no folder.
pub fn make_writable(folder: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(folder)?;
    let mode = meta.mode() & 0o7777;
    if meta.is_dir() && mode & 0o700 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(mode | 0o700))?;
    }
    Ok(())
}

/// Gives the owner all rights to a folder and to those in it.
pub fn make_all_writable(folder: &Path) -> io::Result<()> {
    make_writable(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_all_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file, or a folder with all that is in it, also from read-only folders. Links are removed and not followed. Does
/// nothing if there is nothing.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => in_writable_folder(path, || match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                make_all_writable(path)?;
                fs::remove_dir_all(path)
            }
            removed => removed,
        }),
        Ok(_) => in_writable_folder(path, || fs::remove_file(path)),
        Err(error) => Err(error),
    };
    if_there(removed).map(drop)
}

/// Does something to `path`, and once more where the folder that it is in was read-only, with all rights to that folder.
pub fn in_writable_folder<T>(path: &Path, change: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match change() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(folder_of(path))?;
            change()
        }
        changed => changed,
    }
}

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

/// Maximum number of files and folders behind links to check for writes.
const MOST: usize = 10_000;

/// Links `links`, relative to both, from `tree` to what is in `main`, and makes the folders above them. A link that stands there
/// and leads elsewhere is replaced. Anything else in the way, also a link on the way there, is moved to a free name beside it,
/// which is returned. Does nothing where all is as it should be.
pub fn make_links(main: &Path, tree: &Path, links: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    for link in links {
        let mut folder = tree.to_owned();
        for part in link.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match if_there(fs::symlink_metadata(&folder))? {
                Some(there) if there.is_dir() => continue,
                Some(_) => moved.push(move_away(&folder)?),
                None => {}
            }
            fs::create_dir(&folder)?;
        }
        let (target, place) = (main.join(link), tree.join(link));
        match if_there(fs::symlink_metadata(&place))? {
            Some(there) if !there.is_symlink() => moved.push(move_away(&place)?),
            Some(_) if fs::read_link(&place)? == target => continue,
            Some(_) => fs::remove_file(&place)?,
            None => {}
        }
        symlink(target, place)?;
    }
    Ok(moved)
}

/// Returns whether `link`, relative to both, leads from `tree` to what is in `main`, as [`make_links`] makes it.
pub fn is_made(main: &Path, tree: &Path, link: &Path) -> bool {
    fs::read_link(tree.join(link)).is_ok_and(|target| target == main.join(link))
}

/// Lists those of `links` in `main` behind which something was written or removed after `since`. Checks at most 10,000 files
/// and folders. Ignores bytecode, which Python writes whenever it likes, and links that lead further.
pub fn written_to(main: &Path, links: &[PathBuf], since: SystemTime) -> Vec<PathBuf> {
    let mut left = MOST;
    links.iter().filter(|link| is_newer(&main.join(link), since, &mut left)).cloned().collect()
}

fn is_newer(path: &Path, since: SystemTime, left: &mut usize) -> bool {
    let is_newer = |meta: &fs::Metadata| meta.modified().is_ok_and(|at| at > since);
    // The path itself may be a link, to a disk for data.
    let Ok(meta) = fs::metadata(path) else { return false };
    if !meta.is_dir() {
        return is_newer(&meta);
    }
    let mut folders = vec![(path.to_owned(), meta)];
    while let Some((folder, meta)) = folders.pop() {
        let mut has_bytecode = false;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let Ok(meta) = entry.metadata() else { continue };
            if entry.file_name() == "__pycache__" {
                has_bytecode = true;
            } else if meta.is_dir() {
                folders.push((entry.path(), meta));
            } else if meta.is_file() && is_newer(&meta) {
                return true;
            }
        }
        if !has_bytecode && is_newer(&meta) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_command_that_moves_a_file_names_a_free_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.tsv");
        let target = || move_command(&path, ".old").rsplit('/').next().unwrap().to_owned();
        assert_eq!(target(), "results.tsv.old");
        fs::write(folder.path().join("results.tsv.old"), "rows").unwrap();
        assert_eq!(target(), "results.tsv.old-2");
        fs::write(folder.path().join("results.tsv.old-2"), "rows").unwrap();
        assert_eq!(target(), "results.tsv.old-3");
    }

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
        symlink(&from, &link).unwrap();
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

    #[test]
    fn links_are_made_anew_and_what_stands_in_the_way_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let (main, tree) = (folder.path().join("main"), folder.path().join("tree"));
        fs::create_dir_all(main.join("sets/a")).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(main.join("w.bin"), "w").unwrap();
        let links = ["sets/a", "w.bin"].map(PathBuf::from);
        let lead_to_main = || links.iter().all(|link| is_made(&main, &tree, link));
        assert_eq!(make_links(&main, &tree, &links).unwrap(), Vec::<PathBuf>::new());
        assert!(lead_to_main());
        assert_eq!(make_links(&main, &tree, &links).unwrap(), Vec::<PathBuf>::new(), "nothing is to do");

        // A link elsewhere is nobody's data; a file is.
        fs::remove_file(tree.join("sets/a")).unwrap();
        symlink("/tmp", tree.join("sets/a")).unwrap();
        fs::remove_file(tree.join("w.bin")).unwrap();
        fs::write(tree.join("w.bin"), "another").unwrap();
        assert_eq!(make_links(&main, &tree, &links).unwrap(), [tree.join("w.bin.replaced")]);
        assert!(lead_to_main());
        assert_eq!(fs::read_to_string(tree.join("w.bin.replaced")).unwrap(), "another");

        // Through a link on the way they would be made in another folder.
        fs::remove_dir_all(tree.join("sets")).unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), tree.join("sets")).unwrap();
        assert_eq!(make_links(&main, &tree, &links).unwrap(), [tree.join("sets.replaced")]);
        assert!(lead_to_main());
        assert_eq!(fs::read_dir(folder.path().join("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn links_behind_which_something_was_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path();
        let (before, since) =
            (SystemTime::now() - Duration::from_secs(7200), SystemTime::now() - Duration::from_secs(3600));
        let age = |path: &str| File::open(main.join(path)).unwrap().set_modified(before).unwrap();
        for path in ["old/sub", "new/sub", "env/pkg/__pycache__", "gone", "real"] {
            fs::create_dir_all(main.join(path)).unwrap();
        }
        for path in ["old/sub/x", "new/sub/x", "env/pkg/__pycache__/x.pyc", "real/x", "file", "fresh"] {
            fs::write(main.join(path), "x").unwrap();
        }
        symlink(main.join("real"), main.join("disk")).unwrap();
        symlink(main.join("fresh"), main.join("old/link")).unwrap();
        let folders = ["old/sub", "old", "new/sub", "new", "env", "real"];
        ["old/sub/x", "file"].iter().chain(&folders).for_each(|path| age(path));
        let links = ["old", "new", "env", "gone", "disk", "file", "fresh", "missing"].map(PathBuf::from);
        let expected = ["new", "gone", "disk", "fresh"].map(PathBuf::from);
        assert_eq!(written_to(main, &links, since), expected);
    }
}
