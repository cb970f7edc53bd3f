//! What is wrong with a repository: locks that were left behind, refs that were torn, objects that are missing.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::Kind;

use super::error::{At, During};
use super::path::parse_id;
use super::ref_guard::RefGuard;
use super::{GitError, Repo, Result, lock, open};
use crate::domain::CommitId;
use crate::fs::{free_name, read_regular};

/// Whose a lock file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOwner {
    /// A process of this program made it, and died over it.
    Dead,
    /// A process of this program is at work.
    Alive,
    /// Another program's.
    Other,
}

/// A lock file of git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub owner: LockOwner,
    /// How old it is, where that can be told.
    pub age: Option<Duration>,
}

/// A ref whose file names nothing, as a power cut leaves it, or a branch whose commit was pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRef {
    /// The ref's full name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Whether it names an object that is gone.
    pub is_lost: bool,
}

impl Repo {
    /// The lock files that are there, with whose they are.
    pub fn locks(&self) -> Result<Vec<LockFile>> {
        let mut named = Vec::new();
        for dir in self.git_dirs()? {
            named.extend(RefGuard::named(&dir)?);
        }
        let mut found = Vec::new();
        for path in self.git_locks()? {
            let guard = named.iter().find(|(lock, _)| *lock == path).map(|(_, owner)| *owner);
            let owner = match guard {
                Some(owner) => owner,
                None => lock::owner(&path)?,
            };
            let age = fs::symlink_metadata(&path).ok().as_ref().and_then(open::age);
            found.push(LockFile { path, owner, age });
        }
        Ok(found)
    }

    /// Removes the locks that processes of this program left behind when they were killed.
    pub fn clear_own_locks(&self) -> Result<()> {
        for dir in self.git_dirs()? {
            RefGuard::clear_abandoned(&dir)?;
        }
        lock::remove_abandoned(&lock::lock_path(&self.gix.index_path())).map(drop)
    }

    /// The git folders of all working trees.
    pub fn git_dirs(&self) -> Result<Vec<PathBuf>> {
        let mut dirs = vec![self.common_dir().to_owned()];
        let linked = self.common_dir().join("worktrees");
        match fs::read_dir(&linked) {
            Err(err) if err.kind() == ErrorKind::NotFound => {}
            entries => {
                for entry in entries.at("reading", &linked)? {
                    dirs.push(entry.at("reading", &linked)?.path());
                }
            }
        }
        Ok(dirs)
    }

    /// The files below `prefix` that stand for refs and name nothing, sorted by name.
    pub fn broken_refs(&self, prefix: &str) -> Result<Vec<BrokenRef>> {
        let mut files = Vec::new();
        collect_files(&self.common_dir().join(prefix), &mut files)?;
        let mut broken = Vec::new();
        for path in files {
            let content = read_regular(&path).at("reading", &path)?;
            let text = content.trim_ascii();
            let names = ObjectId::from_hex(text).is_ok_and(|id| !id.is_null()) || text.starts_with(b"ref: ");
            if !names && let Ok(name) = path.strip_prefix(self.common_dir()) {
                broken.push(BrokenRef { name: name.to_string_lossy().into_owned(), path, is_lost: false });
            }
        }
        broken.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(broken)
    }

    /// A branch that names an object which is gone; nothing when it can be read, or is not there.
    pub fn lost_branch(&self, full: &str) -> Option<BrokenRef> {
        let found = self.gix.try_find_reference(full).ok()??;
        let id = found.target().try_id()?.to_owned();
        let path = self.common_dir().join(full);
        (!self.gix.has_object(id)).then(|| BrokenRef { name: full.to_owned(), path, is_lost: true })
    }

    /// Whether the repository has an object.
    pub fn has_object(&self, object: &str) -> bool {
        parse_id(object).is_ok_and(|id| self.gix.has_object(id))
    }

    /// All refs below `prefix` that can be read, with the objects that they name, sorted by name. Of a ref whose file names
    /// nothing it is what was packed of it, if anything was.
    pub fn readable_refs_under(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let broken = self.broken_refs(prefix)?;
        if broken.is_empty() {
            return self.refs_under(prefix);
        }
        let mut found = self.packed_refs_under(&format!("{prefix}/"))?;
        let mut files = Vec::new();
        collect_files(&self.common_dir().join(prefix), &mut files)?;
        for path in files {
            let Ok(name) = path.strip_prefix(self.common_dir()) else { continue };
            let name = name.to_string_lossy().into_owned();
            if broken.iter().all(|broken| broken.name != name) {
                found.retain(|(packed, _)| *packed != name);
                let content = fs::read_to_string(&path).at("reading", &path)?;
                found.push((name, content.trim().to_owned()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// The first line of the packed refs that names no ref, from 1; git does not go beyond it, and so loses refs.
    pub fn broken_packed_line(&self) -> Result<Option<usize>> {
        let path = self.common_dir().join("packed-refs");
        let content = match read_regular(&path) {
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            content => content.at("reading", &path)?,
        };
        let is_id = |hex: &[u8]| ObjectId::from_hex(hex).is_ok();
        let is_whole = |line: &[u8]| match line {
            [b'#', ..] => true,
            [b'^', peeled @ ..] => is_id(peeled),
            line => line.split_once_str(" refs/").is_some_and(|(id, name)| is_id(id) && !name.is_empty()),
        };
        let ended = content.is_empty() || content.ends_with(b"\n");
        let broken = content.lines().position(|line| !is_whole(line)).map(|line| line + 1);
        Ok(broken.or_else(|| (!ended).then(|| content.lines().count())))
    }

    /// All annotated tags on commits that were made for refs below `prefix`, whether a ref leads to them or not: the refs
    /// with the tag objects. Looks at every object that there is.
    pub fn tag_objects_under(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        const WHAT: &str = "looking through all objects";
        let prefix = format!("{prefix}/");
        let mut found = Vec::new();
        for id in self.gix.objects.iter().during(WHAT)? {
            let id = id.during(WHAT)?;
            if !self.gix.find_header(id).is_ok_and(|header| header.kind() == Kind::Tag) {
                continue;
            }
            let object = self.gix.find_object(id).during(WHAT)?.into_tag();
            let Ok(tag) = object.decode() else { continue };
            let name = format!("refs/{}", tag.name);
            if name.starts_with(&prefix) && tag.target_kind == Kind::Commit {
                found.push((name, id.to_string()));
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Whether a commit is there, with its tree.
    pub fn has_commit(&self, commit: &CommitId) -> bool {
        let found = self.find_commit(commit);
        found.is_ok_and(|commit| commit.tree_id().is_ok_and(|tree| self.gix.find_object(tree.detach()).is_ok()))
    }

    /// Writes the file of a ref that names nothing anew, as git does: by its lock. What it was is kept in a file of the git
    /// folder, whose name this gives.
    pub fn mend_ref(&self, broken: &BrokenRef, object: &str) -> Result<PathBuf> {
        let copy = format!("autoresearch-damaged-{}", broken.name.replace('/', "-"));
        let copy = free_name(&self.common_dir().join(copy));
        let content = match fs::read(&broken.path) {
            // It is packed.
            Err(err) if err.kind() == ErrorKind::NotFound => Vec::new(),
            content => content.at("reading", &broken.path)?,
        };
        open::replace_file(&copy, &content)?;
        if let Some(folder) = broken.path.parent() {
            fs::create_dir_all(folder).at("making the folder", folder)?;
        }
        let mut lock = broken.path.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let _guard = RefGuard::begin(self.git_dir(), std::slice::from_ref(&lock))?;
        let mut file = File::options().write(true).create_new(true).open(&lock).at("writing", &lock)?;
        writeln!(file, "{object}").and_then(|()| file.sync_all()).at("writing", &lock)?;
        fs::rename(&lock, &broken.path).at("writing", &broken.path)?;
        self.sync_ref(&broken.name)?;
        Ok(copy)
    }

    /// Checks that the index can be read and worked with.
    pub fn check_index(&self) -> Result<()> {
        let index = self.index()?;
        let config = self.gix.config_snapshot();
        let is_wanted = |key: &str| config.boolean(key).unwrap_or(false);
        if index.is_sparse() || (is_wanted("index.sparse") && is_wanted("core.sparseCheckout")) {
            return Err(GitError::SparseIndex);
        }
        self.refuse_encodings(&index)
    }

    /// The file of the index.
    pub fn index_path(&self) -> PathBuf {
        self.gix.index_path()
    }
}

/// Collects the files below a folder that can be refs: no locks, and nothing whose name starts with a dot.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        entries => entries.at("reading", folder)?,
    };
    for entry in entries {
        let entry = entry.at("reading", folder)?;
        let path = entry.path();
        if entry.file_type().at("reading", folder)?.is_dir() {
            collect_files(&path, files)?;
        } else if !entry.file_name().as_encoded_bytes().starts_with(b".") && path.extension() != Some("lock".as_ref()) {
            files.push(path);
        }
    }
    Ok(())
}
