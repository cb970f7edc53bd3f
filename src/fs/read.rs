//! Reading files that another process may have replaced by something else, or made larger than it should be.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::{FileError, failed, if_exists};

/// Number of bytes to read at the end of a file.
pub const TAIL: u64 = 64 * 1024;

/// Opens a file for reading. A folder, a pipe or a device that somebody put in its place is refused, and not waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_sized(path).map(|(file, _)| file)
}

/// Does what [`open_regular`] does, and gives the file's size in bytes.
fn open_sized(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let size = regular_size(&file)?;
    Ok((file, size))
}

/// Refuses what is open and no regular file.
pub(super) fn only_regular(file: File) -> io::Result<File> {
    regular_size(&file).map(|_| file)
}

fn regular_size(file: &File) -> io::Result<u64> {
    match file.metadata()? {
        meta if meta.is_file() => Ok(meta.len()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Reads a file that [`open_regular`] opens.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, size) = open_sized(path)?;
    let mut bytes = with_room(size);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Room for the content of a file, so that it is read in one go.
fn with_room(size: u64) -> Vec<u8> {
    Vec::with_capacity(usize::try_from(size).map_or(0, |size| size.saturating_add(1)))
}

/// Does what [`read_regular`] does with a file of at most `limit` bytes; a larger one is refused.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open_sized(path)?;
    let mut bytes = with_room(size.min(limit));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// Returns whether `path`, or the target of a link there, exists but is not a regular file: a folder, a FIFO or a device.
pub fn is_odd(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}
/// The last bytes of a file, at most 64 KiB and none before byte `from`; nothing when there is no file.
pub fn read_tail(path: &Path, from: u64) -> Result<Vec<u8>, FileError> {
    let read = || -> io::Result<Vec<u8>> {
        let Some(mut file) = if_exists(open_regular(path))? else { return Ok(Vec::new()) };
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL))))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(failed("read", path))
}
