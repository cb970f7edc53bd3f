//! Calling the agent again for the experiment that it is at: its guard failed, or its code does not run.

use super::attempt::{Attempted, Stage};
use super::calling::Work;
use super::error::SessionError;
use super::failed_log::end_of_log;
use super::interrupts::Interrupt;
use super::open::Session;
use super::opened::{Texts, add_said, draft_of};
use super::supervise::Ending;
use crate::agent::{Call, Reworked};
use crate::crash;
use crate::domain::{Event, Phase, Record, Version};
use crate::git::SaveAs;
use crate::rules::{Again, LOST_RETRIES, again};
use crate::state::OpenExperiment;

/// Why the agent is called again for an experiment, and what it is shown.
pub(super) struct Task {
    draft: Record,
    again: Again,
    log: String,
}

impl Task {
    /// The same for the prompt.
    pub(super) fn told(&self) -> Reworked<'_> {
        Reworked { draft: &self.draft, again: self.again, log: &self.log }
    }
}

impl Session<'_> {
    /// What follows from the draft of the open experiment: the agent is called again for it, or it is recorded.
    pub(super) fn conclude(&mut self, open: Box<OpenExperiment>) -> Result<Stage, SessionError> {
        let draft = draft_of(&open)?;
        if self.calls_agent && again(draft.failure.as_ref(), &draft.versions).is_some() {
            return Ok(Stage::Rework(open));
        }
        self.record_and_settle(*open, draft)?;
        Ok(Stage::Over(Attempted::Recorded))
    }

    /// What the agent is called again for now; nothing where it is to make a new experiment.
    pub(super) fn task(&self) -> Option<Task> {
        let draft =
            self.store.journal.open.as_ref().filter(|_| self.store.journal.phase == Phase::Proposing)?.draft.clone()?;
        let again = again(draft.failure.as_ref(), &draft.versions)?;
        let log = end_of_log(&self.store.folder, &draft);
        Some(Task { draft: *draft, again, log })
    }

    /// Calls the agent again for the open experiment, whose last version is in the working tree, and commits what it made
    /// of that. Where it comes to nothing, the experiment is over with what it has.
    pub(super) async fn rework(&mut self, open: Box<OpenExperiment>) -> Result<Stage, SessionError> {
        let mut open = *open;
        let draft = draft_of(&open)?;
        if !self.calls_agent {
            return self.end_with_draft(open, "there is no agent to rework it");
        }
        if self.times.no_time_for_run(&self.store).is_some() {
            return self.end_with_draft(open, "there is no time left to rework it");
        }
        if self.store.journal.phase != Phase::Proposing {
            open = self.begin_rework(open, &draft)?;
        }
        let mut lost = 0;
        let Work { exit, usage, proposal, said, described, .. } = loop {
            // What its run or its guards changed is no part of it.
            self.workspace.put_back(&mut self.store, &draft.commit, &draft.commit)?;
            crash::point("rework.put_back");
            self.workspace.move_branch(
                &mut self.store,
                &open.base,
                &[&draft.commit],
                "an experiment being reworked",
            )?;
            crash::point("rework.branch_moved");
            self.check_room()?;
            self.workspace.remember_untracked_beside(&mut self.store, &open.base, &draft.commit)?;
            if self.store.journal.waits_for_reset() {
                return self.wait_to_rework(open, &draft).await;
            }
            let call = Call { folder: self.store.run_folder(open.id)? };
            match self.ask_agent(&call, &open, None).await? {
                Ending::Done(Some(work)) => break *work,
                Ending::Detached => return Ok(Stage::Over(Attempted::StillRunning)),
                Ending::Interrupted => return self.end_with_draft(open, "its rework was interrupted"),
                Ending::Done(None) => return self.wait_to_rework(open, &draft).await,
                // The call is made again, as after a kill of this process.
                Ending::Lost if lost < LOST_RETRIES => {
                    lost += 1;
                    self.workspace.put_back(&mut self.store, &draft.commit, &open.base)?;
                }
                Ending::Lost => return self.end_with_draft(open, "the agent reworking it was killed"),
            }
        };
        open.agent = open.agent.map(|agent| agent.with(exit.seconds, usage));
        open.direction = proposal.direction.clone().or(open.direction);
        open.proposal_error = proposal.error.clone().or(open.proposal_error);
        add_said(&mut open.proposal, proposal.more());
        let known = self.workspace.known_untracked(&mut self.store)?;
        let tree = self.store.repo.propose(&open.base, &known)?.tree();
        let mut versions = vec![&open.base];
        versions.extend(open.versions.iter().map(|version| &version.commit));
        let mut is_new = true;
        for version in versions {
            is_new = is_new && self.store.repo.tree_of(version)? != tree;
        }
        let before = Some(open.description.clone());
        let texts = Texts { own: proposal.description, fallback: described, before };
        let committed = if is_new { self.commit_change(&mut open, &known, texts)? } else { None };
        crash::point("rework.change_committed");
        self.emit(Event::AgentFinished {
            id: open.id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.unwrap_or_default(),
        })?;
        match committed {
            Some(_) => Ok(Stage::Run(Box::new(open))),
            None => self.end_with_draft(open, "the agent changed nothing more"),
        }
    }

    /// Waits out an outage of the agent that was to work on the open experiment again.
    async fn wait_to_rework(&mut self, open: OpenExperiment, draft: &Record) -> Result<Stage, SessionError> {
        let given_up = self.wait_out().await?;
        match (given_up, self.asked()?) {
            (_, Interrupt::Detach) => Ok(Stage::Over(Attempted::StillRunning)),
            (Some(_), _) => self.end_with_draft(open, "the agent reworking it did not come back"),
            (None, Interrupt::None) => {
                self.workspace.put_back(&mut self.store, &draft.commit, &open.base)?;
                Ok(Stage::Rework(Box::new(open)))
            }
            (None, _) => self.end_with_draft(open, "its rework was interrupted"),
        }
    }

    /// Keeps the version that was measured, and enters in the journal that another one is to come.
    fn begin_rework(&mut self, open: OpenExperiment, draft: &Record) -> Result<OpenExperiment, SessionError> {
        let subject = format!("experiment {}, version {}", open.id, open.versions.len() + 1);
        let save = SaveAs { subject, ..self.store.save_as(&open.base) };
        let reference = self.store.repo.save_commit(&save, &draft.commit)?;
        crash::point("rework.version_saved");
        if let Some(again) = again(draft.failure.as_ref(), &draft.versions) {
            let Again { time, limit, .. } = again;
            self.emit(Event::CalledAgain { id: open.id, reason: draft.reason.clone(), time, limit })?;
        }
        let mut open =
            OpenExperiment { commit: None, runs: 0, refused: None, draft: Some(Box::new(draft.clone())), ..open };
        open.versions.push(Version::of(draft, reference));
        self.workspace.remember_beside_protected(&mut self.store)?;
        self.store.enter(Phase::Proposing, open.clone())?;
        crash::point("rework.entered");
        Ok(open)
    }

    /// Records what the last version that was measured came to; what was made of it since is kept under a saved ref.
    pub(super) fn end_with_draft(&mut self, mut open: OpenExperiment, why: &str) -> Result<Stage, SessionError> {
        let mut draft = draft_of(&open)?;
        if let Some(commit) = open.commit.clone().filter(|commit| *commit != draft.commit) {
            let what = format!("what was last made of experiment {}", open.id);
            self.workspace.take_back_commit(&mut self.store, &open, &commit, &what)?;
        }
        draft.reason = format!("{}; {why}", draft.reason);
        // Calls that came to nothing took time and tokens too.
        draft.agent = open.agent.clone();
        open.commit = Some(draft.commit.clone());
        self.record_and_settle(open, draft)?;
        Ok(Stage::Over(Attempted::Recorded))
    }
}
