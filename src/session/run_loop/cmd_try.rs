//! `ar try`: one experiment from the working tree, or another version of one that failed a guard.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::session::Session;
use crate::agent::Proposal;
use crate::crash;
use crate::domain::{ExperimentId, FailureClass, Message, Outcome, Phase, Record, StopReason, Unparsed, Version};
use crate::machine::{Attempt, AttemptHead, Made, Origin, Save};
use crate::rules::{History, REWORKS, ReworkCall, directions_tried, doubtful_gain, next_rework};
use crate::session::attempt::{Attempted, RunningChange, commit_change};
use crate::session::errors::{CannotStart, SessionError, TryError, refuse};
use crate::session::store::{Store, Texts, add_said, receive_messages};

/// The outcome of one `ar try`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// The experiment of this number was recorded.
    Recorded(ExperimentId),
    /// Its run is still running; `ar try --continue` keeps waiting.
    StillRunning(ExperimentId),
    /// It was interrupted and rolled back.
    RolledBack,
    /// The change of this experiment is in the working tree again.
    Reworking(ExperimentId),
}

impl Session<'_> {
    /// Makes the change in the working tree, which `proposal` tells of, the next experiment; measures the baseline first if
    /// there is none. Waits for at most `wait`.
    ///
    /// # Errors
    ///
    /// Under a pivot a proposal that names a direction which was tried is refused once; nothing is recorded then.
    pub async fn try_once(&mut self, proposal: Proposal, wait: Option<Duration>) -> Result<Tried, SessionError> {
        let tried = self.try_change(proposal, wait).await;
        self.or_stopped(tried)
    }

    /// Waits on for the experiment that an earlier call left open.
    pub async fn try_continue(&mut self, wait: Option<Duration>) -> Result<Tried, SessionError> {
        let tried = self.wait_on(wait).await;
        self.or_stopped(tried)
    }

    async fn try_change(&mut self, proposal: Proposal, wait: Option<Duration>) -> Result<Tried, SessionError> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        self.end_unseen().await?;
        let store = self.shared.store.get_mut();
        let reworked = reworked(store);
        if let Some(reason) = at_cap(store).filter(|_| reworked.is_none()) {
            let error = refuse(CannotStart, reason.to_string())
                .hint("stop here; only the user may raise the limit, with --session-max-experiments");
            return self.or_roll_back(Err(error.into()));
        }
        let attempted = if store.history.baseline().is_some() {
            let attempt = match reworked {
                Some(record) => self.commit_version(record, proposal)?,
                None => {
                    self.refuse_direction(&proposal)?;
                    self.commit_working_tree(proposal)?
                }
            };
            self.finish(attempt, deadline).await?
        } else {
            let first = match self.workspace.set_aside(store, proposal) {
                Ok(()) => self.first_try(deadline).await,
                Err(error) => Err(error),
            };
            self.or_roll_back(first)?
        };
        self.end_try(attempted)
    }

    /// The reason to stop if the session reached its cap on experiments for `ar try`.
    pub fn at_cap(&self) -> Option<StopReason> {
        at_cap(&self.shared.store())
    }

    /// The reason why the gain of a recorded experiment is doubtful, as a clause; `None` if it is not.
    pub fn doubt_of(&self, id: ExperimentId) -> Option<String> {
        let store = self.shared.store();
        doubtful_gain(&store.contract, &store.history, id)
    }

    /// The user's words for the maker of the next change.
    pub fn words(&self) -> Vec<Message> {
        let store = &mut *self.shared.store();
        receive_messages(store);
        store.messages.coming(&store.journal)
    }

    /// Notes that these words were printed.
    ///
    /// # Errors
    ///
    /// The journal cannot be written.
    pub fn note_printed(&self, words: &[Message]) -> Result<(), SessionError> {
        self.shared.publish()?;
        let store = &mut *self.shared.store();
        store.journal.messages.deliver(words);
        store.write_journal()
    }

    async fn wait_on(&mut self, wait: Option<Duration>) -> Result<Tried, SessionError> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        if self.workspace.owner.is_one_of_many() && self.shared.store().history.baseline().is_some() {
            // Everything that goes on in slots is ended.
            self.run_loop().await?;
            self.stop(StopReason::Interrupted { requested: true })?;
            return Ok(Tried::RolledBack);
        }
        self.end_unseen().await?;
        let recovered = self.finish_open(deadline).await?;
        if recovered != Some(Attempted::StillRunning) {
            self.shelve(false)?;
        }
        let store = self.shared.store.get_mut();
        let is_left = store.journal.has_open();
        let attempted = match recovered {
            // The recovered run may be the baseline that a change waits for.
            None | Some(Attempted::Recorded) if is_left => {
                let first = self.first_try(deadline).await;
                self.or_roll_back(first)?
            }
            Some(attempted) => attempted,
            None => return Err(TryError::NothingOpen.into()),
        };
        self.end_try(attempted)
    }

    /// Refuses a direction that was tried, where a new one is wanted. The same experiment is refused so once: its next
    /// change in such a direction is recorded as a repeat.
    fn refuse_direction(&mut self, proposal: &Proposal) -> Result<(), SessionError> {
        let store = self.shared.store.get_mut();
        let named = proposal.direction.as_deref();
        let refused = store.journal.refuse_direction(&store.history, named);
        let Some(direction) = refused else { return Ok(()) };
        let tried = directions_tried(store.history.records()).into_iter().map(|tried| tried.direction).collect();
        store.write_journal()?;
        Err(TryError::RepeatedDirection { direction, tried }.into())
    }

    /// Commits the change in the working tree as the next experiment.
    pub(crate) fn commit_working_tree(&mut self, proposal: Proposal) -> Result<RunningChange, SessionError> {
        let store = self.shared.store.get_mut();
        let head = AttemptHead {
            direction: proposal.direction.clone(),
            proposal: proposal.more(),
            proposal_error: proposal.error.clone(),
            origin: Origin::Person { replaces: None },
            ..AttemptHead::new(store.allocate(), store.tip(), store.now())
        };
        let known = self.workspace.known_untracked()?;
        store.journal.count_try(proposal.direction.as_deref());
        let texts = Texts { own: proposal.description, fallback: None, before: None };
        let next = Made { head, ..Made::default() };
        let change =
            commit_change(next, &mut self.workspace, store, (&known, &[]), texts)?.ok_or(TryError::NothingToTry)?;
        store.note_unnamed(change.id());
        Ok(change)
    }

    /// Notes that nobody is at work any more when a call has failed, and says of an experiment that a full disk left open
    /// that it can be continued.
    pub(crate) fn or_stopped(&mut self, tried: Result<Tried, SessionError>) -> Result<Tried, SessionError> {
        tried.map_err(|error| {
            if self.shared.store().rolled_back {
                return error;
            }
            if let Err(taken) = self.shared.store().refuse_taken_over() {
                return taken;
            }
            let _ = self.shared.publish();
            let store = self.shared.store.get_mut();
            store.forget_unwritten();
            let is_open = store.journal.leave_by_hand();
            if !is_open {
                // The first error is the one that has to be mended.
                let _ = self.workspace.end_carrying(store);
            }
            let _ = store.write_journal();
            if is_open && error.is_disk_full() { SessionError::Stopped(Box::new(error)) } else { error }
        })
    }

    /// Ends a try in the journal, publishes the new state, and returns the outcome.
    fn end_try(&mut self, attempted: Attempted) -> Result<Tried, SessionError> {
        let store = self.shared.store.get_mut();
        if !store.rolled_back {
            if attempted != Attempted::StillRunning {
                self.workspace.end_carrying(store)?;
            }
            let end = ended_by_hand(store);
            store.journal.end_by_hand(attempted == Attempted::StillRunning, end.as_ref());
            store.write_journal()?;
        }
        store.repo.objects.outlast_gc(&self.shared.machine.get_mut().environment.host)?;
        self.shared.publish()?;
        let store = self.shared.store.get_mut();
        Ok(match attempted {
            Attempted::Waiting if store.journal.in_phase(Phase::Confirming).next().is_none() => {
                Tried::Recorded(store.history.last_id())
            }
            Attempted::Recorded => Tried::Recorded(store.history.last_id()),
            Attempted::StillRunning | Attempted::Waiting => {
                Tried::StillRunning(store.journal.first().map_or(ExperimentId::BASELINE, Attempt::id))
            }
            Attempted::RolledBack => Tried::RolledBack,
        })
    }

    /// Brings the change of the last experiment, which failed a guard, back into the working tree. The next try is its next
    /// version.
    ///
    /// # Errors
    ///
    /// The last experiment failed no guard, or was reworked as often as may be; the working tree has changes.
    pub async fn try_again(&mut self) -> Result<Tried, SessionError> {
        let tried = self.bring_change_back().await;
        self.or_stopped(tried)
    }

    async fn bring_change_back(&mut self) -> Result<Tried, SessionError> {
        self.end_unseen().await?;
        let store = self.shared.store.get_mut();
        let (record, _) = reworkable(&store.history)?;
        let dirty: Vec<_> =
            self.workspace.repo.working_tree.changes()?.tracked.into_iter().map(|(path, _)| path).collect();
        if !dirty.is_empty() {
            return Err(TryError::DirtyBeforeRework(dirty).into());
        }
        self.workspace.restore(store, &record.commit, &record.base)?;
        crash::point("rework.put_back");
        self.workspace.move_head(store, &record.base, &[&record.commit], "an experiment being reworked")?;
        self.workspace.remember_untracked_beside(store, &record.base, &record.commit)?;
        store.journal.bring_back(record.commit.clone());
        store.write_journal()?;
        self.shared.publish()?;
        Ok(Tried::Reworking(record.id))
    }

    /// Commits the change in the working tree as the next version of a recorded experiment. The old record stays until
    /// the new version is measured.
    pub(crate) fn commit_version(&mut self, record: Record, proposal: Proposal) -> Result<RunningChange, SessionError> {
        let store = self.shared.store.get_mut();
        let mut said = record.origin.proposal.as_ref().map(proposal_fields).unwrap_or_default();
        add_said(&mut said, proposal.more());
        let mut head = AttemptHead {
            agent: record.origin.agent.clone(),
            direction: proposal.direction.clone().or_else(|| record.direction.clone()),
            proposal: said,
            proposal_error: proposal.error.clone(),
            origin: Origin::Person { replaces: store.repo.refs.ref_object(&store.contract.tag.record_ref(record.id))? },
            versions: record.change.versions.clone(),
            ..AttemptHead::new(record.id, record.base.clone(), record.origin.started)
        };
        let known = self.workspace.known_untracked()?;
        let tree = self.workspace.repo.working_tree.propose(&head.base, &known)?.tree();
        for version in head.versions.iter().map(|version| &version.commit).chain([&record.commit]) {
            if store.repo.objects.tree_of(version)? == tree {
                return Err(TryError::SameVersion(record.id).into());
            }
        }
        let version = format!("version {}", head.versions.len() + 1);
        let reference = store.save(&Save::of(head.id, &version, &record.commit))?;
        crash::point("rework.version_saved");
        head.versions.push(Version::of(&record, reference));
        store.history.forget(head.id);
        store.journal.calls.count_try(false);
        let texts = Texts { own: proposal.description, fallback: None, before: Some(record.description.clone()) };
        let next = Made { head, before: Some(Box::new(record)), ..Made::default() };
        let change =
            commit_change(next, &mut self.workspace, store, (&known, &[]), texts)?.ok_or(TryError::NothingToTry)?;
        store.journal.calls.set_rework(None);
        Ok(change)
    }
}

/// The reason to stop driving the session by `ar try`, if there is one.
fn ended_by_hand(store: &Store) -> Option<StopReason> {
    if store.folder.received_stop().is_some() {
        return Some(StopReason::Interrupted { requested: true });
    }
    at_cap(store)
}

/// The reason to stop if the session reached its cap on experiments for `ar try`.
fn at_cap(store: &Store) -> Option<StopReason> {
    store.journal.expenses.tries_enough(&store.contract, &store.history)
}

/// The last experiment, if it failed a guard and may be reworked, and how often it was.
fn reworkable(history: &History) -> Result<(Record, ReworkCall), SessionError> {
    let is_guard = |record: &&Record| {
        record.outcome == Outcome::Discard
            && record.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::GuardFailed)
    };
    let record = history.records().last().filter(is_guard).ok_or(TryError::NothingToRework)?;
    let rework = next_rework(record.failure.as_ref(), &record.change.versions);
    let rework = rework.ok_or(TryError::ReworkedOften { id: record.id, limit: REWORKS })?;
    Ok((record.clone(), rework))
}

/// The experiment whose change was brought back into the working tree.
fn reworked(store: &Store) -> Option<Record> {
    let (record, _) = reworkable(&store.history).ok()?;
    store.journal.calls.reworks(&record.commit).then_some(record)
}

/// The fields of a recorded proposal.
fn proposal_fields(proposal: &Unparsed) -> Map<String, Value> {
    match serde_json::to_value(proposal) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
