//! The linked working trees of slots and seats.

use std::collections::{BTreeMap, BTreeSet};
use std::env::temp_dir;
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Protected, Workspace};
use crate::agent;
use crate::crash;
use crate::domain::{CommitId, Notice, Record, TreeOwner, with_causes};
use crate::exec::{Executor, GpuLocks};
use crate::fs::{make_folder, make_links, open_regular};
use crate::git::{ChangeKind, Repo, TreeState, Untracked};
use crate::machine::Save;
use crate::rules::{FileTerms, GpuSlot, folders_of, slot_variables, variables_of_slot};
use crate::session::errors::SessionError;
use crate::session::files::{REPRO_FOLDER, TEMPORARY, UNFINISHED};
use crate::session::store::{RUN, Store};
use crate::state::{SESSIONS_FOLDER, SessionFolder};

/// The reason that git shows for the lock of a working tree of `ar`'s.
const REASON: &str = "made and removed by ar";

/// Time for an agent on a loaded machine to delete the next file of a tree, once it has begun.
const DELETION: Duration = Duration::from_secs(1);

/// Poll interval while a tree is being deleted.
const LOOK: Duration = Duration::from_millis(10);

/// The purpose of a working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TreeOf {
    /// The runs of a slot.
    Slot(u32),
    /// The calls in a seat.
    Seat(u32),
}

/// The idle working trees of a loop.
pub(crate) enum Trees<'s> {
    /// The user's own: that of the one slot and of the one seat of a session *in place*, which exclude each other.
    Users(Option<&'s mut Workspace>),
    /// Linked ones.
    Own(BTreeMap<TreeOf, Workspace>),
}

/// A working tree that is lent to a job.
pub(crate) enum Tree<'s> {
    /// The user's own.
    Users(&'s mut Workspace),
    /// A linked one.
    Own(TreeOf, Box<Workspace>),
}

impl Deref for Tree<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        match self {
            Tree::Users(workspace) => workspace,
            Tree::Own(_, workspace) => workspace,
        }
    }
}

impl DerefMut for Tree<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        match self {
            Tree::Users(workspace) => workspace,
            Tree::Own(_, workspace) => workspace,
        }
    }
}

impl<'s> Trees<'s> {
    /// The trees of a loop; `workspace` is the one in which the session was opened.
    pub(crate) fn of(workspace: &'s mut Workspace) -> Self {
        if workspace.owner.is_one_of_many() { Trees::Own(BTreeMap::new()) } else { Trees::Users(Some(workspace)) }
    }

    /// Lends a tree. A linked one is made, or made again, with `commit` in it if it is not there. `None` while somebody is at
    /// work in the user's own.
    pub(crate) fn lend(
        &mut self,
        store: &mut Store,
        slots: &SlotSetup,
        terms: &FileTerms,
        of: TreeOf,
        commit: &CommitId,
    ) -> Result<Option<Tree<'s>>, SessionError> {
        let known = match self {
            Trees::Users(users) => return Ok(users.take().map(Tree::Users)),
            Trees::Own(own) => own.remove(&of),
        };
        let mut workspace = match (known, of) {
            (Some(workspace), _) => workspace,
            (None, TreeOf::Slot(slot)) => slots.open(store, terms, slot, commit)?,
            (None, TreeOf::Seat(seat)) => open_seat(store, terms, seat, commit)?,
        };
        workspace.check_out_again(store, commit)?;
        Ok(Some(Tree::Own(of, Box::new(workspace))))
    }

    /// Takes a tree back.
    pub(crate) fn give_back(&mut self, tree: Tree<'s>) {
        match (self, tree) {
            (Trees::Users(users), Tree::Users(workspace)) => *users = Some(workspace),
            (Trees::Own(own), Tree::Own(of, workspace)) => drop(own.insert(of, *workspace)),
            (Trees::Users(_), Tree::Own(..)) | (Trees::Own(_), Tree::Users(_)) => {}
        }
    }

    /// The user's own tree, *in place* and while nobody is at work in it.
    pub(crate) fn users(&mut self) -> Option<&mut Workspace> {
        match self {
            Trees::Users(users) => users.as_deref_mut(),
            Trees::Own(_) => None,
        }
    }

    /// Returns whether they are `ar`'s own, which an agent may delete.
    pub(crate) fn are_own(&self) -> bool {
        matches!(self, Trees::Own(_))
    }
}

/// The working tree of a seat, which is made with `commit` in it if it is not there.
pub(crate) fn open_seat(
    store: &mut Store,
    terms: &FileTerms,
    seat: u32,
    commit: &CommitId,
) -> Result<Workspace, SessionError> {
    Workspace::linked(store, terms, &store.folder.seat(seat), commit)
}

/// The resources of all slots.
pub(crate) struct SlotSetup {
    /// The GPUs of each slot; empty where they are not divided among slots.
    pub(crate) gpus: Vec<GpuSlot>,
    /// The right to use them.
    pub(crate) _locks: Option<GpuLocks>,
    /// True if all slots share an environment.
    pub(crate) has_linked_environment: bool,
}

impl SlotSetup {
    /// Opens the working tree of a slot, and makes it with `commit` in it if it is not there.
    pub(crate) fn open(
        &self,
        store: &mut Store,
        terms: &FileTerms,
        slot: u32,
        commit: &CommitId,
    ) -> Result<Workspace, SessionError> {
        let workspace = Workspace::linked(store, terms, &store.folder.slot(slot), commit)?;
        let variables = self.variables(workspace.root(), slot)?;
        Ok(Workspace { variables, ..workspace })
    }

    /// The variables that a run in a slot gets whose working tree is `root`. Makes the folder for temporary files.
    pub(crate) fn variables(&self, root: &Path, slot: u32) -> Result<Vec<(String, String)>, SessionError> {
        let own = variables_of_slot(root, slot, self.has_linked_environment, |name| std::env::var(name).ok());
        if let Some((_, folder)) = own.iter().find(|(name, _)| name == "TMPDIR") {
            let folder = Path::new(folder);
            let failed = |source| SessionError::Io { action: "make", path: folder.to_owned(), source };
            make_folder(folder).map_err(failed)?;
        }
        let mut variables = slot_variables(slot, self.gpus.get(slot as usize));
        variables.extend(own);
        Ok(variables)
    }
}

impl Workspace {
    /// A linked working tree at `dir`, which is made with `commit` in it if it is not there.
    pub(crate) fn linked(
        store: &mut Store,
        terms: &FileTerms,
        dir: &Path,
        commit: &CommitId,
    ) -> Result<Workspace, SessionError> {
        let kept = store.repo.keep_worktree(dir, commit, REASON)?;
        let tops = folders_of(&store.contract.protect);
        let (protected, _) = Protected::of(&store.repo, &store.folder, terms, &store.contract.start, &tops)?;
        let mut workspace = Workspace::new(Rc::new(kept.repo), TreeOwner::Program, terms.clone(), protected);
        if kept.state == TreeState::Relinked {
            // A process that was killed had not made all of it.
            workspace.restore(store, commit, commit)?;
            workspace.repo.note_restored()?;
        }
        Ok(workspace)
    }

    /// Makes the tree again, with `commit` in it, if somebody deleted it or what git knows of it. Returns whether it was as
    /// it should be.
    pub(crate) fn check_out_again(&mut self, store: &mut Store, commit: &CommitId) -> Result<bool, SessionError> {
        if self.is_whole() {
            self.repo.repair_own_entry()?;
            return Ok(true);
        }
        let dir = self.root().to_owned();
        let kept = store.repo.keep_worktree(&dir, commit, REASON)?;
        self.repo = Rc::new(kept.repo);
        match kept.state {
            TreeState::Found => return Ok(true),
            TreeState::Relinked => {
                self.restore(store, commit, commit)?;
                self.repo.note_restored()?;
            }
            TreeState::Made => {}
        }
        store.note(format!("made the working tree {} again, which was deleted", dir.display()));
        Ok(false)
    }

    /// Returns whether the tree disappears right after a commit that deletes files. Then another agent was deleting the tree.
    pub(crate) async fn vanishes_after(&self, base: &CommitId, commit: &CommitId) -> Result<bool, SessionError> {
        let changed = self.repo.objects.changed_between(base, commit)?;
        if changed.iter().all(|path| path.kind != ChangeKind::Deleted) {
            return Ok(false);
        }
        self.is_vanishing(base).await
    }

    /// Returns whether somebody deletes the tree at this moment, which is at `commit`: files of it are missing, and in the end
    /// the tree is.
    pub(crate) async fn is_vanishing(&self, commit: &CommitId) -> Result<bool, SessionError> {
        let files = self.repo.objects.files_at(commit, |_| true)?;
        let files: Vec<PathBuf> = files.into_iter().map(|path| self.root().join(path)).collect();
        if files.iter().all(|path| is_there(path)) {
            return Ok(!self.is_whole());
        }
        Ok(goes_with(files, DELETION, || self.is_whole()).await)
    }

    /// Brings the tree of a seat to `commit`, with nothing of an earlier call in it. First saves leftovers that are in no commit
    /// of an open attempt.
    pub(crate) fn begin_call(&mut self, store: &mut Store, commit: &CommitId) -> Result<(), SessionError> {
        let at = self.reclaim_head(store, commit)?;
        self.untracked.known = Some(Untracked::default());
        let left = self.repo.working_tree.propose(&at, &Untracked::default())?;
        self.clear_left_out(store, store.history.next_id(), &at, &left)?;
        if !left.is_empty() {
            let made = known_commit(store, &left.tree())?;
            let made = match made {
                Some(made) => made,
                None => {
                    let made = self.repo.working_tree.commit(&left, &at, "left over in a seat")?;
                    store.save_and_note(&Save::new(&made), "what was left over in a seat")?;
                    crash::point("git.change_kept");
                    made
                }
            };
            self.adopt_index(left)?;
            crash::point("seat.left_over_kept");
            self.restore(store, &at, &made)?;
        }
        self.switch_to(store, commit)?;
        self.make_links(store)
    }

    /// Leaves the commit and the links in the tree of a slot, and nothing of earlier runs.
    pub(crate) fn clear_slot(&self, store: &mut Store) -> Result<(), SessionError> {
        // Not where somebody put another working tree in its place.
        if store.repo.has_kept(self.root()) {
            self.repo.working_tree.remove_untracked()?;
            crash::point("slot.cleared");
        }
        self.make_links(store)
    }

    /// Makes the links anew that bring in what git does not have.
    pub(crate) fn make_links(&self, store: &mut Store) -> Result<(), SessionError> {
        let links = store.journal.layout.as_ref().map(|layout| layout.links.clone()).unwrap_or_default();
        let failed = |source| SessionError::Io { action: "link into", path: self.root().to_owned(), source };
        let moved = make_links(store.repo.main_worktree(), self.root(), &links).map_err(failed)?;
        if !moved.is_empty() {
            store.note(Notice::MovedOut { to: moved, why: "it stood in the place of a link" });
        }
        Ok(())
    }

    /// Returns whether the tree exists and git's files for it are complete.
    pub(crate) fn is_whole(&self) -> bool {
        let git_dir = self.repo.git_dir();
        self.root().join(".git").is_file()
            && ["gitdir", "HEAD", "index", "commondir"].iter().all(|name| git_dir.join(name).is_file())
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Waits until a tree is not whole any more, of which these files are or were, as long as more of them go within
/// `patience`. Returns whether that happened.
async fn goes_with(mut files: Vec<PathBuf>, patience: Duration, is_whole: impl Fn() -> bool) -> bool {
    let mut last = Instant::now();
    while is_whole() {
        let before = files.len();
        files.retain(|path| is_there(path));
        if files.len() < before {
            last = Instant::now();
        } else if last.elapsed() >= patience {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}

/// Makes the tree of a review at `dir`, with the record's commit in it and the instructions of the session's start for agents:
/// the change may tell agents what to do, and the reviewer is one. One that an interrupted review left is removed first.
pub(crate) fn make_review_tree(store: &Store, dir: &Path, commit: &CommitId) -> Result<(), SessionError> {
    store.repo.remove_kept(dir)?;
    let kept = store.repo.keep_worktree(dir, commit, REASON)?;
    Ok(kept.repo.working_tree.take_over(commit, &store.contract.start, agent::instructs_agents)?)
}

/// Removes the tree of a review with all that is in it.
pub(crate) fn remove_review_tree(store: &mut Store, dir: &Path) {
    if let Err(error) = store.repo.remove_kept(dir) {
        store.note(Notice::ReviewTreeStays { tree: dir.to_owned(), why: with_causes(&error) });
    }
    // Without slots nothing else is in it.
    let _ = std::fs::remove_dir(store.folder.trees());
}

/// Removes the linked working trees of the session.
pub(crate) fn remove_trees(store: &mut Store) -> Result<(), SessionError> {
    let trees = store.folder.trees();
    let mut dirs: BTreeSet<PathBuf> = trees_of(&store.folder).into_iter().collect();
    // A process that was killed may have removed a folder, and not what git knows of it.
    let main = store.repo.main_worktree();
    let real = main.canonicalize().map(|main| SessionFolder::new(&main, &store.contract.tag).trees());
    let real = real.unwrap_or_else(|_| trees.clone());
    let known = store.repo.linked_worktrees()?.into_iter().map(|(_, root)| root);
    dirs.extend(known.filter(|root| root.parent().is_some_and(|above| above == trees || above == real)));
    for dir in dirs {
        store.repo.remove_kept(&dir)?;
    }
    match std::fs::remove_dir_all(&trees) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(SessionError::Io { action: "remove", path: trees, source: error })
        }
        _ => Ok(()),
    }
}

/// The commit of a tree that a ref leads to already: of an attempt that is open, or of an experiment.
fn known_commit(store: &Store, tree: &str) -> Result<Option<CommitId>, SessionError> {
    let of_record = |record: &&Record| record.change.fingerprint.as_ref().is_some_and(|known| known.tree == tree);
    if let Some(record) = store.history.records().iter().find(of_record) {
        return Ok(Some(record.commit.clone()));
    }
    for open in store.journal.attempts() {
        let versions = open.head().versions.iter().map(|version| &version.commit);
        let measured = open.measured().map(|record| &record.commit);
        for commit in open.commit().into_iter().chain(measured).chain(versions) {
            if store.repo.objects.tree_of(commit)? == tree {
                return Ok(Some(commit.clone()));
            }
        }
    }
    Ok(None)
}

/// The folders of linked working trees that a session has.
pub(crate) fn trees_of(folder: &SessionFolder) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.trees()).into_iter().flatten().flatten();
    let is_own = |name: &str| name.starts_with("slot-") || name.starts_with("seat-");
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_own)).map(|entry| entry.path()).collect()
}

/// The working trees of commands beside a loop, such as `ar verify`, each after its folder in git: of those that were killed, or
/// of those at work.
pub(crate) fn command_worktrees(repo: &Repo, were_killed: bool) -> Result<Vec<(PathBuf, PathBuf)>, SessionError> {
    let is_meant = |git_dir: &Path| {
        let file = open_regular(&git_dir.join(REPRO_FOLDER).join(UNFINISHED));
        file.is_ok_and(|file| file.try_lock_shared().is_ok() == were_killed)
    };
    let all = repo.linked_worktrees()?.into_iter();
    Ok(all.filter(|(git_dir, _)| is_meant(git_dir)).collect())
}

/// Ends what killed commands beside a loop left running, also at an engine, and removes their temporary working trees. Returns
/// these.
pub(crate) async fn clear_command_worktrees(repo: &Repo) -> Result<Vec<PathBuf>, SessionError> {
    let mut cleared = Vec::new();
    for (git_dir, dir) in command_worktrees(repo, true)? {
        Executor::of_any().stop(&git_dir.join(REPRO_FOLDER), RUN).await?;
        if worktree_mark(&git_dir) == TEMPORARY
            && let Some(home) = temporary_home(repo, &dir)
        {
            repo.remove_kept(&dir)?;
            // It is empty unless another tree was in it.
            let _ = std::fs::remove_dir(home);
            cleared.push(dir);
        }
    }
    Ok(cleared)
}

/// The mark of the working tree of a command beside a loop, by its folder in git: that the command made its folder, nothing where
/// the user named it, or the command that goes on with it.
pub(crate) fn worktree_mark(git_dir: &Path) -> String {
    std::fs::read_to_string(git_dir.join(REPRO_FOLDER).join(UNFINISHED)).unwrap_or_default()
}

/// The folder that such a command made for its working tree `dir`.
fn temporary_home<'d>(repo: &Repo, dir: &'d Path) -> Option<&'d Path> {
    let sessions = repo.main_worktree().join(SESSIONS_FOLDER).canonicalize().ok();
    let is_own = |home: &&Path| {
        let above = home.parent().and_then(|above| above.canonicalize().ok());
        let is_named = home.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ar-"));
        let is_below = |above: &Path| above.parent().is_some_and(|all| sessions.as_deref() == Some(all));
        is_named && above.is_some_and(|above| is_below(&above) || temp_dir().canonicalize().is_ok_and(|it| it == above))
    };
    [dir, dir.parent()?].into_iter().find(is_own)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;
    use crate::exec::runtime;

    /// Whether a tree of five files goes of which each look deletes one, until so many are gone.
    fn goes_after(deleted: usize) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = (0..5).map(|number| folder.path().join(number.to_string())).collect();
        files.iter().for_each(|path| fs::write(path, "").unwrap());
        let (left, looks) = (files.clone(), Cell::new(0));
        let is_whole = || {
            let look = looks.replace(looks.get() + 1);
            if look < deleted {
                fs::remove_file(&left[look]).unwrap();
            }
            look < left.len()
        };
        runtime().unwrap().block_on(goes_with(files, Duration::ZERO, is_whole))
    }

    #[test]
    fn a_tree_of_which_more_files_go_is_awaited_and_one_that_stays_as_it_is_remains() {
        assert!(goes_after(5), "each look finds another one gone");
        assert!(!goes_after(3) && !goes_after(0));
    }
}
