//! From a working tree that somebody edited to a commit on the session's branch.

use super::attempt::Attempt;
use super::calling::{Calling, Work};
use super::error::SessionError;
use super::learning::note_offer;
use super::open::Session;
use super::opened::{Texts, describe};
use super::supervise::Ending;
use crate::crash;
use crate::domain::{AgentCall, CommitId, Event, Notice, Phase};
use crate::git::Untracked;
use crate::state::OpenExperiment;

/// The outcome of a finished call of the agent.
pub(super) enum CallResult {
    /// A commit on the branch; its run is entered in the journal.
    Change(Box<Attempt>),
    /// No change.
    Nothing {
        /// How long the agent was called, in seconds.
        seconds: f64,
    },
    /// The agent cannot work now. What it had done is saved, and the journal says why.
    Outage,
}

impl Attempt {
    /// Calls the agent and commits what it changed. It is called once, and once more when it was to go in a new direction
    /// and names one that was tried, or none.
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
        // A call that was cut short is made again, and counts once.
        session.store.journal.iteration += 1;
        let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
        let known = session.workspace.known_untracked(&mut session.store)?;
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
                    // Nobody knows what it would have come to. It is made again.
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

    /// Commits the change in the working tree on its base, whatever happened to HEAD, the branch and the index
    /// meanwhile, enters its run in the journal unless it is refused, and moves the branch to it. `None` when nothing changed; branch,
    /// index and working tree are then at the base.
    pub(super) fn commit_change(
        &mut self,
        session: &mut Session<'_>,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let tip = session.workspace.reclaim_branch(&mut session.store, &self.open.base)?;
        let mut found = session.workspace.undo_forbidden(&mut session.store, &self.open)?;
        let change = session.store.repo.propose(&self.open.base, known)?;
        session.workspace.clear_out(&mut session.store, &self.open, &change, &mut found)?;
        if change.is_empty() && change.too_large().is_empty() && found.is_empty() {
            session.workspace.move_branch(&mut session.store, &self.open.base, &[], "nothing changed")?;
            session.store.repo.adopt_index(change)?;
            return Ok(None);
        }
        let made_by_agent = tip != self.open.base
            && session.store.repo.parents(&tip)? == [self.open.base.clone()]
            && session.store.repo.tree_of(&tip)? == change.tree();
        let subject = session.store.subject_of_call(&tip, &self.open.base)?;
        let stat = session.store.repo.proposal_stat(&self.open.base, &change)?;
        self.open.description = texts.choose(subject, || describe(&change, stat));
        let (commit, unsynced) = if made_by_agent {
            (tip.clone(), session.store.repo.unsynced_commit(&change, &tip)?)
        } else {
            session.store.repo.commit_unsynced(&change, &self.open.base, &self.open.description)?
        };
        session.store.written.unsynced.append(unsynced);
        session.workspace.check(&mut session.store, &mut self.open, &commit, change.too_large(), &found)?;
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
        session.store.repo.adopt_index(change)?;
        Ok(Some(commit))
    }
}
