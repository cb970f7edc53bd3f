//! A file with two copies of its content: one sync makes a new one last, and a power cut leaves the one before.
//!
//! Replacing a file durably takes two syncs in a row, of the new file and of its folder, and each waits for the file system's own
//! journal. Here the older copy is overwritten in place, in a file whose blocks are there already. A copy counts if its hash is
//! right, and the newer one of two.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::files::only_regular;
use super::{FileError, failed, if_exists, write_atomic};
use crate::crash;

/// The room for a copy in a new file, in bytes, if it needs no more.
const ROOM: usize = 64 << 10;

/// The length of the numbers of a copy, of its number, its time and its content's length, in bytes, and that of their hash with the
/// content.
const NUMBERS: usize = 24;
const HASH: usize = 32;

/// The longest content, in bytes. Whoever wrote a larger number is not this program.
const LARGEST: u64 = 256 << 20;

/// A whole copy of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// Its number: the newest copy has the highest.
    pub number: u64,
    /// When the file that it is a copy of was last changed before it is replaced, in nanoseconds since 1970; 0 for a new one. A
    /// file that was changed later is somebody else's.
    pub replaces: u64,
    /// The content.
    pub content: Vec<u8>,
}

impl FileCopy {
    fn numbers(&self) -> [[u8; NUMBERS / 3]; 3] {
        [self.number, self.replaces, self.content.len() as u64].map(u64::to_le_bytes)
    }

    fn hash(&self) -> [u8; HASH] {
        Sha256::new().chain_update(self.numbers().as_flattened()).chain_update(&self.content).finalize().into()
    }

    fn bytes(&self) -> Vec<u8> {
        [self.numbers().as_flattened(), &self.hash(), &self.content].concat()
    }

    /// The copy at this place of a file, if it is whole and takes no more than `room`.
    fn at(file: &File, place: u64, room: u64) -> io::Result<Option<FileCopy>> {
        let mut numbers = [[0; NUMBERS / 3]; 3];
        let mut hash = [0; HASH];
        let read =
            file.read_at(numbers.as_flattened_mut(), place)? + file.read_at(&mut hash, place + NUMBERS as u64)?;
        let [number, replaces, length] = numbers.map(u64::from_le_bytes);
        let before = (NUMBERS + HASH) as u64;
        if read as u64 != before || length > room.saturating_sub(before).min(LARGEST) {
            return Ok(None);
        }
        let mut copy = FileCopy { number, replaces, content: vec![0; length as usize] };
        let read = file.read_at(&mut copy.content, place + before)?;
        Ok(Some(copy).filter(|copy| read as u64 == length && copy.hash() == hash))
    }
}

/// When a file was last changed, in nanoseconds since 1970; 0 if there is none.
pub fn changed_at(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |meta| (meta.mtime() * 1_000_000_000 + meta.mtime_nsec()).unsigned_abs())
}

/// The newest whole copy; `None` if there is none.
///
/// # Errors
///
/// The file cannot be read.
pub fn newest_copy(path: &Path) -> Result<Option<FileCopy>, FileError> {
    let read = || -> io::Result<Option<FileCopy>> {
        let Some(file) = opened(path, OpenOptions::new().read(true), |_| true)? else { return Ok(None) };
        Ok(newest(&file)?.map(|(copy, _)| copy))
    };
    read().map_err(failed("read", path))
}

/// Writes a copy over the older one; it is on the disk when this returns. Makes the file anew if it is missing, too small, no
/// regular file, closed to this user, or somebody else's, with a copy that is not older than this one.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_copy(path: &Path, copy: &FileCopy) -> Result<(), FileError> {
    let bytes = copy.bytes();
    let write = || -> io::Result<bool> {
        // Under another name, it is somebody else's file.
        let Some(file) = opened(path, OpenOptions::new().read(true).write(true), |meta| meta.nlink() == 1)? else {
            // What is left of it, such as its rights, is not to pass on to the new one. A folder stays.
            let _ = fs::remove_file(path);
            return Ok(false);
        };
        let room = file.metadata()?.len() / 2;
        if bytes.len() as u64 > room {
            return Ok(false);
        }
        let place = match newest(&file)? {
            Some((known, _)) if known.number >= copy.number => return Ok(false),
            Some((_, place)) => room - place,
            None => 0,
        };
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all_at(first, place)?;
        crash::point("state.copy_torn");
        file.write_all_at(rest, place + first.len() as u64)?;
        file.sync_data().map(|()| true)
    };
    if write().map_err(failed("write", path))? {
        return Ok(());
    }
    let room = ROOM.max((2 * bytes.len()).next_power_of_two());
    let mut both = bytes;
    both.resize(2 * room, 0);
    write_atomic(path, &both)
}

/// The newest whole copy of a file, and its place.
fn newest(file: &File) -> io::Result<Option<(FileCopy, u64)>> {
    let room = file.metadata()?.len() / 2;
    let copies = [0, room].map(|place| FileCopy::at(file, place, room).map(|copy| copy.map(|copy| (copy, place))));
    let [first, second] = copies;
    Ok([first?, second?].into_iter().flatten().max_by_key(|(copy, _)| copy.number))
}

/// The file, unless something else is in its place, or one that is not meant.
fn opened(path: &Path, options: &mut OpenOptions, is_meant: fn(&Metadata) -> bool) -> io::Result<Option<File>> {
    match if_exists(fs::symlink_metadata(path))? {
        Some(meta) if meta.is_file() && is_meant(&meta) => {
            let opened = options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path);
            match opened.and_then(only_regular) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
                opened => if_exists(opened),
            }
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn copy(number: u64, content: &[u8]) -> FileCopy {
        FileCopy { number, replaces: 7, content: content.to_vec() }
    }

    #[test]
    fn the_newest_copy_counts_and_the_file_grows_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copies");
        assert_eq!(newest_copy(&path).unwrap(), None);
        for (number, size) in [(1, 10), (2, 0), (3, 5_000), (4, 70_000), (7, 20), (7, 30), (2, 10), (3, 500_000)] {
            let written = copy(number, &vec![number as u8; size]);
            write_copy(&path, &written).unwrap();
            assert_eq!(newest_copy(&path).unwrap(), Some(written), "{number}");
        }
    }

    #[test]
    fn what_a_write_left_half_done_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copies");
        let (old, new) = (copy(1, b"the old content"), copy(2, b"the new content"));
        write_copy(&path, &old).unwrap();
        write_copy(&path, &new).unwrap();
        let whole = fs::read(&path).unwrap();
        let place = whole.len() / 2;
        for torn in 0..new.bytes().len() {
            let mut bytes = whole.clone();
            bytes[place + torn..place + new.bytes().len()].fill(0);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(newest_copy(&path).unwrap().as_ref(), Some(&old), "{torn}");
            // The next one takes the place of the torn one, and not of the only one that is whole.
            write_copy(&path, &new).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole, "{torn}");
        }
    }

    #[test]
    fn another_file_in_its_place_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("copies"), folder.path().join("other"));
        let content = vec![b'x'; 4 * ROOM];
        let links: [fn(&Path, &Path) -> io::Result<()>; 2] =
            [|from, to| symlink(from, to), |from, to| fs::hard_link(from, to)];
        for link in links {
            fs::write(&other, &content).unwrap();
            link(&other, &path).unwrap();
            assert_eq!(newest_copy(&path).unwrap(), None);
            write_copy(&path, &copy(1, b"mine")).unwrap();
            assert_eq!(
                (fs::read(&other).unwrap(), newest_copy(&path).unwrap()),
                (content.clone(), Some(copy(1, b"mine")))
            );
            fs::remove_file(&path).unwrap();
        }
    }
}
