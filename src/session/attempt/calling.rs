//! One call of the agent: its start, the wait for it, and what it left in the working tree.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use jiff::Zoned;

use super::{CallCut, DELETIONS, RunLogBefore, next_rework, own_training, restore_after, search, wait_for_agent};
use crate::agent::{
    self, AgentCommand, Answer, Briefing, Memories, MergeRequest, Other, Proposal, ReworkedExperiment, SearchFinding,
};
use crate::crash;
use crate::domain::{
    Actor, CommitId, Event, ExperimentId, LastCall, Message, Notice, Outage, OutageKind, Record, Refusal, Role, Usage,
    span_text,
};
use crate::exec::{ExecError, Executor, Exit, Job, Running};
use crate::fs::write_unsynced;
use crate::machine::{Attempt, AttemptHead, Draft};
use crate::rules::{CallEnd, ReworkCall, Silence, described, idle_limits, kept_out, outage, priced, question, refused};
use crate::session::errors::SessionError;
use crate::session::files::{PROGRAM, own_path, read_program, refuse_spoilt, remove_file};
use crate::session::handlers::{Workspace, copied_log, remove_call_git};
use crate::session::research::covered_topics;
use crate::session::store::{
    AGENT, Store, add_said, clear_run_folder, close_escalation, end_of_log, last_failed_log, real, receive_messages,
};
use crate::session::wait::{Exited, SessionContext, WaitEnd};
use crate::state::{Journal, SessionFolder};

/// The result of a finished call.
pub(crate) struct CallWork {
    /// Exit status and duration of its process.
    pub(crate) exit: Exit,
    /// True if it was terminated at the loop's time limit, before its own.
    pub(crate) cut_short: bool,
    /// Its tokens and cost.
    pub(crate) usage: Usage,
    /// Its proposal.
    pub(crate) proposal: Proposal,
    /// Its own words, at most 64 KiB of them.
    pub(crate) speech: String,
    /// Its last line of output.
    pub(crate) said: Option<String>,
    /// The last line of its output that can describe the change.
    pub(crate) described: Option<String>,
    /// The protected paths from which its wall kept it, if it failed.
    pub(crate) kept_out: Vec<PathBuf>,
    /// The lessons, findings and offers in its prompt.
    pub(crate) memories: Memories,
    /// The user's messages in its prompt.
    pub(crate) words: Vec<Message>,
}

impl CallWork {
    /// Adds the time, usage and proposal of a further call to an open experiment, and marks the call's messages as delivered.
    pub(crate) fn add_to(&self, head: &mut AttemptHead, store: &mut Store) {
        store.journal.messages.deliver(&self.words);
        head.agent = head.agent.take().map(|agent| agent.with(self.exit.seconds, self.usage.clone()));
        add_said(&mut head.proposal, self.proposal.more());
    }
}

/// Facts about a call, gathered before its work is read.
struct BeforeCall {
    /// Length of its log at the start, in bytes.
    log_from: u64,
    /// The commits that it made.
    commits: Vec<CommitId>,
    /// Number of rows removed from results.tsv after the call.
    rows: u32,
    /// True if the loop had less time left than a call may take.
    is_capped: bool,
    /// The reason why it was ended before its agent exited.
    cut: Option<CallCut>,
    /// True if it rewrote `run.log`.
    rewrote_log: bool,
    memories: Memories,
    words: Vec<Message>,
}

/// Parts of a prompt that are specific to one call.
struct CallParts<'a> {
    memories: &'a Memories,
    words: &'a [Message],
    coverage: &'a [(String, usize)],
    found: &'a [SearchFinding],
    asked_again: Option<&'a str>,
}

/// A call of the agent for an attempt.
pub(crate) struct Calling<'a> {
    pub(crate) head: &'a AttemptHead,
    pub(crate) files: AgentCommand,
    /// The version that the agent is to rework, if the call is for that.
    reworked: Option<&'a Draft>,
    /// The merge that the agent is to make, if the call is for one.
    merging: Option<MergeRequest>,
    pub(crate) purpose: Purpose,
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A change.
    Change,
    /// A summary of the session.
    Summary,
    /// A proposal in a role.
    Proposal(Role),
}

impl<'a> Calling<'a> {
    /// A call for the change of this attempt.
    pub(crate) fn of(head: &'a AttemptHead, store: &mut Store) -> Result<Self, SessionError> {
        let files = AgentCommand { folder: store.folder.create_run(head.id)? };
        Ok(Calling { head, files, reworked: None, merging: None, purpose: Purpose::Change })
    }

    /// A call for the next version of a change.
    pub(crate) fn to_rework(draft: &'a Draft, store: &mut Store) -> Result<Self, SessionError> {
        Ok(Calling { reworked: Some(draft), ..Calling::of(&draft.made.head, store)? })
    }

    /// A call for a merge.
    pub(crate) fn to_merge(
        head: &'a AttemptHead,
        store: &mut Store,
        merging: MergeRequest,
    ) -> Result<Self, SessionError> {
        Ok(Calling { merging: Some(merging), ..Calling::of(head, store)? })
    }

    /// A call for text, with an attempt that comes to nothing.
    pub(crate) fn for_text(head: &'a AttemptHead, store: &mut Store, purpose: Purpose) -> Result<Self, SessionError> {
        Ok(Calling { purpose, ..Calling::of(head, store)? })
    }

    /// The record of the version that the agent is to rework.
    fn version(&self) -> Option<&'a Record> {
        self.reworked.map(|draft| &*draft.record)
    }

    /// Saves what the agent left unfinished and restores branch and working tree, with the version that it was to rework. An
    /// attempt without a change comes to nothing with that.
    pub(crate) fn save_unfinished(&self, workspace: &mut Workspace, store: &mut Store) -> Result<(), SessionError> {
        let AttemptHead { id, base, .. } = self.head;
        workspace.settle_settings(store)?;
        match self.version() {
            // The version that it was to rework is saved already.
            Some(version) if !workspace.has_worked(store, base, Some(version))? => {
                workspace.move_head(store, base, &[&version.commit], "unfinished")?;
                workspace.restore(store, base, &version.commit)?;
            }
            _ => workspace.reset_to(store, base, *id)?,
        }
        if let Some(version) = self.version() {
            workspace.restore_version(store, version)?;
        }
        match self.reworked.is_none() && self.merging.is_none() {
            true => workspace.enter_idle(store, *id, None),
            false => store.write_journal(),
        }
    }

    /// Calls the agent for the attempt and reads what it left. `None` after an outage, which the journal then contains.
    /// `asked_again` is the tried direction for which the agent is asked once more, if it is.
    pub(crate) async fn ask(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        asked_again: Option<&str>,
    ) -> Result<WaitEnd<Option<Box<CallWork>>>, SessionError> {
        let coverage = {
            let store = shared.store();
            covered_topics(&store.repo, &store.contract, &store.history)?
        };
        let found = match self.search(shared, &coverage).await?.done() {
            Ok(found) => found,
            Err(ending) => {
                if !matches!(ending, WaitEnd::Detached) {
                    self.save_unfinished(workspace, &mut shared.store())?;
                }
                return Ok(ending);
            }
        };
        let log_from = fs::metadata(self.files.log()).map_or(0, |meta| meta.len());
        let commits_from = workspace.repo.refs.head_log_size();
        let memories = shared.store().recall(self.head.id);
        // A word of the user's is for whoever makes the change.
        let words = match self.purpose {
            Purpose::Change => {
                let store = &mut *shared.store();
                receive_messages(store);
                store.messages.claim(self.head.id, &store.journal)
            }
            Purpose::Summary | Purpose::Proposal(_) => Vec::new(),
        };
        let told = CallParts { memories: &memories, words: &words, coverage: &coverage, found: &found, asked_again };
        let run_log = RunLogBefore::of(workspace.repo.worktree());
        let ((mut ended, cut), is_capped) = self.call(workspace, shared, told, log_from).await?;
        let rewrote_log = run_log.is_rewritten(&copied_log(&self.files.folder));
        crash::point("proposing.agent_over");
        let (mut rows, mut commits) = (0, None);
        if ended.is_over() {
            rows = restore_after(shared, self.head.id, AGENT).await?;
            let store = &mut *shared.store();
            store.folder.create_run(self.head.id)?;
            if workspace.owner.is_disposable() && !workspace.check_out_again(store, &self.head.base)? {
                // Its work is lost with its tree.
                ended = WaitEnd::Lost;
            }
            workspace.restore_untracked(store)?;
            commits = workspace.take_over_call(store, &self.head.base, &self.files.folder)?;
        }
        let commits = commits.unwrap_or_else(|| workspace.repo.refs.commits_logged(commits_from));
        let before = BeforeCall { log_from, commits, rows, is_capped, cut, rewrote_log, memories, words };
        let is_over = ended.is_over();
        let work = self.read_work(workspace, &mut shared.store(), ended, before);
        if is_over {
            // Not before: the room that it takes would hide a disk that the call filled.
            remove_call_git(&self.files.folder);
        }
        work
    }

    /// Runs the search commands for a new experiment, if its directive asks for that. Returns their findings.
    async fn search(
        &self,
        shared: &SessionContext<'_>,
        coverage: &[(String, usize)],
    ) -> Result<WaitEnd<Rc<[SearchFinding]>>, SessionError> {
        let is_new = self.purpose == Purpose::Change && self.merging.is_none() && self.reworked.is_none();
        if is_new { search(shared, self.head.id, coverage).await } else { Ok(WaitEnd::Done(Rc::from([]))) }
    }

    /// The exit of a call, or `None` after an outage. What a call without one left is put away.
    fn take_exit(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        ended: WaitEnd<Exited>,
        log_from: u64,
    ) -> Result<WaitEnd<Option<Exit>>, SessionError> {
        let ending = match ended {
            WaitEnd::Done(Err(ExecError::Command { detail, .. } | ExecError::NoWall { detail, .. })) => {
                self.enter_outage(workspace, store, not_started(&detail), 0.0)?;
                return Ok(WaitEnd::Done(None));
            }
            WaitEnd::Done(exit) => return Ok(WaitEnd::Done(Some(exit?))),
            WaitEnd::Detached => return Ok(WaitEnd::Detached),
            WaitEnd::Lost => WaitEnd::Lost,
            WaitEnd::Interrupted => {
                spend(store, agent::read_answer(&self.files.log(), log_from).usage);
                WaitEnd::Interrupted
            }
        };
        self.save_unfinished(workspace, store)?;
        Ok(ending)
    }

    /// Reads what a call left, and puts it away if the call came to nothing.
    fn read_work(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        ended: WaitEnd<Exited>,
        before: BeforeCall,
    ) -> Result<WaitEnd<Option<Box<CallWork>>>, SessionError> {
        let (id, log) = (self.head.id, self.files.log());
        let BeforeCall { log_from, commits, rows, is_capped, cut, rewrote_log, memories, words: told } = before;
        let mut exit = match self.take_exit(workspace, store, ended, log_from)?.done() {
            Ok(Some(exit)) => exit,
            Ok(None) => return Ok(WaitEnd::Done(None)),
            Err(ending) => return Ok(ending),
        };
        store.name_written_links(exit.started);
        let Answer { refusal, usage, text, words: streamed, rounds_are_up, .. } = agent::read_answer(&log, log_from);
        let is_lingering = cut == Some(CallCut::Lingering);
        let lingered = is_lingering.then(|| "it printed its result 30 s ago and did not exit".to_owned());
        lingered.into_iter().for_each(|why| store.note(Notice::CallEnded { id, why }));
        let ended_for =
            ended_for(&exit, cut == Some(CallCut::Rounds) || rounds_are_up, store.contract.caps.agent_rounds);
        let cut_short = is_capped && exit.timed_out && ended_for.is_none();
        // A cap is a limit like that of its time.
        exit.timed_out |= ended_for.is_some();
        let usage = spend(store, usage);
        // The experiment begins again when there is space.
        refuse_spoilt(&store.repo, &store.folder, "the agent", exit.exit != Some(0))?;
        let is_stream = streamed.is_some();
        let words = streamed.unwrap_or_else(|| agent::last_words(&log, log_from));
        let is_stopped = store.walls.hold() && exit.exit != Some(0) && !exit.timed_out;
        let protected = if is_stopped { workspace.walled_paths(true) } else { Vec::new() };
        let kept_out = kept_out(&words, &real(workspace.root()), &protected);
        let has_answered = usage.tokens.is_some_and(|tokens| tokens.output > 0);
        let end = CallEnd::of((exit.exit, exit.timed_out), has_answered, !kept_out.is_empty());
        if let Some(outage) = self.outage(workspace, store, end, refusal.as_ref(), &words)? {
            self.enter_outage(workspace, store, outage, exit.seconds)?;
            return Ok(WaitEnd::Done(None));
        }
        self.note_answered(store, rewrote_log, log_from, exit.seconds);
        let commits = workspace.look_after_commits(store, &self.head.base, self.version(), commits)?;
        // Only the agent's own words count, not the rest of a stream.
        let speech = text.unwrap_or(if is_stream { String::new() } else { words });
        let said = agent::last_line(&speech);
        let proposal = Proposal::read(&self.files.proposal());
        // The prompt for the next change mentions the last call for one.
        if self.purpose == Purpose::Change {
            store.journal.calls.end(LastCall {
                said: said.clone(),
                question: said.as_deref().and_then(question).map(str::to_owned),
                ended_after: (exit.timed_out && ended_for.is_none() && !cut_short)
                    .then_some(store.contract.agent_timeout.as_secs_f64()),
                ended_for: ended_for.clone(),
                commits: if commits.made > 1 { commits.made } else { 0 },
                reset: commits.reset,
                rows,
                proposal_error: proposal.error.clone(),
                ..LastCall::default()
            });
        }
        if let Some(why) = ended_for {
            store.note(Notice::CallEnded { id, why });
            exit.timed_out = false;
        }
        if let Some(error) = &proposal.error {
            store.note(Notice::Ignored { path: self.files.proposal(), error: error.clone() });
        }
        // Ideas are worth keeping even if the change is not.
        store.add_ideas(id, &proposal.ideas)?;
        let described = described(&speech);
        let words = told;
        let work = CallWork { exit, cut_short, usage, proposal, speech, said, described, kept_out, memories, words };
        Ok(WaitEnd::Done(Some(Box::new(work))))
    }

    /// Notes that the agent answered, and in a call for a change whether it trained by itself.
    fn note_answered(&self, store: &mut Store, rewrote_log: bool, log_from: u64, call: f64) {
        let id = self.head.id;
        if let Some(over) = store.journal.agent_answered(store.contract.cadence.is_some()) {
            store.note(Event::OutageOver { id, seconds: over.seconds });
            close_escalation(store, "the agent is back");
        }
        if self.purpose == Purpose::Change {
            let Store { journal, history, contract, .. } = store;
            let log = self.files.log();
            let training = || own_training(history, &contract.metric.name, rewrote_log, (&log, log_from));
            if let Some((signs, run)) = journal.calls.note_training(training) {
                store.note(Notice::AgentTrains { id, signs, call, run });
            }
        }
    }

    /// The outage that kept the agent from its work, if that is why its call failed: by its answer, otherwise by `words`, the
    /// end of its output.
    fn outage(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        end: CallEnd,
        refusal: Option<&Refusal>,
        words: &str,
    ) -> Result<Option<Outage>, SessionError> {
        // The times that an agent names are those of the real clock.
        let now = Zoned::now();
        let of = |end| refusal.and_then(|refusal| refused(refusal, end, &now)).or_else(|| outage(words, end, &now));
        let Some(found) = of(end) else { return Ok(None) };
        // Only now is the working tree worth a look.
        let changed = workspace.has_worked(store, &self.head.base, self.version())?;
        Ok(if changed { of(CallEnd { changed, ..end }) } else { Some(found) })
    }

    /// Puts back what a call of so many seconds changed before an outage ended it, and notes the outage.
    fn enter_outage(
        &self,
        workspace: &mut Workspace,
        store: &mut Store,
        outage: Outage,
        seconds: f64,
    ) -> Result<(), SessionError> {
        store.journal.pauses.enter_outage(outage, store.contract.agent.clone(), seconds);
        self.save_unfinished(workspace, store)
    }

    /// Calls the agent and waits for it. Returns also why it was ended, if it was, and whether the loop has less time left
    /// than a call may take.
    async fn call(
        &self,
        workspace: &Workspace,
        shared: &SessionContext<'_>,
        told: CallParts<'_>,
        log_from: u64,
    ) -> Result<((WaitEnd<Exited>, Option<CallCut>), bool), SessionError> {
        shared.emit(Event::AgentStarted { id: self.head.id })?;
        let left = shared.times.end(&shared.store()).map(|end| end.left);
        let (mut job, is_capped) = self.start(workspace, &mut shared.store(), &shared.local, left, told)?;
        let rounds = shared.store().contract.caps.agent_rounds;
        Ok((wait_for_agent(shared, &mut job, (&self.files.log(), log_from), rounds).await?, is_capped))
    }

    /// The prompt of the call.
    fn prompt(&self, store: &mut Store, told: CallParts<'_>) -> String {
        let CallParts { memories, words, coverage, found, asked_again } = told;
        let program = program(store);
        let others = others(store, self.head.id);
        let task = self.reworked.and_then(|draft| FurtherCall::of(draft, &store.folder));
        let failed_log = last_failed_log(&store.folder, &store.history);
        let is_new = task.is_none() && self.merging.is_none();
        let Journal { ladder, calls, .. } = &store.journal;
        let briefing = Briefing {
            contract: &store.contract,
            history: &store.history,
            experiment: self.head.id,
            idle_calls: calls.idle(),
            last_call: calls.last(),
            memories,
            directive: ladder.directive_in(&store.contract, self.head.seat),
            coverage,
            found,
            asked_again,
            reworked: task.as_ref().map(FurtherCall::told),
            others: &others,
            merging: self.merging.as_ref(),
            proposals: if is_new { ladder.proposals(self.head.id) } else { &[] },
            words,
            failed_log: &failed_log,
            is_full: false,
        };
        let text = match self.purpose {
            Purpose::Summary => agent::summary_prompt(&briefing),
            Purpose::Proposal(role) => agent::explore_prompt(&briefing, role),
            Purpose::Change => agent::prompt(program.as_deref(), &briefing),
        };
        if self.purpose == Purpose::Change && is_new {
            store.journal.ladder.show_proposals(self.head.id);
        }
        text
    }

    /// Writes the prompt and starts the agent; `left` is how long the loop goes on. Returns also whether that is less than a
    /// call may take.
    fn start(
        &self,
        workspace: &Workspace,
        store: &mut Store,
        executor: &Executor,
        left: Option<Duration>,
        told: CallParts<'_>,
    ) -> Result<(Running, bool), SessionError> {
        let (id, files) = (self.head.id, &self.files);
        let contract = store.contract.clone();
        let Some(mut command) = contract.agent.clone() else { return Err(SessionError::Missing("--agent")) };
        if let Some(rounds) = contract.caps.agent_rounds {
            command = agent::with_rounds(&command, contract.agent_preset.as_deref(), rounds);
        }
        let root = workspace.root().to_owned();
        workspace.wait_past_last_run(store);
        clear_run_folder(&store.folder, id, contract.guards.len(), &mut store.notices)?;
        if workspace.owner.is_disposable() {
            copy_rows(store, &root)?;
        }
        remove_file(&files.proposal())?;
        let prompt = self.prompt(store, told);
        let baseline = store.history.baseline().and_then(|record| record.metric.number());
        let best = store.history.best_kept();
        let mut env = agent::variables(
            &contract,
            id,
            self.head.base.as_str(),
            &store.folder.state(),
            files,
            baseline.as_ref(),
            best.as_ref(),
        );
        env.extend(own_path(&contract.command));
        // A change that is unfinished at the loop's time limit would not run.
        let left = left.filter(|left| *left < contract.agent_timeout);
        store.begin_detection(Actor::Agent, id)?;
        let job = Job {
            name: AGENT.into(),
            command,
            cwd: root,
            folder: files.folder.clone(),
            log: files.log(),
            stdin: Some(files.prompt()),
            env,
            timeout: left.unwrap_or(contract.agent_timeout),
            silence: contract.caps.agent_silence.map(|after| Silence { after, by_gpu: false }),
            grace: contract.grace,
            tied: true,
            wall: workspace.wall_of_call(store, &files.folder)?,
            answers: true,
            ..Job::default()
        };
        let mut deletions = 0;
        let job = loop {
            write_unsynced(&files.prompt(), prompt.as_bytes())?;
            match executor.start(&job) {
                // The prompt was deleted since.
                Err(ExecError::File { source, .. })
                    if source.kind() == ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                job => break job?,
            }
        };
        Ok((job, left.is_some()))
    }
}

/// The reason for a further call for an experiment, with the record and log to show.
struct FurtherCall<'a> {
    draft: &'a Record,
    rework: ReworkCall,
    log: String,
}

impl<'a> FurtherCall<'a> {
    /// The task of a rework.
    fn of(draft: &'a Draft, folder: &SessionFolder) -> Option<FurtherCall<'a>> {
        let rework = next_rework(draft)?;
        Some(FurtherCall { draft: &draft.record, rework, log: end_of_log(folder, &draft.record) })
    }

    /// The same for the prompt.
    fn told(&self) -> ReworkedExperiment<'_> {
        ReworkedExperiment { draft: self.draft, rework: self.rework, log: &self.log }
    }
}

/// Adds the usage of a call to that of all calls, priced if the agent reports no cost. With a cost limit, reports once that
/// neither cost nor price is known, unless the start of the loop did.
fn spend(store: &mut Store, usage: Usage) -> Usage {
    let command = store.contract.agent.clone().unwrap_or_default();
    let usage = priced(usage, agent::model_in(&command), &store.contract.prices);
    let spent = store.journal.spend(&usage);
    let was_told = idle_limits(&store.contract, agent::reports(&command), spent).is_some();
    let cap = store.contract.max_cost.or(store.contract.caps.session_max_cost);
    if let Some(limit) = cap.filter(|_| usage.cost.is_none() && !was_told) {
        let model = usage.model.clone().unwrap_or_else(|| "MODEL".into());
        store.note_once(format!(
            "the agent reported no cost, which --max-cost {limit} needs; add [prices.\"{model}\"] to ar.toml or \
             pass --max-tokens"
        ));
    }
    usage
}

/// The repository's goals and constraints, if the user's working tree has any.
fn program(store: &mut Store) -> Option<String> {
    match read_program(store.repo.worktree()) {
        Ok(program) => Some(program),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                let path = store.repo.worktree().join(PROGRAM);
                store.note(format!("left {} out of the prompt: {error}", path.display()));
            }
            None
        }
    }
}

/// Gives an agent in a seat the rows as they are now.
fn copy_rows(store: &Store, root: &Path) -> Result<(), SessionError> {
    let (from, to) = (store.ledger.path(), root.join(store.ledger.name()));
    remove_file(&to)?;
    match fs::copy(from, &to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(SessionError::Io { action: "copy", path: from.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// The experiments that are open beside this one, for the agent to know.
fn others(store: &Store, id: ExperimentId) -> Vec<Other> {
    // An interrupted call has nothing to report until it is retried.
    let is_told = |other: &&Attempt| {
        let head = other.head();
        head.id != id && head.trial().is_none() && (other.is_made() || head.seat.is_some())
    };
    let now = store.now();
    let told = |other: &Attempt| {
        let head = other.head();
        Other {
            id: head.id,
            description: head.description.clone(),
            direction: head.direction.clone(),
            phase: other.phase(),
            slot: head.beside.slot,
            lasted: now.duration_since(head.started).try_into().unwrap_or_default(),
        }
    };
    store.journal.attempts().filter(is_told).map(told).collect()
}

/// The cap that ended a call before its time limit, in words; `rounds` are those that it may take.
fn ended_for(exit: &Exit, over_rounds: bool, rounds: Option<u32>) -> Option<String> {
    let silent = exit.silent.map(|seconds| format!("silent for {}", span_text(seconds)));
    let rounds =
        || rounds.map_or("all its rounds were used".to_owned(), |limit| format!("all {limit} rounds were used"));
    silent.or_else(|| over_rounds.then(rounds))
}

/// Returns the outage for an agent that could not be started.
fn not_started(detail: &str) -> Outage {
    Outage { kind: OutageKind::NotStarted, said: agent::last_line(detail).unwrap_or_default(), until: None }
}
