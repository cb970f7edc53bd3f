//! Calls of the agent that rework a change whose run or guard failed, or merge it with what was kept since it was made.

use super::{
    CallWork, Called, Calling, MeasuredChange, RunningChange, Stage, commit_change, edits, end_with_version,
    make_commit, merge_onto,
};
use crate::agent::MergeRequest;
use crate::crash;
use crate::domain::{
    CommitId, Event, ExperimentId, Failure, FailureClass, Replay, Review, ReviewVerdict, Version, experiment_name,
};
use crate::machine::{Attempt, AttemptHead, Draft, Made, Ported, Save};
use crate::rules::{FileTerms, Forbidden, LOST_RETRIES, MergedStep, ReworkCall, before_run};
use crate::session::errors::SessionError;
use crate::session::handlers::Workspace;
use crate::session::store::{AGENT, Store, Texts};
use crate::session::wait::{SessionContext, WaitEnd, gate_of_call};

/// The outcome of a rework.
pub(crate) enum ReworkOutcome {
    /// A next version, which waits for its run.
    Version(Box<RunningChange>),
    /// The last version is recorded, as nothing more comes of it.
    Recorded,
    /// The agent is unavailable; the journal contains the reason.
    Outage,
}

/// Calls the agent again for an experiment, and commits the next version. Without one, records the last that was measured.
pub(crate) async fn rework(
    draft: Draft,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<WaitEnd<ReworkOutcome>, SessionError> {
    let give_up = |draft: Draft, workspace: &mut Workspace, store: &mut Store, why: &str| {
        end_rework(draft, workspace, store, why).map(WaitEnd::Done)
    };
    if shared.times.no_time_for_run(&shared.store()).is_some() {
        return give_up(draft, workspace, &mut shared.store(), "there is no time left to rework it");
    }
    let spent = {
        let store = shared.store();
        store.journal.expenses.calls_enough(&store.contract, shared.times.are_counted())
    };
    if spent.is_some() {
        return give_up(draft, workspace, &mut shared.store(), "the budget of the agent's calls is used up");
    }
    let mut lost = 0;
    let work = loop {
        restore_measured(&draft, workspace, &mut shared.store())?;
        gate_of_call(shared).await?;
        workspace.note_settings(&mut shared.store(), draft.made.head.id, AGENT)?;
        let (base, version) = (&draft.made.head.base, &draft.record.commit);
        workspace.remember_untracked_beside(&mut shared.store(), base, version)?;
        if shared.store().journal.pauses.waits_for_reset() {
            return Ok(WaitEnd::Done(ReworkOutcome::Outage));
        }
        let call = Calling::to_rework(&draft, &mut shared.store())?;
        match call.ask(workspace, shared, None).await? {
            WaitEnd::Done(Some(work)) => break *work,
            WaitEnd::Done(None) => return Ok(WaitEnd::Done(ReworkOutcome::Outage)),
            WaitEnd::Detached => return Ok(WaitEnd::Detached),
            WaitEnd::Interrupted => {
                return give_up(draft, workspace, &mut shared.store(), "its rework was interrupted");
            }
            // Repeats the call, as after a kill of this process.
            WaitEnd::Lost if lost < LOST_RETRIES => lost += 1,
            WaitEnd::Lost => {
                return give_up(draft, workspace, &mut shared.store(), "the agent reworking it was killed");
            }
        }
    };
    commit_rework(draft, workspace, &mut shared.store(), work).map(WaitEnd::Done)
}

/// Restores the measured version, without what its run or its guards changed, with the branch at the base.
fn restore_measured(draft: &Draft, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
    let commit = &draft.record.commit;
    workspace.clear_for_call(store, commit)?;
    workspace.restore(store, commit, commit)?;
    crash::point("rework.put_back");
    workspace.move_head(store, &draft.made.head.base, &[commit], "an experiment being reworked")?;
    crash::point("rework.branch_moved");
    Ok(())
}

/// Commits the next version, which a call left in the working tree. Without one, records the last.
fn commit_rework(
    draft: Draft,
    workspace: &mut Workspace,
    store: &mut Store,
    work: CallWork,
) -> Result<ReworkOutcome, SessionError> {
    let Draft { mut made, record, .. } = draft;
    let head = &mut made.head;
    work.add_to(head, store);
    let CallWork { exit, proposal, said, described, .. } = work;
    head.direction = proposal.direction.clone().or(head.direction.take());
    head.proposal_error = proposal.error.clone().or(head.proposal_error.take());
    let (id, known) = (head.id, workspace.known_untracked()?);
    let tree = workspace.repo.working_tree.propose(&head.base, &known)?.tree();
    let mut is_new = true;
    for version in head.versions.iter().map(|version| &version.commit).chain([&head.base]) {
        is_new = is_new && store.repo.objects.tree_of(version)? != tree;
    }
    let before = Some(head.description.clone());
    let texts = Texts { own: proposal.description, fallback: described, before };
    let next = Made { before: Some(record.clone()), ..made.clone() };
    let committed = if is_new { commit_change(next, workspace, store, (&known, &[]), texts)? } else { None };
    crash::point("rework.change_committed");
    store.note_call_end(id, &exit, committed.is_some(), said.unwrap_or_default());
    if let Some(change) = committed {
        return Ok(ReworkOutcome::Version(Box::new(change)));
    }
    end_rework(Draft::new(made, *record), workspace, store, "the agent changed nothing more")
}

/// Records the version that was measured last.
fn end_rework(
    draft: Draft,
    workspace: &mut Workspace,
    store: &mut Store,
    why: &str,
) -> Result<ReworkOutcome, SessionError> {
    end_with_version(draft.made, *draft.record, workspace, store, why)?;
    Ok(ReworkOutcome::Recorded)
}

impl MeasuredChange {
    /// Saves the version that was measured, and enters the next one in the journal, for which the agent is to be called.
    pub(crate) fn begin_rework(
        self,
        workspace: &mut Workspace,
        store: &mut Store,
        call: ReworkCall,
    ) -> Result<(), SessionError> {
        let mut draft = self.draft;
        let (id, record) = (draft.made.head.id, &draft.record);
        let version = format!("version {}", draft.made.head.versions.len() + 1);
        let reference = store.save(&Save::of(id, &version, &record.commit))?;
        crash::point("rework.version_saved");
        let ReworkCall { time, limit, .. } = call;
        store.note(Event::CalledAgain { id, reason: record.reason.clone(), time, limit });
        store.journal.forget_runs(id, |_| true);
        draft.made.head.versions.push(Version::of(record, reference));
        workspace.remember_beside_protected(store)?;
        store.enter(Attempt::Rework(draft))?;
        crash::point("rework.entered");
        Ok(())
    }
}

/// Merges a change onto the incumbent before its run, unless that is its base already. Refuses a duplicate or a second
/// conflict. Returns false if the agent must merge it first.
pub(crate) fn make_fresh(
    change: &mut RunningChange,
    store: &mut Store,
    terms: &FileTerms,
) -> Result<bool, SessionError> {
    let tip = store.tip();
    let made = &mut change.made;
    if made.head.base == tip || made.refused.is_some() {
        return Ok(true);
    }
    let (merged, commit) = merge_onto(store, made, None, &tip)?;
    let incumbent = experiment_name(store.history.kept_at(&tip).unwrap_or(ExperimentId::BASELINE));
    match (before_run(merged, made.asked.is_some()), commit) {
        (MergedStep::Run, Some(commit)) => {
            note_replay(made, format!("merged with {incumbent} before its run"));
            (made.head.base, made.commit, made.asked) = (tip, commit, None);
            made.refused = refuse_commit(store, terms, &made.head.base, &made.commit)?;
            store.enter_ready(change)?;
        }
        (MergedStep::Ask, _) => {
            let attempt = to_be_merged(made.clone(), tip, store)?;
            store.enter(attempt)?;
            crash::point("merging.asked");
            return Ok(false);
        }
        (MergedStep::Duplicate, _) => {
            made.refused = Some(Failure::new(FailureClass::Duplicate, format!("{incumbent} contains this change")));
        }
        _ => made.refused = Some(conflict(format!("with {incumbent}"))),
    }
    Ok(true)
}

/// An attempt whose agent is to merge its change with the incumbent `onto`. The next version of a change that failed is saved,
/// and its agent reworks the measured one once more.
fn to_be_merged(made: Made, onto: CommitId, store: &mut Store) -> Result<Attempt, SessionError> {
    let Some(record) = made.before.clone() else { return Ok(Attempt::Merge { made, onto }) };
    let what = format!("what was last made of experiment {}", made.head.id);
    store.save_and_note(&Save::change(&made.commit), what)?;
    let made = Made { commit: record.commit.clone(), asked: Some(onto), ..made };
    Ok(Attempt::Rework(Draft::new(made, *record)))
}

fn conflict(excerpt: String) -> Failure {
    Failure::new(FailureClass::Conflict, excerpt)
}

/// Notes the commit that a change has now, which is about to be another one.
fn note_replay(made: &mut Made, why: String) {
    let (base, commit) = (made.head.base.clone(), made.commit.clone());
    made.head.beside.replays.push(Replay { base, commit, value: None, why });
}

/// A call of the agent that merges a change with the incumbent with which it conflicts.
pub(crate) struct MergeCall {
    /// The change.
    pub(crate) made: Made,
    /// The incumbent.
    pub(crate) onto: CommitId,
    /// The winner, if it is one.
    pub(crate) won: Option<Draft>,
}

impl MergeCall {
    /// Has the agent make the change again on the incumbent.
    pub(crate) async fn merge(
        self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Called, SessionError> {
        {
            let store = &mut *shared.store();
            workspace.begin_call(store, &self.onto)?;
            workspace.remember_untracked(store)?;
        }
        let mut head = AttemptHead { base: self.onto.clone(), ..self.made.head.clone() };
        let request = self.request(&shared.store())?;
        let call = Calling::to_merge(&head, &mut shared.store(), request)?;
        let work = match call.ask(workspace, shared, None).await? {
            WaitEnd::Done(Some(work)) => *work,
            WaitEnd::Done(None) => return Ok(Called::Outage),
            WaitEnd::Interrupted => return Ok(Called::Over),
            WaitEnd::Lost => return Ok(Called::Lost),
            WaitEnd::Detached => return Ok(Called::Detached),
        };
        let merged = commit_merge(&mut head, workspace, &mut shared.store(), work)?;
        self.end(workspace, shared, head, merged).await
    }

    fn request(&self, store: &Store) -> Result<MergeRequest, SessionError> {
        let Made { head, commit, .. } = &self.made;
        let patch = store.repo.objects.diff_text(&head.base, commit)?;
        let number = self.won.as_ref().and_then(|draft| draft.record.metric.number());
        Ok(MergeRequest {
            incumbent: store.history.standing().map_or(ExperimentId::BASELINE, |(id, _)| id),
            description: head.description.clone(),
            commit: commit.to_string(),
            patch: String::from_utf8_lossy(&patch).into_owned(),
            value: number.map(|number| number.raw),
        })
    }

    /// Goes on with what the agent made, if that may run: a winner waits for a train again, and what has not run yet waits for
    /// a slot.
    async fn end(
        self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        again: AttemptHead,
        merged: Option<Made>,
    ) -> Result<Called, SessionError> {
        let MergeCall { mut made, onto, won } = self;
        (made.head.agent, made.head.proposal) = (again.agent, again.proposal);
        if let Some(mut draft) = won {
            let store = &mut *shared.store();
            if merged.as_ref().is_some_and(|merged| merged.commit == onto) {
                draft.ported = Some(Ported { base: onto.clone(), commit: onto });
            } else if let Some(Made { head: AttemptHead { description, .. }, commit, .. }) = merged {
                draft.record.description.clone_from(&description);
                made.head.description = description;
                store.save(&Save::of(made.head.id, "merged by the agent", &commit))?;
                draft.ported = Some(Ported { base: onto, commit });
                if let Some(review) = &mut draft.record.proof.review {
                    *review = Review::of(ReviewVerdict::Unreviewed, "the agent merged it with what was kept since");
                }
            }
            (made.head.seat, made.asked) = (None, None);
            store.enter(Attempt::Winner(Draft { made, ..draft }))?;
            return Ok(Called::Over);
        }
        made.asked = Some(onto.clone());
        match merged.filter(|merged| merged.commit != onto) {
            Some(Made { head: AttemptHead { description, .. }, commit, fingerprint, .. }) => {
                note_replay(&mut made, "made again by the agent, as it conflicted".into());
                (made.head.base, made.commit, made.head.description, made.fingerprint) =
                    (onto, commit, description, fingerprint);
                shared.store().enter_ready(&mut RunningChange::new(made))?;
            }
            None => {
                made.refused = Some(conflict("the agent did not merge it".into()));
                Stage::Run(RunningChange::new(made)).finish(workspace, shared, None).await?;
            }
        }
        Ok(Called::Over)
    }
}

/// Commits what the call left; returns it if it may run. A call that ended well and left nothing gives the base.
fn commit_merge(
    head: &mut AttemptHead,
    workspace: &mut Workspace,
    store: &mut Store,
    work: CallWork,
) -> Result<Option<Made>, SessionError> {
    work.add_to(head, store);
    let CallWork { exit, proposal, .. } = work;
    let own = proposal.description.clone().or_else(|| Some(head.description.clone()));
    let texts = Texts { own, fallback: None, before: None };
    let known = workspace.known_untracked()?;
    let made = make_commit(head.clone(), workspace, store, (&known, &[]), texts)?;
    crash::point("merging.change_committed");
    store.note_call_end(head.id, &exit, made.is_some(), String::new());
    let Some((made, change)) = made else {
        let nothing = Made { commit: head.base.clone(), head: head.clone(), ..Made::default() };
        return Ok((exit.exit == Some(0) && !exit.timed_out).then_some(nothing));
    };
    workspace.follow_commit(store, &made, change, "merged")?;
    Ok(Some(made).filter(|made| made.refused.is_none()))
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
