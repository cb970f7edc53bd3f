//! Merging a change with what was kept since it was made: before its run, and by the agent.

use super::calls::Called;
use super::line::merge_onto;
use crate::agent::Merging;
use crate::crash;
use crate::domain::{
    CommitId, Event, ExperimentId, Failure, FailureClass, Outcome, Phase, Record, Replay, experiment_name,
};
use crate::rules::{BeforeRun, FileTerms, Forbidden, before_run};
use crate::session::attempt::Attempt;
use crate::session::calling::{Calling, Work};
use crate::session::check::edits;
use crate::session::error::SessionError;
use crate::session::opened::{Texts, add_said, commit_of};
use crate::session::shared::Shared;
use crate::session::store::Store;
use crate::session::supervise::Ending;
use crate::session::workspace::Workspace;
use crate::state::{OpenExperiment, Ported};

impl Attempt {
    /// Merges the change onto the incumbent before its run, if another one was kept since it was made. Returns whether it
    /// can run: else it goes to the agent.
    pub(super) fn make_fresh(&mut self, store: &mut Store, terms: &FileTerms) -> Result<bool, SessionError> {
        let tip = store.tip();
        if self.open.base == tip || self.open.refused.is_some() {
            return Ok(true);
        }
        let (merged, commit) = merge_onto(store, &self.open, &tip)?;
        let incumbent = store.history.kept_at(&tip).unwrap_or(ExperimentId::BASELINE);
        let was_asked = self.open.merge_with.is_some();
        match (before_run(merged, was_asked), commit) {
            (BeforeRun::Run, Some(commit)) => {
                let why = format!("merged with {} before its run", experiment_name(incumbent));
                self.note_replay(why)?;
                (self.open.base, self.open.commit) = (tip, Some(commit.clone()));
                self.open.merge_with = None;
                check_commit(store, terms, &mut self.open)?;
                store.enter_ready(self)?;
            }
            (BeforeRun::Ask, _) => {
                self.open.merge_with = Some(tip);
                self.enter(store, Phase::Proposing)?;
                crash::point("merging.asked");
                return Ok(false);
            }
            (BeforeRun::Duplicate, _) => {
                self.refuse(FailureClass::Duplicate, format!("{} contains this change", experiment_name(incumbent)));
            }
            _ => self.refuse(FailureClass::Conflict, format!("with {}", experiment_name(incumbent))),
        }
        Ok(true)
    }

    /// Whether the agent is called to merge it: it did not run yet, or won.
    pub(super) fn is_to_be_merged(&self) -> bool {
        let may_ride = |draft: &Record| draft.failure.is_none() && draft.outcome == Outcome::Keep;
        self.open.merge_with.is_some() && self.open.draft.as_deref().is_none_or(may_ride)
    }

    fn refuse(&mut self, class: FailureClass, excerpt: String) {
        self.open.refused = Some(Failure { class, excerpt });
    }

    /// Notes the commit that the change has now, which is about to be another one.
    fn note_replay(&mut self, why: String) -> Result<(), SessionError> {
        let (base, commit) = (self.open.base.clone(), commit_of(&self.open)?);
        self.open.beside.replays.push(Replay { base, commit, value: None, why });
        Ok(())
    }

    /// Has the agent make the change again on what it conflicts with.
    pub(super) async fn merge(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
    ) -> Result<Called, SessionError> {
        let Some(onto) = self.open.merge_with.clone() else { return Ok(Called::Over) };
        let mut again = self.on(onto.clone());
        {
            let store = &mut *shared.store();
            workspace.begin_call(store, &onto)?;
            workspace.remember_untracked(store)?;
        }
        let merging = self.merging(&shared.store())?;
        let call = Calling::of(&again, &mut shared.store(), Some(merging))?;
        let work = match call.ask(workspace, shared, None).await? {
            Ending::Done(Some(work)) => *work,
            Ending::Done(None) => return Ok(Called::Outage),
            Ending::Interrupted => return Ok(Called::Over),
            Ending::Lost => return Ok(Called::Lost),
            Ending::Detached => return Ok(Called::Detached),
        };
        let is_merged = again.commit_merge(workspace, &mut shared.store(), work)?;
        self.end_merge(workspace, shared, again, is_merged).await
    }

    /// The attempt as it is while its change is made again on `onto`.
    fn on(&self, onto: CommitId) -> Attempt {
        let open = OpenExperiment {
            base: onto,
            commit: None,
            draft: None,
            refused: None,
            ported: None,
            runs: 0,
            ..self.open.clone()
        };
        Attempt::at(open, Phase::Proposing)
    }

    fn merging(&self, store: &Store) -> Result<Merging, SessionError> {
        let commit = commit_of(&self.open)?;
        let patch = store.repo.objects.diff_text(&self.open.base, &commit)?;
        let number = self.open.draft.as_ref().and_then(|draft| draft.metric.number());
        Ok(Merging {
            incumbent: store.history.best().map_or(ExperimentId::BASELINE, |(id, _)| id),
            description: self.open.description.clone(),
            commit: commit.to_string(),
            patch: String::from_utf8_lossy(&patch).into_owned(),
            value: number.map(|number| number.raw),
        })
    }

    /// Commits what the call left; returns whether there is anything that may run.
    fn commit_merge(&mut self, workspace: &mut Workspace, store: &mut Store, work: Work) -> Result<bool, SessionError> {
        let Work { exit, usage, proposal, .. } = work;
        let open = &mut self.open;
        open.agent = open.agent.take().map(|agent| agent.with(exit.seconds, usage));
        add_said(&mut open.proposal, proposal.more());
        let texts = Texts { own: Some(open.description.clone()), fallback: None, before: None };
        let known = workspace.known_untracked()?;
        let made = self.make_commit(workspace, store, &known, texts)?;
        crash::point("merging.change_committed");
        store.say(Event::AgentFinished {
            id: self.open.id,
            seconds: exit.seconds,
            changed: made.is_some(),
            exit: exit.exit,
            timed_out: exit.timed_out,
            said: String::new(),
        });
        let Some((commit, change)) = made else { return Ok(false) };
        workspace.move_head(store, &commit, &[&self.open.base], "merged")?;
        workspace.repo.working_tree.adopt_index(change)?;
        Ok(self.open.refused.is_none())
    }

    /// Goes on with what the agent made: a winner waits for a train again, and what has not run yet waits for a slot.
    async fn end_merge(
        &mut self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
        again: Attempt,
        is_merged: bool,
    ) -> Result<Called, SessionError> {
        let id = self.open.id;
        (self.open.agent, self.open.proposal) = (again.open.agent.clone(), again.open.proposal.clone());
        let commit = again.open.commit.clone().filter(|_| is_merged);
        if self.open.draft.is_some() {
            let store = &mut *shared.store();
            if let Some(commit) = commit {
                let base = again.open.base.clone();
                store.keep_commit_as(format!("experiment {id}, merged by the agent"), &base, &commit)?;
                self.open.ported = Some(Ported { base, commit });
            }
            store.journal.line.answered(id);
            (self.open.merge_with, self.open.seat) = (None, None);
            self.enter(store, Phase::Waiting)?;
            return Ok(Called::Over);
        }
        match commit {
            Some(commit) => {
                self.note_replay("made again by the agent, as it conflicted".into())?;
                (self.open.base, self.open.commit) = (again.open.base.clone(), Some(commit));
                self.open.fingerprint = again.open.fingerprint.clone();
                shared.store().enter_ready(self)?;
            }
            None => {
                self.refuse(FailureClass::Conflict, "the agent did not merge it".into());
                self.phase = Phase::Committing;
                self.finish(workspace, shared, None).await?;
            }
        }
        Ok(Called::Over)
    }
}

/// Looks again whether a merged change may run.
fn check_commit(store: &Store, terms: &FileTerms, open: &mut OpenExperiment) -> Result<(), SessionError> {
    open.refused = refuse_commit(store, terms, &open.base, &commit_of(open)?)?;
    Ok(())
}

/// Why the change from `base` to `commit` may not run, by its files and its size.
pub(super) fn refuse_commit(
    store: &Store,
    terms: &FileTerms,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Option<Failure>, SessionError> {
    Ok(terms.refuse(&edits(store, terms, base, commit)?, &Forbidden::default()))
}
