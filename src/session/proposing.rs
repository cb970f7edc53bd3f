//! Calls of the agent that make an experiment or rework it, and the commit of what is in the working tree then.

use super::attempt::{Attempt, Attempted, Stage};
use super::calling::{Calling, Work};
use super::error::SessionError;
use super::interrupts::Interrupt;
use super::jobs::AGENT;
use super::learning::note_offer;
use super::opened::{Texts, add_said, describe, draft_of};
use super::shared::Shared;
use super::store::Store;
use super::supervise::Ending;
use super::workspace::Workspace;
use crate::crash;
use crate::domain::{AgentCall, CommitId, Event, ExperimentId, Notice, Phase, Record, Version};
use crate::git::{Proposal as Change, Untracked};
use crate::rules::{Again, LOST_RETRIES};
use crate::state::OpenExperiment;

/// The outcome of a finished call of the agent.
pub(super) enum CallResult {
    /// A commit on the branch, with its run in the journal.
    Change(Box<Attempt>),
    /// No change.
    Nothing {
        /// How long the agent was called, in seconds.
        seconds: f64,
    },
    /// The agent is unavailable. Its changes are saved, and the journal contains the reason.
    Outage,
}

impl Attempt {
    /// Calls the agent for a new attempt and commits its change. Calls it once more if it was to take a new direction and
    /// names one that was tried.
    pub(super) async fn propose(
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
        let repeated = shared.store().repeated_direction(work.proposal.direction.as_deref(), attempt.open.seat);
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
        shared.tell()?;
        Ok(Ending::Done(result))
    }

    /// Opens an experiment of this number on the best one, in a seat where there are several.
    pub(super) fn open(
        id: ExperimentId,
        seat: Option<u32>,
        workspace: &mut Workspace,
        store: &mut Store,
    ) -> Result<Attempt, SessionError> {
        let open = OpenExperiment { seat, ..OpenExperiment::new(id, store.tip(), store.now()) };
        if workspace.is_linked {
            workspace.begin_call(store, &open.base)?;
        }
        if !std::mem::take(&mut workspace.untracked.is_current) {
            // Somebody may have been active, whose change would be the agent's.
            workspace.put_tracked_protected_back(store, open.id, &open.base)?;
            workspace.remember_untracked(store)?;
        }
        workspace.note_settings(store, open.id, AGENT)?;
        store.journal.last_call.ignored.clear();
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
        // A call that was cut short is repeated, and counts once.
        store.journal.iteration += 1;
        let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
        let known = workspace.known_untracked()?;
        let delivered = store.journal.words.delivered.clone();
        store.note_delivered(&words);
        store.journal.last_call.unnamed = store.names_no_direction(&proposal);
        let committed = self.commit_change(workspace, store, &known, texts)?;
        crash::point("proposing.change_committed");
        store.say(Event::AgentFinished {
            id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.clone().unwrap_or_default(),
        });
        if committed.is_some() {
            store.say_unnamed(id);
            return Ok(CallResult::Change(Box::new(self)));
        }
        let before = store.journal.rung;
        if cut_short {
            // Its outcome is unknown, so it is repeated.
            store.journal.words.delivered = delivered;
            store.journal.iteration = store.journal.iteration.saturating_sub(1);
        } else {
            store.note_idle_call(&said.unwrap_or_default())?;
        }
        store.note_findings(id, &proposal.learned())?;
        store.learn_from_pivot(before)?;
        store.say_directive(before);
        workspace.enter_idle(store, id, None)?;
        Ok(CallResult::Nothing { seconds: exit.seconds })
    }

    /// Calls the agent again for the experiment, whose last version is in the working tree, and commits the next version.
    /// Without one, records the last.
    pub(super) async fn rework(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
    ) -> Result<Stage, SessionError> {
        let draft = draft_of(&self.open)?;
        if !shared.calls_agent {
            return self.end_with_draft(workspace, &mut shared.store(), "there is no agent to rework it");
        }
        if shared.times.no_time_for_run(&shared.store()).is_some() {
            return self.end_with_draft(workspace, &mut shared.store(), "there is no time left to rework it");
        }
        if self.phase != Phase::Proposing {
            self.begin_rework(workspace, &mut shared.store(), &draft)?;
        }
        let mut lost = 0;
        let work = loop {
            self.prepare_rework(workspace, &mut shared.store(), &draft)?;
            shared.gate().await?;
            workspace.note_settings(&mut shared.store(), self.open.id, AGENT)?;
            workspace.remember_untracked_beside(&mut shared.store(), &self.open.base, &draft.commit)?;
            if shared.store().journal.waits_for_reset() {
                return self.wait_to_rework(workspace, shared, &draft).await;
            }
            let call = Calling::of(self, &mut shared.store(), None)?;
            match call.ask(workspace, shared, None).await? {
                Ending::Done(Some(work)) => break *work,
                Ending::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                Ending::Interrupted => {
                    return self.end_with_draft(workspace, &mut shared.store(), "its rework was interrupted");
                }
                Ending::Done(None) => return self.wait_to_rework(workspace, shared, &draft).await,
                // Repeats the call, as after a kill of this process.
                Ending::Lost if lost < LOST_RETRIES => {
                    lost += 1;
                    workspace.put_back(&mut shared.store(), &draft.commit, &self.open.base)?;
                }
                Ending::Lost => {
                    return self.end_with_draft(workspace, &mut shared.store(), "the agent reworking it was killed");
                }
            }
        };
        self.commit_rework(workspace, &mut shared.store(), work)
    }

    /// Restores the measured version, without what its run or its guards changed, with the branch at the base.
    fn prepare_rework(&self, workspace: &mut Workspace, store: &mut Store, draft: &Record) -> Result<(), SessionError> {
        match workspace.is_linked {
            true => workspace.begin_call(store, &draft.commit)?,
            false => workspace.put_back(store, &draft.commit, &draft.commit)?,
        }
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
    ) -> Result<Stage, SessionError> {
        let Work { exit, usage, proposal, said, described, words, .. } = work;
        store.note_delivered(&words);
        let open = &mut self.open;
        open.agent = open.agent.take().map(|agent| agent.with(exit.seconds, usage));
        open.direction = proposal.direction.clone().or(open.direction.take());
        open.proposal_error = proposal.error.clone().or(open.proposal_error.take());
        add_said(&mut open.proposal, proposal.more());
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
        store.say(Event::AgentFinished {
            id: self.open.id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.unwrap_or_default(),
        });
        match committed {
            Some(_) if workspace.is_linked && self.open.refused.is_none() => Ok(Stage::Over(Attempted::Waiting)),
            Some(_) => Ok(Stage::Run),
            None => self.end_with_draft(workspace, store, "the agent changed nothing more"),
        }
    }

    /// Waits out an outage of the agent that was to rework the experiment.
    async fn wait_to_rework(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        draft: &Record,
    ) -> Result<Stage, SessionError> {
        if workspace.is_linked {
            // All seats wait together.
            return Ok(Stage::Over(Attempted::Waiting));
        }
        let given_up = shared.wait_out().await?;
        let asked = shared.asked()?;
        let store = &mut *shared.store();
        match (given_up, asked) {
            (_, Interrupt::Detach) => Ok(Stage::Over(Attempted::StillRunning)),
            (Some(_), _) => self.end_with_draft(workspace, store, "the agent reworking it did not come back"),
            (None, Interrupt::None) => {
                workspace.put_back(store, &draft.commit, &self.open.base)?;
                Ok(Stage::Rework)
            }
            (None, _) => self.end_with_draft(workspace, store, "its rework was interrupted"),
        }
    }

    /// Saves the version that was measured, and enters the next one in the journal.
    pub(super) fn begin_rework(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        draft: &Record,
    ) -> Result<(), SessionError> {
        let subject = format!("experiment {}, version {}", self.open.id, self.open.versions.len() + 1);
        let reference = store.keep_commit_as(subject, &self.open.base, &draft.commit)?;
        crash::point("rework.version_saved");
        if let Some(again) = self.again(draft) {
            let Again { time, limit, .. } = again;
            store.say(Event::CalledAgain { id: self.open.id, reason: draft.reason.clone(), time, limit });
        }
        (self.open.commit, self.open.runs, self.open.refused) = (None, 0, None);
        self.open.repeated = false;
        self.open.versions.push(Version::of(draft, reference));
        workspace.remember_beside_protected(store)?;
        self.enter(store, Phase::Proposing)?;
        crash::point("rework.entered");
        Ok(())
    }

    /// Records the last version that was measured, and saves later changes under a ref.
    pub(super) fn end_with_draft(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        why: &str,
    ) -> Result<Stage, SessionError> {
        let mut draft = draft_of(&self.open)?;
        if let Some(commit) = self.open.commit.clone().filter(|commit| *commit != draft.commit) {
            let what = format!("what was last made of experiment {}", self.open.id);
            workspace.take_back_commit(store, &self.open, &commit, &what)?;
        }
        draft.reason = format!("{}; {why}", draft.reason);
        // Calls without a result took time and tokens, too.
        draft.agent = self.open.agent.clone();
        self.open.commit = Some(draft.commit.clone());
        self.record(workspace, store, draft)
    }

    /// Commits the change in the working tree on its base, whatever happened to HEAD, the branch and the index meanwhile.
    /// Enters its run in the journal unless it is refused, and moves the branch to it. `None` when nothing changed: branch,
    /// index and working tree are then at the base.
    pub(super) fn commit_change(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let Some((commit, change)) = self.make_commit(workspace, store, known, texts)? else { return Ok(None) };
        match workspace.is_linked {
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
    pub(super) fn make_commit(
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
        let subject = store.subject_of_call(&tip, &self.open.base)?;
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
