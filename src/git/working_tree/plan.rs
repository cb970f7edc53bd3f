//! The steps from the working tree to a commit: files to save, to remove and to write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::index::entry::{Mode, Stage, Stat};

use super::changes::Look;
use super::files::{Files, OnDisk};
use super::tree::WorkingTree;
use super::untracked::{Since, Untracked};
use super::walk::walk;
use crate::fs::{absent, in_writable_folder};
use crate::git::error::{At, During, GitError, Result};
use crate::git::index::{Edits, Staged};
use crate::git::objects::{TreeChange, Version};
use crate::git::path::{lstat, to_git, to_path};

/// All that is to be done to get from what is there to a tree.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Uncommitted content of the working tree by path; nothing for a file that somebody deleted.
    pub(super) save: BTreeMap<BString, Option<Version>>,
    /// Uncommitted content of the index that is not in the working tree either.
    pub(super) save_staged: BTreeMap<BString, Version>,
    /// Blobs that were written for what is to be saved.
    pub(super) written: Vec<ObjectId>,
    /// Files to remove from the working tree.
    pub(super) remove: BTreeSet<BString>,
    /// Folders to remove with all the files in them, which are all saved.
    pub(super) clear: BTreeSet<BString>,
    /// Files that were there untracked before, to be put back where they are gone.
    pub(super) restore: BTreeSet<BString>,
    /// Files to write.
    pub(super) write: BTreeMap<BString, Version>,
    /// Files that hold what they should as git would store it, but perhaps not byte for byte.
    pub(super) verify: BTreeMap<BString, Version>,
    /// The changes that the index needs for paths that are not written.
    pub(super) edits: Edits,
}

/// The versions of one path: in the expected tree, in the target tree and in the index.
#[derive(Debug, Clone, Copy)]
struct Known {
    expected: Option<Version>,
    target: Option<Version>,
    staged: Option<Version>,
}

impl Plan {
    /// Plans the way from the working tree and `index` to the tree `target`. Content that is neither in `expected` nor
    /// in `target` at its path is to be saved; content that is there is in a commit already. The blobs of what is to be
    /// saved are written. Files of `before` were untracked and stay so, as they were.
    ///
    /// A `look` spares the walk over the working tree: of the files that are to change it is not believed.
    pub(super) fn new(
        tree: &WorkingTree,
        staged: &Staged,
        (expected, target): (ObjectId, ObjectId),
        before: &Untracked,
        look: Option<&Look>,
    ) -> Result<Plan> {
        let mut suspects: BTreeSet<BString> = match look {
            Some(look) => look.scan.suspects.iter().cloned().collect(),
            None => walk(tree, staged, false)?.suspects.into_iter().collect(),
        };
        let mut known = BTreeMap::new();
        for path in &suspects {
            let known_as = staged.version_at(path.as_ref());
            known.insert(path.clone(), Known { expected: known_as, target: known_as, staged: known_as });
        }
        for (path, sides) in tree.index.against(staged, expected)? {
            known.insert(path, Known { expected: sides.tree, target: sides.tree, staged: sides.index });
        }
        for TreeChange { path, old: expected, new: target } in tree.objects.tree_changes(expected, target)? {
            let known_as = known.get(&path).map_or(expected, |known: &Known| known.staged);
            if look.is_some() {
                suspects.insert(path.clone());
            }
            known.insert(path, Known { expected, target, staged: known_as });
        }
        let mut files = Files::to_read(tree, staged)?;
        let mut left = Edits::default();
        // A file that is left alone still moves with the commits if it equals the index.
        if let Some(path) = suspects.iter().find(|path| tree.is_left_alone(path.as_ref()))
            && let Some(Known { target, staged: in_index, .. }) = known.get(path).copied()
            && files.version(path.as_ref(), staged)? != in_index
        {
            known.remove(path);
            left.put(path.clone(), target);
        }
        let compare = tree.gix.stat_options().during("reading the configuration")?;
        let mut planner =
            Planner { tree, index: staged, files, compare, before, plan: Plan { edits: left, ..Plan::default() } };
        for (path, known) in &known {
            planner.path(path, known, suspects.contains(path))?;
        }
        planner.in_the_way()?;
        Ok(planner.plan)
    }
}

struct Planner<'repo> {
    tree: &'repo WorkingTree,
    index: &'repo Staged,
    files: Files<'repo>,
    compare: gix::index::entry::stat::Options,
    before: &'repo Untracked,
    plan: Plan,
}

impl Planner<'_> {
    fn path(&mut self, path: &BString, known: &Known, suspect: bool) -> Result<()> {
        let Known { expected, target, staged } = *known;
        let in_index = self.index.entry_range(path.as_ref()).is_some();
        let submodule = |version: Option<Version>| version.is_some_and(|(mode, _)| mode == Mode::COMMIT);
        if submodule(target) || submodule(staged) {
            return self.submodule(path, target, staged);
        }
        if target.is_none() && (in_index || expected.is_some()) && self.was_untracked(path, in_index)? {
            return Ok(());
        }
        let entry = self.index.entry_by_path_and_stage(path.as_ref(), Stage::Unconflicted);
        let skipped = entry.is_some_and(|entry| entry.flags.contains(gix::index::entry::Flags::SKIP_WORKTREE));
        // An entry is right about its file unless the file is suspect.
        let is_right = skipped || (staged.is_some() && !suspect);
        let file = if is_right { OnDisk::Absent } else { self.files.read_somehow(path.as_ref(), self.index)? };
        let (current, stat) = match &file {
            _ if is_right => (staged, None),
            OnDisk::File(content) => (Some(content.version), Some(content.stat)),
            OnDisk::Large(large) => {
                (Some(self.files.large_version(path.as_ref(), large, self.index)?), Some(large.stat))
            }
            OnDisk::Absent | OnDisk::Other => (None, None),
        };
        let committed = |version: Option<Version>| version == expected || version == target;
        let untracked = !in_index && target.is_none();
        if !committed(current) && !untracked {
            let kept = self.keep(path, &file)?.or(current);
            self.plan.save.insert(path.clone(), kept);
        }
        if let Some(version) = staged
            && !committed(staged)
            && staged != current
        {
            self.plan.save_staged.insert(path.clone(), version);
        }
        match target {
            None => {
                if in_index {
                    self.plan.edits.remove.insert(path.clone());
                }
                if current.is_some() && !skipped && (in_index || current == expected) {
                    self.plan.remove.insert(path.clone());
                }
            }
            Some(version) if skipped => {
                self.plan.edits.set.insert(path.clone(), (version, Stat::default()));
            }
            Some(version) if current != target => {
                self.plan.write.insert(path.clone(), version);
            }
            Some(version) => {
                if let Some(stat) = stat {
                    self.plan.edits.set.insert(path.clone(), (version, stat));
                    // An entry that is merely too young to be trusted is not written again by git either.
                    if entry.is_some_and(|entry| !entry.stat.matches(&stat, self.compare)) {
                        self.plan.verify.insert(path.clone(), version);
                    }
                }
            }
        }
        Ok(())
    }

    /// Plans for a file that was untracked before and is to be so again. True when it holds what it held then: only the
    /// index has to forget it.
    fn was_untracked(&mut self, path: &BString, in_index: bool) -> Result<bool> {
        match self.tree.kept.since(self.before, &to_path(path.as_ref()))? {
            Since::New => return Ok(false),
            Since::Changed(_) | Since::Unknown => {
                self.plan.restore.insert(path.clone());
                return Ok(false);
            }
            Since::Unchanged => {}
        }
        if in_index {
            self.plan.edits.remove.insert(path.clone());
        }
        Ok(true)
    }

    /// A submodule's files are its own; only its entry follows the target.
    fn submodule(&mut self, path: &BString, target: Option<Version>, staged: Option<Version>) -> Result<()> {
        match target {
            Some(version) if version.0 == Mode::COMMIT => {
                if lstat(&self.tree.root, path.as_ref())?.is_none_or(|meta| !meta.is_dir()) {
                    self.plan.write.insert(path.clone(), version);
                } else if staged != target {
                    self.plan.edits.set.insert(path.clone(), (version, Stat::default()));
                }
            }
            Some(version) => {
                self.plan.write.insert(path.clone(), version);
            }
            None => {
                self.plan.edits.remove.insert(path.clone());
            }
        }
        Ok(())
    }

    /// Finds what stands where a file has to be written and is not tracked: files and links in place of folders, and
    /// folders in place of files.
    fn in_the_way(&mut self) -> Result<()> {
        let writes: Vec<BString> = self.plan.write.keys().cloned().collect();
        let mut looked_at = BTreeSet::new();
        for path in writes {
            for (slash, _) in path.bytes().enumerate().filter(|(_, byte)| *byte == b'/') {
                let parent = BString::from(&path[..slash]);
                if looked_at.insert(parent.clone()) && self.index.entry_range(parent.as_ref()).is_none() {
                    self.save_untracked(&parent)?;
                }
            }
            if lstat(&self.tree.root, path.as_ref())?.is_some_and(|meta| meta.is_dir()) {
                let submodule = self.plan.write.get(&path).is_some_and(|(mode, _)| *mode == Mode::COMMIT);
                if !submodule {
                    self.save_folder(&to_path(path.as_ref()))?;
                    self.plan.clear.insert(path);
                }
            }
        }
        Ok(())
    }

    /// Saves all untracked files of a folder. A repository in it is more than its files: it is not cleared away.
    fn save_folder(&mut self, folder: &Path) -> Result<()> {
        let full = self.tree.root.join(folder);
        for entry in fs::read_dir(&full).at("reading", &full)? {
            let entry = entry.at("reading", &full)?;
            let path: PathBuf = folder.join(entry.file_name());
            if entry.file_name() == ".git" {
                return Err(GitError::RepositoryInTheWay(folder.to_owned()));
            }
            if entry.file_type().at("reading", &full)?.is_dir() {
                self.save_folder(&path)?;
                continue;
            }
            let path = to_git(&path)?;
            if self.index.entry_range(path.as_ref()).is_none() {
                self.save_untracked(&path)?;
                self.plan.remove.insert(path);
            }
        }
        Ok(())
    }

    fn save_untracked(&mut self, path: &BString) -> Result<()> {
        let file = self.files.read_somehow(path.as_ref(), self.index)?;
        if let Some(version) = self.keep(path, &file)? {
            self.plan.save.insert(path.clone(), Some(version));
        }
        Ok(())
    }

    /// Writes the content of a file to the repository; nothing if there is no file.
    fn keep(&mut self, path: &BString, file: &OnDisk) -> Result<Option<Version>> {
        let (version, id) = match file {
            OnDisk::File(content) => (content.version, self.tree.objects.write_blob(&content.blob, "saving a file")?),
            OnDisk::Large(large) => {
                let version = self.files.store_large(path.as_ref(), large)?;
                (version, version.1)
            }
            OnDisk::Absent | OnDisk::Other => return Ok(None),
        };
        self.plan.written.push(id);
        Ok(Some(version))
    }
}

/// Removes a file and the folders that it leaves empty.
pub(super) fn remove_file(root: &Path, path: &BString) -> Result<()> {
    let native = to_path(path.as_ref());
    let full = root.join(&native);
    if lstat(root, path.as_ref())?.is_some_and(|meta| !meta.is_dir()) {
        match in_writable_folder(&full, || fs::remove_file(&full)) {
            Err(err) if absent(&err) => {}
            removed => removed.at("removing", &full)?,
        }
    }
    for dir in native.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
        // A parent that is a link or gone is none of ours; one that is not empty ends it.
        let relative = to_git(dir)?;
        match lstat(root, relative.as_ref())? {
            Some(meta) if meta.is_dir() => {}
            Some(_) => break,
            None => continue,
        }
        let full = root.join(dir);
        if in_writable_folder(&full, || fs::remove_dir(&full)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Removes a folder that holds only folders.
pub(super) fn remove_empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).at("reading", folder)? {
        let entry = entry.at("reading", folder)?;
        if entry.file_type().at("reading", folder)?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    in_writable_folder(folder, || fs::remove_dir(folder)).at("removing", folder)
}
