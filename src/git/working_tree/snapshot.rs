//! The working tree as a commit of everything would hold it, without touching index or refs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::index::entry::{Mode, Stat};

use super::{MAX_FILE_SIZE, OnDisk, Since, TreeFiles, TreeStamps, walk};
use crate::crash;
use crate::domain::{CommitId, DiffStat};
use crate::fs::Unsynced;
use crate::git::{
    ChangeKind, ChangedPath, During, Edits, EntryKind, GitError, Result, Sides, Staged, TreeChange, Untracked, Version,
    WorkingTree, commit_id, object_id, refused_part, sync, to_git, to_path,
};

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
    /// Its path, relative to the working tree: a folder with everything in it, or one file.
    pub path: PathBuf,
    /// The reason.
    pub why: WhyLeftOut,
}

/// The reason that no commit can hold something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyLeftOut {
    /// It is a repository of its own: a commit would name one of its commits and hold none of its files.
    Repository,
    /// Git refuses to check out a path of that name.
    Path,
    /// Its attributes ask for an encoding in which files would be checked out damaged.
    Encoding,
    /// Its attributes ask for a filter that fails.
    Attributes,
    /// Its filter fails.
    Filter,
    /// The user may not read it.
    Unreadable,
}

/// The content of a possible commit of the working tree.
#[derive(Debug)]
pub struct Proposal {
    tree: ObjectId,
    written: Vec<ObjectId>,
    index: Staged,
    fresh: Vec<BString>,
    /// The stamps of the files that `index` has.
    stamps: TreeStamps,
    base_tree: ObjectId,
    paths: Vec<ChangedPath>,
    too_large: Vec<TooLarge>,
    left_out: Vec<LeftOut>,
}

impl Proposal {
    /// The tree, as its full hexadecimal name.
    pub fn tree(&self) -> String {
        self.tree.to_string()
    }

    /// Returns whether it is the tree of the base.
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

    /// Returns the new entries that no commit can hold, sorted by path. The tree contains none of them.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }
}

/// A change while it is read from the working tree.
struct Taking<'a> {
    tree: &'a WorkingTree,
    index: &'a Staged,
    files: TreeFiles<'a>,
    /// The differences between the index and the base.
    staged: BTreeMap<BString, Sides>,
    taken: TakenChange,
}

/// A change, as far as the working tree has been read.
#[derive(Default)]
struct TakenChange {
    /// The changes that the index needs.
    edits: Edits,
    /// The change's version of each path at which it differs from the base.
    changed: BTreeMap<BString, Option<Version>>,
    written: Vec<ObjectId>,
    too_large: Vec<TooLarge>,
    /// Files whose filter fails, or that the user may not read.
    unreadable: Vec<LeftOut>,
}

impl WorkingTree {
    /// Takes the working tree as `git add -A` would, whatever `HEAD` and the index say now, and compares it with
    /// `base`. Staged changes are part of it. Submodules stay as the index has them.
    ///
    /// Leaves out ignored files, and entries that no commit can hold ([`Proposal::left_out`]). Unless `base` tracks
    /// them, also leaves out files that `known` has, if their content was not kept or is unchanged. A changed file with
    /// kept content is part of the change; [`WorkingTree::restore`] restores it. Changed files of more than 100 MiB are
    /// left out, even if staged or committed: [`Proposal::too_large`].
    ///
    /// Writes objects only: index and refs stay as they were.
    pub fn propose(&self, base: &CommitId, known: &Untracked) -> Result<Proposal> {
        self.propose_on(self.objects.tree_id(base)?, known)
    }

    /// The same on a tree.
    pub(in crate::git) fn propose_on(&self, base: ObjectId, known: &Untracked) -> Result<Proposal> {
        let mut index = self.index.own()?;
        let scan = walk(self, &index, true)?;
        let mut left_out = Vec::new();
        let staged = self.index.against(&index, base)?;
        let differing = staged.iter().filter(|(_, sides)| sides.tree != sides.index);
        let mut changed: BTreeMap<_, _> = differing.map(|(path, sides)| (path.clone(), sides.index)).collect();
        let mut edits = Edits::default();
        // The file contains whatever was staged or committed of it.
        if let Some(left) = changed.keys().find(|path| self.is_left_alone(path.as_ref())).cloned() {
            changed.remove(&left);
            let committed = self.objects.version_in(base, left.as_ref())?;
            edits.put(left, committed);
        }
        let found = changed.keys().chain(&scan.untracked).chain(&scan.suspects);
        let unusable = self.unusable_attributes(base, &index, found.collect(), &scan)?;
        let base_index;
        let files = match unusable.is_empty() {
            true => TreeFiles::to_read(self, &index)?,
            false => {
                base_index = self.objects.read(|gix| gix.index_from_tree(&base).during("reading a tree"))?;
                TreeFiles::by_index(self, &base_index)?
            }
        };
        let mut taking = Taking {
            tree: self,
            index: &index,
            files,
            taken: TakenChange { edits, changed, ..TakenChange::default() },
            staged,
        };
        for path in &scan.untracked {
            left_out.extend(taking.take_untracked(path, base, known)?);
        }
        for path in scan.suspects.iter().filter(|path| !self.is_left_alone(path.as_ref())) {
            taking.take(path)?;
        }
        for (path, why) in unusable {
            taking.leave_out(&path);
            left_out.push(LeftOut { path: to_path(path.as_ref()), why });
        }
        left_out.append(&mut taking.taken.unreadable);
        let is_new = |path: &&BString| known.get(&to_path(path.as_bstr())).is_none();
        let nested = scan.nested.iter().filter(is_new).map(|path| (to_path(path.as_bstr()), WhyLeftOut::Repository));
        left_out.extend(nested.map(|(path, why)| LeftOut { path, why }));
        let paths = taking.fitting(known, &mut left_out)?;
        let TakenChange { edits, changed, mut written, mut too_large, .. } = taking.done();
        let tree = match changed.is_empty() {
            true => base,
            false => self.objects.edited_tree(base, changed.iter().map(|(path, new)| (path, *new)), &mut written)?,
        };
        // A process may have staged or committed some of it, and git syncs no such object by itself.
        let files = changed.values().flatten().filter(|(mode, _)| *mode != Mode::COMMIT);
        written.extend(files.map(|(_, id)| *id));
        let fresh: Vec<_> = edits.set.keys().cloned().collect();
        let stamps = TreeStamps::of(&index, &scan).without(&edits.remove);
        let stamps = self.with_stamps_of(stamps, fresh.iter().cloned())?;
        index.apply(edits, Some(tree));
        too_large.sort();
        left_out.sort();
        left_out.dedup();
        Ok(Proposal { tree, written, index, fresh, stamps, base_tree: base, paths, too_large, left_out })
    }

    /// Counts what a proposal changes, like [`crate::git::Diff::stat`].
    pub fn proposal_stat(&self, proposal: &Proposal) -> Result<DiffStat> {
        Ok(self.objects.diff_of_trees(proposal.base_tree, proposal.tree)?.stat())
    }

    /// Brings the index to the proposal's tree, so that `git status` has no change of a tracked file to show.
    /// Idempotent. Changes that were staged since the proposal was made are no longer staged, but stay in the working
    /// tree. Gives the stamps that the tracked files had when the proposal was made.
    pub fn adopt_index(&self, proposal: Proposal) -> Result<TreeStamps> {
        self.index.write(&self.index.lock()?, proposal.index, &proposal.fresh)?;
        Ok(proposal.stamps)
    }

    /// Commits a proposal on `parent`; refs and index are as before. The message is taken as it is, with a line break
    /// at its end. Hooks do not run; the commit is signed where `commit.gpgSign` asks for it. When this returns, the
    /// commit is on disk with all that belongs to it.
    pub fn commit(&self, proposal: &Proposal, parent: &CommitId, message: &str) -> Result<CommitId> {
        let (commit, unsynced) = self.commit_unsynced(proposal, parent, message)?;
        sync::now(unsynced)?;
        Ok(commit)
    }

    /// Does the same, and gives what is to be synced before anything leads to the commit.
    pub fn commit_unsynced(
        &self,
        proposal: &Proposal,
        parent: &CommitId,
        message: &str,
    ) -> Result<(CommitId, Unsynced)> {
        let id = self.objects.write_commit(proposal.tree, vec![object_id(parent)?], message, true)?;
        crash::point("git.commit_unsynced");
        let commit = commit_id(id);
        let unsynced = self.unsynced_commit(proposal, &commit)?;
        Ok((commit, unsynced))
    }

    /// Returns what to sync before anything leads to a commit of a proposal that another process made.
    pub fn unsynced_commit(&self, proposal: &Proposal, commit: &CommitId) -> Result<Unsynced> {
        Ok(self.objects.unsynced(proposal.written.iter().copied().chain([object_id(commit)?])))
    }

    /// Commits a proposal without a parent. When this returns, the commit is on disk.
    pub(in crate::git) fn commit_root(&self, proposal: &Proposal, message: &str) -> Result<ObjectId> {
        let id = self.objects.write_commit(proposal.tree, Vec::new(), message, true)?;
        self.objects.sync(proposal.written.iter().copied().chain([id]))?;
        Ok(id)
    }

    /// The part of an untracked path that git refuses to check out; a link counts by its name too.
    fn refused_on_disk<'a>(&self, path: &'a BStr) -> Option<&'a BStr> {
        let is_link = || self.root.join(to_path(path)).is_symlink();
        refused_part(path, false).or_else(|| refused_part(path, true).filter(|_| is_link()))
    }
}

impl Taking<'_> {
    /// The change, when everything has been read.
    fn done(self) -> TakenChange {
        self.taken
    }

    /// Reads one path and notes what the index has to become there; its blob is written.
    fn take(&mut self, path: &BString) -> Result<()> {
        let staged = self.index.version_at(path.as_ref());
        let read = match self.files.read(path.as_ref(), self.index) {
            Err(GitError::Filter { path: native, .. }) => {
                self.leave_out(path);
                self.taken.unreadable.push(LeftOut { path: native, why: WhyLeftOut::Filter });
                return Ok(());
            }
            Err(error) if error.is_unreadable() => {
                self.leave_out(path);
                let native = to_path(path.as_ref());
                self.taken.unreadable.push(LeftOut { path: native, why: WhyLeftOut::Unreadable });
                return Ok(());
            }
            read => read?,
        };
        match read {
            OnDisk::File(content) => {
                if staged.map(|(_, id)| id) != Some(content.version.1) {
                    self.taken
                        .written
                        .push(self.tree.objects.write_blob(&content.blob, "writing a file to the repository")?);
                }
                self.set(path, content.version, content.stat);
            }
            OnDisk::Large(large) => {
                let version = self.files.large_version(path.as_ref(), &large, self.index)?;
                if Some(version) == staged || Some(version) == self.in_base(path) {
                    self.set(path, version, large.stat);
                } else {
                    self.leave_out(path);
                    self.taken.too_large.push(TooLarge { path: to_path(path.as_ref()), size: large.size });
                }
            }
            OnDisk::Absent | OnDisk::Other if staged.is_some_and(|(mode, _)| mode == Mode::COMMIT) => {}
            OnDisk::Absent | OnDisk::Other => self.remove(path),
        }
        Ok(())
    }

    /// Takes an untracked file if it is part of the change. Returns what git would refuse to check out of it, if that is new.
    fn take_untracked(&mut self, path: &BString, base: ObjectId, known: &Untracked) -> Result<Option<LeftOut>> {
        let native = to_path(path.as_ref());
        if let Some(part) = self.tree.refused_on_disk(path.as_ref()) {
            let is_new = known.get(&native).is_none();
            return Ok(is_new.then(|| LeftOut { path: to_path(part), why: WhyLeftOut::Path }));
        }
        let is_part = match self.tree.since(known, &native)? {
            Since::New => true,
            Since::Changed(original) => {
                self.taken.written.push(original);
                true
            }
            Since::Unchanged | Since::Unknown => self.tree.objects.version_in(base, path.as_ref())?.is_some(),
        };
        if is_part {
            self.take(path)?;
        }
        Ok(None)
    }

    /// Returns the base's version of a path: the index's, unless they differ.
    fn in_base(&self, path: &BString) -> Option<Version> {
        match self.staged.get(path) {
            Some(sides) => sides.tree,
            None => self.index.version_at(path.as_ref()),
        }
    }

    fn set(&mut self, path: &BString, version: Version, stat: Stat) {
        match self.in_base(path) == Some(version) {
            true => self.taken.changed.remove(path),
            false => self.taken.changed.insert(path.clone(), Some(version)),
        };
        self.taken.edits.remove.remove(path);
        self.taken.edits.set.insert(path.clone(), (version, stat));
    }

    fn remove(&mut self, path: &BString) {
        match self.in_base(path) {
            None => self.taken.changed.remove(path),
            Some(_) => self.taken.changed.insert(path.clone(), None),
        };
        self.taken.edits.set.remove(path);
        self.taken.edits.remove.insert(path.clone());
    }

    /// Has the index have what the base has at a path.
    fn leave_out(&mut self, path: &BString) {
        match self.in_base(path) {
            Some(version) => self.set(path, version, Stat::default()),
            None => self.remove(path),
        }
    }

    /// The files of the change that a commit can hold; leaves out the others.
    fn fitting(&mut self, known: &Untracked, left_out: &mut Vec<LeftOut>) -> Result<Vec<ChangedPath>> {
        let changes = self.taken.changed.iter().map(|(path, new)| TreeChange {
            path: path.clone(),
            old: self.in_base(path),
            new: *new,
        });
        let mut paths = Vec::new();
        for change in self.tree.objects.changed_paths(&changes.collect::<Vec<_>>())? {
            let path = to_git(&change.path)?;
            let unfit = unfit(&change, path.as_bstr());
            if unfit.is_none() && change.size <= MAX_FILE_SIZE {
                paths.push(change);
                continue;
            }
            self.leave_out(&path);
            let is_staged = self.staged.get(&path).is_some_and(|sides| sides.index.is_some());
            match unfit {
                Some(unfit) if unfit.why == WhyLeftOut::Path && is_staged => left_out.push(unfit),
                // To stage everything makes nobody's repository part of a change.
                Some(unfit) => left_out.extend(Some(unfit).filter(|unfit| known.get(&unfit.path).is_none())),
                None => self.taken.too_large.push(TooLarge { path: change.path, size: change.size }),
            }
        }
        Ok(paths)
    }
}

/// Returns the reason that no commit can hold a change's entry at a path, if there is one. An earlier submodule stays
/// one.
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
