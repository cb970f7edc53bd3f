//! Calls of agents in seats: those that make an experiment, with the commit of what is in the working tree then, and those
//! for text alone, a summary, and at a pivot proposals in roles.

use jiff::Timestamp;

use super::calling::{CallWork, Calling, Purpose};
use super::change_checks::repeated_direction;
use super::lifecycle::Attempt;
use super::reworking::{ReworkOutcome, is_to_be_merged, merge};
use crate::crash;
use crate::domain::{
    AgentCall, CommitId, Contract, Event, ExperimentId, Notice, Phase, Record, Role, RoleProposal, ended_text,
    with_causes,
};
use crate::git::{Proposal as Change, Untracked};
use crate::measure::plain_text;
use crate::session::errors::SessionError;
use crate::session::store::{AGENT, NO_KEEP, Store, Texts, commit_of, describe, note_offer};
use crate::session::tree::Workspace;
use crate::session::wait::{SessionContext, WaitEnd, write_in_folder};
use crate::state::{Journal, OpenExperiment};

/// The outcome of a finished call of the agent.
pub(crate) enum CallResult {
    /// A commit on the branch, with its run in the journal.
    Change(Box<Attempt>),
    /// No change.
    Nothing {
        /// Duration of the call in seconds.
        seconds: f64,
    },
    /// The agent is unavailable. Its changes are saved, and the journal contains the reason.
    Outage,
}

impl Attempt {
    /// Calls the agent for a new attempt and commits its change. Calls it once more if it was to take a new direction and
    /// names one that was tried.
    pub(crate) async fn propose(
        self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<WaitEnd<CallResult>, SessionError> {
        let attempt = self;
        let id = attempt.open.id;
        let call = Calling::of(&attempt, &mut shared.store(), None)?;
        let mut work = match call.ask(workspace, shared, None).await?.done() {
            Ok(Some(work)) => *work,
            Ok(None) => return Ok(WaitEnd::Done(CallResult::Outage)),
            Err(ending) => return Ok(ending),
        };
        let direction = work.proposal.direction.as_deref();
        let repeated = repeated_direction(&shared.store(), direction, attempt.open.seat);
        if let Some(direction) = repeated {
            shared.emit(format!("the direction \"{direction}\" was tried before; asking the agent once more"))?;
            workspace.reset_to(&mut shared.store(), &attempt.open.base, id)?;
            crash::point("proposing.repeat_put_back");
            workspace.remember_untracked(&mut shared.store())?;
            workspace.note_settings(&mut shared.store(), id, AGENT)?;
            let (seconds, usage) = (work.exit.seconds, work.usage);
            work = match call.ask(workspace, shared, Some(&direction)).await?.done() {
                Ok(Some(work)) => *work,
                Ok(None) => return Ok(WaitEnd::Done(CallResult::Outage)),
                Err(ending) => return Ok(ending),
            };
            work.exit.seconds += seconds;
            work.usage.add(usage);
        }
        let result = attempt.commit_work(workspace, &mut shared.store(), work)?;
        shared.publish()?;
        Ok(WaitEnd::Done(result))
    }

    /// Opens an experiment of this number on the best one, in a seat where there are several.
    pub(crate) fn open(
        id: ExperimentId,
        seat: Option<u32>,
        workspace: &mut Workspace,
        store: &mut Store,
    ) -> Result<Attempt, SessionError> {
        let open = OpenExperiment { seat, ..OpenExperiment::new(id, store.tip(), store.now()) };
        workspace.clear_for_call(store, &open.base)?;
        if workspace.untracked.listed.take().and_then(|listed| listed.if_current(store)).is_none() {
            // Somebody may have been active, whose change would be the agent's.
            workspace.restore_tracked_protected(store, open.id, &open.base)?;
            workspace.remember_untracked(store)?;
        }
        workspace.note_settings(store, open.id, AGENT)?;
        store.journal.calls.begin();
        let mut attempt = Attempt::in_phase(open, Phase::Idle);
        attempt.enter(store, Phase::Proposing)?;
        crash::point("proposing.entered");
        Ok(attempt)
    }

    /// Commits what a call left in the working tree. Without a change, this closes the experiment.
    fn commit_work(
        mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        work: CallWork,
    ) -> Result<CallResult, SessionError> {
        let CallWork { exit, cut_short, usage, proposal, said, described, memories, words, .. } = work;
        let open = &mut self.open;
        let id = open.id;
        open.direction = proposal.direction.clone();
        open.proposal = proposal.more();
        open.proposal_error = proposal.error.clone();
        note_offer(&memories, open);
        let agent = store.contract.agent.clone();
        open.agent = agent.map(|command| AgentCall::new(command, exit.seconds, usage));
        let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
        let known = workspace.known_untracked()?;
        // A call that was cut short is repeated, and counts once.
        let counted = store.journal.count_call(&words, proposal.direction.as_deref());
        let committed = self.commit_change(workspace, store, &known, texts)?;
        crash::point("proposing.change_committed");
        store.note_call_end(id, &exit, committed.is_some(), said.clone().unwrap_or_default());
        if committed.is_some() {
            store.note_unnamed(id);
            return Ok(CallResult::Change(Box::new(self)));
        }
        store.journal.pauses.waits.idle_calls += exit.seconds;
        if cut_short {
            // Its outcome is unknown, so it is repeated.
            store.journal.uncount_call(counted);
            store.note_findings(id, &proposal.learned())?;
        } else {
            let before = store.note_idle_call(&said.unwrap_or_default())?;
            store.note_findings(id, &proposal.learned())?;
            store.learn_from_pivot(before)?;
            store.note_steps(before, NO_KEEP);
        }
        workspace.enter_idle(store, id, None)?;
        Ok(CallResult::Nothing { seconds: exit.seconds })
    }

    /// Commits the change in the working tree on its base, whatever happened to HEAD, the branch and the index meanwhile.
    /// Enters its run in the journal unless it is refused, and moves the branch to it. `None` when nothing changed: branch,
    /// index and working tree are then at the base.
    pub(crate) fn commit_change(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let Some((commit, change)) = self.make_commit(workspace, store, known, texts)? else { return Ok(None) };
        match workspace.owner.is_one_of_many() {
            true => store.enter_ready(self)?,
            false => self.prepare_run(workspace, store)?,
        }
        crash::point("committing.commit_noted");
        workspace.move_head(store, &commit, &[&self.open.base], &format!("experiment {}", self.open.id))?;
        crash::point("committing.branch_advanced");
        workspace.repo.working_tree.adopt_index(change)?;
        Ok(Some(commit))
    }

    /// Commits the change in the working tree on its base, and checks it.
    pub(crate) fn make_commit(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<(CommitId, Change)>, SessionError> {
        let tip = workspace.reclaim_head(store, &self.open.base)?;
        let mut found = workspace.undo_forbidden(store, &self.open)?;
        let change = workspace.repo.working_tree.propose(&self.open.base, known)?;
        workspace.clear_out(store, &self.open, &change, &mut found)?;
        if change.is_empty() && change.too_large().is_empty() && found.is_empty() {
            workspace.move_head(store, &self.open.base, &[], "nothing changed")?;
            workspace.repo.working_tree.adopt_index(change)?;
            return Ok(None);
        }
        let made_by_agent = tip != self.open.base
            && store.repo.objects.parents(&tip)? == [self.open.base.clone()]
            && store.repo.objects.tree_of(&tip)? == change.tree();
        let subject = subject_of_call(store, &tip, &self.open.base)?;
        let stat = workspace.repo.working_tree.proposal_stat(&change)?;
        self.open.description = texts.choose(subject, || describe(&change, stat));
        let (commit, unsynced) = if made_by_agent {
            (tip.clone(), workspace.repo.working_tree.unsynced_commit(&change, &tip)?)
        } else {
            workspace.repo.working_tree.commit_unsynced(&change, &self.open.base, &self.open.description)?
        };
        store.written.unsynced.append(unsynced);
        workspace.check(store, &mut self.open, &commit, change.too_large(), &found)?;
        self.open.commit = Some(commit.clone());
        crash::point("committing.commit_written");
        Ok(Some((commit, change)))
    }
}

/// The subject of the commit that an agent left at the tip of the branch; nothing where it made none in this call, but went
/// back to an older one.
fn subject_of_call(store: &Store, tip: &CommitId, base: &CommitId) -> Result<Option<String>, SessionError> {
    let objects = &store.repo.objects;
    let is_recorded =
        |record: &Record| record.commit == *tip || record.versions.iter().any(|version| version.commit == *tip);
    let is_old = store.history.records().iter().any(is_recorded) || objects.leads_to(tip, base)?;
    Ok(if is_old { None } else { Some(objects.subject(tip)?) })
}

/// The most bytes of a proposal that the next call is shown.
const PROPOSAL: usize = 16 * 1024;

/// The text that a call printed, or why it gave none.
pub(crate) fn text_of(work: &CallWork) -> Result<String, String> {
    let exit = &work.exit;
    if exit.timed_out || exit.exit != Some(0) {
        return Err(ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds));
    }
    let text = plain_text(work.speech.as_bytes());
    if text.trim().is_empty() { Err("it printed nothing".into()) } else { Ok(text.trim().to_owned()) }
}

impl Calling<'_> {
    /// Asks for text, in an attempt whose number is then free again, and rolls back changes to the working tree. Returns
    /// `false` if an outage postpones the call.
    pub(crate) async fn ask_for_text(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<WaitEnd<bool>, SessionError> {
        let (attempt, asked) = (self.attempt, self.ask(workspace, shared, None).await?);
        shared.store().journal.give_up(attempt.open.id);
        let work = match asked.done() {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(WaitEnd::Done(false)),
            Err(ending) => return Ok(ending),
        };
        // One that was cut short is asked for again.
        match self.purpose {
            _ if work.cut_short => {}
            Purpose::Summary => keep_summary(shared, &work, attempt)?,
            Purpose::Proposal(role) => self.keep_proposal(shared, role, &work)?,
            Purpose::Change => {}
        }
        attempt.save_unfinished(workspace, &mut shared.store())?;
        shared.publish()?;
        Ok(WaitEnd::Done(true))
    }

    /// Notes the proposal that a call in a role made, or says that it made none. The journal that is written when the call is
    /// put away has it.
    fn keep_proposal(&self, shared: &SessionContext<'_>, role: Role, work: &CallWork) -> Result<(), SessionError> {
        let text = text_of(work);
        let event: Event = match &text {
            Ok(_) => Event::Explored { id: self.attempt.open.id, role, seconds: work.exit.seconds },
            Err(why) => format!("the agent in the role `{role}` made no proposal: {why}").into(),
        };
        shared.emit(event)?;
        let cut = |text: String| {
            let end = (0..=PROPOSAL.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text[..end].to_owned()
        };
        let proposal = text.ok().map(|text| RoleProposal { role, text: cut(text) });
        let store = &mut *shared.store();
        store.journal.ladder.note_proposal(proposal);
        Ok(())
    }
}

/// For which text the agent is to be called before the next change, if for any.
pub(crate) fn text_due(contract: &Contract, journal: &Journal) -> Option<Purpose> {
    let Journal { checkpoints, ladder, .. } = journal;
    if checkpoints.summary_is_due(contract.summary_at, contract.created, Timestamp::now()) {
        return Some(Purpose::Summary);
    }
    ladder.next_role(contract.explore).map(Purpose::Proposal)
}

/// Keeps the summary that a call gave, or says that it gave none.
pub(crate) fn keep_summary(
    shared: &SessionContext<'_>,
    work: &CallWork,
    attempt: &Attempt,
) -> Result<(), SessionError> {
    {
        let Store { journal, contract, .. } = &mut *shared.store();
        journal.checkpoints.summary_asked(contract.summary_at, contract.created, Timestamp::now());
    }
    let text = match text_of(work) {
        Ok(text) => text,
        Err(why) => return shared.emit(Notice::NoSummary(why)),
    };
    let path = shared.store().folder.checkpoints().join(SUMMARY);
    let written = write_in_folder(&shared.store(), SUMMARY, &format!("{text}\n"));
    match written {
        Ok(()) => shared.emit(Event::Summary { id: attempt.open.id, path, seconds: work.exit.seconds }),
        Err(error) => shared.emit(Notice::NoSummary(with_causes(&error))),
    }
}

/// The file of the agent's summary.
const SUMMARY: &str = "summary.md";

/// The outcome of a call.
pub(crate) enum Called {
    /// Finished; the journal has its outcome.
    Over,
    /// The change is in the tree where it runs, and the run is in the journal.
    Prepared(Box<Attempt>),
    /// Nothing, after so many seconds.
    Idle { seconds: f64 },
    /// The agent is unavailable.
    Outage,
    /// Its shim was killed.
    Lost,
    /// It is still running without this process, or ends with it.
    Detached,
}

/// Calls an agent for a new change. Records a refused change without running it.
pub(crate) async fn propose(
    attempt: Attempt,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<Called, SessionError> {
    match attempt.propose(workspace, shared).await? {
        WaitEnd::Done(CallResult::Change(mut attempt)) => {
            let commit = commit_of(&attempt.open)?;
            if attempt.is_prepared {
                return Ok(Called::Prepared(attempt));
            }
            if workspace.owner.is_disposable() && workspace.vanishes_after(&attempt.open.base, &commit).await? {
                let store = &mut *shared.store();
                store.journal.calls.rollback_count();
                store.close_open(attempt.open.id)?;
                return Ok(Called::Lost);
            }
            if attempt.open.refused.is_some() {
                attempt.finish(workspace, shared, None).await?;
            }
            Ok(Called::Over)
        }
        WaitEnd::Done(CallResult::Nothing { seconds }) => Ok(Called::Idle { seconds }),
        WaitEnd::Done(CallResult::Outage) => Ok(Called::Outage),
        WaitEnd::Interrupted => Ok(Called::Over),
        WaitEnd::Lost => Ok(Called::Lost),
        WaitEnd::Detached => Ok(Called::Detached),
    }
}

/// Asks an agent for text.
pub(crate) async fn ask_for_text(
    attempt: &Attempt,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
    purpose: Purpose,
) -> Result<Called, SessionError> {
    let call = Calling::for_text(attempt, &mut shared.store(), purpose)?;
    Ok(match call.ask_for_text(workspace, shared).await? {
        WaitEnd::Done(true) | WaitEnd::Interrupted => Called::Over,
        WaitEnd::Done(false) => Called::Outage,
        WaitEnd::Lost => Called::Lost,
        WaitEnd::Detached => Called::Detached,
    })
}

/// Has an agent merge or rework the change of an open attempt.
pub(crate) async fn call_again(
    mut attempt: Attempt,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<Called, SessionError> {
    if is_to_be_merged(&attempt) {
        return merge(&mut attempt, workspace, shared).await;
    }
    let reworked = attempt.rework(workspace, shared).await?;
    shared.publish()?;
    Ok(match reworked {
        WaitEnd::Done(ReworkOutcome::Version) if attempt.is_prepared => Called::Prepared(Box::new(attempt)),
        WaitEnd::Done(ReworkOutcome::Version) if attempt.open.refused.is_some() => {
            attempt.finish(workspace, shared, None).await?;
            Called::Over
        }
        WaitEnd::Done(ReworkOutcome::Version | ReworkOutcome::Recorded) | WaitEnd::Interrupted => Called::Over,
        WaitEnd::Done(ReworkOutcome::Outage) => Called::Outage,
        WaitEnd::Lost => Called::Lost,
        WaitEnd::Detached => Called::Detached,
    })
}
