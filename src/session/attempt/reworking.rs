//! Calls of the agent that rework a change whose run or guard failed, or merge it with what was kept since it was made.

use super::calling::{CallWork, Calling};
use super::change_checks::edits;
use super::lifecycle::{Attempt, Stage};
use super::line::merge_onto;
use super::proposing::Called;
use crate::agent::MergeRequest;
use crate::crash;
use crate::domain::{
    CommitId, Event, ExperimentId, Failure, FailureClass, Outcome, Phase, Record, Replay, Review, ReviewVerdict,
    Version, experiment_name,
};
use crate::rules::{FileTerms, Forbidden, LOST_RETRIES, MergedStep, ReworkCall, before_run};
use crate::session::errors::SessionError;
use crate::session::store::{AGENT, Store, Texts, commit_of, draft_of};
use crate::session::tree::Workspace;
use crate::session::wait::{SessionContext, WaitEnd, gate_of_call};
use crate::state::{OpenExperiment, OpenRun, Ported};

/// The outcome of a rework.
pub(crate) enum ReworkOutcome {
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
        shared: &SessionContext<'_>,
    ) -> Result<WaitEnd<ReworkOutcome>, SessionError> {
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
                return Ok(WaitEnd::Done(ReworkOutcome::Outage));
            }
            let call = Calling::of(self, &mut shared.store(), None)?;
            match call.ask(workspace, shared, None).await? {
                WaitEnd::Done(Some(work)) => break *work,
                WaitEnd::Done(None) => return Ok(WaitEnd::Done(ReworkOutcome::Outage)),
                WaitEnd::Detached => return Ok(WaitEnd::Detached),
                WaitEnd::Interrupted => {
                    return self.give_up(workspace, &mut shared.store(), "its rework was interrupted");
                }
                // Repeats the call, as after a kill of this process.
                WaitEnd::Lost if lost < LOST_RETRIES => lost += 1,
                WaitEnd::Lost => {
                    return self.give_up(workspace, &mut shared.store(), "the agent reworking it was killed");
                }
            }
        };
        self.commit_rework(workspace, &mut shared.store(), work).map(WaitEnd::Done)
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
        work: CallWork,
    ) -> Result<ReworkOutcome, SessionError> {
        let open = &mut self.open;
        work.add_to(open, store);
        let CallWork { exit, proposal, said, described, .. } = work;
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
            return Ok(ReworkOutcome::Version);
        }
        self.end_with_draft(workspace, store, "the agent changed nothing more")?;
        Ok(ReworkOutcome::Recorded)
    }

    fn give_up(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        why: &str,
    ) -> Result<WaitEnd<ReworkOutcome>, SessionError> {
        self.end_with_draft(workspace, store, why)?;
        Ok(WaitEnd::Done(ReworkOutcome::Recorded))
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
        if let Some(ReworkCall { time, limit, .. }) = self.next_rework(draft) {
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

/// Merges the change onto the incumbent before its run, unless that is its base already. Refuses a duplicate or a
/// second conflict. Returns false if the agent must merge it first.
pub(crate) fn make_fresh(attempt: &mut Attempt, store: &mut Store, terms: &FileTerms) -> Result<bool, SessionError> {
    let tip = store.tip();
    if attempt.open.base == tip || attempt.open.refused.is_some() {
        return Ok(true);
    }
    let (merged, commit) = merge_onto(store, &attempt.open, &tip)?;
    let incumbent = store.history.kept_at(&tip).unwrap_or(ExperimentId::BASELINE);
    let was_asked = attempt.open.merge_with.is_some();
    match (before_run(merged, was_asked), commit) {
        (MergedStep::Run, Some(commit)) => {
            let why = format!("merged with {} before its run", experiment_name(incumbent));
            note_replay(attempt, why)?;
            (attempt.open.base, attempt.open.commit) = (tip, Some(commit.clone()));
            attempt.open.merge_with = None;
            check_commit(store, terms, &mut attempt.open)?;
            store.enter_ready(attempt)?;
        }
        (MergedStep::Ask, _) => {
            attempt.open.merge_with = Some(tip);
            attempt.enter(store, Phase::Proposing)?;
            crash::point("merging.asked");
            return Ok(false);
        }
        (MergedStep::Duplicate, _) => {
            refuse(attempt, FailureClass::Duplicate, format!("{} contains this change", experiment_name(incumbent)));
        }
        _ => refuse(attempt, FailureClass::Conflict, format!("with {}", experiment_name(incumbent))),
    }
    Ok(true)
}

/// Returns whether to call the agent for a merge: one is requested, and the change has not run yet or won.
pub(crate) fn is_to_be_merged(attempt: &Attempt) -> bool {
    let may_ride = |draft: &Record| draft.failure.is_none() && draft.outcome == Outcome::Keep;
    attempt.open.merge_with.is_some() && attempt.open.draft.as_deref().is_none_or(may_ride)
}

fn refuse(attempt: &mut Attempt, class: FailureClass, excerpt: String) {
    attempt.open.refused = Some(Failure::new(class, excerpt));
}

/// Notes the commit that the change has now, which is about to be another one.
fn note_replay(attempt: &mut Attempt, why: String) -> Result<(), SessionError> {
    let (base, commit) = (attempt.open.base.clone(), commit_of(&attempt.open)?);
    attempt.open.beside.replays.push(Replay { base, commit, value: None, why });
    Ok(())
}

/// Has the agent make the change again on what it conflicts with.
pub(crate) async fn merge(
    attempt: &mut Attempt,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<Called, SessionError> {
    let Some(onto) = attempt.open.merge_with.clone() else { return Ok(Called::Over) };
    let mut again = on(attempt, onto.clone());
    {
        let store = &mut *shared.store();
        workspace.begin_call(store, &onto)?;
        workspace.remember_untracked(store)?;
    }
    let merging = merging(attempt, &shared.store())?;
    let call = Calling::of(&again, &mut shared.store(), Some(merging))?;
    let work = match call.ask(workspace, shared, None).await? {
        WaitEnd::Done(Some(work)) => *work,
        WaitEnd::Done(None) => return Ok(Called::Outage),
        WaitEnd::Interrupted => return Ok(Called::Over),
        WaitEnd::Lost => return Ok(Called::Lost),
        WaitEnd::Detached => return Ok(Called::Detached),
    };
    let is_merged = commit_merge(&mut again, workspace, &mut shared.store(), work)?;
    end_merge(attempt, workspace, shared, again, is_merged).await
}

/// The attempt as it is while its change is made again on `onto`.
fn on(attempt: &Attempt, onto: CommitId) -> Attempt {
    let open =
        OpenExperiment { base: onto, commit: None, draft: None, refused: None, ported: None, ..attempt.open.clone() };
    Attempt::in_phase(open, Phase::Proposing)
}

fn merging(attempt: &Attempt, store: &Store) -> Result<MergeRequest, SessionError> {
    let commit = commit_of(&attempt.open)?;
    let patch = store.repo.objects.diff_text(&attempt.open.base, &commit)?;
    let number = attempt.open.draft.as_ref().and_then(|draft| draft.metric.number());
    Ok(MergeRequest {
        incumbent: store.history.standing().map_or(ExperimentId::BASELINE, |(id, _)| id),
        description: attempt.open.description.clone(),
        commit: commit.to_string(),
        patch: String::from_utf8_lossy(&patch).into_owned(),
        value: number.map(|number| number.raw),
    })
}

/// Commits what the call left; returns whether there is anything that may run.
fn commit_merge(
    attempt: &mut Attempt,
    workspace: &mut Workspace,
    store: &mut Store,
    work: CallWork,
) -> Result<bool, SessionError> {
    let open = &mut attempt.open;
    work.add_to(open, store);
    let CallWork { exit, proposal, .. } = work;
    let own = proposal.description.clone().or_else(|| Some(open.description.clone()));
    let texts = Texts { own, fallback: None, before: None };
    let known = workspace.known_untracked()?;
    let made = attempt.make_commit(workspace, store, &known, texts)?;
    crash::point("merging.change_committed");
    store.note_call_end(attempt.open.id, &exit, made.is_some(), String::new());
    let Some((commit, change)) = made else { return Ok(false) };
    workspace.move_head(store, &commit, &[&attempt.open.base], "merged")?;
    workspace.repo.working_tree.adopt_index(change)?;
    Ok(attempt.open.refused.is_none())
}

/// Goes on with what the agent made: a winner waits for a train again, and what has not run yet waits for a slot.
async fn end_merge(
    attempt: &mut Attempt,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
    again: Attempt,
    is_merged: bool,
) -> Result<Called, SessionError> {
    let id = attempt.open.id;
    (attempt.open.agent, attempt.open.proposal) = (again.open.agent.clone(), again.open.proposal.clone());
    let commit = again.open.commit.clone().filter(|_| is_merged);
    if attempt.open.draft.is_some() {
        let store = &mut *shared.store();
        if let Some(commit) = commit {
            let base = again.open.base.clone();
            store.refs().keep_of(id, "merged by the agent", &commit)?;
            attempt.open.ported = Some(Ported { base, commit });
            if let Some(review) = attempt.open.draft.as_mut().and_then(|draft| draft.review.as_mut()) {
                *review = Review::of(ReviewVerdict::Unreviewed, "the agent merged it with what was kept since");
            }
        }
        (attempt.open.merge_with, attempt.open.seat) = (None, None);
        attempt.enter(store, Phase::Waiting)?;
        return Ok(Called::Over);
    }
    match commit {
        Some(commit) => {
            note_replay(attempt, "made again by the agent, as it conflicted".into())?;
            (attempt.open.base, attempt.open.commit) = (again.open.base.clone(), Some(commit));
            attempt.open.description.clone_from(&again.open.description);
            attempt.open.fingerprint = again.open.fingerprint.clone();
            shared.store().enter_ready(attempt)?;
        }
        None => {
            refuse(attempt, FailureClass::Conflict, "the agent did not merge it".into());
            attempt.phase = Phase::Committing;
            attempt.finish(workspace, shared, None).await?;
        }
    }
    Ok(Called::Over)
}

/// Looks again whether a merged change may run.
fn check_commit(store: &Store, terms: &FileTerms, open: &mut OpenExperiment) -> Result<(), SessionError> {
    open.refused = refuse_commit(store, terms, &open.base, &commit_of(open)?)?;
    Ok(())
}

/// Checks the files and the size of the change from `base` to `commit`. Returns a failure if it must not run.
pub(crate) fn refuse_commit(
    store: &Store,
    terms: &FileTerms,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Option<Failure>, SessionError> {
    Ok(terms.refuse(&edits(store, terms, base, commit)?, &Forbidden::default()))
}
