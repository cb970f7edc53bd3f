//! The working tree as a tree: what a commit of everything would hold, without touching index or refs.

use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::index::State;
use gix::index::entry::Mode;

use super::error::During;
use super::index::{Edits, apply, version_at};
use super::lock::IndexLock;
use super::path::{to_git, to_path};
use super::tree_diff::TreeChange;
use super::untracked::Since;
use super::worktree::{MAX_FILE_SIZE, OnDisk};
use super::{Repo, Result, Untracked, attributes, scan};
use crate::domain::CommitId;

/// How a file differs from what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or its executable bit changed.
    Modified,
    /// It was a file and is a symbolic link, or the like.
    TypeChanged,
}

/// One file that differs from the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The file, relative to the working tree.
    pub path: PathBuf,
    /// How it differs.
    pub kind: ChangeKind,
    /// The size of its new content in git, in bytes; 0 when it is deleted.
    pub size: u64,
}

/// A file that is too large to become part of a commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TooLarge {
    /// The file, relative to the working tree.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// What a commit of the working tree would hold.
pub struct Proposal {
    pub(super) tree: ObjectId,
    pub(super) written: Vec<ObjectId>,
    index: State,
    fresh: Vec<BString>,
    base_tree: ObjectId,
    paths: Vec<ChangedPath>,
    too_large: Vec<TooLarge>,
}

impl std::fmt::Debug for Proposal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposal").field("tree", &self.tree).field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Proposal {
    /// The tree, as its full hexadecimal name.
    pub fn tree(&self) -> String {
        self.tree.to_string()
    }

    /// Whether it is the tree of the base.
    pub fn is_empty(&self) -> bool {
        self.tree == self.base_tree
    }

    /// The files that differ from the base, sorted by path; a renamed one is deleted here and added there.
    pub fn paths(&self) -> &[ChangedPath] {
        &self.paths
    }

    /// The changed files of more than 100 MiB, sorted by path. The tree has what the base has at these paths, or
    /// nothing; in the working tree they are as they were.
    pub fn too_large(&self) -> &[TooLarge] {
        &self.too_large
    }
}

/// What the index has to become, as far as the working tree has been looked at.
#[derive(Default)]
struct Taken {
    edits: Edits,
    written: Vec<ObjectId>,
    too_large: Vec<TooLarge>,
}

impl Repo {
    /// Takes the working tree as `git add -A` would, whatever `HEAD` and the index say now, and compares it to `base`.
    ///
    /// Ignored files stay out, and so do nested repositories, and unless `base` tracks them, untracked files that `known`
    /// has: all whose content is not kept, and those that hold what they held. One that changed and whose content is
    /// kept is part of the change; [`Repo::restore`] puts it back as it was. What is staged is part of it. Submodules stay as the index has them. Objects are written, nothing else is: index and
    /// refs are as before. Changed files of more than 100 MiB are left out, also where somebody staged or committed them:
    /// [`Proposal::too_large`].
    pub fn propose(&self, base: &CommitId, known: &Untracked) -> Result<Proposal> {
        self.propose_on(self.tree_id(base)?, known)
    }

    pub(super) fn propose_on(&self, base_tree: ObjectId, known: &Untracked) -> Result<Proposal> {
        let mut index = self.own_index()?;
        let scan = self.scan(&index, true)?;
        let mut files = self.files(&index)?;
        let mut taken = Taken::default();
        for path in &scan.untracked {
            let native = to_path(path.as_ref());
            let part = match self.since(known, &native)? {
                Since::New => true,
                Since::Changed(original) => {
                    taken.written.push(original);
                    true
                }
                Since::Unchanged | Since::Unknown => self.version_in(base_tree, path.as_ref())?.is_some(),
            };
            if part {
                self.take(path, base_tree, &index, &mut files, &mut taken)?;
            }
        }
        for path in &scan.suspects {
            self.take(path, base_tree, &index, &mut files, &mut taken)?;
        }
        drop(files);
        let Taken { edits, mut written, mut too_large } = taken;
        for path in edits.set.keys().filter(|path| attributes::is_attributes(path.as_bstr())) {
            self.refuse_encoding_in(&to_path(path.as_ref()))?;
        }
        let mut fresh: Vec<BString> = edits.set.keys().cloned().collect();
        apply(&mut index, edits);
        let mut tree = self.write_tree(&mut index, &mut written)?;
        let mut paths = self.changed_paths(base_tree, tree)?;
        let (committed, fitting) = paths.into_iter().partition(|change| change.size > MAX_FILE_SIZE);
        paths = fitting;
        if !committed.is_empty() {
            let mut edits = Edits::default();
            for ChangedPath { path, size, .. } in committed {
                self.leave_out(to_git(&path)?, base_tree, &mut edits)?;
                too_large.push(TooLarge { path, size });
            }
            fresh.retain(|path| !edits.set.contains_key(path));
            apply(&mut index, edits);
            tree = self.write_tree(&mut index, &mut written)?;
        }
        too_large.sort();
        // Somebody may have staged or committed some of it, and git syncs no such object by itself.
        written.extend(self.new_objects(base_tree, tree)?);
        Ok(Proposal { tree, written, index, fresh, base_tree, paths, too_large })
    }

    /// Brings the index to the proposal's tree, so that `git status` has no change of a tracked file to show.
    /// Idempotent. What was staged since the proposal was made is no longer staged, and still in the working tree.
    pub fn adopt_index(&self, proposal: Proposal) -> Result<()> {
        let lock = IndexLock::acquire(&self.gix.index_path())?;
        self.write_index(&lock, proposal.index, &proposal.fresh)
    }

    /// Reads one path and notes what the index has to become there; its blob is written.
    fn take(
        &self,
        path: &BString,
        base_tree: ObjectId,
        index: &State,
        files: &mut super::worktree::Files<'_>,
        Taken { edits, written, too_large }: &mut Taken,
    ) -> Result<()> {
        let staged = version_at(index, path.as_ref());
        match files.read(path.as_ref(), index)? {
            OnDisk::File(content) => {
                if staged.map(|(_, id)| id) != Some(content.version.1) {
                    written
                        .push(self.gix.write_blob(&content.blob).during("writing a file to the repository")?.detach());
                }
                edits.set.insert(path.clone(), (content.version, content.stat));
            }
            OnDisk::Large(large) => {
                let version = files.large_version(path.as_ref(), &large, index)?;
                if Some(version) == staged || Some(version) == self.version_in(base_tree, path.as_ref())? {
                    edits.set.insert(path.clone(), (version, large.stat));
                } else {
                    self.leave_out(path.clone(), base_tree, edits)?;
                    too_large.push(TooLarge { path: to_path(path.as_ref()), size: large.size });
                }
            }
            OnDisk::Absent | OnDisk::Other if staged.is_some_and(|(mode, _)| mode == Mode::COMMIT) => {}
            OnDisk::Absent | OnDisk::Other => {
                edits.remove.insert(path.clone());
            }
        }
        Ok(())
    }

    /// Has the index have what the base has at a path.
    fn leave_out(&self, path: BString, base_tree: ObjectId, edits: &mut Edits) -> Result<()> {
        match self.version_in(base_tree, path.as_ref())? {
            Some(version) => {
                edits.set.insert(path, (version, Default::default()));
            }
            None => {
                edits.remove.insert(path);
            }
        }
        Ok(())
    }

    /// The files that differ from `a` to `b`, sorted by path; a renamed one is deleted and added.
    pub fn changed_between(&self, a: &CommitId, b: &CommitId) -> Result<Vec<ChangedPath>> {
        self.changed_paths(self.tree_id(a)?, self.tree_id(b)?)
    }

    /// The same for whoever reads a proposal.
    fn changed_paths(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ChangedPath>> {
        let mut paths = Vec::new();
        for &TreeChange { ref path, old, new } in self.tree_changes(old, new)?.iter() {
            let size = match new {
                Some((mode, id)) if mode != Mode::COMMIT => self.gix.find_header(id).during("reading a file")?.size(),
                _ => 0,
            };
            paths.push(ChangedPath { path: to_path(path.as_ref()), kind: scan::kind(old, new), size });
        }
        Ok(paths)
    }
}
