//! Changes that are taken out of the working tree as commits, and back in.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::attempt::Attempted;
use super::error::SessionError;
use super::open::{Session, remove_file};
use super::proposing::{Texts, describe};
use super::running::Deadline;
use crate::agent::Proposal;
use crate::crash;
use crate::domain::{CommitId, Phase};
use crate::git::{Proposal as Change, Untracked};
use crate::rules::Forbidden;
use crate::state::{Aside, OpenExperiment, read_regular, write_atomic};

/// The index as it was when a change was set aside.
pub(super) const INDEX_BEFORE: &str = "index.before";

impl Session<'_> {
    /// Keeps the uncommitted change until the baseline is measured, which takes it out of the working tree; then it is the
    /// first experiment.
    pub(super) fn set_aside(&mut self, proposal: Proposal) -> Result<(), SessionError> {
        if self.store.journal.aside.is_some() {
            return Ok(());
        }
        let base = self.tip();
        let known = self.known_untracked()?;
        let change = self.store.repo.propose(&base, &known)?;
        if let Some(file) = change.too_large().first() {
            return Err(SessionError::TooLarge { path: file.path.clone(), size: file.size });
        }
        if change.is_empty() {
            return Err(SessionError::NothingToTry);
        }
        let stat = self.store.repo.proposal_stat(&base, &change)?;
        let (direction, more) = (proposal.direction.clone(), proposal.more());
        let texts = Texts { own: proposal.description, fallback: None, before: None };
        let description = texts.choose(None, || describe(&change, stat));
        write_atomic(&self.index_before(), &self.store.repo.index_bytes()?)?;
        crash::point("aside.index_kept");
        let (commit, reference) = self.keep_change(&change, &base, &description)?;
        crash::point("aside.change_kept");
        self.store.journal.aside = Some(Aside { commit, description, direction, proposal: more, reference });
        self.write_journal()?;
        crash::point("aside.noted");
        // What was staged is known from the index as it was.
        Ok(self.store.repo.adopt_index(change)?)
    }

    /// Puts the change that was set aside, if there is one, back into the working tree with what was staged of it.
    pub(super) fn take_out(&mut self) -> Result<(), SessionError> {
        let Some(aside) = self.store.journal.aside.clone() else { return Ok(()) };
        let start = self.store.contract.start.clone();
        self.put_back(&aside.commit, &start)?;
        crash::point("aside.change_taken_out");
        if let Some(kept) = self.store.repo.branch(&aside.reference)? {
            self.store.repo.delete_branch(&aside.reference, &kept)?;
        }
        crash::point("aside.ref_deleted");
        let path = self.index_before();
        match read_regular(&path) {
            Ok(index) => self.store.repo.put_index_back(&index)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(SessionError::Io { action: "read", path, source }),
        }
        crash::point("aside.index_put_back");
        Ok(())
    }

    fn index_before(&self) -> PathBuf {
        self.store.folder.state().join(INDEX_BEFORE)
    }

    /// Makes the change that was set aside, if there is one, the next experiment.
    pub(super) async fn attempt_aside(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let Some(aside) = self.store.journal.aside.take() else { return Ok(Attempted::Recorded) };
        let Aside { commit, description, direction, proposal, .. } = aside;
        let open = OpenExperiment::new(self.store.history.next_id(), self.tip(), self.now());
        let mut open = OpenExperiment { description, direction, proposal, ..open };
        self.check(&mut open, &commit, &[], &Forbidden::default())?;
        open.commit = Some(commit);
        self.store.journal.iteration += 1;
        remove_file(&self.index_before())?;
        crash::point("aside.index_forgotten");
        self.enter(Phase::Committing, open.clone())?;
        crash::point("aside.opened");
        self.check_out(&open)?;
        crash::point("aside.checked_out");
        let open = self.prepare_run(open)?;
        self.finish_attempt(open, deadline).await
    }

    /// Takes the change that was set aside, if there is one, out of the working tree.
    pub(super) fn clear_aside(&mut self) -> Result<(), SessionError> {
        if let Some(aside) = self.store.journal.aside.clone() {
            let start = self.store.contract.start.clone();
            self.put_back(&start, &aside.commit)?;
            crash::point("aside.put_back");
        }
        Ok(())
    }

    /// Commits a change that is in the working tree, and keeps the commit under a saved ref; gives both.
    pub(super) fn keep_change(
        &mut self,
        change: &Change,
        base: &CommitId,
        message: &str,
    ) -> Result<(CommitId, String), SessionError> {
        let commit = self.store.repo.commit(change, base, message)?;
        let reference = self.store.repo.save_commit(&self.save_as(base), &commit)?;
        crash::point("git.change_kept");
        Ok((commit, reference))
    }

    /// The untracked files that are no part of the change in the working tree: those that were there when the last
    /// experiment was settled or the agent was called, or, in a session that has neither, all of them.
    pub(super) fn known_untracked(&self) -> Result<Untracked, SessionError> {
        match &self.workspace.untracked.known {
            Some(known) => Ok(known.clone()),
            None => Ok(self.store.repo.untracked(&Untracked::default())?),
        }
    }
}
