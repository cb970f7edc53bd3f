//! One working tree, and all that is known of it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use super::{Carrying, Protected, SettingsBefore, move_odd};
use crate::agent::Proposal;
use crate::crash;
use crate::domain::{CommitId, Event, ExperimentId, Notice, Record, TreeOwner, list};
use crate::exec::JobFiles;
use crate::fs::{read_regular, write_atomic};
use crate::git::{HeadTarget, MissingFiles, Proposal as Change, Repo, Saved, TreeStamps, Untracked, WorktreeSnapshot};
use crate::machine::{Act, AttemptHead, Made, Save};
use crate::rules::FileTerms;
use crate::session::errors::{SessionError, TryError};
use crate::session::files::{INDEX_BEFORE, is_own};
use crate::session::store::{AGENT, Store, Texts, describe};
use crate::state::{Aside, UNTRACKED};

/// A working tree in which experiments are made and run.
pub(crate) struct Workspace {
    /// The repository as it is seen from here: files, index and `HEAD` are this working tree's own.
    pub(crate) repo: Rc<Repo>,
    /// Whose it is.
    pub(crate) owner: TreeOwner,
    /// The variables of its slot, which runs and guards get besides those of every run.
    pub(crate) variables: Vec<(String, String)>,
    /// Which files an experiment may change.
    pub(crate) file_terms: FileTerms,
    /// The files that no experiment may change.
    pub(crate) protected: Protected,
    pub(crate) untracked: UntrackedFiles,
    /// The state of the working tree after the run.
    pub(crate) look: Option<TreeFact<WorktreeSnapshot>>,
    /// The stamps of tracked files after a call, for the run of its change.
    pub(crate) after_call: Option<TreeFact<TreeStamps>>,
    /// The stamps of tracked files when the active run began.
    pub(crate) tree_before: Option<TreeStamps>,
    /// Leftovers of runs in the user's tree.
    pub(crate) carrying: Carrying,
    /// The user's settings file before the last job, in place.
    pub(crate) settings: Option<SettingsBefore>,
}

/// The untracked files that are no part of the next change.
pub(crate) struct UntrackedFiles {
    /// Those that were there when the last experiment was settled, or the agent was called.
    pub(crate) known: Option<Untracked>,
    /// When they were listed after an experiment.
    pub(crate) listed: Option<TreeFact<()>>,
}

/// A fact about a working tree. It holds until a job or the user may have been active there.
pub(crate) struct TreeFact<T> {
    value: T,
    activity: u64,
}

impl<T> TreeFact<T> {
    /// Wraps a fact that was read just now.
    pub(crate) fn now(store: &Store, value: T) -> TreeFact<T> {
        TreeFact { value, activity: store.activity }
    }

    /// The fact, if it still holds.
    pub(crate) fn if_current(self, store: &Store) -> Option<T> {
        (self.activity == store.activity).then_some(self.value)
    }
}

impl Workspace {
    /// A working tree of which nothing was seen yet.
    pub(crate) fn new(repo: Rc<Repo>, owner: TreeOwner, file_terms: FileTerms, protected: Protected) -> Workspace {
        Workspace {
            repo,
            owner,
            variables: Vec::new(),
            file_terms,
            protected,
            untracked: UntrackedFiles { known: None, listed: None },
            look: None,
            after_call: None,
            tree_before: None,
            carrying: Carrying::default(),
            settings: None,
        }
    }

    /// The folder of the working tree.
    pub(crate) fn root(&self) -> &Path {
        self.repo.worktree()
    }

    /// This tree, if it is the user's: it follows the branch, and what is in it stays known.
    pub(crate) fn users(&mut self) -> UsersTree<'_> {
        self.owner.follows_branch().then_some(self)
    }

    /// These variables, and those of its slot.
    pub(crate) fn with_variables(&self, mut variables: Vec<(String, String)>) -> Vec<(String, String)> {
        variables.extend(self.variables.iter().cloned());
        variables
    }

    /// The target of HEAD in this tree: the session's branch, or a commit without a branch.
    fn head_at(&self, store: &Store, commit: &CommitId) -> HeadTarget {
        match self.owner.follows_branch() {
            true => HeadTarget::Branch(store.contract.tag.branch_ref()),
            false => HeadTarget::Detached(commit.clone()),
        }
    }

    /// Points HEAD at its target in this tree, and recreates the session's branch if it is missing. Returns the commit
    /// that HEAD is at.
    pub(crate) fn reclaim_head(&mut self, store: &mut Store, base: &CommitId) -> Result<CommitId, SessionError> {
        self.repair_head(store, base)?;
        self.clear_operation(store)?;
        let head = self.repo.refs.head()?;
        let target = self.head_at(store, head.commit().unwrap_or(base));
        let is_elsewhere = head.target() != target;
        let commit = match &target {
            HeadTarget::Detached(commit) => commit.clone(),
            HeadTarget::Branch(branch) => match store.repo.refs.branch(branch)? {
                Some(tip) => tip,
                None => {
                    store.refs().create_branch(base, "restore")?;
                    store.note(Notice::BranchRecreated(store.contract.tag.branch()));
                    base.clone()
                }
            },
        };
        if is_elsewhere {
            self.point_head(&target)?;
            if let HeadTarget::Branch(_) = target {
                store.note(format!("switched HEAD back to {}", store.contract.tag.branch()));
            }
        }
        Ok(commit)
    }

    /// Makes HEAD name something again where its file names nothing: what its log says, else what it is to be here.
    fn repair_head(&self, store: &mut Store, base: &CommitId) -> Result<(), SessionError> {
        let Some(torn) = self.repo.refs.torn_head() else { return Ok(()) };
        let at = self.repo.refs.logged_head()?.unwrap_or_else(|| self.head_at(store, base));
        store.note(Notice::GitFilesMoved(vec![self.repo.refs.repair_head(&torn, &at)?]));
        Ok(())
    }

    /// Ends what somebody left half done of a merge, a rebase or the like; the commits that only it names are kept.
    fn clear_operation(&mut self, store: &mut Store) -> Result<(), SessionError> {
        let Some(operation) = self.repo.operation()? else { return Ok(()) };
        for commit in &operation.commits {
            store.save(&Save::new(commit))?;
        }
        self.repo.clear_operation()?;
        store.note(format!("ended an unfinished {}; its commits are saved", operation.name));
        Ok(())
    }

    /// Moves HEAD, with the branch that it is at, to `to`, whatever happened to both meanwhile. A commit at its tip that is
    /// none of `known` is somebody's, and is kept under a saved ref.
    pub(crate) fn move_head(
        &mut self,
        store: &mut Store,
        to: &CommitId,
        known: &[&CommitId],
        why: &str,
    ) -> Result<(), SessionError> {
        let tip = self.reclaim_head(store, to)?;
        if tip == *to {
            return Ok(());
        }
        if !known.contains(&&tip) {
            let saved = store.save(&Save::new(&tip))?;
            store.note(Notice::BranchMoved { tip: tip.clone(), saved });
        }
        match self.head_at(store, to) {
            HeadTarget::Branch(_) => Ok(store.refs().move_branch(&tip, to, why)?),
            detached @ HeadTarget::Detached(_) => self.point_head(&detached),
        }
    }

    /// Points HEAD at a branch or a commit, whatever it is at.
    pub(crate) fn point_head(&self, target: &HeadTarget) -> Result<(), SessionError> {
        Ok(self.repo.refs.point_head(target)?)
    }

    /// Makes the index that of a change, which is committed.
    pub(crate) fn adopt_index(&self, change: Change) -> Result<(), SessionError> {
        Ok(self.repo.working_tree.adopt_index(change).map(drop)?)
    }

    /// Brings HEAD and index from the base to the commit of a change that is in the working tree.
    pub(crate) fn follow_commit(
        &mut self,
        store: &mut Store,
        Made { head, commit, .. }: &Made,
        change: Change,
        why: &str,
    ) -> Result<(), SessionError> {
        self.move_head(store, commit, &[&head.base], why)?;
        crash::point("committing.branch_advanced");
        let stamps = self.repo.working_tree.adopt_index(change)?;
        // Where it runs in another tree, nothing is compared with them.
        self.after_call = (!self.owner.is_one_of_many()).then(|| TreeFact::now(store, stamps));
        Ok(())
    }

    /// Brings index and working tree to `target`; what differs from `expected` and is not `ar`'s is saved first.
    pub(crate) fn restore(
        &mut self,
        store: &mut Store,
        target: &CommitId,
        expected: &CommitId,
    ) -> Result<(), SessionError> {
        self.restore_after_look(store, None, target, expected)
    }

    /// Does the same after a look at the working tree.
    pub(crate) fn restore_after_look(
        &mut self,
        store: &mut Store,
        look: Option<&WorktreeSnapshot>,
        target: &CommitId,
        expected: &CommitId,
    ) -> Result<(), SessionError> {
        self.after_call = None;
        let save = store.refs().save_as(expected);
        let known = self.untracked.known.clone().unwrap_or_default();
        let restored = self.repo.working_tree.restore_after(look, target, &save, &known)?;
        if let Some(Saved { reference, paths }) = restored.saved {
            let paths = paths.iter().map(|path| path.display().to_string()).collect();
            store.note(Event::ChangesSaved { reference, paths });
        }
        Ok(())
    }

    /// Brings the version that is to be reworked back into the user's working tree, which is at its base: there it stays
    /// until the agent is called. Each seat gets it with its call.
    pub(crate) fn restore_version(&mut self, store: &mut Store, draft: &Record) -> Result<(), SessionError> {
        self.users().map_or(Ok(()), |users| users.restore(store, &draft.commit, &draft.base))
    }

    /// Brings the tree to `commit` for a call of the agent, with nothing of an earlier job in it. The user's stays as it is.
    pub(crate) fn clear_for_call(&mut self, store: &mut Store, commit: &CommitId) -> Result<(), SessionError> {
        if self.owner.is_disposable() { self.begin_call(store, commit) } else { Ok(()) }
    }

    /// Brings branch and working tree to the commit of a change.
    pub(crate) fn check_out(&mut self, store: &mut Store, made: &Made) -> Result<(), SessionError> {
        let Made { head, commit, .. } = made;
        let Some(users) = self.users() else { return self.switch_to(store, commit) };
        users.move_head(store, commit, &[&head.base], &format!("experiment {}", head.id))?;
        crash::point("checkout.branch_moved");
        users.restore(store, commit, &head.base)
    }

    /// Brings a linked working tree from the commit that it is at to another one.
    pub(crate) fn switch_to(&mut self, store: &mut Store, commit: &CommitId) -> Result<(), SessionError> {
        let at = self.reclaim_head(store, commit)?;
        self.restore(store, commit, &at)?;
        crash::point("checkout.put_back");
        self.point_head(&HeadTarget::Detached(commit.clone()))
    }

    /// Does the same as [`reset_to`](Self::reset_to) for a call that was cut off, after which nothing is known of the tree.
    /// `reworked` is the version that the agent was to rework, if it was.
    pub(crate) fn reset_after_call(
        &mut self,
        store: &mut Store,
        head: &AttemptHead,
        reworked: Option<&Record>,
    ) -> Result<(), SessionError> {
        if self.owner.is_disposable() {
            self.untracked.known = Some(Untracked::default());
            let base = self.reclaim_head(store, &head.base)?;
            return self.reset_to(store, &base, head.id);
        }
        self.restore_untracked(store)?;
        self.leave_out_newer(store, head, reworked)?;
        self.reset_to(store, &head.base, head.id)
    }

    /// Saves the change that is in the working tree, new files with it, and puts branch and working tree back.
    pub(crate) fn reset_to(
        &mut self,
        store: &mut Store,
        base: &CommitId,
        id: ExperimentId,
    ) -> Result<(), SessionError> {
        self.reclaim_head(store, base)?;
        self.settle_settings(store)?;
        let known = self.known_untracked()?;
        let change = self.repo.working_tree.propose(base, &known)?;
        self.clear_left_out(store, id, base, &change)?;
        if !change.is_empty() {
            let commit = self.repo.working_tree.commit(&change, base, &format!("unfinished experiment {id}"))?;
            let saved = store.save(&Save::change(&commit))?;
            crash::point("git.change_kept");
            self.adopt_index(change)?;
            store.note(format!("saved the unfinished change of experiment {id} as {saved}"));
            crash::point("reset.change_kept");
            self.restore(store, base, &commit)?;
        } else {
            self.restore(store, base, base)?;
        }
        crash::point("reset.put_back");
        self.move_head(store, base, &[], "unfinished")
    }

    /// Keeps the commit of a change under a saved ref, which a notice says of `what`, and puts branch and working tree back to
    /// before it.
    pub(crate) fn undo_commit(&mut self, store: &mut Store, made: &Made, what: &str) -> Result<(), SessionError> {
        if made.commit != made.head.base {
            store.save_and_note(&Save::change(&made.commit), what)?;
        }
        crash::point("rollback.change_saved");
        self.restore_base(store, made)
    }

    /// Puts branch and working tree back to before the commit of a change, which a ref keeps.
    pub(crate) fn restore_base(&mut self, store: &mut Store, made: &Made) -> Result<(), SessionError> {
        let Made { head: experiment, commit, .. } = made;
        // A seat made it. The tree of a slot is at what was measured there last: a version before it, or another experiment.
        let is_measured =
            |at: &CommitId| store.history.knows(at) || experiment.versions.iter().any(|version| version.commit == *at);
        let head = self.repo.refs.head_if_sound()?.filter(|_| self.owner.is_disposable());
        let at = head.as_ref().and_then(|head| head.commit()).filter(|at| is_measured(at));
        let commit = at.unwrap_or(commit);
        self.move_head(store, &experiment.base, &[commit], "taken back")?;
        crash::point("rollback.branch_moved");
        self.restore(store, &experiment.base, commit)?;
        crash::point("rollback.put_back");
        Ok(())
    }

    /// The untracked files that are no part of the change in the working tree: those that were there when the last
    /// experiment was settled or the agent was called, or, in a session that has neither, all of them.
    pub(crate) fn known_untracked(&self) -> Result<Untracked, SessionError> {
        match &self.untracked.known {
            Some(known) => Ok(known.clone()),
            None => Ok(self.repo.working_tree.untracked(&Untracked::default())?),
        }
    }

    /// Notes the untracked files of now as no part of the next change.
    pub(crate) fn remember_untracked(&mut self, store: &mut Store) -> Result<(), SessionError> {
        self.remember_untracked_of(store, None)
    }

    /// Does the same after a look at the working tree.
    pub(crate) fn remember_untracked_of(
        &mut self,
        store: &mut Store,
        look: Option<WorktreeSnapshot>,
    ) -> Result<(), SessionError> {
        store.heal()?;
        self.remember_beside_protected(store)?;
        let before = self.untracked.known.take().unwrap_or_default();
        let now = match look {
            Some(look) => self.repo.working_tree.untracked_seen(&before, &look)?,
            None => self.repo.working_tree.untracked(&before)?,
        };
        let is_written = now == before && store.expected.has_file(&store.folder.state().join(UNTRACKED));
        self.note_untracked(store, now, is_written)
    }

    fn note_untracked(&mut self, store: &mut Store, now: Untracked, is_written: bool) -> Result<(), SessionError> {
        let now = self.untracked.known.insert(now);
        // Without a user, files of an interrupted call belong to no change.
        if is_written || !self.owner.has_user() {
            return Ok(());
        }
        Ok(store.expected.write_file(store.folder.state().join(UNTRACKED), now)?)
    }

    /// Notes the untracked files of now as no part of what the agent makes of a change that is in the working tree: `commit`
    /// on `base`. Those that were untracked before that change and are a part of it stay noted as they were.
    pub(crate) fn remember_untracked_beside(
        &mut self,
        store: &mut Store,
        base: &CommitId,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        store.heal()?;
        self.remember_beside_protected(store)?;
        let before = self.untracked.known.take().unwrap_or_default();
        let mut now = self.repo.working_tree.untracked(&before)?;
        now.keep(&before, store.repo.objects.changed_between(base, commit)?.into_iter().map(|changed| changed.path));
        self.note_untracked(store, now, false)
    }

    /// Closes an experiment in the journal and notes which untracked files are there, after a look at the working tree
    /// if there was one.
    pub(crate) fn enter_idle(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        look: Option<WorktreeSnapshot>,
    ) -> Result<(), SessionError> {
        let Some(users) = self.users() else { return store.close_open(id) };
        users.remember_untracked_of(store, look)?;
        crash::point("idle.untracked_remembered");
        store.close(id)?;
        users.untracked.listed = Some(TreeFact::now(store, ()));
        crash::point("idle.entered");
        if store.history.get(id).is_none() {
            store.notices.or_unsettled(id, store.folder.forget_artifacts(id));
        }
        store.settle_git()
    }

    /// Puts back the untracked files that were there when the agent was called and that it deleted, as far as their content
    /// is kept, and names all of them.
    pub(crate) fn restore_untracked(&mut self, store: &mut Store) -> Result<(), SessionError> {
        let Some(known) = &self.untracked.known else { return Ok(()) };
        let MissingFiles { back, not_kept, copy_gone } = self.repo.working_tree.restore_missing(known)?;
        for (fate, paths) in [
            ("restored", back),
            ("too large to restore", not_kept),
            ("not restored, because git's copies were deleted too", copy_gone),
        ] {
            if !paths.is_empty() {
                store
                    .note(format!("untracked files were deleted while the agent was active, {fate}: {}", list(&paths)));
            }
        }
        Ok(())
    }

    /// Makes untracked files that were written after the agent's end no part of what it left, but for those of a version that
    /// is to be reworked: `ar` itself puts them back.
    fn leave_out_newer(
        &mut self,
        store: &mut Store,
        head: &AttemptHead,
        reworked: Option<&Record>,
    ) -> Result<(), SessionError> {
        // The clock of files is coarser than that of processes; of the same tick may be what the agent wrote last.
        let over =
            fs::metadata(JobFiles::named(&store.folder.run(head.id), AGENT).exit).and_then(|meta| meta.modified());
        if let (Ok(over), Some(known)) = (over, &mut self.untracked.known) {
            let mut now = self.repo.working_tree.untracked(known)?;
            if let Some(reworked) = reworked {
                for changed in store.repo.objects.changed_between(&head.base, &reworked.commit)? {
                    now.forget(&changed.path);
                }
            }
            known.add_newer(now, over);
        }
        store.expected.restore_git_files(&store.repo, &mut store.notices)?;
        let odd = self.repo.working_tree.odd_worktree_files(Some(&store.tip()));
        move_odd(odd, Vec::new(), &mut store.notices)
    }

    /// Returns whether the working tree differs from the one that the agent was given: `base`, or the version that it was to
    /// rework.
    pub(crate) fn has_worked(
        &mut self,
        store: &mut Store,
        base: &CommitId,
        reworked: Option<&Record>,
    ) -> Result<bool, SessionError> {
        self.reclaim_head(store, base)?;
        let change = self.repo.working_tree.propose(base, &self.known_untracked()?)?;
        let given = reworked.map_or(base, |reworked| &reworked.commit);
        Ok(change.tree() != store.repo.objects.tree_of(given)? || !change.too_large().is_empty())
    }

    /// Takes files that were there untracked out of the index: to stage everything is no wish to change them.
    pub(crate) fn unstage(&self, base: &CommitId) -> Result<(), SessionError> {
        match &self.untracked.known {
            Some(known) => Ok(self.repo.working_tree.unstage(base, known, is_own)?),
            None => Ok(()),
        }
    }

    /// Keeps the uncommitted change until the baseline is measured, which takes it out of the working tree; then it is the
    /// first experiment.
    pub(crate) fn set_aside(&mut self, store: &mut Store, proposal: Proposal) -> Result<(), SessionError> {
        if store.journal.tree.aside().is_some() {
            return Ok(());
        }
        let base = store.tip();
        let known = self.known_untracked()?;
        let change = self.repo.working_tree.propose(&base, &known)?;
        if let Some(file) = change.too_large().first() {
            return Err(TryError::TooLarge { path: file.path.clone(), size: file.size }.into());
        }
        if change.is_empty() {
            return Err(TryError::NothingToTry.into());
        }
        let stat = self.repo.working_tree.proposal_stat(&change)?;
        let (direction, more) = (proposal.direction.clone(), proposal.more());
        let texts = Texts { own: proposal.description, fallback: None, before: None };
        let description = texts.choose(None, || describe(&change, stat));
        write_atomic(&store.folder.state().join(INDEX_BEFORE), &self.repo.index.bytes()?)?;
        crash::point("aside.index_kept");
        let commit = self.repo.working_tree.commit(&change, &base, &description)?;
        let reference = store.save(&Save::new(&commit))?;
        crash::point("git.change_kept");
        crash::point("aside.change_kept");
        store.journal.tree.set_aside(Aside { commit, description, direction, proposal: more, reference });
        store.write_journal()?;
        crash::point("aside.noted");
        // The saved copy of the index shows what was staged.
        self.adopt_index(change)
    }

    /// Puts the change that was set aside, if there is one, back into the working tree with what was staged of it.
    pub(crate) fn take_out(&mut self, store: &mut Store) -> Result<(), SessionError> {
        let Some(aside) = store.journal.tree.aside().cloned() else { return Ok(()) };
        let start = store.contract.start.clone();
        self.restore(store, &aside.commit, &start)?;
        crash::point("aside.change_taken_out");
        store.perform(&Act::DropRef { name: aside.reference })?;
        crash::point("aside.ref_deleted");
        let path = store.folder.state().join(INDEX_BEFORE);
        match read_regular(&path) {
            Ok(index) => self.repo.index.restore(&index)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(SessionError::Io { action: "read", path, source }),
        }
        crash::point("aside.index_put_back");
        Ok(())
    }

    /// Takes the change that was set aside, if there is one, out of the working tree.
    pub(crate) fn clear_aside(&mut self, store: &mut Store) -> Result<(), SessionError> {
        if let Some(aside) = store.journal.tree.aside().cloned() {
            let start = store.contract.start.clone();
            self.restore(store, &start, &aside.commit)?;
            crash::point("aside.put_back");
        }
        Ok(())
    }
}

/// The user's working tree, where experiments are made in it: it follows the branch.
pub(crate) type UsersTree<'w> = Option<&'w mut Workspace>;
