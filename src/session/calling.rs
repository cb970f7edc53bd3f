//! One call of the agent: its start, the wait for it, and what it left in the working tree.

use std::fs;
use std::io::ErrorKind;

use super::attempt::Attempt;
use super::conventions::{PROGRAM, read_program};
use super::error::SessionError;
use super::failed_log::{end_of_log, last_failed_log};
use super::jobs::AGENT;
use super::open::Session;
use super::own_files::remove_file;
use super::running::DELETIONS;
use super::store::Store;
use super::supervise::{Ending, Exited};
use crate::agent::{self, Answer, AskedAgain, Briefing, Call, Proposal, Reworked};
use crate::crash;
use crate::domain::{Actor, Event, LastCall, Notice, Phase, Record, Usage};
use crate::exec::{self, ExecError, Job};
use crate::fs::write_unsynced;
use crate::rules::{Again, again, described, idle_limits, priced, question};

/// What a finished call left.
pub(super) struct Work {
    /// How it ended.
    pub(super) exit: exec::Exit,
    /// Whether it was terminated at the loop's time limit, before its own.
    pub(super) cut_short: bool,
    /// What it used.
    pub(super) usage: Usage,
    /// Its proposal.
    pub(super) proposal: Proposal,
    /// Its last line of output.
    pub(super) said: Option<String>,
    /// The last line of its output that can describe the change.
    pub(super) described: Option<String>,
}

/// A call of the agent for an attempt.
pub(super) struct Calling<'a> {
    attempt: &'a Attempt,
    files: Call,
}

impl<'a> Calling<'a> {
    /// A call for this attempt.
    pub(super) fn of(attempt: &'a Attempt, session: &Session<'_>) -> Result<Self, SessionError> {
        Ok(Calling { attempt, files: Call { folder: session.store.run_folder(attempt.open.id)? } })
    }

    /// Calls the agent for the attempt and reads what it left. `None` after an outage, which the journal then contains.
    /// `asked_again` is why the agent is asked once more, if it is.
    pub(super) async fn ask(
        &self,
        session: &mut Session<'_>,
        asked_again: Option<&AskedAgain>,
    ) -> Result<Ending<Option<Box<Work>>>, SessionError> {
        let (attempt, id, log) = (self.attempt, self.attempt.open.id, self.files.log());
        let log_from = fs::metadata(&log).map_or(0, |meta| meta.len());
        let commits_from = session.store.repo.refs.head_log_size();
        session.memories = session.store.recall();
        let (ended, is_capped) = self.call(session, asked_again).await?;
        crash::point("proposing.agent_over");
        let mut rows = 0;
        if ended.is_over() {
            rows = attempt.put_right_after(session, AGENT).await?;
            session.store.run_folder(id)?;
            session.workspace.put_untracked_back(&mut session.store)?;
        }
        let exit = match ended {
            Ending::Done(Err(ExecError::Command { detail, .. })) => {
                session.enter_outage(attempt, Session::not_started(&detail), 0.0)?;
                return Ok(Ending::Done(None));
            }
            Ending::Done(exit) => exit?,
            Ending::Interrupted => {
                spend(session, agent::read_answer(&log, log_from).usage)?;
                attempt.put_unfinished_away(session)?;
                return Ok(Ending::Interrupted);
            }
            Ending::Detached => return Ok(Ending::Detached),
            Ending::Lost => {
                attempt.put_unfinished_away(session)?;
                return Ok(Ending::Lost);
            }
        };
        let cut_short = is_capped && exit.timed_out;
        let Answer { refusal, usage, text, words: streamed } = agent::read_answer(&log, log_from);
        let usage = spend(session, usage)?;
        // The experiment begins again when there is space.
        session.store.refuse_spoilt("the agent", exit.exit != Some(0))?;
        let is_stream = streamed.is_some();
        let words = streamed.unwrap_or_else(|| agent::last_words(&log, log_from));
        if let Some(outage) = session.outage_of(&exit, refusal.as_ref(), &words, &attempt.open)? {
            session.enter_outage(attempt, outage, exit.seconds)?;
            return Ok(Ending::Done(None));
        }
        session.end_outage(id)?;
        let commits = session.workspace.look_after_commits(&mut session.store, &attempt.open, commits_from)?;
        // Only the agent's own words count, not the rest of a stream.
        let speech = match text {
            Some(text) => text,
            None if is_stream => String::new(),
            None => words,
        };
        let said = agent::last_line(&speech);
        session.store.journal.last_call = LastCall {
            question: said.as_deref().and_then(question).map(str::to_owned),
            ended_after: (exit.timed_out && !cut_short).then_some(session.store.contract.agent_timeout.as_secs_f64()),
            commits: if commits.made > 1 { commits.made } else { 0 },
            reset: commits.reset,
            rows,
            proposal_error: None,
            ignored: std::mem::take(&mut session.store.journal.last_call.ignored),
        };
        let proposal = self.read_proposal(session)?;
        // Ideas are worth keeping even if the change is not.
        session.store.add_ideas(id, &proposal.ideas)?;
        Ok(Ending::Done(Some(Box::new(Work { exit, cut_short, usage, proposal, said, described: described(&speech) }))))
    }

    /// Reads the proposal. Reports what is ignored, also in the next prompt.
    fn read_proposal(&self, session: &mut Session<'_>) -> Result<Proposal, SessionError> {
        let path = self.files.proposal();
        let proposal = Proposal::read(&path);
        if let Some(error) = &proposal.error {
            session.emit(Notice::Ignored { path, error: error.clone() })?;
            session.store.journal.last_call.proposal_error = Some(error.clone());
        }
        Ok(proposal)
    }

    /// Calls the agent and waits for it. Returns also whether the loop has less time left than a call may take.
    async fn call(
        &self,
        session: &mut Session<'_>,
        asked_again: Option<&AskedAgain>,
    ) -> Result<(Ending<Exited>, bool), SessionError> {
        let (id, files) = (self.attempt.open.id, &self.files);
        let contract = session.store.contract.clone();
        let Some(command) = contract.agent.clone() else { return Err(SessionError::Missing("--agent")) };
        let root = session.store.repo.worktree().to_owned();
        session.store.clear_run_folder(id)?;
        let program = program(session)?;
        let (task, failed_log) =
            (Task::of(&session.store), last_failed_log(&session.store.folder, &session.store.history));
        let briefing = Briefing {
            contract: &contract,
            history: &session.store.history,
            experiment: id,
            idle_calls: session.store.journal.idle_calls,
            last_call: &session.store.journal.last_call,
            memories: &session.memories,
            directive: session.store.directive(),
            asked_again,
            reworked: task.as_ref().map(Task::told),
            failed_log: &failed_log,
        };
        remove_file(&files.proposal())?;
        let prompt = agent::prompt(program.as_deref(), &briefing);
        let baseline = session.store.history.baseline().and_then(|record| record.metric.number());
        let best = session.store.history.best().map(|(_, number)| number);
        let env = agent::variables(
            &contract,
            id,
            self.attempt.open.base.as_str(),
            &session.store.folder.state(),
            files,
            baseline.as_ref(),
            best.as_ref(),
        );
        // A change that is unfinished at the loop's time limit would not run.
        let left = session.times.end(&session.store).map(|end| end.left).filter(|left| *left < contract.agent_timeout);
        session.emit(Event::AgentStarted { id })?;
        session.store.begin_watch(Actor::Agent, id)?;
        let job = Job {
            name: AGENT.into(),
            command,
            cwd: root,
            folder: files.folder.clone(),
            log: files.log(),
            stdin: Some(files.prompt()),
            env,
            timeout: left.unwrap_or(contract.agent_timeout),
            grace: contract.grace,
            log_limit: None,
            tied: true,
        };
        let mut deletions = 0;
        let mut job = loop {
            write_unsynced(&files.prompt(), prompt.as_bytes())?;
            match session.executor.start(&job) {
                // The prompt was deleted since.
                Err(ExecError::File { source, .. })
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                job => break job?,
            }
        };
        Ok((self.attempt.wait_for(session, &mut job, None, |_| Ok(())).await?, left.is_some()))
    }
}

/// Why the agent is called again for an experiment, and what it is shown.
struct Task {
    draft: Record,
    again: Again,
    log: String,
}

impl Task {
    /// The task of a rework; `None` for a new experiment.
    fn of(store: &Store) -> Option<Task> {
        let draft = store.journal.open.as_ref().filter(|_| store.journal.phase == Phase::Proposing)?.draft.clone()?;
        let again = again(draft.failure.as_ref(), &draft.versions)?;
        let log = end_of_log(&store.folder, &draft);
        Some(Task { draft: *draft, again, log })
    }

    /// The same for the prompt.
    fn told(&self) -> Reworked<'_> {
        Reworked { draft: &self.draft, again: self.again, log: &self.log }
    }
}

/// Adds the usage of a call to that of all calls, priced if the agent reports no cost. With a cost limit, reports once that
/// neither cost nor price is known, unless the start of the loop did.
fn spend(session: &mut Session<'_>, usage: Usage) -> Result<Usage, SessionError> {
    let command = session.store.contract.agent.as_deref().unwrap_or_default();
    let usage = priced(usage, agent::model_in(command), &session.store.contract.prices);
    session.store.journal.spent.add(usage.tokens, usage.cost);
    let was_told =
        idle_limits(&session.store.contract, agent::reports(command), &session.store.journal.spent).is_some();
    if let Some(limit) = session.store.contract.max_cost.filter(|_| usage.cost.is_none() && !was_told) {
        let model = usage.model.clone().unwrap_or_else(|| "MODEL".into());
        session.store.say_once(Notice::CostUnknown { limit, model });
    }
    Ok(usage)
}

/// The repository's goals and constraints, if it has any.
fn program(session: &mut Session<'_>) -> Result<Option<String>, SessionError> {
    match read_program(session.store.repo.worktree()) {
        Ok(program) => Ok(Some(program)),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                let path = session.store.repo.worktree().join(PROGRAM);
                session.emit(Notice::NotInPrompt { path, error: error.to_string() })?;
            }
            Ok(None)
        }
    }
}
