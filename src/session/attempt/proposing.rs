//! Calls of agents in seats: those that make an experiment, with the commit of what is in the working tree then, and those
//! for text alone, a summary, and at a pivot proposals in roles.

use std::path::PathBuf;

use jiff::Timestamp;

use super::{CallWork, Calling, MergeCall, Purpose, ReworkOutcome, RunningChange, Stage, repeated_direction, rework};
use crate::crash;
use crate::domain::{
    AgentCall, CommitId, Contract, Event, ExperimentId, Notice, Record, Role, RoleProposal, ended_text, with_causes,
};
use crate::git::{Proposal as Change, Untracked};
use crate::machine::{Attempt, AttemptHead, Made};
use crate::measure::plain_text;
use crate::rules::is_protected;
use crate::session::errors::SessionError;
use crate::session::handlers::Workspace;
use crate::session::store::{AGENT, NO_KEEP, Store, Texts, describe, note_offer};
use crate::session::wait::{SessionContext, WaitEnd, write_in_folder};
use crate::state::Journal;

/// The outcome of a finished call of the agent.
pub(crate) enum CallResult {
    /// A commit on the branch, with its run in the journal.
    Change(Box<RunningChange>),
    /// No change.
    Nothing {
        /// Duration of the call in seconds.
        seconds: f64,
    },
    /// The agent is unavailable. Its changes are saved, and the journal contains the reason.
    Outage,
}

/// Calls the agent for a new attempt and commits its change. Calls it once more if it was to take a new direction and names one
/// that was tried.
async fn call_and_commit(
    head: AttemptHead,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<WaitEnd<CallResult>, SessionError> {
    let id = head.id;
    let call = Calling::of(&head, &mut shared.store())?;
    let mut work = match call.ask(workspace, shared, None).await?.done() {
        Ok(Some(work)) => *work,
        Ok(None) => return Ok(WaitEnd::Done(CallResult::Outage)),
        Err(ending) => return Ok(ending),
    };
    let repeated = repeated_direction(&shared.store(), work.proposal.direction.as_deref());
    if let Some(direction) = repeated {
        shared.emit(format!("the direction \"{direction}\" was tried before; asking the agent once more"))?;
        workspace.reset_to(&mut shared.store(), &head.base, id)?;
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
    let result = commit_work(head, workspace, &mut shared.store(), work)?;
    shared.publish()?;
    Ok(WaitEnd::Done(result))
}

/// Opens an experiment of this number on the best one, in a seat where there are several.
pub(crate) fn open_call(
    id: ExperimentId,
    seat: Option<u32>,
    workspace: &mut Workspace,
    store: &mut Store,
) -> Result<AttemptHead, SessionError> {
    let head = AttemptHead { seat, ..AttemptHead::new(id, store.tip(), store.now()) };
    workspace.clear_for_call(store, &head.base)?;
    if workspace.untracked.listed.take().and_then(|listed| listed.if_current(store)).is_none() {
        // Somebody may have been active, whose change would be the agent's.
        workspace.restore_tracked_protected(store, head.id, &head.base)?;
        workspace.remember_untracked(store)?;
    }
    workspace.note_settings(store, head.id, AGENT)?;
    store.journal.calls.begin();
    store.enter(Attempt::Call(head.clone()))?;
    crash::point("proposing.entered");
    Ok(head)
}

/// Commits what a call left in the working tree. Without a change, this closes the experiment.
fn commit_work(
    mut head: AttemptHead,
    workspace: &mut Workspace,
    store: &mut Store,
    work: CallWork,
) -> Result<CallResult, SessionError> {
    let CallWork { exit, cut_short, usage, proposal, said, described, kept_out, memories, words, .. } = work;
    let id = head.id;
    head.direction = proposal.direction.clone();
    head.proposal = proposal.more();
    head.proposal_error = proposal.error.clone();
    note_offer(&memories, &mut head.proposal);
    let agent = store.contract.agent.clone();
    head.agent = agent.map(|command| AgentCall::new(command, exit.seconds, usage));
    let texts = Texts { own: proposal.description.clone(), fallback: described, before: None };
    let known = workspace.known_untracked()?;
    // A call that was cut short is repeated, and counts once.
    let counted = store.journal.count_call(&words, proposal.direction.as_deref());
    let committed = commit_change(Made { head, ..Made::default() }, workspace, store, (&known, &kept_out), texts)?;
    crash::point("proposing.change_committed");
    store.note_call_end(id, &exit, committed.is_some(), said.clone().unwrap_or_default());
    if let Some(change) = committed {
        store.note_unnamed(id);
        return Ok(CallResult::Change(Box::new(change)));
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

/// Commits the change in the working tree on its base, whatever happened to HEAD, the branch and the index meanwhile. `next` is
/// what is known of it without its commit. Enters its run in the journal unless it is refused, and moves the branch to it.
/// `None` when nothing changed: branch, index and working tree are then at the base. An attempt whose call was `kept_out` of
/// protected paths is refused instead.
pub(crate) fn commit_change(
    next: Made,
    workspace: &mut Workspace,
    store: &mut Store,
    (known, kept_out): (&Untracked, &[PathBuf]),
    texts: Texts,
) -> Result<Option<RunningChange>, SessionError> {
    let Made { head, before, asked, .. } = next;
    let Some((made, proposed)) = make_commit(head, workspace, store, (known, kept_out), texts)? else {
        return Ok(None);
    };
    let mut change = RunningChange::new(Made { before, asked, ..made });
    match workspace.owner.is_one_of_many() {
        true => store.enter_ready(&mut change)?,
        false => change.prepare_run(workspace, store)?,
    }
    crash::point("committing.commit_noted");
    let why = format!("experiment {}", change.id());
    workspace.follow_commit(store, &change.made, proposed, &why)?;
    Ok(Some(change))
}

/// Commits the change in the working tree on its base, and checks it.
pub(crate) fn make_commit(
    mut head: AttemptHead,
    workspace: &mut Workspace,
    store: &mut Store,
    (known, kept_out): (&Untracked, &[PathBuf]),
    texts: Texts,
) -> Result<Option<(Made, Change)>, SessionError> {
    let base = &head.base;
    let tip = workspace.reclaim_head(store, base)?;
    let mut found = workspace.undo_forbidden(store, &head)?;
    let change = workspace.repo.working_tree.propose(base, known)?;
    workspace.clear_out(store, &head, &change, &mut found)?;
    let is_nothing = change.is_empty() && change.too_large().is_empty() && found.is_empty();
    if is_nothing && !kept_out.is_empty() {
        found.protected = kept_out.iter().map(|path| is_protected(path)).collect();
    } else if is_nothing {
        workspace.move_head(store, base, &[], "nothing changed")?;
        workspace.adopt_index(change)?;
        return Ok(None);
    }
    let made_by_agent = tip != *base
        && store.repo.objects.parents(&tip)? == [base.clone()]
        && store.repo.objects.tree_of(&tip)? == change.tree();
    let subject = subject_of_call(store, &tip, base)?;
    let stat = workspace.repo.working_tree.proposal_stat(&change)?;
    let description = texts.choose(subject, || describe(&change, stat));
    let (commit, unsynced) = if made_by_agent {
        (tip.clone(), workspace.repo.working_tree.unsynced_commit(&change, &tip)?)
    } else {
        workspace.repo.working_tree.commit_unsynced(&change, base, &description)?
    };
    store.written.unsynced.append(unsynced);
    head.description = description;
    let made = workspace.check(store, head, commit, change.too_large(), &found)?;
    crash::point("committing.commit_written");
    Ok(Some((made, change)))
}

/// The subject of the commit that an agent left at the tip of the branch; nothing where it made none in this call, but went
/// back to an older one.
fn subject_of_call(store: &Store, tip: &CommitId, base: &CommitId) -> Result<Option<String>, SessionError> {
    let objects = &store.repo.objects;
    let is_recorded =
        |record: &Record| record.commit == *tip || record.change.versions.iter().any(|version| version.commit == *tip);
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
        let (id, asked) = (self.head.id, self.ask(workspace, shared, None).await?);
        shared.store().journal.give_up(id);
        let work = match asked.done() {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(WaitEnd::Done(false)),
            Err(ending) => return Ok(ending),
        };
        // One that was cut short is asked for again.
        match self.purpose {
            _ if work.cut_short => {}
            Purpose::Summary => keep_summary(shared, &work, id)?,
            Purpose::Proposal(role) => self.keep_proposal(shared, role, &work)?,
            Purpose::Change => {}
        }
        self.save_unfinished(workspace, &mut shared.store())?;
        shared.publish()?;
        Ok(WaitEnd::Done(true))
    }

    /// Notes the proposal that a call in a role made, or says that it made none. The journal that is written when the call is
    /// put away has it.
    fn keep_proposal(&self, shared: &SessionContext<'_>, role: Role, work: &CallWork) -> Result<(), SessionError> {
        let text = text_of(work);
        let event: Event = match &text {
            Ok(_) => Event::Explored { id: self.head.id, role, seconds: work.exit.seconds },
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
fn keep_summary(shared: &SessionContext<'_>, work: &CallWork, id: ExperimentId) -> Result<(), SessionError> {
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
        Ok(()) => shared.emit(Event::Summary { id, path, seconds: work.exit.seconds }),
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
    Prepared(Box<RunningChange>),
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
    head: AttemptHead,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<Called, SessionError> {
    match call_and_commit(head, workspace, shared).await? {
        WaitEnd::Done(CallResult::Change(change)) => {
            if change.is_prepared {
                return Ok(Called::Prepared(change));
            }
            let Made { head, commit, refused, .. } = &change.made;
            if workspace.owner.is_disposable() && workspace.vanishes_after(&head.base, commit).await? {
                let store = &mut *shared.store();
                store.journal.calls.rollback_count();
                store.close_open(head.id)?;
                return Ok(Called::Lost);
            }
            if refused.is_some() {
                Stage::Run(*change).finish(workspace, shared, None).await?;
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
    head: &AttemptHead,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
    purpose: Purpose,
) -> Result<Called, SessionError> {
    let call = Calling::for_text(head, &mut shared.store(), purpose)?;
    Ok(match call.ask_for_text(workspace, shared).await? {
        WaitEnd::Done(true) | WaitEnd::Interrupted => Called::Over,
        WaitEnd::Done(false) => Called::Outage,
        WaitEnd::Lost => Called::Lost,
        WaitEnd::Detached => Called::Detached,
    })
}

/// Has an agent merge or rework the change of an open attempt.
pub(crate) async fn call_again(
    attempt: Attempt,
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
) -> Result<Called, SessionError> {
    let draft = match attempt {
        Attempt::Merge { made, onto } => {
            return MergeCall { made, onto, won: None }.merge(workspace, shared).await;
        }
        Attempt::MergeWinner { draft, onto } => {
            let made = draft.made.clone();
            return MergeCall { made, onto, won: Some(draft) }.merge(workspace, shared).await;
        }
        Attempt::Rework(draft) => draft,
        _ => return Ok(Called::Over),
    };
    let reworked = rework(draft, workspace, shared).await?;
    shared.publish()?;
    Ok(match reworked {
        WaitEnd::Done(ReworkOutcome::Version(change)) if change.is_prepared => Called::Prepared(change),
        WaitEnd::Done(ReworkOutcome::Version(change)) if change.made.refused.is_some() => {
            Stage::Run(*change).finish(workspace, shared, None).await?;
            Called::Over
        }
        WaitEnd::Done(ReworkOutcome::Version(_) | ReworkOutcome::Recorded) | WaitEnd::Interrupted => Called::Over,
        WaitEnd::Done(ReworkOutcome::Outage) => Called::Outage,
        WaitEnd::Lost => Called::Lost,
        WaitEnd::Detached => Called::Detached,
    })
}
