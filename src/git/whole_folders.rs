//! Folders in which everything is tracked: as long as such a folder is the same, its tracked files are looked at by their
//! names, and the folder is not read.
//!
//! What is put into a folder, taken out of it or renamed in it changes the folder's times. That is so on the file systems that
//! are named here; on others, some of them behind a network, each folder is read each time.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use gix::bstr::{BStr, BString};

use crate::state::FileStamp;

/// How long ago a folder was changed whose times can be trusted to tell another change: more than the tick of any file
/// system's clock.
pub(super) const SETTLED: Duration = Duration::from_secs(3);

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

/// What is known of such a folder: what the file system said of it, and how many names it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    stamp: FileStamp,
    pub(super) names: usize,
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

    /// What can be known of a folder with so many names that was read after the file system said that of it.
    pub(super) fn of(&self, before: &Metadata, names: usize) -> Option<Whole> {
        let stamp = FileStamp::from_metadata(before);
        // What was changed just now may be changed again within the same tick of the file system's clock.
        (self.device == Some(before.dev()) && stamp.is_older_than(SETTLED)).then_some(Whole { stamp, names })
    }

    /// Takes those of a walk in the place of all that were known.
    pub(super) fn take(&mut self, found: impl IntoIterator<Item = (BString, Whole)>) {
        self.folders = found.into_iter().collect();
    }
}
