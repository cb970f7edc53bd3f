//! Calls of the agent that make an experiment or rework it, and the commit of what is in the working tree then.

use super::attempt::{Attempt, Attempted, Stage};
use super::calling::{Calling, Work};
use super::error::SessionError;
use super::interrupts::Interrupt;
use super::learning::note_offer;
use super::open::Session;
use super::opened::{Texts, add_said, describe, draft_of};
use super::supervise::Ending;
use crate::crash;
use crate::domain::{AgentCall, CommitId, Event, Notice, Phase, Record, Version};
use crate::git::{SaveAs, Untracked};
use crate::rules::{Again, LOST_RETRIES, again};
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
    /// Calls the agent and commits its change. Calls it once more if it was to take a new direction and names one that was
    /// tried, or none.
    pub(super) async fn propose(session: &mut Session<'_>) -> Result<Ending<CallResult>, SessionError> {
        let id = session.store.history.next_id();
        let base = session.store.tip();
        let mut attempt = Attempt::at(OpenExperiment::new(id, base.clone(), session.store.now()));
        if !std::mem::take(&mut session.workspace.untracked.is_current) {
            session.workspace.remember_untracked(&mut session.store)?;
        }
        attempt.enter(session, Phase::Proposing)?;
        crash::point("proposing.entered");
        let call = Calling::of(&attempt, session)?;
        let mut work = match call.ask(session, None).await?.done() {
            Ok(Some(work)) => *work,
            Ok(None) => return Ok(Ending::Done(CallResult::Outage)),
            Err(ending) => return Ok(ending),
        };
        if let Some(why) = session.workspace.asked_again(&mut session.store, &work.proposal, &attempt.open)? {
            session.emit(Notice::AskedAgain(why.to_string()))?;
            session.workspace.reset_to(&mut session.store, &base, id)?;
            crash::point("proposing.repeat_put_back");
            session.workspace.remember_untracked(&mut session.store)?;
            let (seconds, usage) = (work.exit.seconds, work.usage);
            work = match call.ask(session, Some(&why)).await?.done() {
                Ok(Some(work)) => *work,
                Ok(None) => return Ok(Ending::Done(CallResult::Outage)),
                Err(ending) => return Ok(ending),
            };
            work.exit.seconds += seconds;
            work.usage.add(usage);
        }
        let Work { exit, cut_short, usage, proposal, said, described } = work;
        let open = &mut attempt.open;
        open.direction = proposal.direction.clone();
        open.proposal = proposal.more();
        open.proposal_error = proposal.error.clone();
        note_offer(&session.memories, open);
        let agent = session.store.contract.agent.clone();
        open.agent = agent.map(|command| AgentCall::new(command, exit.seconds, usage));
        // A call that was cut short is repeated, and counts once.
        session.store.journal.iteration += 1;
        let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
        let known = session.workspace.known_untracked(&session.store)?;
        let committed = attempt.commit_change(session, &known, texts)?;
        crash::point("proposing.change_committed");
        session.emit(Event::AgentFinished {
            id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.clone().unwrap_or_default(),
        })?;
        match committed {
            Some(_) => Ok(Ending::Done(CallResult::Change(Box::new(attempt)))),
            None => {
                let said = said.unwrap_or_default();
                let before = session.store.journal.rung;
                if cut_short {
                    // Its outcome is unknown, so it is repeated.
                    session.store.journal.iteration = session.store.journal.iteration.saturating_sub(1);
                } else {
                    session.store.note_idle_call(&said)?;
                }
                session.store.note_findings(id, &proposal.learned())?;
                session.store.learn_from_pivot(before)?;
                session.store.say_directive(before);
                session.enter_idle()?;
                Ok(Ending::Done(CallResult::Nothing { seconds: exit.seconds }))
            }
        }
    }

    /// Calls the agent again for the experiment, whose last version is in the working tree, and commits the next version.
    /// Without one, records the last.
    pub(super) async fn rework(&mut self, session: &mut Session<'_>) -> Result<Stage, SessionError> {
        let draft = draft_of(&self.open)?;
        if !session.calls_agent {
            return self.end_with_draft(session, "there is no agent to rework it");
        }
        if session.times.no_time_for_run(&session.store).is_some() {
            return self.end_with_draft(session, "there is no time left to rework it");
        }
        if session.store.journal.phase != Phase::Proposing {
            self.begin_rework(session, &draft)?;
        }
        let mut lost = 0;
        let Work { exit, usage, proposal, said, described, .. } = loop {
            // Drops what its run or its guards changed.
            session.workspace.put_back(&mut session.store, &draft.commit, &draft.commit)?;
            crash::point("rework.put_back");
            session.workspace.move_branch(
                &mut session.store,
                &self.open.base,
                &[&draft.commit],
                "an experiment being reworked",
            )?;
            crash::point("rework.branch_moved");
            session.check_room()?;
            session.workspace.remember_untracked_beside(&mut session.store, &self.open.base, &draft.commit)?;
            if session.store.journal.waits_for_reset() {
                return self.wait_to_rework(session, &draft).await;
            }
            match Calling::of(self, session)?.ask(session, None).await? {
                Ending::Done(Some(work)) => break *work,
                Ending::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                Ending::Interrupted => return self.end_with_draft(session, "its rework was interrupted"),
                Ending::Done(None) => return self.wait_to_rework(session, &draft).await,
                // Repeats the call, as after a kill of this process.
                Ending::Lost if lost < LOST_RETRIES => {
                    lost += 1;
                    session.workspace.put_back(&mut session.store, &draft.commit, &self.open.base)?;
                }
                Ending::Lost => return self.end_with_draft(session, "the agent reworking it was killed"),
            }
        };
        let open = &mut self.open;
        open.agent = open.agent.take().map(|agent| agent.with(exit.seconds, usage));
        open.direction = proposal.direction.clone().or(open.direction.take());
        open.proposal_error = proposal.error.clone().or(open.proposal_error.take());
        add_said(&mut open.proposal, proposal.more());
        let known = session.workspace.known_untracked(&session.store)?;
        let tree = session.store.repo.working_tree.propose(&self.open.base, &known)?.tree();
        let mut versions = vec![&self.open.base];
        versions.extend(self.open.versions.iter().map(|version| &version.commit));
        let mut is_new = true;
        for version in versions {
            is_new = is_new && session.store.repo.objects.tree_of(version)? != tree;
        }
        let before = Some(self.open.description.clone());
        let texts = Texts { own: proposal.description, fallback: described, before };
        let committed = if is_new { self.commit_change(session, &known, texts)? } else { None };
        crash::point("rework.change_committed");
        session.emit(Event::AgentFinished {
            id: self.open.id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.unwrap_or_default(),
        })?;
        match committed {
            Some(_) => Ok(Stage::Run),
            None => self.end_with_draft(session, "the agent changed nothing more"),
        }
    }

    /// Waits out an outage of the agent that was to rework the experiment.
    async fn wait_to_rework(&mut self, session: &mut Session<'_>, draft: &Record) -> Result<Stage, SessionError> {
        let given_up = session.wait_out().await?;
        match (given_up, session.asked()?) {
            (_, Interrupt::Detach) => Ok(Stage::Over(Attempted::StillRunning)),
            (Some(_), _) => self.end_with_draft(session, "the agent reworking it did not come back"),
            (None, Interrupt::None) => {
                session.workspace.put_back(&mut session.store, &draft.commit, &self.open.base)?;
                Ok(Stage::Rework)
            }
            (None, _) => self.end_with_draft(session, "its rework was interrupted"),
        }
    }

    /// Saves the version that was measured, and enters the next one in the journal.
    fn begin_rework(&mut self, session: &mut Session<'_>, draft: &Record) -> Result<(), SessionError> {
        let subject = format!("experiment {}, version {}", self.open.id, self.open.versions.len() + 1);
        let save = SaveAs { subject, ..session.store.save_as(&self.open.base) };
        let reference = session.store.repo.working_tree.save_commit(&save, &draft.commit)?;
        crash::point("rework.version_saved");
        if let Some(again) = again(draft.failure.as_ref(), &draft.versions) {
            let Again { time, limit, .. } = again;
            session.emit(Event::CalledAgain { id: self.open.id, reason: draft.reason.clone(), time, limit })?;
        }
        (self.open.commit, self.open.runs, self.open.refused) = (None, 0, None);
        self.open.versions.push(Version::of(draft, reference));
        session.workspace.remember_beside_protected(&mut session.store)?;
        self.enter(session, Phase::Proposing)?;
        crash::point("rework.entered");
        Ok(())
    }

    /// Records the last version that was measured, and saves later changes under a ref.
    pub(super) fn end_with_draft(&mut self, session: &mut Session<'_>, why: &str) -> Result<Stage, SessionError> {
        let mut draft = draft_of(&self.open)?;
        if let Some(commit) = self.open.commit.clone().filter(|commit| *commit != draft.commit) {
            let what = format!("what was last made of experiment {}", self.open.id);
            session.workspace.take_back_commit(&mut session.store, &self.open, &commit, &what)?;
        }
        draft.reason = format!("{}; {why}", draft.reason);
        // Calls without a result took time and tokens, too.
        draft.agent = self.open.agent.clone();
        self.open.commit = Some(draft.commit.clone());
        self.record(session, draft)
    }

    /// Commits the change in the working tree on its base, whatever happened to HEAD, the branch and the index meanwhile.
    /// Enters its run in the journal unless it is refused, and moves the branch to it. `None` when nothing changed: branch,
    /// index and working tree are then at the base.
    pub(super) fn commit_change(
        &mut self,
        session: &mut Session<'_>,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let tip = session.workspace.reclaim_branch(&mut session.store, &self.open.base)?;
        let mut found = session.workspace.undo_forbidden(&mut session.store, &self.open)?;
        let change = session.store.repo.working_tree.propose(&self.open.base, known)?;
        session.workspace.clear_out(&mut session.store, &self.open, &change, &mut found)?;
        if change.is_empty() && change.too_large().is_empty() && found.is_empty() {
            session.workspace.move_branch(&mut session.store, &self.open.base, &[], "nothing changed")?;
            session.store.repo.working_tree.adopt_index(change)?;
            return Ok(None);
        }
        let made_by_agent = tip != self.open.base
            && session.store.repo.objects.parents(&tip)? == [self.open.base.clone()]
            && session.store.repo.objects.tree_of(&tip)? == change.tree();
        let subject = session.store.subject_of_call(&tip, &self.open.base)?;
        let stat = session.store.repo.working_tree.proposal_stat(&change)?;
        self.open.description = texts.choose(subject, || describe(&change, stat));
        let (commit, unsynced) = if made_by_agent {
            (tip.clone(), session.store.repo.working_tree.unsynced_commit(&change, &tip)?)
        } else {
            session.store.repo.working_tree.commit_unsynced(&change, &self.open.base, &self.open.description)?
        };
        session.store.written.unsynced.append(unsynced);
        session.workspace.check(&session.store, &mut self.open, &commit, change.too_large(), &found)?;
        self.open.commit = Some(commit.clone());
        crash::point("committing.commit_written");
        self.prepare_run(session)?;
        crash::point("committing.commit_noted");
        session.workspace.move_branch(
            &mut session.store,
            &commit,
            &[&self.open.base],
            &format!("experiment {}", self.open.id),
        )?;
        crash::point("committing.branch_advanced");
        session.store.repo.working_tree.adopt_index(change)?;
        Ok(Some(commit))
    }
}
