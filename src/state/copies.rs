//! Protected files that git does not have, with their copies in the session's folder.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{SESSIONS_FOLDER, StateError};
use crate::fs::{FileStamp, create_folder, failed, if_there, in_writable_folder, make_writable};

/// The most bytes to copy in total.
pub const COPIED_BYTES: u64 = 1 << 30;

/// The most files to copy in total.
pub const COPIED_FILES: usize = 10_000;

/// The protected state of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Copied {
    /// The name of its copy; absent for a link, and if only stamps are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
    /// The hash of its content, if it has a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Its target, if it is a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<PathBuf>,
    /// Its permissions.
    mode: u32,
    /// Its stamp when it was last found unchanged; absent while a stamp could hide a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<FileStamp>,
}

/// Protected files of a working tree by path. Their copies are in the session's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    files: BTreeMap<PathBuf, Copied>,
}

impl Copies {
    /// Copies `paths`, relative to `root`, into `store`, and shares blocks with the originals if the file system can.
    /// Beyond [`COPIED_BYTES`] or [`COPIED_FILES`] it takes only the stamps of all files.
    ///
    /// # Errors
    ///
    /// Reading or copying a file failed.
    pub fn take(root: &Path, store: &Path, paths: &[PathBuf]) -> Result<Copies, StateError> {
        let mut found = Vec::new();
        let mut bytes = 0u64;
        for path in paths {
            let full = root.join(path);
            let meta = fs::symlink_metadata(&full).map_err(failed("read", &full))?;
            bytes = bytes.saturating_add(meta.len());
            found.push((path, full, meta));
        }
        let is_copied = bytes <= COPIED_BYTES && paths.len() <= COPIED_FILES;
        if is_copied && !paths.is_empty() {
            create_folder(store)?;
        }
        let mut copies = Copies::default();
        for (number, (path, full, meta)) in found.into_iter().enumerate() {
            let mut file =
                Copied { copy: None, sha256: None, target: None, mode: meta.permissions().mode(), stamp: None };
            if meta.is_symlink() {
                file.target = Some(fs::read_link(&full).map_err(failed("read", &full))?);
            } else if is_copied {
                let name = format!("{number:05}");
                let copy = store.join(&name);
                // This shares blocks if the file system can.
                fs::copy(&full, &copy).map_err(failed("copy", &full))?;
                file.sha256 = Some(hash(&copy).map_err(failed("read", &copy))?);
                file.copy = Some(name);
            }
            file.stamp = FileStamp::of(&full).filter(|stamp| file.sha256.is_none() || stamp.is_settled());
            copies.files.insert(path.clone(), file);
        }
        Ok(copies)
    }

    /// The files, relative to the working tree, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// Returns whether it contains a file.
    pub fn has(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Returns whether some changes can be detected but not undone, because files are too large to copy.
    pub fn has_stamps_alone(&self) -> bool {
        self.files.values().any(|file| file.target.is_none() && file.copy.is_none())
    }

    /// The files that changed, are missing, or are behind a link. Of a file known only by its stamp, it takes the new
    /// stamp.
    ///
    /// # Errors
    ///
    /// Reading a file failed.
    pub fn changed(&mut self, root: &Path, store: &Path) -> Result<Vec<PathBuf>, StateError> {
        let mut changed = Vec::new();
        for (path, file) in &mut self.files {
            let full = root.join(path);
            if !file.is_same(root, path, &full).map_err(failed("read", &full))? {
                changed.push(path.clone());
                continue;
            }
            // A process may have deleted the session's folder and nothing else.
            if let Some(copy) = file.copy.as_ref().map(|name| store.join(name))
                && !copy.exists()
            {
                create_folder(store)?;
                fs::copy(&full, &copy).map_err(failed("copy", &full))?;
            }
        }
        Ok(changed)
    }

    /// Restores a file, whose path must be free; returns false if its copy was changed.
    ///
    /// # Errors
    ///
    /// Writing failed.
    pub fn restore(&mut self, root: &Path, store: &Path, path: &Path) -> Result<bool, StateError> {
        let Some(file) = self.files.get_mut(path) else { return Ok(false) };
        let full = root.join(path);
        let place = |file: &Copied| -> io::Result<bool> {
            if let Some(folder) = full.parent() {
                fs::create_dir_all(folder)?;
            }
            if let Some(target) = &file.target {
                return symlink(target, &full).map(|()| true);
            }
            let Some(copy) = file.copy.as_ref().map(|name| store.join(name)) else { return Ok(false) };
            if !copy.is_file() || Some(hash(&copy)?) != file.sha256 {
                return Ok(false);
            }
            let temporary = tempfile::Builder::new().prefix(".ar-").tempfile_in(full.parent().unwrap_or(root))?;
            fs::copy(&copy, temporary.path())?;
            temporary.as_file().set_permissions(fs::Permissions::from_mode(file.mode & 0o7777))?;
            temporary.persist(&full)?;
            Ok(true)
        };
        let placed = match place(file) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                open_folders(root, path).and_then(|()| place(file))
            }
            placed => placed,
        };
        let placed = placed.map_err(failed("write", &full))?;
        if placed {
            file.stamp = None;
        }
        Ok(placed)
    }
}

impl Copied {
    fn is_same(&mut self, root: &Path, path: &Path, full: &Path) -> io::Result<bool> {
        let meta = beneath(root, path)?;
        if self.copy.is_none() && self.target.is_none() {
            let now = meta.as_ref().map(FileStamp::from_metadata);
            return Ok(std::mem::replace(&mut self.stamp, now) == now);
        }
        let Some(meta) = meta else { return Ok(false) };
        let now = FileStamp::from_metadata(&meta);
        if let Some(target) = &self.target {
            return Ok(meta.is_symlink() && fs::read_link(full)? == *target);
        }
        if self.stamp == Some(now) {
            return Ok(true);
        }
        let is_same = meta.is_file()
            && meta.permissions().mode() & 0o7777 == self.mode & 0o7777
            && Some(hash(full)?) == self.sha256;
        self.stamp = Some(now).filter(|stamp| is_same && stamp.is_settled());
        Ok(is_same)
    }
}

/// The stamp of a file below `root`; `None` if the file or a folder on its path is missing.
fn beneath(root: &Path, path: &Path) -> io::Result<Option<Metadata>> {
    let mut here = root.to_owned();
    let mut found = None;
    for part in path.components() {
        if found.as_ref().is_some_and(|meta: &Metadata| !meta.is_dir()) {
            return Ok(None);
        }
        here.push(part);
        found = if_there(in_writable_folder(&here, || fs::symlink_metadata(&here)))?;
        if found.is_none() {
            return Ok(None);
        }
    }
    Ok(found)
}

/// Gives the owner all rights to the existing folders from `root` to a file.
fn open_folders(root: &Path, path: &Path) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if fs::symlink_metadata(&folder).is_ok() {
            make_writable(&folder)?;
        }
    }
    Ok(())
}

/// The files and links at and below `top`, which is below `root`, relative to `root`. It follows no links and skips git
/// folders and the sessions' folder. It makes the user's unreadable folders readable.
pub fn files_below(root: &Path, top: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let full = root.join(&path);
        let Ok(meta) = in_writable_folder(&full, || fs::symlink_metadata(&full)) else { continue };
        if !meta.is_dir() {
            files.push(path);
            continue;
        }
        let read = || fs::read_dir(&full);
        let entries = read().or_else(|_| make_writable(&full).and_then(|()| read()));
        let entries = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let is_own = path.as_os_str().is_empty();
        let names = entries.filter(|name| name != ".git" && !(is_own && name == SESSIONS_FOLDER));
        left.extend(names.map(|name| path.join(name)));
    }
    files.sort();
    files
}

fn hash(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_deleted_or_hidden_behind_a_link_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let (root, store) = (folder.path().join("root"), folder.path().join("store"));
        fs::create_dir_all(root.join("data/deep")).unwrap();
        for name in ["data/a", "data/deep/b", "data/deep/c"] {
            fs::write(root.join(name), name).unwrap();
        }
        symlink("a", root.join("data/link")).unwrap();
        let paths = files_below(&root, Path::new("data"));
        assert_eq!(paths.len(), 4);
        let mut copies = Copies::take(&root, &store, &paths).unwrap();
        assert!(copies.changed(&root, &store).unwrap().is_empty());
        assert!(!copies.has_stamps_alone());

        fs::write(root.join("data/a"), "else").unwrap();
        fs::rename(root.join("data/deep"), folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), root.join("data/deep")).unwrap();
        let changed = copies.changed(&root, &store).unwrap();
        assert_eq!(changed, ["data/a", "data/deep/b", "data/deep/c"].map(PathBuf::from));
        fs::remove_file(root.join("data/a")).unwrap();
        fs::remove_file(root.join("data/deep")).unwrap();
        for path in &changed {
            assert!(copies.restore(&root, &store, path).unwrap());
            assert_eq!(fs::read_to_string(root.join(path)).unwrap(), path.to_str().unwrap());
        }
        assert!(copies.changed(&root, &store).unwrap().is_empty());

        // A changed copy is not used, and a missing one is made again.
        fs::write(store.join("00000"), "forged").unwrap();
        fs::remove_file(root.join("data/a")).unwrap();
        assert!(!copies.restore(&root, &store, Path::new("data/a")).unwrap());
        fs::remove_file(store.join("00001")).unwrap();
        copies.changed(&root, &store).unwrap();
        assert!(store.join("00001").exists());
    }
}
