//! What an earlier process left open beside others, and what is put away when a loop ends.

use super::scheduler::Lanes;
use crate::crash;
use crate::domain::{CommitId, ExperimentId, NewIdea, Notice, Phase, StopReason};
use crate::git::Untracked;
use crate::rules::Why;
use crate::session::attempt::Attempt;
use crate::session::error::SessionError;
use crate::session::open::Session;
use crate::session::store::Store;
use crate::state::OpenExperiment;

impl Lanes<'_, '_> {
    /// Finishes or picks up each attempt that is open.
    pub(super) async fn recover(&mut self) -> Result<(), SessionError> {
        let open: Vec<(Phase, OpenExperiment)> = {
            let store = self.shared.store();
            store.journal.steps().map(|(phase, open)| (phase, open.clone())).collect()
        };
        for (phase, open) in open {
            let id = open.id;
            match phase {
                Phase::Recording => self.shared.store().finish_recording(&open)?,
                Phase::Proposing => self.end_call(open).await?,
                // The line asks for it again.
                Phase::Committing if open.trial.is_some() => self.shared.store().close_open(id)?,
                Phase::Committing => self.note_ready(id),
                Phase::Running | Phase::Guarding => {
                    self.resume(open.beside.slot.unwrap_or(0), Attempt::at(open, phase))?;
                }
                Phase::Waiting => {}
                Phase::Idle | Phase::Settling => self.shared.store().close_open(id)?,
            }
            self.shared.tell()?;
            crash::point("recover.step_done");
        }
        let tip = self.shared.store().tip();
        self.shared.store().set_branch(&tip, &[], "resumed")
    }

    /// Ends what is left of a call that was cut off, and saves what it had changed. A new one is repeated.
    async fn end_call(&mut self, open: OpenExperiment) -> Result<(), SessionError> {
        self.shared.end_jobs(open.id).await?;
        let seat = open.seat.unwrap_or(0);
        let mut workspace = self.seat(seat)?;
        if open.seat.is_some() {
            workspace.untracked.known = Some(Untracked::default());
            let base = workspace.reclaim_head(&mut self.shared.store(), &open.base)?;
            workspace.reset_to(&mut self.shared.store(), &base, open.id)?;
        }
        self.give_back(seat, workspace);
        if open.draft.is_none() && open.merge_with.is_none() {
            return self.shared.store().close_open(open.id);
        }
        let store = &mut *self.shared.store();
        store.enter(Phase::Proposing, OpenExperiment { seat: None, ..open })
    }
}

impl Session<'_> {
    /// Puts away what waits and does not run any more: proposals become ideas with their commits, and what was to be
    /// reworked is recorded as it was measured. Winners stay open.
    pub(super) fn shelve(&mut self) -> Result<(), SessionError> {
        let open: Vec<(Phase, OpenExperiment)> = {
            let store = self.shared.store();
            store.journal.steps().map(|(phase, open)| (phase, open.clone())).collect()
        };
        for (phase, open) in open {
            let store = &mut *self.shared.store();
            match (phase, &open.commit, &open.draft) {
                (Phase::Proposing, _, Some(draft)) if open.merge_with.is_some() && draft.failure.is_none() => {
                    store.journal.line.answered(open.id);
                    store.enter(Phase::Waiting, OpenExperiment { merge_with: None, seat: None, ..open })?;
                }
                (Phase::Proposing, _, Some(_)) => {
                    let mut attempt = Attempt::at(open, phase);
                    attempt.end_with_draft(&mut self.workspace, store, "the loop ended before its rework")?;
                }
                (Phase::Committing | Phase::Proposing, Some(commit), None) if open.trial.is_none() => {
                    store.shelve_proposal(&open, commit)?;
                }
                (Phase::Committing | Phase::Proposing, ..) => store.close_open(open.id)?,
                _ => {}
            }
            crash::point("shelving.put_away");
        }
        self.shared.tell()
    }
}

impl Session<'_> {
    /// Ends the session for good: winners that wait for a train are recorded as discarded. Returns which.
    pub fn end_for_good(&mut self) -> Result<Vec<ExperimentId>, SessionError> {
        self.shelve()?;
        let winners: Vec<ExperimentId> = self.shared.store().journal.line.cars().map(|car| car.id).collect();
        for id in &winners {
            self.shared.store().discard(*id, Why::SessionEnds)?;
        }
        self.shared.tell()?;
        self.stop(StopReason::Interrupted { requested: true })?;
        Ok(winners)
    }
}

impl Store {
    /// Keeps a proposal that was not run: its commit under a saved ref, and its description as an idea.
    fn shelve_proposal(&mut self, open: &OpenExperiment, commit: &CommitId) -> Result<(), SessionError> {
        let id: ExperimentId = open.id;
        let saved = self.keep_commit_as(format!("experiment {id}, not run"), &open.base, commit)?;
        let text = format!("{} (proposed and not run; its change is {saved})", open.description);
        self.add_ideas(id, &[NewIdea { text, direction: open.direction.clone(), score: None }])?;
        self.say(Notice::NotRun { id, saved });
        self.close_open(id)
    }
}
