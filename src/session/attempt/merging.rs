//! Merging a change with what was kept since it was made: before its run, and by the agent.

use super::calling::{Calling, Work};
use super::change_checks::edits;
use super::lifecycle::Attempt;
use super::line::merge_onto;
use super::seat_calls::Called;
use crate::agent::Merging;
use crate::crash;
use crate::domain::{
    CommitId, ExperimentId, Failure, FailureClass, Outcome, Phase, Record, Replay, Review, ReviewVerdict,
    experiment_name,
};
use crate::rules::{BeforeRun, FileTerms, Forbidden, before_run};
use crate::session::errors::SessionError;
use crate::session::store::{Store, Texts, commit_of};
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared};
use crate::state::{OpenExperiment, Ported};

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
        (BeforeRun::Run, Some(commit)) => {
            let why = format!("merged with {} before its run", experiment_name(incumbent));
            note_replay(attempt, why)?;
            (attempt.open.base, attempt.open.commit) = (tip, Some(commit.clone()));
            attempt.open.merge_with = None;
            check_commit(store, terms, &mut attempt.open)?;
            store.enter_ready(attempt)?;
        }
        (BeforeRun::Ask, _) => {
            attempt.open.merge_with = Some(tip);
            attempt.enter(store, Phase::Proposing)?;
            crash::point("merging.asked");
            return Ok(false);
        }
        (BeforeRun::Duplicate, _) => {
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
    shared: &Shared<'_>,
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
        Ending::Done(Some(work)) => *work,
        Ending::Done(None) => return Ok(Called::Outage),
        Ending::Interrupted => return Ok(Called::Over),
        Ending::Lost => return Ok(Called::Lost),
        Ending::Detached => return Ok(Called::Detached),
    };
    let is_merged = commit_merge(&mut again, workspace, &mut shared.store(), work)?;
    end_merge(attempt, workspace, shared, again, is_merged).await
}

/// The attempt as it is while its change is made again on `onto`.
fn on(attempt: &Attempt, onto: CommitId) -> Attempt {
    let open =
        OpenExperiment { base: onto, commit: None, draft: None, refused: None, ported: None, ..attempt.open.clone() };
    Attempt::at(open, Phase::Proposing)
}

fn merging(attempt: &Attempt, store: &Store) -> Result<Merging, SessionError> {
    let commit = commit_of(&attempt.open)?;
    let patch = store.repo.objects.diff_text(&attempt.open.base, &commit)?;
    let number = attempt.open.draft.as_ref().and_then(|draft| draft.metric.number());
    Ok(Merging {
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
    work: Work,
) -> Result<bool, SessionError> {
    let open = &mut attempt.open;
    work.add_to(open, store);
    let Work { exit, proposal, .. } = work;
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
    shared: &Shared<'_>,
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
