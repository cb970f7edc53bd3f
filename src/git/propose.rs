//! The working tree as a tree: what a commit of everything would hold, without touching index or refs.

use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::index::State;
use gix::index::entry::Mode;

use super::error::During;
use super::index::{Edits, apply, version_at};
use super::lock::IndexLock;
use super::path::{refused_part, to_git, to_path};
use super::tree_diff::TreeChange;
use super::untracked::Since;
use super::worktree::{MAX_FILE_SIZE, OnDisk};
use super::{Repo, Result, Untracked, attributes, cache_tree, scan};
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

/// What a tree has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A symbolic link.
    Link,
    /// The commit of a repository of its own: a submodule.
    Repository,
}

impl EntryKind {
    fn of(mode: Mode) -> EntryKind {
        match mode {
            Mode::SYMLINK => EntryKind::Link,
            Mode::COMMIT => EntryKind::Repository,
            _ => EntryKind::File,
        }
    }
}

/// One file that differs from the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The file, relative to the working tree.
    pub path: PathBuf,
    /// How it differs.
    pub kind: ChangeKind,
    /// What it is now; what it was, when it is deleted.
    pub entry: EntryKind,
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

/// Something in the working tree that no commit can hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// What it is: a folder with all in it, or one file, relative to the working tree.
    pub path: PathBuf,
    /// Why.
    pub why: WhyLeftOut,
}

/// Why no commit can hold something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyLeftOut {
    /// It is a repository of its own: a commit would name one of its commits and hold none of its files.
    Repository,
    /// Git refuses to check out a path of that name.
    Path,
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
    left_out: Vec<LeftOut>,
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

    /// What is new and no commit can hold, sorted by path; the tree has nothing of it.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
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
    /// Ignored files stay out, and so does what no commit can hold ([`Proposal::left_out`]), and unless `base` tracks them, untracked files that `known`
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
        let (mut taken, mut left_out) = (Taken::default(), Vec::new());
        if cache_tree::root(&index) != Some(base_tree) {
            for entry in index.entries() {
                let path = entry.path(&index);
                if let Some(part) = refused_part(path, entry.mode == Mode::SYMLINK)
                    && self.version_in(base_tree, path)?.is_none()
                {
                    taken.edits.remove.insert(path.to_owned());
                    left_out.push(LeftOut { path: to_path(part), why: WhyLeftOut::Path });
                }
            }
        }
        for path in &scan.untracked {
            let native = to_path(path.as_ref());
            if let Some(part) = self.refused_on_disk(path.as_ref()) {
                if known.get(&native).is_none() {
                    left_out.push(LeftOut { path: to_path(part), why: WhyLeftOut::Path });
                }
                continue;
            }
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
        let is_new = |path: &&BString| known.get(&to_path(path.as_bstr())).is_none();
        let nested = scan.nested.iter().filter(is_new).map(|path| (to_path(path.as_bstr()), WhyLeftOut::Repository));
        left_out.extend(nested.map(|(path, why)| LeftOut { path, why }));
        let (mut edits, mut paths) = (Edits::default(), Vec::new());
        for change in self.changed_paths(base_tree, tree)? {
            let path = to_git(&change.path)?;
            let unfit = unfit(&change, path.as_bstr());
            if unfit.is_none() && change.size <= MAX_FILE_SIZE {
                paths.push(change);
                continue;
            }
            self.leave_out(path, base_tree, &mut edits)?;
            match unfit {
                // To stage everything makes nobody's repository part of a change.
                Some(unfit) => left_out.extend(Some(unfit).filter(|unfit| known.get(&unfit.path).is_none())),
                None => too_large.push(TooLarge { path: change.path, size: change.size }),
            }
        }
        if !(edits.set.is_empty() && edits.remove.is_empty()) {
            fresh.retain(|path| !edits.set.contains_key(path));
            apply(&mut index, edits);
            tree = self.write_tree(&mut index, &mut written)?;
        }
        too_large.sort();
        left_out.sort();
        left_out.dedup();
        // Somebody may have staged or committed some of it, and git syncs no such object by itself.
        written.extend(self.new_objects(base_tree, tree)?);
        Ok(Proposal { tree, written, index, fresh, base_tree, paths, too_large, left_out })
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
                    written.push(self.write_blob(&content.blob, "writing a file to the repository")?);
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

    /// The part of an untracked path that git refuses to check out; a link counts by its name too.
    fn refused_on_disk<'a>(&self, path: &'a BStr) -> Option<&'a BStr> {
        let is_link = || self.worktree().join(to_path(path)).is_symlink();
        refused_part(path, false).or_else(|| refused_part(path, true).filter(|_| is_link()))
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
            let entry = new.or(old).map_or(EntryKind::File, |(mode, _)| EntryKind::of(mode));
            paths.push(ChangedPath { path: to_path(path.as_ref()), kind: scan::kind(old, new), entry, size });
        }
        Ok(paths)
    }
}

/// Why no commit can hold what a change has at a path, if that is so. A submodule that was there stays one.
fn unfit(change: &ChangedPath, path: &BStr) -> Option<LeftOut> {
    if change.kind == ChangeKind::Deleted {
        return None;
    }
    if let Some(part) = refused_part(path, change.entry == EntryKind::Link) {
        return Some(LeftOut { path: to_path(part), why: WhyLeftOut::Path });
    }
    let is_new = change.entry == EntryKind::Repository && change.kind != ChangeKind::Modified;
    is_new.then(|| LeftOut { path: change.path.clone(), why: WhyLeftOut::Repository })
}
