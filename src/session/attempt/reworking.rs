//! Calls of the agent that rework a change whose run or guard failed.

use super::calling::{Calling, Work};
use super::lifecycle::{Attempt, Stage};
use crate::crash;
use crate::domain::{Event, Phase, Record, Version};
use crate::rules::{Again, LOST_RETRIES};
use crate::session::errors::SessionError;
use crate::session::store::{AGENT, Store, Texts, draft_of};
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared, gate_of_call};
use crate::state::OpenRun;

/// The outcome of a rework.
pub(crate) enum Reworked {
    /// A next version, which waits for its run.
    Version,
    /// The last version is recorded, as nothing more comes of it.
    Recorded,
    /// The agent is unavailable; the journal contains the reason.
    Outage,
}

impl Attempt {
    /// Calls the agent again for the experiment, and commits the next version. Without one, records the last.
    pub(crate) async fn rework(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
    ) -> Result<Ending<Reworked>, SessionError> {
        let draft = draft_of(&self.open)?;
        if shared.times.no_time_for_run(&shared.store()).is_some() {
            return self.give_up(workspace, &mut shared.store(), "there is no time left to rework it");
        }
        let mut lost = 0;
        let work = loop {
            self.prepare_rework(workspace, &mut shared.store(), &draft)?;
            gate_of_call(shared).await?;
            workspace.note_settings(&mut shared.store(), self.open.id, AGENT)?;
            workspace.remember_untracked_beside(&mut shared.store(), &self.open.base, &draft.commit)?;
            if shared.store().journal.pauses.waits_for_reset() {
                return Ok(Ending::Done(Reworked::Outage));
            }
            let call = Calling::of(self, &mut shared.store(), None)?;
            match call.ask(workspace, shared, None).await? {
                Ending::Done(Some(work)) => break *work,
                Ending::Done(None) => return Ok(Ending::Done(Reworked::Outage)),
                Ending::Detached => return Ok(Ending::Detached),
                Ending::Interrupted => {
                    return self.give_up(workspace, &mut shared.store(), "its rework was interrupted");
                }
                // Repeats the call, as after a kill of this process.
                Ending::Lost if lost < LOST_RETRIES => lost += 1,
                Ending::Lost => {
                    return self.give_up(workspace, &mut shared.store(), "the agent reworking it was killed");
                }
            }
        };
        self.commit_rework(workspace, &mut shared.store(), work).map(Ending::Done)
    }

    /// Restores the measured version, without what its run or its guards changed, with the branch at the base.
    fn prepare_rework(&self, workspace: &mut Workspace, store: &mut Store, draft: &Record) -> Result<(), SessionError> {
        workspace.clear_for_call(store, &draft.commit)?;
        workspace.restore(store, &draft.commit, &draft.commit)?;
        crash::point("rework.put_back");
        workspace.move_head(store, &self.open.base, &[&draft.commit], "an experiment being reworked")?;
        crash::point("rework.branch_moved");
        Ok(())
    }

    /// Commits the next version, which a call left in the working tree. Without one, records the last.
    fn commit_rework(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        work: Work,
    ) -> Result<Reworked, SessionError> {
        let open = &mut self.open;
        work.add_to(open, store);
        let Work { exit, proposal, said, described, .. } = work;
        open.direction = proposal.direction.clone().or(open.direction.take());
        open.proposal_error = proposal.error.clone().or(open.proposal_error.take());
        let known = workspace.known_untracked()?;
        let tree = workspace.repo.working_tree.propose(&self.open.base, &known)?.tree();
        let mut versions = vec![&self.open.base];
        versions.extend(self.open.versions.iter().map(|version| &version.commit));
        let mut is_new = true;
        for version in versions {
            is_new = is_new && store.repo.objects.tree_of(version)? != tree;
        }
        let before = Some(self.open.description.clone());
        let texts = Texts { own: proposal.description, fallback: described, before };
        let committed = if is_new { self.commit_change(workspace, store, &known, texts)? } else { None };
        crash::point("rework.change_committed");
        store.note_call_end(self.open.id, &exit, committed.is_some(), said.unwrap_or_default());
        if committed.is_some() {
            return Ok(Reworked::Version);
        }
        self.end_with_draft(workspace, store, "the agent changed nothing more")?;
        Ok(Reworked::Recorded)
    }

    fn give_up(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        why: &str,
    ) -> Result<Ending<Reworked>, SessionError> {
        self.end_with_draft(workspace, store, why)?;
        Ok(Ending::Done(Reworked::Recorded))
    }

    /// Saves the version that was measured, and enters the next one in the journal.
    pub(crate) fn begin_rework(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        draft: &Record,
    ) -> Result<(), SessionError> {
        let version = format!("version {}", self.open.versions.len() + 1);
        let reference = store.refs().keep_of(self.open.id, &version, &draft.commit)?;
        crash::point("rework.version_saved");
        if let Some(again) = self.again(draft) {
            let Again { time, limit, .. } = again;
            store.note(Event::CalledAgain { id: self.open.id, reason: draft.reason.clone(), time, limit });
        }
        (self.open.commit, self.open.refused) = (None, None);
        self.run = OpenRun::new(self.run.role, 1);
        store.journal.forget_runs(self.open.id, |_| true);
        self.open.versions.push(Version::of(draft, reference));
        workspace.remember_beside_protected(store)?;
        self.enter(store, Phase::Proposing)?;
        crash::point("rework.entered");
        Ok(())
    }

    /// Records the last version that was measured, and saves later changes under a ref.
    pub(crate) fn end_with_draft(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        why: &str,
    ) -> Result<Stage, SessionError> {
        let mut draft = draft_of(&self.open)?;
        if let Some(commit) = self.open.commit.clone().filter(|commit| *commit != draft.commit) {
            let what = format!("what was last made of experiment {}", self.open.id);
            workspace.undo_commit(store, &self.open, &commit, &what)?;
        }
        draft.reason = format!("{}; {why}", draft.reason);
        // Calls without a result took time and tokens, too.
        draft.agent = self.open.agent.clone();
        self.open.commit = Some(draft.commit.clone());
        self.record(workspace, store, draft)
    }
}
