//! Reading below a folder that an untrusted process writes to: follows no link, waits for nothing, and reads no more than a
//! limit.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{Dir, Mode, OFlags, openat};

/// A folder that an untrusted process writes to.
pub(in crate::git) struct UntrustedFolder {
    root: OwnedFd,
}

impl UntrustedFolder {
    /// Opens the folder at `path`; refuses a link in its place.
    pub(in crate::git) fn open(path: &Path) -> io::Result<UntrustedFolder> {
        let root = rustix::fs::open(path, FOLDER, Mode::empty())?;
        Ok(UntrustedFolder { root })
    }

    /// Opens a regular file below the folder for reading.
    pub(in crate::git) fn file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(self.at(path, flags)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(ErrorKind::InvalidInput.into()),
        }
    }

    /// Reads a regular file of at most `limit` bytes.
    pub(in crate::git) fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.file(path)?;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > limit {
            true => Err(ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    }

    /// The names in a folder below this one, at most `most` of them.
    pub(in crate::git) fn names(&self, path: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let folder = Dir::new(self.at(path, FOLDER)?)?;
        let mut names = Vec::new();
        for entry in folder.take(most) {
            names.push(std::ffi::OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned());
        }
        Ok(names)
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let mut folder = None;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
            let flags = if parts.peek().is_some() { FOLDER } else { flags };
            folder = Some(openat(folder.as_ref().unwrap_or(&self.root), name, flags, Mode::empty())?);
        }
        folder.ok_or_else(|| ErrorKind::InvalidInput.into())
    }
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
