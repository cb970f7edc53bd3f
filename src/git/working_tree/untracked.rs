//! Untracked files as they were at one moment, so that they can be told from those that come later.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::objs::Kind;
use rustix::fs::FileType;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fs::if_there;
use crate::git::{At, During, Result, TEMPORARY, WorkingTree, path};

/// The size in bytes up to which the content of an untracked file is kept.
const KEPT_SIZE: u64 = 1024 * 1024;

/// The most bytes kept in total.
const KEPT_IN_ALL: u64 = 64 * 1024 * 1024;

/// The most files kept in total.
const KEPT_FILES: usize = 4096;

/// The stat data of a file, which change whenever the file does, and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// When the content was last changed, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The size in bytes.
    pub size: u64,
    /// The number of the inode.
    pub inode: u64,
    /// When anything about the file was last changed, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Its type and permissions, as `stat` gives them.
    #[serde(default)]
    pub mode: u32,
    /// The blob of its bytes as they are, in hexadecimal, where its content was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl Stamp {
    /// Returns whether two states of a file are the same, whatever is known of their content.
    fn same(&self, other: &Stamp) -> bool {
        Stamp { content: None, mode: 0, ..self.clone() } == Stamp { content: None, mode: 0, ..other.clone() }
    }

    fn is_symlink(&self) -> bool {
        // A mode has 16 bits on macOS, and 32 elsewhere.
        FileType::from_raw_mode(self.mode as _) == FileType::Symlink
    }

    /// Returns whether it is a folder: a repository of its own, whose files are not read.
    fn is_folder(&self) -> bool {
        FileType::from_raw_mode(self.mode as _) == FileType::Directory
    }
}

/// An untracked file's state, compared with an earlier one.
pub(super) enum Since {
    /// It was not there.
    New,
    /// It holds what it held.
    Unchanged,
    /// It held something else, which is kept.
    Changed(ObjectId),
    /// It may have held something else, which is not kept.
    Unknown,
}

/// The outcome for untracked files that were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingFiles {
    /// They are there again, untracked.
    pub back: Vec<PathBuf>,
    /// Their content was never kept.
    pub not_kept: Vec<PathBuf>,
    /// Their content was kept, and somebody deleted that too.
    pub copy_gone: Vec<PathBuf>,
}

/// Untracked files, and folders with a repository of their own, with their stamps. In JSON, an object from path to
/// stamp. A path that is not UTF-8 or contains control characters is quoted as git does: `"caf\351"`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Untracked {
    files: BTreeMap<PathBuf, Stamp>,
}

impl Untracked {
    /// The paths, relative to the working tree, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// The paths with their stamps.
    pub(super) fn stamps(&self) -> impl Iterator<Item = (&Path, &Stamp)> {
        self.files.iter().map(|(path, stamp)| (path.as_path(), stamp))
    }

    /// The stamp of a file.
    pub fn get(&self, path: &Path) -> Option<&Stamp> {
        self.files.get(path)
    }

    /// Adds those of `paths` that `before` has, as they were then.
    pub fn keep(&mut self, before: &Untracked, paths: impl Iterator<Item = PathBuf>) {
        self.files.extend(paths.filter_map(|path| before.get(&path).cloned().map(|stamp| (path, stamp))));
    }

    /// Removes a file: then it counts as one that was not there.
    pub fn forget(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Adds those of `now` whose content was last changed after `since`, a time that a file system gave.
    pub fn add_newer(&mut self, now: Untracked, since: SystemTime) {
        let since = since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let is_newer = |stamp: &Stamp| u128::try_from(stamp.mtime_ns).is_ok_and(|mtime| mtime > since);
        self.files.extend(now.files.into_iter().filter(|(_, stamp)| is_newer(stamp)));
    }

    /// Looks at each of `paths`; one that is gone is left out.
    pub(super) fn stamp(root: &Path, paths: &[BString]) -> Result<Untracked> {
        let mut files = BTreeMap::new();
        for path in paths {
            let path = path::to_path(path.as_ref());
            if let Some(stamp) = stamp(root, &path)? {
                files.insert(path, stamp);
            }
        }
        Ok(Untracked { files })
    }
}

impl WorkingTree {
    /// Keeps the content of untracked files.
    pub(super) fn keep(&self, mut found: Untracked, before: &Untracked) -> Result<Untracked> {
        let mut smallest: Vec<_> =
            found.files.iter_mut().filter(|(_, stamp)| stamp.size <= KEPT_SIZE && !stamp.is_folder()).collect();
        smallest.sort_by_key(|(_, stamp)| stamp.size);
        let mut room = KEPT_IN_ALL;
        for (path, stamp) in smallest.into_iter().take(KEPT_FILES) {
            let Some(left) = room.checked_sub(stamp.size) else { break };
            room = left;
            let known = before.get(path).filter(|known| known.same(stamp)).and_then(|known| self.kept(known));
            let content = match known {
                Some(id) => Some(id),
                None => self.keep_content(path, stamp)?,
            };
            stamp.content = content.map(|id| id.to_string());
        }
        Ok(found)
    }

    /// The blob that holds the content of a file as it was, where it is there.
    fn kept(&self, stamp: &Stamp) -> Option<ObjectId> {
        let id = path::parse_id(stamp.content.as_deref()?).ok()?;
        self.objects.has(id).then_some(id)
    }

    /// Keeps the content of a file, unless it changes meanwhile or cannot be read.
    fn keep_content(&self, path: &Path, known: &Stamp) -> Result<Option<ObjectId>> {
        let Some(bytes) = read_raw(&self.root.join(path), known) else { return Ok(None) };
        let now = stamp(&self.root, path)?;
        if bytes.len() as u64 != known.size || now.is_none_or(|now| !now.same(known)) {
            return Ok(None);
        }
        self.objects.keep_blob(&bytes).map(Some)
    }

    /// Compares an untracked file with its state in `known`. Compares size, times and inode first. If they differ, the
    /// content decides if it was kept. Without kept content, the file is unchanged if size, inode and modification time
    /// are the same.
    pub(super) fn since(&self, known: &Untracked, path: &Path) -> Result<Since> {
        let Some(known) = known.get(path) else { return Ok(Since::New) };
        let Some(now) = stamp(&self.root, path)? else { return Ok(Since::Unknown) };
        if now.same(known) {
            return Ok(Since::Unchanged);
        }
        let Some(id) = self.kept(known) else {
            let same = now.size == known.size && now.inode == known.inode && now.mtime_ns == known.mtime_ns;
            return Ok(if same { Since::Unchanged } else { Since::Unknown });
        };
        let same_kind = now.is_symlink() == known.is_symlink();
        let bytes = if same_kind && now.size == known.size { read_raw(&self.root.join(path), &now) } else { None };
        let hash = |bytes: Vec<u8>| gix::objs::compute_hash(id.kind(), Kind::Blob, &bytes);
        let unchanged = bytes.map(hash).transpose().during("hashing a file")? == Some(id);
        Ok(if unchanged { Since::Unchanged } else { Since::Changed(id) })
    }

    /// Restores a missing file as it was, untracked, if its content is kept. Anything at its path, or in place of a
    /// folder above it, stays.
    pub(super) fn put_back(&self, known: &Untracked, path: &Path) -> Result<()> {
        let Some((stamp, id)) = known.get(path).and_then(|stamp| Some((stamp, self.kept(stamp)?))) else {
            return Ok(());
        };
        let full = self.root.join(path);
        let parents: Vec<&Path> = full.ancestors().skip(1).take_while(|dir| *dir != self.root).collect();
        for dir in parents.into_iter().rev() {
            match if_there(fs::symlink_metadata(dir)).at("reading", dir)? {
                Some(meta) if meta.is_dir() => {}
                Some(_) => return Ok(()),
                None => fs::create_dir(dir).at("making the folder", dir)?,
            }
        }
        let bytes = self.objects.blob(id)?;
        let place = |dir: &Path| -> std::io::Result<()> {
            let mut builder = tempfile::Builder::new();
            builder.prefix(TEMPORARY);
            if stamp.is_symlink() {
                let target = path::to_path(bytes.as_bstr());
                let link = builder.make_in(dir, |temporary| std::os::unix::fs::symlink(&target, temporary))?;
                return link.into_temp_path().persist_noclobber(&full).map_err(|err| err.error);
            }
            let mut file = builder.tempfile_in(dir)?;
            file.write_all(&bytes)?;
            file.as_file().set_permissions(fs::Permissions::from_mode(stamp.mode & 0o7777))?;
            file.persist_noclobber(&full).map(drop).map_err(|err| err.error)
        };
        let placed = match place(self.gix.git_dir()) {
            Err(err) if err.kind() == ErrorKind::CrossesDevices => place(full.parent().unwrap_or(&self.root)),
            placed => placed,
        };
        match placed {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => Ok(()),
            placed => placed.at("writing", &full),
        }
    }
}

/// The bytes of a file or the target of a link; nothing when it cannot be read.
fn read_raw(full: &Path, stamp: &Stamp) -> Option<Vec<u8>> {
    if stamp.is_symlink() {
        return path::to_git(&fs::read_link(full).ok()?).ok().map(Vec::from);
    }
    let mut bytes = Vec::new();
    File::open(full).ok()?.take(stamp.size.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn stamp(root: &Path, path: &Path) -> Result<Option<Stamp>> {
    let full = root.join(path);
    let Some(meta) = if_there(fs::symlink_metadata(&full)).at("reading", &full)? else { return Ok(None) };
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Ok(Some(Stamp {
        mtime_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        size: meta.len(),
        inode: meta.ino(),
        ctime_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        mode: meta.mode(),
        content: None,
    }))
}

impl Serialize for Untracked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.files.iter().map(|(file, stamp)| {
            let utf8 = file.to_str().is_some();
            let bytes = path::to_git(file).unwrap_or_default();
            (path::quote(bytes.as_ref(), !utf8).to_string(), stamp)
        }))
    }
}

impl<'de> Deserialize<'de> for Untracked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quoted = BTreeMap::<String, Stamp>::deserialize(deserializer)?;
        let files = quoted.into_iter().map(|(quoted, stamp)| match path::unquote(&quoted) {
            Some(file) => Ok((path::to_path(file.as_ref()), stamp)),
            None => Err(D::Error::custom(format!("`{quoted}` is not a quoted path"))),
        });
        Ok(Untracked { files: files.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn survives_json_whatever_the_names_are() {
        let content = Some("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391".to_owned());
        let stamp = Stamp { mtime_ns: 1, size: 2, inode: u64::MAX, ctime_ns: -4, mode: 0o100_644, content };
        let names = [&b"a b"[..], b"caf\xc3\xa9", b"\xff\xfe", b"\"q\"", b"line\nbreak"];
        let files = names.iter().map(|name| (PathBuf::from(OsStr::from_bytes(name)), stamp.clone())).collect();
        let untracked = Untracked { files };
        let json = serde_json::to_string(&untracked).unwrap();
        assert!(json.contains(r#""café":"#), "{json}");
        assert_eq!(serde_json::from_str::<Untracked>(&json).unwrap(), untracked);
    }

    #[test]
    fn reads_stamps_without_content() {
        let old = r#"{"a":{"mtime_ns":1,"size":2,"inode":3,"ctime_ns":4}}"#;
        let read = serde_json::from_str::<Untracked>(old).unwrap();
        assert_eq!(read.get(Path::new("a")).unwrap().content, None);
    }
}
