//! Calls of the agent that make an experiment, and the commit of what is in the working tree then.

use super::calling::{Calling, Work};
use super::change_checks::repeated_direction;
use super::lifecycle::Attempt;
use crate::crash;
use crate::domain::{AgentCall, CommitId, ExperimentId, Notice, Phase, Record};
use crate::git::{Proposal as Change, Untracked};
use crate::session::errors::SessionError;
use crate::session::store::{AGENT, NO_KEEP, Store, Texts, describe, note_offer};
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared};
use crate::state::OpenExperiment;

/// The outcome of a finished call of the agent.
pub(crate) enum CallResult {
    /// A commit on the branch, with its run in the journal.
    Change(Box<Attempt>),
    /// No change.
    Nothing {
        /// Duration of the call in seconds.
        seconds: f64,
    },
    /// The agent is unavailable. Its changes are saved, and the journal contains the reason.
    Outage,
}

impl Attempt {
    /// Calls the agent for a new attempt and commits its change. Calls it once more if it was to take a new direction and
    /// names one that was tried.
    pub(crate) async fn propose(
        self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
    ) -> Result<Ending<CallResult>, SessionError> {
        let attempt = self;
        let id = attempt.open.id;
        let call = Calling::of(&attempt, &mut shared.store(), None)?;
        let mut work = match call.ask(workspace, shared, None).await?.done() {
            Ok(Some(work)) => *work,
            Ok(None) => return Ok(Ending::Done(CallResult::Outage)),
            Err(ending) => return Ok(ending),
        };
        let direction = work.proposal.direction.as_deref();
        let repeated = repeated_direction(&shared.store(), direction, attempt.open.seat);
        if let Some(direction) = repeated {
            shared.emit(Notice::AskedAgain(direction.clone()))?;
            workspace.reset_to(&mut shared.store(), &attempt.open.base, id)?;
            crash::point("proposing.repeat_put_back");
            workspace.remember_untracked(&mut shared.store())?;
            workspace.note_settings(&mut shared.store(), id, AGENT)?;
            let (seconds, usage) = (work.exit.seconds, work.usage);
            work = match call.ask(workspace, shared, Some(&direction)).await?.done() {
                Ok(Some(work)) => *work,
                Ok(None) => return Ok(Ending::Done(CallResult::Outage)),
                Err(ending) => return Ok(ending),
            };
            work.exit.seconds += seconds;
            work.usage.add(usage);
        }
        let result = attempt.commit_work(workspace, &mut shared.store(), work)?;
        shared.publish()?;
        Ok(Ending::Done(result))
    }

    /// Opens an experiment of this number on the best one, in a seat where there are several.
    pub(crate) fn open(
        id: ExperimentId,
        seat: Option<u32>,
        workspace: &mut Workspace,
        store: &mut Store,
    ) -> Result<Attempt, SessionError> {
        let open = OpenExperiment { seat, ..OpenExperiment::new(id, store.tip(), store.now()) };
        workspace.clear_for_call(store, &open.base)?;
        if workspace.untracked.listed.take().and_then(|listed| listed.if_current(store)).is_none() {
            // Somebody may have been active, whose change would be the agent's.
            workspace.restore_tracked_protected(store, open.id, &open.base)?;
            workspace.remember_untracked(store)?;
        }
        workspace.note_settings(store, open.id, AGENT)?;
        store.journal.calls.begin();
        let mut attempt = Attempt::at(open, Phase::Idle);
        attempt.enter(store, Phase::Proposing)?;
        crash::point("proposing.entered");
        Ok(attempt)
    }

    /// Commits what a call left in the working tree. Without a change, this closes the experiment.
    fn commit_work(
        mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        work: Work,
    ) -> Result<CallResult, SessionError> {
        let Work { exit, cut_short, usage, proposal, said, described, memories, words, .. } = work;
        let open = &mut self.open;
        let id = open.id;
        open.direction = proposal.direction.clone();
        open.proposal = proposal.more();
        open.proposal_error = proposal.error.clone();
        note_offer(&memories, open);
        let agent = store.contract.agent.clone();
        open.agent = agent.map(|command| AgentCall::new(command, exit.seconds, usage));
        let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
        let known = workspace.known_untracked()?;
        // A call that was cut short is repeated, and counts once.
        let counted = store.journal.count_call(&words, proposal.direction.as_deref());
        let committed = self.commit_change(workspace, store, &known, texts)?;
        crash::point("proposing.change_committed");
        store.note_call_end(id, &exit, committed.is_some(), said.clone().unwrap_or_default());
        if committed.is_some() {
            store.note_unnamed(id);
            return Ok(CallResult::Change(Box::new(self)));
        }
        store.journal.pauses.waits.idle_calls += exit.seconds;
        if cut_short {
            // Its outcome is unknown, so it is repeated.
            store.journal.uncount_call(counted);
            store.note_findings(id, &proposal.learned())?;
        } else {
            let before = store.note_idle_call(&said.unwrap_or_default())?;
            store.note_findings(id, &proposal.learned())?;
            store.learn_from_pivot(before)?;
            store.note_steps(before, NO_KEEP);
        }
        workspace.enter_idle(store, id, None)?;
        Ok(CallResult::Nothing { seconds: exit.seconds })
    }

    /// Commits the change in the working tree on its base, whatever happened to HEAD, the branch and the index meanwhile.
    /// Enters its run in the journal unless it is refused, and moves the branch to it. `None` when nothing changed: branch,
    /// index and working tree are then at the base.
    pub(crate) fn commit_change(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let Some((commit, change)) = self.make_commit(workspace, store, known, texts)? else { return Ok(None) };
        match workspace.home.is_one_of_many() {
            true => store.enter_ready(self)?,
            false => self.prepare_run(workspace, store)?,
        }
        crash::point("committing.commit_noted");
        workspace.move_head(store, &commit, &[&self.open.base], &format!("experiment {}", self.open.id))?;
        crash::point("committing.branch_advanced");
        workspace.repo.working_tree.adopt_index(change)?;
        Ok(Some(commit))
    }

    /// Commits the change in the working tree on its base, and checks it.
    pub(crate) fn make_commit(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<(CommitId, Change)>, SessionError> {
        let tip = workspace.reclaim_head(store, &self.open.base)?;
        let mut found = workspace.undo_forbidden(store, &self.open)?;
        let change = workspace.repo.working_tree.propose(&self.open.base, known)?;
        workspace.clear_out(store, &self.open, &change, &mut found)?;
        if change.is_empty() && change.too_large().is_empty() && found.is_empty() {
            workspace.move_head(store, &self.open.base, &[], "nothing changed")?;
            workspace.repo.working_tree.adopt_index(change)?;
            return Ok(None);
        }
        let made_by_agent = tip != self.open.base
            && store.repo.objects.parents(&tip)? == [self.open.base.clone()]
            && store.repo.objects.tree_of(&tip)? == change.tree();
        let subject = subject_of_call(store, &tip, &self.open.base)?;
        let stat = workspace.repo.working_tree.proposal_stat(&change)?;
        self.open.description = texts.choose(subject, || describe(&change, stat));
        let (commit, unsynced) = if made_by_agent {
            (tip.clone(), workspace.repo.working_tree.unsynced_commit(&change, &tip)?)
        } else {
            workspace.repo.working_tree.commit_unsynced(&change, &self.open.base, &self.open.description)?
        };
        store.written.unsynced.append(unsynced);
        workspace.check(store, &mut self.open, &commit, change.too_large(), &found)?;
        self.open.commit = Some(commit.clone());
        crash::point("committing.commit_written");
        Ok(Some((commit, change)))
    }
}

/// The subject of the commit that an agent left at the tip of the branch; nothing where it made none in this call, but went
/// back to an older one.
fn subject_of_call(store: &Store, tip: &CommitId, base: &CommitId) -> Result<Option<String>, SessionError> {
    let objects = &store.repo.objects;
    let is_recorded =
        |record: &Record| record.commit == *tip || record.versions.iter().any(|version| version.commit == *tip);
    let is_old = store.history.records().iter().any(is_recorded) || objects.leads_to(tip, base)?;
    Ok(if is_old { None } else { Some(objects.subject(tip)?) })
}
