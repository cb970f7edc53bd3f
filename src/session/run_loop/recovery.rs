//! Picks up attempts that an earlier process left open, opens a session again after it waited for an answer, and saves
//! unfinished work when a loop ends.

use super::dispatcher::Dispatcher;
use super::session::Session;
use crate::crash;
use crate::domain::{CommitId, ExperimentId, NewIdea, Phase, Record, StopReason, with_causes};
use crate::git::Repo;
use crate::machine::{Act, Attempt, AttemptEntry, AttemptHead, Made, Save};
use crate::rules::{History, OpenAtEnd, Shelved, Why, shelve};
use crate::session::attempt::{MeasuredChange, close_trials, discard, end_jobs, facts_of, leave_as_idea, take_steps};
use crate::session::errors::SessionError;
use crate::session::files::read_history;
use crate::session::handlers::UsersTree;
use crate::session::plan::Plan;
use crate::session::store::{Interrupts, Store, job_of};
use crate::session::wait::{Alerted, Observer, needed, report_unopened, trouble_of};

impl Dispatcher<'_, '_> {
    /// Finishes or picks up each attempt that is open, but for a baseline that is not recorded.
    pub(crate) async fn recover(&mut self) -> Result<(), SessionError> {
        let mut left = all_open(&self.shared.store());
        // *In place* a rerun had the tree of a change that stays open.
        left.sort_by_key(|left| !matches!(left.attempt, Attempt::Rerun(_)));
        for entry in left {
            let found = facts_of(&entry, &self.shared.store(), self.shared.executor_of(&job_of(&entry)));
            let (id, phase) = (entry.attempt.id(), found.phase);
            if id.is_baseline() && !found.recorded {
                continue;
            }
            let is_in_slot = match phase {
                Phase::Running | Phase::Guarding | Phase::Confirming => true,
                Phase::Reviewing => !self.trees.are_own(),
                Phase::Recording | Phase::Settling => !found.recorded && !found.has_draft,
                _ => false,
            };
            if is_in_slot {
                self.resume(entry)?;
                continue;
            }
            let seat = entry.attempt.head().seat.filter(|_| phase == Phase::Proposing && !found.recorded);
            if seat.is_some() {
                // No agent may be at work in a tree that is lent.
                end_jobs(self.shared, id).await?;
            }
            let mut seat = seat.map(|seat| self.seat(seat)).transpose()?.flatten();
            let tree = seat.as_deref_mut().or_else(|| self.trees.users());
            let ended = take_steps(entry, tree, self.shared, &self.terms, None, found).await;
            seat.into_iter().for_each(|seat| self.give_back(seat));
            self.end.attempted = ended?.or(self.end.attempted.take());
            if phase == Phase::Committing && self.shared.store().journal.find(id).is_some() {
                self.lanes.await_slot(id);
            }
        }
        drop_left_refs(&mut self.shared.store())?;
        self.restore_branch("resumed")
    }
}

impl Session<'_> {
    /// Puts away what waits and does not run any more: proposals become ideas with their commits, and what was to be
    /// reworked is recorded as it was measured. Winners stay open, and so do proposals for the queue of a cluster if the loop
    /// `was_stopped`.
    pub(crate) fn shelve(&mut self, was_stopped: bool) -> Result<(), SessionError> {
        let is_queued = was_stopped && self.shared.store().journal.is_on_cluster();
        let open = all_open(&self.shared.store());
        for AttemptEntry { attempt, .. } in open {
            let store = &mut *self.shared.store();
            let id = attempt.id();
            match (shelve(OpenAtEnd { is_queued, ..at_end(&attempt) }), attempt) {
                (Shelved::Waits, Attempt::MergeWinner { mut draft, .. }) => {
                    (draft.made.head.seat, draft.made.asked) = (None, None);
                    store.enter(Attempt::Winner(draft))?;
                }
                (Shelved::Recorded, attempt) => record_measured(store, attempt, self.workspace.users())?,
                (Shelved::Idea, attempt) => match attempt.made() {
                    Some(made) if self.workspace.owner.follows_branch() => {
                        leave_as_idea(made, &mut self.workspace, store)?;
                    }
                    Some(Made { head, commit, .. }) => {
                        store.keep_as_idea(head, commit)?;
                        store.close_open(id)?;
                    }
                    None => store.close_open(id)?,
                },
                (Shelved::Closed, attempt) => {
                    if let Some(made) = attempt.made().filter(|_| self.workspace.owner.follows_branch()) {
                        self.workspace.restore_base(store, made)?;
                    }
                    store.close_open(id)?;
                }
                (Shelved::Stays | Shelved::Waits, _) => continue,
            }
            crash::point("shelving.put_away");
        }
        self.shared.publish()
    }
}

impl Session<'_> {
    /// Ends the session for good: winners that wait for a train, and changes whose fresh runs are not over, are recorded as
    /// discarded. Returns which.
    pub async fn end_for_good(&mut self) -> Result<Vec<ExperimentId>, SessionError> {
        self.shelve(false)?;
        let mut ended = Vec::new();
        let open = all_open(&self.shared.store());
        for AttemptEntry { attempt, .. } in open {
            let (id, phase) = (attempt.id(), attempt.phase());
            if let Attempt::Confirm(draft) = attempt
                && draft.made.head.trial().is_none()
            {
                end_jobs(&self.shared, id).await?;
                ended.push(id);
                let change = MeasuredChange { draft, phase };
                change.leave_unconfirmed(&mut self.workspace, &mut self.shared.store())?;
            }
        }
        let winners = self.shared.store().journal.winners();
        for id in &winners {
            discard(&mut self.shared.store(), *id, Why::SessionEnds)?;
        }
        close_trials(&mut self.shared.store(), &[])?;
        self.shared.publish()?;
        self.stop(StopReason::Interrupted { requested: true })?;
        ended.extend(winners);
        Ok(ended)
    }
}

/// The attempts that are open, as the journal has them.
pub(crate) fn all_open(store: &Store) -> Vec<AttemptEntry> {
    store.journal.attempts.open.clone()
}

/// The facts about an attempt in the journal.
fn at_end(attempt: &Attempt) -> OpenAtEnd {
    let is_asked = match attempt {
        Attempt::Merge { .. } | Attempt::MergeWinner { .. } => true,
        Attempt::Rework(draft) => draft.made.asked.is_some(),
        attempt => attempt.made().is_some_and(|made| made.asked.is_some()),
    };
    OpenAtEnd {
        phase: attempt.phase(),
        is_trial: attempt.head().first_run_counts(),
        has_commit: attempt.commit().is_some(),
        has_draft: attempt.measured().is_some(),
        is_asked,
        is_sound: attempt.measured().is_some_and(|record| record.failure.is_none()),
        is_queued: false,
    }
}

/// Drops the refs of commits whose attempts the journal does not have, as it was lost; each commit is saved first.
fn drop_left_refs(store: &mut Store) -> Result<(), SessionError> {
    let tag = store.contract.tag.clone();
    let open: Vec<String> = store.journal.attempts().map(|open| tag.open_ref(open.id())).collect();
    for (name, _) in store.repo.refs.refs_under(&format!("{}/open", tag.ref_prefix()))? {
        if open.contains(&name) {
            continue;
        }
        if let Some(commit) = store.repo.refs.branch(&name)?.filter(|commit| !store.history.knows(commit)) {
            let save = Save::described(&commit, "left open".to_owned());
            store.save_and_note(&save, "the commit of an attempt that no journal has")?;
        }
        store.perform(&Act::DropRef { name })?;
    }
    Ok(())
}

/// Records the version of a change that was measured last, and saves a later one.
fn record_measured(store: &mut Store, attempt: Attempt, tree: UsersTree<'_>) -> Result<(), SessionError> {
    let Some(version) = attempt.measured().cloned() else { return store.close_open(attempt.id()) };
    if let Some(commit) = attempt.commit().filter(|commit| **commit != version.commit) {
        store.save_and_note(&Save::new(commit), format!("what was last made of experiment {}", attempt.id()))?;
    }
    let made = attempt.into_made();
    let mut record = Record {
        reason: format!("{}; the loop ended before its rework", version.reason),
        beside: made.head.beside.clone(),
        ..version
    };
    record.origin.agent.clone_from(&made.head.agent);
    store.record(made, vec![record], tree)
}

impl Store {
    /// Keeps the commit of a proposal that is not run under a saved ref, and makes its description an idea.
    pub(crate) fn keep_as_idea(&mut self, head: &AttemptHead, commit: &CommitId) -> Result<(), SessionError> {
        let id = head.id;
        let saved = self.save(&Save::of(id, "not run", commit))?;
        let text = format!("{} (proposed and not run; its change is {saved})", head.description);
        self.add_ideas(id, &[NewIdea { text, direction: head.direction.clone(), ..NewIdea::default() }])?;
        self.note(format!("the proposal of experiment {id} was not run; it is in {saved}"));
        Ok(())
    }
}

/// Opens a session again after a wait for an answer. What keeps it from that is reported.
///
/// # Errors
///
/// Those of [`Session::open`].
pub async fn open_again<'a>(
    plan: Plan,
    observer: Observer<'a>,
    interrupts: Interrupts,
) -> Result<Session<'a>, SessionError> {
    let (root, folder, contract) = (plan.repo.worktree().to_owned(), plan.folder.clone(), plan.contract.clone());
    let (clock, listener) = (plan.clock, interrupts.listen());
    let opened = Session::open(plan, observer, interrupts).await;
    // A contradiction is reported already.
    if let Err(error) = &opened
        && let Some(kind) = trouble_of(error).filter(|_| !matches!(error, SessionError::Contradiction(_)))
    {
        let repo = Repo::discover(&root);
        let history = repo.map_err(SessionError::from).and_then(|repo| read_history(&repo, &contract.tag));
        let history = history.unwrap_or_else(|_| History::new(Vec::new()));
        let of = Alerted { contract: &contract, history: &history, root: &root, logs: folder.logs(), clock };
        report_unopened(&folder, &of, listener, kind, (&with_causes(error), &needed(error))).await;
    }
    opened
}
