//! One call of the agent: started, waited for, and what it left in the working tree.

use std::fs;
use std::io::ErrorKind;

use super::conventions::{PROGRAM, read_program};
use super::error::SessionError;
use super::failed_log::last_failed_log;
use super::jobs::AGENT;
use super::open::Session;
use super::own_files::remove_file;
use super::rework::Task;
use super::running::DELETIONS;
use super::supervise::{Ending, Exited};
use crate::agent::{self, Answer, AskedAgain, Briefing, Call, Proposal};
use crate::crash;
use crate::domain::{Actor, CommitId, Event, LastCall, Notice, Usage};
use crate::exec::{self, ExecError, Job};
use crate::fs::write_unsynced;
use crate::rules::{described, idle_limits, priced, question};
use crate::state::OpenExperiment;

/// What an agent left that is over.
pub(super) struct Work {
    /// How it ended.
    pub(super) exit: exec::Exit,
    /// Whether it was ended because the time of the loop was over, before its own was.
    pub(super) cut_short: bool,
    /// What it used.
    pub(super) usage: Usage,
    /// What it says about its change.
    pub(super) proposal: Proposal,
    /// Its last line of output.
    pub(super) said: Option<String>,
    /// The last line of its output that can describe the change.
    pub(super) described: Option<String>,
}

impl Session<'_> {
    /// Calls the agent for the open experiment and reads what it left, unless an outage kept it from its work: the journal has
    /// that then. `asked_again` says why, where it is asked once more.
    pub(super) async fn ask_agent(
        &mut self,
        call: &Call,
        open: &OpenExperiment,
        asked_again: Option<&AskedAgain>,
    ) -> Result<Ending<Option<Box<Work>>>, SessionError> {
        let (id, base) = (open.id, &open.base);
        let log_from = fs::metadata(call.log()).map_or(0, |meta| meta.len());
        let commits_from = self.store.repo.head_log_size();
        self.memories = self.store.recall();
        let (ended, is_capped) = self.call_agent(call, id, base, asked_again).await?;
        crash::point("proposing.agent_over");
        let mut rows = 0;
        if ended.is_over() {
            rows = self.put_right_after(id, AGENT).await?;
            self.store.run_folder(id)?;
            self.workspace.put_untracked_back(&mut self.store)?;
        }
        let exit = match ended {
            Ending::Done(Err(ExecError::Command { detail, .. })) => {
                self.enter_outage(open, Self::not_started(&detail), 0.0)?;
                return Ok(Ending::Done(None));
            }
            Ending::Done(exit) => exit?,
            Ending::Interrupted => {
                self.spend(agent::read_answer(&call.log(), log_from).usage)?;
                self.put_unfinished_away(open)?;
                return Ok(Ending::Interrupted);
            }
            Ending::Detached => return Ok(Ending::Detached),
            Ending::Lost => {
                self.put_unfinished_away(open)?;
                return Ok(Ending::Lost);
            }
        };
        let cut_short = is_capped && exit.timed_out;
        let Answer { refusal, usage, text, words: streamed } = agent::read_answer(&call.log(), log_from);
        let usage = self.spend(usage)?;
        // The open experiment begins anew when there is room.
        self.store.refuse_spoilt("the agent", exit.exit != Some(0))?;
        let is_stream = streamed.is_some();
        let words = streamed.unwrap_or_else(|| agent::last_words(&call.log(), log_from));
        if let Some(outage) = self.outage_of(&exit, refusal.as_ref(), &words, open)? {
            self.enter_outage(open, outage, exit.seconds)?;
            return Ok(Ending::Done(None));
        }
        self.end_outage(id)?;
        let commits = self.workspace.look_after_commits(&mut self.store, open, commits_from)?;
        // What a stream holds beside the agent's own words is no speech.
        let speech = match text {
            Some(text) => text,
            None if is_stream => String::new(),
            None => words,
        };
        let said = agent::last_line(&speech);
        self.store.journal.last_call = LastCall {
            question: said.as_deref().and_then(question).map(str::to_owned),
            ended_after: (exit.timed_out && !cut_short).then_some(self.store.contract.agent_timeout.as_secs_f64()),
            commits: if commits.made > 1 { commits.made } else { 0 },
            reset: commits.reset,
            rows,
            proposal_error: None,
            ignored: std::mem::take(&mut self.store.journal.last_call.ignored),
        };
        let proposal = self.read_proposal(call)?;
        // They are worth keeping whatever becomes of the change.
        self.store.add_ideas(id, &proposal.ideas)?;
        Ok(Ending::Done(Some(Box::new(Work { exit, cut_short, usage, proposal, said, described: described(&speech) }))))
    }

    /// What the agent says about its change. What of it is ignored is told, also in the next prompt.
    fn read_proposal(&mut self, call: &Call) -> Result<Proposal, SessionError> {
        let path = call.proposal();
        let proposal = Proposal::read(&path);
        if let Some(error) = &proposal.error {
            self.emit(Notice::Ignored { path, error: error.clone() })?;
            self.store.journal.last_call.proposal_error = Some(error.clone());
        }
        Ok(proposal)
    }

    /// Adds what a call used to what all calls did, priced where the agent reports no cost. Tells once where neither is to be
    /// had and the cost is limited, unless the start of the loop told so.
    fn spend(&mut self, usage: Usage) -> Result<Usage, SessionError> {
        let command = self.store.contract.agent.as_deref().unwrap_or_default();
        let usage = priced(usage, agent::model_in(command), &self.store.contract.prices);
        self.store.journal.spent.add(usage.tokens, usage.cost);
        let was_told = idle_limits(&self.store.contract, agent::reports(command), &self.store.journal.spent).is_some();
        if let Some(limit) = self.store.contract.max_cost.filter(|_| usage.cost.is_none() && !was_told) {
            let model = usage.model.clone().unwrap_or_else(|| "MODEL".into());
            self.store.say_once(Notice::CostUnknown { limit, model });
        }
        Ok(usage)
    }

    /// Saves what an agent left unfinished and puts branch and working tree back. Of an experiment that has no version yet
    /// nothing is left to do.
    pub(super) fn put_unfinished_away(&mut self, open: &OpenExperiment) -> Result<(), SessionError> {
        match &open.draft {
            // The version that it was to work on is kept already.
            Some(draft) if !self.workspace.has_worked(&mut self.store, open)? => {
                self.workspace.move_branch(&mut self.store, &open.base, &[&draft.commit], "unfinished")?;
                self.workspace.put_back(&mut self.store, &open.base, &draft.commit)?;
            }
            _ => self.workspace.reset_to(&mut self.store, &open.base, open.id)?,
        }
        if open.draft.is_some() { self.store.write_journal() } else { self.enter_idle() }
    }

    /// Calls the agent and waits for it. Returns also whether the loop has less time left than a call may take.
    async fn call_agent(
        &mut self,
        call: &Call,
        id: u32,
        base: &CommitId,
        asked_again: Option<&AskedAgain>,
    ) -> Result<(Ending<Exited>, bool), SessionError> {
        let contract = self.store.contract.clone();
        let Some(command) = contract.agent.clone() else { return Err(SessionError::Missing("--agent")) };
        let root = self.store.repo.worktree().to_owned();
        self.store.clear_run_folder(id)?;
        let program = self.program()?;
        let (task, failed_log) = (self.task(), last_failed_log(&self.store.folder, &self.store.history));
        let briefing = Briefing {
            contract: &contract,
            history: &self.store.history,
            experiment: id,
            idle_calls: self.store.journal.idle_calls,
            last_call: &self.store.journal.last_call,
            memories: &self.memories,
            directive: self.store.directive(),
            asked_again,
            reworked: task.as_ref().map(Task::told),
            failed_log: &failed_log,
        };
        remove_file(&call.proposal())?;
        let prompt = agent::prompt(program.as_deref(), &briefing);
        let baseline = self.store.history.baseline().and_then(|record| record.metric.number());
        let best = self.store.history.best().map(|(_, number)| number);
        let env = agent::variables(
            &contract,
            id,
            base.as_str(),
            &self.store.folder.state(),
            call,
            baseline.as_ref(),
            best.as_ref(),
        );
        // What it has not done by the end of the loop's time would not be run.
        let left = self.times.end(&self.store).map(|end| end.left).filter(|left| *left < contract.agent_timeout);
        self.emit(Event::AgentStarted { id })?;
        self.store.begin_watch(Actor::Agent, id)?;
        let job = Job {
            name: AGENT.into(),
            command,
            cwd: root,
            folder: call.folder.clone(),
            log: call.log(),
            stdin: Some(call.prompt()),
            env,
            timeout: left.unwrap_or(contract.agent_timeout),
            grace: contract.grace,
            log_limit: None,
            tied: true,
        };
        let mut deletions = 0;
        let mut job = loop {
            write_unsynced(&call.prompt(), prompt.as_bytes())?;
            match self.executor.start(&job) {
                // The prompt was deleted since.
                Err(ExecError::File { source, .. })
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                job => break job?,
            }
        };
        Ok((self.wait_for(&mut job, None, |_| Ok(())).await?, left.is_some()))
    }

    /// The repository's goals and constraints, where it has any.
    fn program(&mut self) -> Result<Option<String>, SessionError> {
        match read_program(self.store.repo.worktree()) {
            Ok(program) => Ok(Some(program)),
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    let path = self.store.repo.worktree().join(PROGRAM);
                    self.emit(Notice::NotInPrompt { path, error: error.to_string() })?;
                }
                Ok(None)
            }
        }
    }
}
