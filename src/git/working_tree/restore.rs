//! Putting index and working tree back to a commit: the steps to it, each change saved before anything is cleared away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::index::entry::{Mode, Stage, Stat};
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::{OnDisk, Since, TreeFiles, walk};
use crate::crash;
use crate::domain::CommitId;
use crate::fs::{if_there, in_writable_folder};
use crate::git::{
    At, During, Edits, GitError, Header, Result, Staged, TreeChange, Untracked, Version, WorkingTree, WorktreeSnapshot,
    commit_id, full_name, lstat, object_id, parse_id, to_git, to_path,
};

/// The most tries to save changes that continue while they are saved.
const SAVES: u32 = 5;

/// The place and message for uncommitted changes that are saved.
#[derive(Debug, Clone)]
pub struct SaveAs {
    /// The folder of the refs: the changes go to `00000` and on below it.
    pub folder: String,
    /// The commit that the working tree should be at: what differs from it is a change.
    pub expected: CommitId,
    /// The message of the commit that holds the changes, one line.
    pub subject: String,
}

/// The place where uncommitted changes were saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The ref of a commit on the expected one, with the changes as they were in the working tree. Its second parent,
    /// if any, holds other content that was staged.
    pub reference: String,
    /// The files, relative to the working tree, sorted.
    pub paths: Vec<PathBuf>,
}

/// The outcome of restoring the working tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// The uncommitted changes that had to be cleared away, where there were any.
    pub saved: Option<Saved>,
}

impl WorkingTree {
    /// Puts index and tracked files back to `target`, as `git reset --hard` would; `HEAD` and branches stay where they
    /// are.
    ///
    /// Before anything is changed, what is uncommitted and stands in the way is saved as [`WorkingTree::save`] does. Content
    /// that `save.expected` or `target` has at its path is committed. Untracked files stay, unless they are files of
    /// the expected commit, unchanged. Files are replaced, not written into, and nothing is written through a link.
    /// Running it again after it was killed ends in the same state.
    ///
    /// Files that `known` has were there untracked before the change that is undone: those that still hold what they
    /// held stay, also where the index or the expected commit has them and `target` does not; those that hold something
    /// else are put back as they were, untracked, where their content is kept.
    ///
    /// A file of more than 100 MiB is saved in constant memory, its bytes as they are: no filter is applied to it. Only
    /// a file that `target` itself has in such a size is held in memory, to be written.
    ///
    /// A nested repository where a file must go is left alone: [`crate::git::GitError::RepositoryInTheWay`].
    pub fn restore(&self, target: &CommitId, save: &SaveAs, known: &Untracked) -> Result<Restored> {
        self.restore_after(None, target, save, known)
    }

    /// Does the same after a look at the working tree, which is not walked over again: nobody may have been at work since.
    pub fn restore_after(
        &self,
        look: Option<&WorktreeSnapshot>,
        target: &CommitId,
        save: &SaveAs,
        known: &Untracked,
    ) -> Result<Restored> {
        let (expected_tree, target_tree) = (self.objects.tree_id(&save.expected)?, self.objects.tree_id(target)?);
        let lock = self.index.lock()?;
        self.index.sweep(&lock)?;
        let mut staged = self.index.own()?;
        let plan = || RestorePlan::new(self, &staged, (expected_tree, target_tree), known, look);
        let (mut plan, saved) = self.plan_and_save(plan, save)?;
        crash::point("git.restore_planned");

        for path in plan.remove.iter().rev() {
            remove_file(&self.root, path)?;
            crash::point("git.file_removed");
        }
        for path in &plan.clear {
            let folder = self.root.join(to_path(path.as_ref()));
            if folder.is_dir() {
                remove_empty(&folder)?;
            }
        }
        let writes = std::mem::take(&mut plan.write);
        for (path, version) in &writes {
            plan.edits.set.insert(path.clone(), (*version, Default::default()));
        }
        staged.apply(plan.edits, None);
        let mut files = TreeFiles::to_write(self, &staged)?;
        let mut written = Edits::default();
        // A filter may be a program that has to be put back itself.
        let (mut filtered, mut unfiltered) = (Vec::new(), Vec::new());
        for (path, version) in writes {
            if files.has_filter(path.as_ref())? { &mut filtered } else { &mut unfiltered }.push((path, version));
        }
        for (path, version) in unfiltered.into_iter().chain(filtered) {
            let stat = files.write(path.as_ref(), version)?;
            crash::point("git.file_put_back");
            written.set.insert(path, (version, stat));
        }
        for (path, version) in plan.verify {
            let OnDisk::File(content) = files.read_somehow(path.as_ref(), &staged)? else { continue };
            let is_as_written = match files.as_checked_out(&content, path.as_bstr()) {
                // Written anew it would be no other.
                Err(GitError::Filter { .. }) => true,
                checked => checked?,
            };
            if content.version == version && !is_as_written {
                let stat = files.write(path.as_ref(), version)?;
                written.set.insert(path, (version, stat));
            }
        }
        drop(files);
        for path in &plan.restore {
            self.put_back(known, &to_path(path.as_ref()))?;
        }
        crash::point("git.files_put_back");
        let fresh: Vec<BString> = written.set.keys().cloned().collect();
        staged.apply(written, Some(target_tree));
        self.index.write(&lock, staged, &fresh)?;
        Ok(Restored { saved })
    }

    /// Makes a plan, and saves what it names until that no longer changes.
    fn plan_and_save(
        &self,
        make: impl Fn() -> Result<RestorePlan>,
        save: &SaveAs,
    ) -> Result<(RestorePlan, Option<Saved>)> {
        let mut plan = make()?;
        let mut saved = self.save_plan(&plan, save)?;
        for _ in 0..SAVES {
            if saved.is_none() {
                break;
            }
            // A person who edits a file beside the loop may have gone on while it was saved.
            let now = make()?;
            let is_saved = (&now.save, &now.save_staged) == (&plan.save, &plan.save_staged);
            plan = now;
            if is_saved {
                break;
            }
            saved = self.save_plan(&plan, save)?.or(saved);
        }
        Ok((plan, saved))
    }

    /// Makes the files that `is_meant` names of a checkout of `commit` those of `other`, and removes those that `other` does not
    /// have. The index stays as it is, and nothing is saved: this is for a working tree that is thrown away.
    pub fn take_over(&self, commit: &CommitId, other: &CommitId, is_meant: impl Fn(&Path) -> bool) -> Result<()> {
        let mut changes = self.objects.tree_changes(self.objects.tree_id(commit)?, self.objects.tree_id(other)?)?;
        changes.retain(|change| is_meant(&to_path(change.path.as_ref())));
        for change in &changes {
            remove_file(&self.root, &change.path)?;
        }
        let index = self.index.read()?;
        let mut files = TreeFiles::to_write(self, &index)?;
        for (path, version) in changes.iter().filter_map(|change| Some((&change.path, change.new?))) {
            files.write(path.as_ref(), version)?;
        }
        Ok(())
    }

    /// Saves every uncommitted change to a tracked file, and every untracked file or folder that stands where the
    /// expected commit has a file, under a ref of its own. Nothing when there is none. Index and working tree are as
    /// before.
    pub fn save(&self, save: &SaveAs) -> Result<Option<Saved>> {
        let expected = self.objects.tree_id(&save.expected)?;
        let plan = RestorePlan::new(self, &*self.index.read()?, (expected, expected), &Untracked::default(), None)?;
        self.save_plan(&plan, save)
    }

    pub(super) fn save_plan(&self, plan: &RestorePlan, save: &SaveAs) -> Result<Option<Saved>> {
        if plan.save.is_empty() && plan.save_staged.is_empty() {
            return Ok(None);
        }
        let mut paths: Vec<PathBuf> =
            plan.save.keys().chain(plan.save_staged.keys()).map(|path| to_path(path.as_ref())).collect();
        paths.sort();
        paths.dedup();
        let taken = self.refs.refs_under(&save.folder)?;
        // A save that was cut short after this point is found again, so that nothing is saved twice.
        if let Some((reference, id)) = taken.last()
            && self.holds(parse_id(id)?, plan, &save.expected)?
        {
            return Ok(Some(Saved { reference: reference.clone(), paths }));
        }
        let reference = next_reference(&save.folder, &taken);

        let base = object_id(&save.expected)?;
        let base_tree = self.objects.tree_id(&save.expected)?;
        let mut parents = vec![base];
        let mut written = plan.written.clone();
        if !plan.save_staged.is_empty() {
            let staged = plan.save_staged.iter().map(|(path, version)| (path, Some(*version)));
            let tree = self.objects.edited_tree(base_tree, staged, &mut written)?;
            let commit = self.objects.write_commit(tree, vec![base], &format!("{} (staged)", save.subject), false)?;
            written.push(commit);
            parents.push(commit);
        }
        let changes = plan.save.iter().map(|(path, version)| (path, *version));
        let tree = self.objects.edited_tree(base_tree, changes, &mut written)?;
        let commit = self.objects.write_commit(tree, parents, &save.subject, false)?;
        written.push(commit);
        self.objects.sync(written)?;
        crash::point("git.changes_written");
        self.create_saved(&reference, commit)?;
        Ok(Some(Saved { reference, paths }))
    }

    /// Keeps a commit reachable that nothing else names, and gives the ref, a new one in `folder`: a commit of this subject with
    /// the same tree on it, so that the ref's message is one line whatever the commit's own is. It gets the `header`, if there is
    /// one.
    pub fn save_commit(
        &self,
        folder: &str,
        subject: &str,
        commit: &CommitId,
        header: Option<Header<'_>>,
    ) -> Result<String> {
        let reference = next_reference(folder, &self.refs.refs_under(folder)?);
        let (tree, parents) = (self.objects.tree_id(commit)?, vec![object_id(commit)?]);
        let kept = self.objects.write_marked_commit(tree, parents, subject, header)?;
        self.objects.sync([kept])?;
        crash::point("git.kept_written");
        self.create_saved(&reference, kept)?;
        Ok(reference)
    }

    /// The newest ref in `folder`, if it keeps `commit` under this subject; for `or_equal` also one that keeps another commit with
    /// the same tree and parents. A ref that cannot be read keeps nothing.
    pub fn saved_before(
        &self,
        folder: &str,
        subject: &str,
        commit: &CommitId,
        or_equal: bool,
    ) -> Result<Option<String>> {
        let taken = self.refs.refs_under(folder)?;
        let Some((reference, id)) = taken.into_iter().next_back() else { return Ok(None) };
        let kept = commit_id(parse_id(&id)?);
        let is_kept = || -> Result<bool> {
            let parents = self.objects.parents(&kept)?;
            let Some(saved) = parents.first() else { return Ok(false) };
            if self.objects.tree_id(&kept)? != self.objects.tree_id(commit)? {
                return Ok(false);
            }
            match or_equal {
                true => Ok(self.objects.parents(saved)? == self.objects.parents(commit)?),
                false => Ok(saved == commit && self.objects.subject(&kept)? == subject),
            }
        };
        Ok(is_kept().unwrap_or_default().then_some(reference))
    }

    fn create_saved(&self, reference: &str, commit: ObjectId) -> Result<()> {
        let name = full_name(reference)?;
        self.refs.edit_refs([RefEdit::update(name, commit, PreviousValue::MustNotExist, "")])?;
        self.refs.sync_ref(reference)?;
        crash::point("git.saved");
        Ok(())
    }

    /// Returns whether a commit on `expected` contains everything to be saved.
    fn holds(&self, commit: ObjectId, plan: &RestorePlan, expected: &CommitId) -> Result<bool> {
        let commit = commit_id(commit);
        let parents = self.objects.parents(&commit)?;
        if parents.first() != Some(expected) {
            return Ok(false);
        }
        let tree = self.objects.tree_id(&commit)?;
        for (path, version) in &plan.save {
            if self.objects.version_in(tree, path.as_ref())? != *version {
                return Ok(false);
            }
        }
        if plan.save_staged.is_empty() {
            return Ok(true);
        }
        let Some(staged) = parents.get(1) else { return Ok(false) };
        let tree = self.objects.tree_id(staged)?;
        for (path, version) in &plan.save_staged {
            if self.objects.version_in(tree, path.as_ref())? != Some(*version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The first number after those that are taken.
fn next_reference(folder: &str, taken: &[(String, String)]) -> String {
    let number = |name: &str| name.rsplit('/').next().and_then(|last| last.parse::<u32>().ok());
    let next = taken.iter().filter_map(|(name, _)| number(name)).max().map_or(0, |last| last.saturating_add(1));
    format!("{folder}/{next:05}")
}

/// All that is to be done to get from what is there to a tree.
#[derive(Debug, Default)]
pub(super) struct RestorePlan {
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
struct PathVersions {
    expected: Option<Version>,
    target: Option<Version>,
    staged: Option<Version>,
}

impl RestorePlan {
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
        look: Option<&WorktreeSnapshot>,
    ) -> Result<RestorePlan> {
        let mut suspects: BTreeSet<BString> = match look {
            Some(look) => look.scan.suspects.iter().cloned().collect(),
            None => walk(tree, staged, false)?.suspects.into_iter().collect(),
        };
        let mut known = BTreeMap::new();
        for path in &suspects {
            let known_as = staged.version_at(path.as_ref());
            known.insert(path.clone(), PathVersions { expected: known_as, target: known_as, staged: known_as });
        }
        for (path, sides) in tree.index.against(staged, expected)? {
            known.insert(path, PathVersions { expected: sides.tree, target: sides.tree, staged: sides.index });
        }
        for TreeChange { path, old: expected, new: target } in tree.objects.tree_changes(expected, target)? {
            let known_as = known.get(&path).map_or(expected, |known: &PathVersions| known.staged);
            if look.is_some() {
                suspects.insert(path.clone());
            }
            known.insert(path, PathVersions { expected, target, staged: known_as });
        }
        let mut files = TreeFiles::to_read(tree, staged)?;
        let mut left = Edits::default();
        // A file that is left alone still moves with the commits if it equals the index.
        if let Some(path) = suspects.iter().find(|path| tree.is_left_alone(path.as_ref()))
            && let Some(PathVersions { target, staged: in_index, .. }) = known.get(path).copied()
            && files.version(path.as_ref(), staged)? != in_index
        {
            known.remove(path);
            left.put(path.clone(), target);
        }
        let compare = tree.gix.stat_options().during("reading the configuration")?;
        let mut planner = Planner {
            tree,
            index: staged,
            files,
            compare,
            before,
            plan: RestorePlan { edits: left, ..RestorePlan::default() },
        };
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
    files: TreeFiles<'repo>,
    compare: gix::index::entry::stat::Options,
    before: &'repo Untracked,
    plan: RestorePlan,
}

impl Planner<'_> {
    fn path(&mut self, path: &BString, known: &PathVersions, suspect: bool) -> Result<()> {
        let PathVersions { expected, target, staged } = *known;
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
        match self.tree.since(self.before, &to_path(path.as_ref()))? {
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
        if_there(in_writable_folder(&full, || fs::remove_file(&full))).at("removing", &full)?;
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
fn remove_empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).at("reading", folder)? {
        let entry = entry.at("reading", folder)?;
        if entry.file_type().at("reading", folder)?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    in_writable_folder(folder, || fs::remove_dir(folder)).at("removing", folder)
}
