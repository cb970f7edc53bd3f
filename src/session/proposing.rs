//! From a working tree that somebody edited to a commit on the session's branch.

use super::calling::Work;
use super::error::SessionError;
use super::learning::note_offer;
use super::open::Session;
use super::opened::{Texts, describe};
use super::supervise::Ending;
use crate::agent::Call;
use crate::crash;
use crate::domain::{AgentCall, CommitId, Event, Notice, Phase};
use crate::git::Untracked;
use crate::state::OpenExperiment;

/// The outcome of a finished call of the agent.
pub(super) enum CallResult {
    /// A commit on the branch; its run is entered in the journal.
    Change(Box<OpenExperiment>),
    /// No change.
    Nothing {
        /// How long the agent was called, in seconds.
        seconds: f64,
    },
    /// The agent cannot work now. What it had done is saved, and the journal says why.
    Outage,
}

impl Session<'_> {
    /// Calls the agent and commits what it changed. It is called once, and once more when it was to go in a new direction
    /// and names one that was tried, or none.
    pub(super) async fn propose(&mut self) -> Result<Ending<CallResult>, SessionError> {
        let id = self.store.history.next_id();
        let base = self.store.tip();
        let mut open = OpenExperiment::new(id, base.clone(), self.store.now());
        if !std::mem::take(&mut self.workspace.untracked.is_current) {
            self.workspace.remember_untracked(&mut self.store)?;
        }
        self.store.enter(Phase::Proposing, open.clone())?;
        crash::point("proposing.entered");
        let call = Call { folder: self.store.run_folder(id)? };
        let mut work = match self.ask_agent(&call, &open, None).await?.done() {
            Ok(Some(work)) => *work,
            Ok(None) => return Ok(Ending::Done(CallResult::Outage)),
            Err(ending) => return Ok(ending),
        };
        if let Some(why) = self.workspace.asked_again(&mut self.store, &work.proposal, &open)? {
            self.emit(Notice::AskedAgain(why.to_string()))?;
            self.workspace.reset_to(&mut self.store, &base, id)?;
            crash::point("proposing.repeat_put_back");
            self.workspace.remember_untracked(&mut self.store)?;
            let (seconds, usage) = (work.exit.seconds, work.usage);
            work = match self.ask_agent(&call, &open, Some(&why)).await?.done() {
                Ok(Some(work)) => *work,
                Ok(None) => return Ok(Ending::Done(CallResult::Outage)),
                Err(ending) => return Ok(ending),
            };
            work.exit.seconds += seconds;
            work.usage.add(usage);
        }
        let Work { exit, cut_short, usage, proposal, said, described } = work;
        open.direction = proposal.direction.clone();
        open.proposal = proposal.more();
        open.proposal_error = proposal.error.clone();
        note_offer(&self.memories, &mut open);
        let agent = self.store.contract.agent.clone();
        open.agent = agent.map(|command| AgentCall::new(command, exit.seconds, usage));
        // A call that was cut short is made again, and counts once.
        self.store.journal.iteration += 1;
        let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
        let known = self.workspace.known_untracked(&mut self.store)?;
        let committed = self.commit_change(&mut open, &known, texts)?;
        crash::point("proposing.change_committed");
        self.emit(Event::AgentFinished {
            id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: said.clone().unwrap_or_default(),
        })?;
        match committed {
            Some(_) => Ok(Ending::Done(CallResult::Change(Box::new(open)))),
            None => {
                let said = said.unwrap_or_default();
                let before = self.store.journal.rung;
                if cut_short {
                    // Nobody knows what it would have come to. It is made again.
                    self.store.journal.iteration = self.store.journal.iteration.saturating_sub(1);
                } else {
                    self.store.note_idle_call(&said)?;
                }
                self.store.note_findings(id, &proposal.learned())?;
                self.store.learn_from_pivot(before)?;
                self.store.say_directive(before);
                self.enter_idle()?;
                Ok(Ending::Done(CallResult::Nothing { seconds: exit.seconds }))
            }
        }
    }

    /// Commits the change in the working tree on `open.base`, whatever happened to HEAD, the branch and the index
    /// meanwhile, enters its run in the journal unless it is refused, and moves the branch to it. `None` when nothing changed; branch,
    /// index and working tree are then at the base.
    pub(super) fn commit_change(
        &mut self,
        open: &mut OpenExperiment,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let tip = self.workspace.reclaim_branch(&mut self.store, &open.base)?;
        let mut found = self.workspace.undo_forbidden(&mut self.store, open)?;
        let change = self.store.repo.propose(&open.base, known)?;
        self.workspace.clear_out(&mut self.store, open, &change, &mut found)?;
        if change.is_empty() && change.too_large().is_empty() && found.is_empty() {
            self.workspace.move_branch(&mut self.store, &open.base, &[], "nothing changed")?;
            self.store.repo.adopt_index(change)?;
            return Ok(None);
        }
        let made_by_agent = tip != open.base
            && self.store.repo.parents(&tip)? == [open.base.clone()]
            && self.store.repo.tree_of(&tip)? == change.tree();
        let subject = self.store.subject_of_call(&tip, &open.base)?;
        let stat = self.store.repo.proposal_stat(&open.base, &change)?;
        open.description = texts.choose(subject, || describe(&change, stat));
        let (commit, unsynced) = if made_by_agent {
            (tip.clone(), self.store.repo.unsynced_commit(&change, &tip)?)
        } else {
            self.store.repo.commit_unsynced(&change, &open.base, &open.description)?
        };
        self.store.written.unsynced.append(unsynced);
        self.workspace.check(&mut self.store, open, &commit, change.too_large(), &found)?;
        open.commit = Some(commit.clone());
        crash::point("committing.commit_written");
        *open = self.prepare_run(open.clone())?;
        crash::point("committing.commit_noted");
        self.workspace.move_branch(&mut self.store, &commit, &[&open.base], &format!("experiment {}", open.id))?;
        crash::point("committing.branch_advanced");
        self.store.repo.adopt_index(change)?;
        Ok(Some(commit))
    }
}
