//! Stamps of all tracked files, which show even a change that was undone before the next look.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice};
use gix::index::entry::Mode;

use super::changes::Look;
use super::tree::WorkingTree;
use super::walk::{Scan, walk};
use crate::domain::CommitId;
use crate::git::error::Result;
use crate::git::index::Staged;
use crate::git::path::{lstat, to_path};

/// The inode, size and change time of a file. Whoever owns the file cannot set the last one back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    #[expect(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the types of the fields differ by system")]
    pub(super) fn of(there: &rustix::fs::Stat) -> Stamp {
        Stamp {
            inode: there.st_ino as u64,
            size: there.st_size as u64,
            changed: (there.st_ctime as i64, there.st_ctime_nsec as i64),
        }
    }

    /// Reads the stamp of the entry at a path; `None` if it is missing or below a link.
    fn at(root: &Path, path: &BString) -> Result<Option<Stamp>> {
        if lstat(root, path.as_ref())?.is_none() {
            return Ok(None);
        }
        let there = fs::symlink_metadata(root.join(to_path(path.as_ref())));
        let of = |meta: fs::Metadata| Stamp {
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        };
        Ok(there.ok().map(of))
    }
}

/// The stamps of all tracked files at one moment; `None` for a missing file.
///
/// Two changes are invisible: a second change of a file within one tick of the file system's clock (some milliseconds),
/// and a folder that was moved away and back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeStamps {
    /// Sorted by path.
    files: Vec<(BString, Option<Stamp>)>,
}

impl TreeStamps {
    pub(super) fn of(index: &Staged, scan: &Scan) -> TreeStamps {
        let stamped = scan.stamps.iter().map(|(at, stamp)| (&index.entries()[*at], *stamp));
        let files = stamped.filter(|(entry, _)| entry.mode != Mode::COMMIT);
        let mut files: Vec<_> = files.map(|(entry, stamp)| (entry.path(index).to_owned(), stamp)).collect();
        files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        files.dedup_by(|(one, _), (other, _)| one == other);
        TreeStamps { files }
    }

    fn get(&self, path: &BString) -> Option<Option<Stamp>> {
        let at = self.files.binary_search_by(|(known, _)| known.cmp(path)).ok()?;
        Some(self.files[at].1)
    }

    /// The stamps as bytes, for [`TreeStamps::parse`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.files.len() * 80);
        for (path, stamp) in &self.files {
            let written = match stamp {
                Some(Stamp { inode, size, changed: (seconds, nanoseconds) }) => {
                    write!(bytes, "{inode} {size} {seconds} {nanoseconds} ")
                }
                None => write!(bytes, "- - - - "),
            };
            // Nothing fails in memory.
            debug_assert!(written.is_ok());
            bytes.extend_from_slice(path);
            bytes.push(0);
        }
        bytes
    }

    /// Reads what [`TreeStamps::to_bytes`] gave; `None` where anything else stands there.
    pub fn parse(bytes: &[u8]) -> Option<TreeStamps> {
        let entries = bytes.strip_suffix(b"\0").unwrap_or(bytes).split(|byte| *byte == 0);
        let mut files = Vec::new();
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let mut parts = entry.splitn(5, |byte| *byte == b' ');
            let mut word = || std::str::from_utf8(parts.next()?).ok();
            let words = [word()?, word()?, word()?, word()?];
            let stamp = match words {
                ["-", ..] => None,
                [inode, size, seconds, nanoseconds] => Some(Stamp {
                    inode: inode.parse().ok()?,
                    size: size.parse().ok()?,
                    changed: (seconds.parse().ok()?, nanoseconds.parse().ok()?),
                }),
            };
            files.push((BString::from(parts.next()?), stamp));
        }
        files.is_sorted_by(|(one, _), (other, _)| one < other).then_some(TreeStamps { files })
    }
}

impl WorkingTree {
    /// Reads the stamps of all tracked files: those in the index, and those of `commit` that were taken out of the
    /// index.
    pub fn tracked_stamps(&self, commit: &CommitId) -> Result<TreeStamps> {
        let index = self.index.read()?;
        let mut stamps = TreeStamps::of(&index, &walk(self, &index, false)?);
        let missing = self.index.against(&index, self.objects.tree_id(commit)?)?;
        for (path, sides) in missing {
            if sides.tree.is_some_and(|(mode, _)| mode != Mode::COMMIT)
                && let Err(at) = stamps.files.binary_search_by(|(known, _)| known.cmp(&path))
            {
                let stamp = Stamp::at(&self.root, &path)?;
                stamps.files.insert(at, (path, stamp));
            }
        }
        stamps.files.retain(|(path, _)| !self.is_left_alone(path.as_ref()));
        Ok(stamps)
    }

    /// Lists the files of `before` with another stamp now, sorted. Does not read stamps again that `look` has.
    pub fn touched_since(&self, before: &TreeStamps, look: Option<&Look>) -> Result<Vec<PathBuf>> {
        let mut touched = Vec::new();
        for (path, stamp) in &before.files {
            let now = match look.and_then(|look| look.stamps.get(path)) {
                Some(now) => now,
                None => Stamp::at(&self.root, path)?,
            };
            if now != *stamp {
                touched.push(to_path(path.as_bstr()));
            }
        }
        Ok(touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_back_as_they_were_written() {
        let stamp = Some(Stamp { inode: 7, size: 0, changed: (-1, 999_999_999) });
        let files = vec![("a b\n".into(), stamp), (BString::from(&b"\xff"[..]), None)];
        let stamps = TreeStamps { files };
        assert_eq!(TreeStamps::parse(&stamps.to_bytes()), Some(stamps.clone()));
        assert_eq!(TreeStamps::parse(b""), Some(TreeStamps::default()));
        for damaged in [&b"7 0 -1"[..], b"x 0 1 1 a\0", b"1 1 1 1 b\x001 1 1 1 a\0"] {
            assert_eq!(TreeStamps::parse(damaged), None);
        }
        assert_eq!(stamps.get(&"a b\n".into()), Some(stamp));
        assert_eq!(stamps.get(&"b".into()), None);
    }
}
