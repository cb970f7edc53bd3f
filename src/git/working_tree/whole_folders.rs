//! Folders in which everything is tracked: as long as such a folder is the same, its tracked files are looked at by their
//! names, and the folder is not read.
//!
//! What is put into a folder, taken out of it or renamed in it changes the folder's times. That is so on the file systems that
//! are named here; on others, some of them behind a network, each folder is read each time.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;

use gix::bstr::{BStr, BString};

use crate::fs::FileStamp;

/// The file systems that are trusted, by the numbers that `statfs(2)` gives them: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs,
/// overlayfs, ZFS and bcachefs.
#[cfg(target_os = "linux")]
const TRUSTED: [u32; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1, 0xca45_1a4e];

/// Whether a folder's times tell of every change on its file system.
#[cfg(target_os = "linux")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are of 32 bits")]
fn is_trusted(folder: &File) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|found| TRUSTED.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_trusted(_folder: &File) -> bool {
    false
}

/// The folders that a walk found to be whole, by path with a slash behind it.
#[derive(Debug, Default)]
pub(super) struct WholeFolders {
    folders: HashMap<BString, Whole>,
    /// The file system that they are on; absent where it is not trusted.
    device: Option<u64>,
}

/// What is known of such a folder: what the file system said of it, and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    stamp: FileStamp,
    names: u64,
}

/// The names of what an index has in one folder, in its order, each with whether it is a folder.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    count: usize,
    hash: DefaultHasher,
}

impl Tracked {
    /// Adds the next name.
    pub(super) fn add(&mut self, name: &[u8], is_folder: bool) {
        self.count += 1;
        self.hash.write(name);
        // No name has either of them in it.
        self.hash.write_u8(if is_folder { b'/' } else { 0 });
    }

    /// Whether they are so many.
    pub(super) fn are(&self, count: usize) -> bool {
        self.count == count
    }

    /// Whether they are what is in a folder.
    pub(super) fn is_what(&self, whole: Whole) -> bool {
        self.hash.finish() == whole.names
    }

    /// What is known of a folder that has nothing else in it.
    pub(super) fn whole(&self, stamp: FileStamp) -> Whole {
        Whole { stamp, names: self.hash.finish() }
    }
}

impl WholeFolders {
    /// Those that were known, for another walk from `root`.
    pub(super) fn again(mut self, root: &File) -> WholeFolders {
        self.device = root.metadata().ok().filter(|_| is_trusted(root)).map(|meta| meta.dev());
        self
    }

    /// What is known of a folder that is still the same.
    pub(super) fn get(&self, path: &BStr, now: &Metadata) -> Option<Whole> {
        let known = self.folders.get(path)?;
        (self.device == Some(now.dev()) && known.stamp == FileStamp::from_metadata(now)).then_some(*known)
    }

    /// The stamp of a folder that is read after the file system said that of it, where another change would change it.
    pub(super) fn stamp(&self, now: &Metadata) -> Option<FileStamp> {
        let stamp = FileStamp::from_metadata(now);
        (self.device == Some(now.dev()) && stamp.is_settled()).then_some(stamp)
    }

    /// Takes those of a walk in the place of all that were known.
    pub(super) fn take(&mut self, found: impl IntoIterator<Item = (BString, Whole)>) {
        self.folders = found.into_iter().collect();
    }
}
