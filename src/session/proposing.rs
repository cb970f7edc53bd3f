//! From a working tree that somebody edited to a commit on the session's branch.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::error::SessionError;
use super::interrupts::Interrupt;
use super::open::{Session, remove_file};
use crate::agent::{self, BUILT_IN_PROGRAM, Briefing, Call, Proposal, ROUND_CAP};
use crate::crash;
use crate::domain::{CommitId, DiffStat, Event, Outcome, Phase, one_line};
use crate::exec::{self, ExecError, Job};
use crate::git::{Head, HeadTarget, Proposal as Change, Untracked};
use crate::rules::Turn;
use crate::state::{Iteration, OpenExperiment, write_atomic};

/// What a call of the agent came to.
pub(super) enum Proposed {
    /// A commit on the branch, ready to run.
    Change(Box<OpenExperiment>),
    /// Nothing changed.
    Nothing {
        /// The agent's last words.
        said: String,
        /// Its exit status, where it has one.
        exit: Option<i32>,
    },
    /// A person asked to stop; what the agent had done is saved.
    Interrupted,
    /// This process is to leave at once; the agent ends with it.
    Detached,
    /// The agent's shim died under it; what the agent had done is saved.
    Lost,
}

/// What a call of the agent left in the working tree.
enum Left {
    /// It is over: whatever it changed, and what it said.
    Work(Box<Work>),
    /// It came to nothing that could be committed.
    Nothing(Proposed),
}

/// What an agent left that is over.
struct Work {
    exit: exec::Exit,
    proposal: Proposal,
    /// Its last line of output.
    said: Option<String>,
}

/// How one call of the agent ended.
enum Called {
    /// It exited, or was ended on request.
    Over(exec::Exit),
    /// This process is to leave at once; the agent ends with it.
    Detached,
    /// Its shim died under it.
    Lost,
}

impl Called {
    fn of(exit: Result<exec::Exit, ExecError>) -> Result<Called, SessionError> {
        match exit {
            Err(ExecError::Lost { .. }) => Ok(Called::Lost),
            exit => Ok(Called::Over(exit?)),
        }
    }
}

impl Session<'_> {
    /// Calls the agent and commits what it changed. It is called once, and once more when it was to go in a new direction
    /// and names one that was tried.
    pub(super) async fn propose(&mut self) -> Result<Proposed, SessionError> {
        let id = self.history.next_id();
        let base = self.tip();
        let mut open = OpenExperiment::new(id, base.clone(), self.now());
        self.remember_untracked()?;
        self.enter(Phase::Proposing, open.clone())?;
        crash::point("proposing.entered");
        let call = Call { folder: self.run_folder(id)? };
        let mut work = match self.ask_agent(&call, &open, None).await? {
            Left::Work(work) => *work,
            Left::Nothing(proposed) => return Ok(proposed),
        };
        if let Some(repeated) = self.repeated_direction(&work.proposal) {
            let detail = format!("the direction \"{repeated}\" was tried before; the agent is asked once more");
            self.emit(Event::Notice { detail })?;
            self.reset_to(&base, id)?;
            crash::point("proposing.repeat_put_back");
            self.remember_untracked()?;
            let seconds = work.exit.seconds;
            work = match self.ask_agent(&call, &open, Some(&repeated)).await? {
                Left::Work(work) => *work,
                Left::Nothing(proposed) => return Ok(proposed),
            };
            work.exit.seconds += seconds;
        }
        let Work { exit, proposal, said } = work;
        open.direction = proposal.direction.clone();
        open.proposal = proposal.more();
        open.agent = self.agent_call(exit.seconds);
        // A call that was cut short is made again, and counts once.
        self.journal.iteration += 1;
        let texts = Texts { own: proposal.description.clone(), fallback: said.clone() };
        let known = self.known_untracked()?;
        let committed = self.commit_change(&mut open, &known, texts)?;
        crash::point("proposing.change_committed");
        self.emit(Event::AgentFinished {
            id,
            seconds: exit.seconds,
            changed: committed.is_some(),
            exit: exit.exit,
            said: said.clone().unwrap_or_default(),
        })?;
        match committed {
            Some(_) => Ok(Proposed::Change(Box::new(open))),
            None => {
                let said = said.unwrap_or_default();
                let before = self.journal.rung;
                self.note_idle_call(&said, exit.exit)?;
                self.note_findings(id, &proposal.findings)?;
                self.tell_directive(before)?;
                self.enter_idle()?;
                Ok(Proposed::Nothing { said, exit: exit.exit })
            }
        }
    }

    /// Calls the agent for the open experiment and looks at what it left. `repeated` is the direction that it named before,
    /// where it is asked once more.
    async fn ask_agent(
        &mut self,
        call: &Call,
        open: &OpenExperiment,
        repeated: Option<&str>,
    ) -> Result<Left, SessionError> {
        let (id, base) = (open.id, &open.base);
        let log_from = fs::metadata(call.log()).map_or(0, |meta| meta.len());
        let called = self.call_agent(call, id, base, repeated).await?;
        crash::point("proposing.agent_over");
        if !matches!(called, Called::Detached) {
            self.end_watch()?;
            self.run_folder(id)?;
            self.put_untracked_back()?;
            self.put_records_back()?;
        }
        let exit = match called {
            Called::Over(exit) => exit,
            Called::Detached => return Ok(Left::Nothing(Proposed::Detached)),
            Called::Lost => {
                self.remove_left_locks(id)?;
                self.reset_to(base, id)?;
                self.enter_idle()?;
                return Ok(Left::Nothing(Proposed::Lost));
            }
        };
        if exit.stopped || exit.timed_out {
            self.remove_left_locks(id)?;
        }
        if exit.stopped {
            self.reset_to(base, id)?;
            self.enter_idle()?;
            return Ok(Left::Nothing(Proposed::Interrupted));
        }
        // The open experiment begins anew when there is room.
        self.refuse_spoilt("the agent", exit.exit != Some(0))?;
        let said = agent::last_line(&call.log(), log_from);
        Ok(Left::Work(Box::new(Work { exit, proposal: Proposal::read(&call.proposal()), said })))
    }

    /// Calls the agent and waits for it.
    async fn call_agent(
        &mut self,
        call: &Call,
        id: u32,
        base: &CommitId,
        repeated: Option<&str>,
    ) -> Result<Called, SessionError> {
        let contract = self.contract.clone();
        let Some(command) = contract.agent.clone() else { return Err(SessionError::Missing("--agent")) };
        let root = self.repo.worktree().to_owned();
        let program = fs::read_to_string(root.join("program.md")).unwrap_or_else(|_| BUILT_IN_PROGRAM.to_owned());
        let briefing = Briefing {
            contract: &contract,
            history: &self.history,
            experiment: id,
            idle_calls: self.journal.idle_calls,
            directive: self.directive(),
            repeated,
        };
        remove_file(&call.proposal())?;
        write_atomic(&call.prompt(), agent::prompt(&program, &briefing).as_bytes())?;
        let baseline = self.history.baseline().and_then(|record| record.metric.number());
        let best = self.history.best().map(|(_, number)| number);
        let env = agent::variables(
            &contract,
            id,
            base.as_str(),
            &self.folder.state(),
            call,
            baseline.as_ref(),
            best.as_ref(),
        );
        self.emit(Event::AgentStarted { id })?;
        self.begin_watch("the agent", id)?;
        let mut job = exec::start(&Job {
            name: "agent".into(),
            command,
            cwd: root,
            folder: call.folder.clone(),
            log: call.log(),
            stdin: Some(call.prompt()),
            env,
            timeout: ROUND_CAP,
            grace: contract.grace,
            tied: true,
        })?;
        let mut listener = self.interrupts.listen();
        loop {
            match self.asked()? {
                Interrupt::Now => {
                    job.stop()?;
                    return Called::of(job.wait().await);
                }
                Interrupt::Detach => return Ok(Called::Detached),
                _ => {}
            }
            tokio::select! {
                exit = job.wait() => return Called::of(exit),
                () = listener.signal_or_look() => {}
            }
        }
    }

    /// Commits the change in the working tree on `open.base`, whatever happened to HEAD, the branch and the index
    /// meanwhile, and moves the branch to it. `None` when nothing changed; branch, index and working tree are then at
    /// the base.
    pub(super) fn commit_change(
        &mut self,
        open: &mut OpenExperiment,
        known: &Untracked,
        texts: Texts,
    ) -> Result<Option<CommitId>, SessionError> {
        let tip = self.reclaim_branch(&open.base)?;
        let mut change = self.repo.propose(&open.base, known)?;
        if change.is_empty() && change.too_large().is_empty() {
            self.move_branch(&open.base, &[], "nothing changed")?;
            self.repo.adopt_index(&mut change)?;
            return Ok(None);
        }
        let made_by_agent = tip != open.base
            && self.repo.parents(&tip)? == [open.base.clone()]
            && self.repo.tree_of(&tip)? == change.tree();
        let subject = if tip == open.base { None } else { Some(self.repo.subject(&tip)?) };
        let stat = self.repo.proposal_stat(&open.base, &change)?;
        open.description = texts.choose(subject, || describe(&change, stat));
        self.enter(Phase::Committing, open.clone())?;
        crash::point("committing.entered");
        let commit =
            if made_by_agent { tip.clone() } else { self.repo.commit(&change, &open.base, &open.description)? };
        self.check(open, &commit, change.too_large())?;
        open.commit = Some(commit.clone());
        crash::point("committing.commit_written");
        self.enter(Phase::Committing, open.clone())?;
        crash::point("committing.commit_noted");
        self.move_branch(&commit, &[&open.base], &format!("experiment {}", open.id))?;
        crash::point("committing.branch_advanced");
        self.repo.adopt_index(&mut change)?;
        Ok(Some(commit))
    }

    /// Makes HEAD the session's branch again if it is not, and the branch exist if it does not; returns its tip.
    pub(super) fn reclaim_branch(&mut self, base: &CommitId) -> Result<CommitId, SessionError> {
        self.clear_operation()?;
        let branch = self.contract.tag.branch_ref();
        let tip = match self.repo.branch(&branch)? {
            Some(tip) => tip,
            None => {
                self.repo.create_branch(&branch, base, "autoresearch: put back")?;
                let detail = format!("the branch {} was gone; it is put back", self.contract.tag.branch());
                self.emit(Event::Notice { detail })?;
                base.clone()
            }
        };
        match self.repo.head()? {
            Head::Branch { name, .. } if name == branch => {}
            _ => {
                self.repo.point_head(&HeadTarget::Branch(branch))?;
                let detail = format!("HEAD had left {}; it is put back", self.contract.tag.branch());
                self.emit(Event::Notice { detail })?;
            }
        }
        Ok(tip)
    }

    /// Ends what somebody left half done of a merge, a rebase or the like; the commits that only it names are kept.
    fn clear_operation(&mut self) -> Result<(), SessionError> {
        let Some(operation) = self.repo.operation()? else { return Ok(()) };
        for commit in &operation.commits {
            self.repo.save_commit(&self.save_as(commit), commit)?;
        }
        self.repo.clear_operation()?;
        let detail = format!("a {} was left half done; it is ended, and its commits are kept", operation.name);
        self.emit(Event::Notice { detail })
    }

    /// Counts a call that changed nothing. Of an agent that failed nobody knows whether it had an idea: that does not
    /// move the session on its ladder.
    fn note_idle_call(&mut self, said: &str, exit: Option<i32>) -> Result<(), SessionError> {
        self.journal.idle_calls += 1;
        self.journal.stale_count += 1;
        if exit.is_none_or(|status| status == 0) {
            self.climb(Turn::Idle);
        }
        Ok(self.memory.log_iteration(&Iteration {
            ts: self.now(),
            iteration: self.journal.iteration,
            experiment: None,
            outcome: None::<Outcome>,
            description: said,
            stale_count: self.journal.stale_count,
        })?)
    }

    /// Waits before an agent that failed is called again; growing, at most a minute. Ends early on an interrupt.
    pub(super) async fn pause(&mut self) -> Result<(), SessionError> {
        let wait = Duration::from_millis(100 << self.journal.idle_calls.min(9)).min(Duration::from_secs(60));
        let end = Instant::now() + wait;
        let mut listener = self.interrupts.listen();
        while self.asked()? == Interrupt::None {
            tokio::select! {
                () = sleep_until(end) => break,
                () = listener.signal_or_look() => {}
            }
        }
        Ok(())
    }
}

/// Where the description of a change may come from.
pub(super) struct Texts {
    /// What the proposal file or the user says.
    pub(super) own: Option<String>,
    /// The agent's last line of output.
    pub(super) fallback: Option<String>,
}

impl Texts {
    /// The proposal's words, else the subject of a commit that the agent made, else its last line of output, else the
    /// size of the change.
    pub(super) fn choose(self, subject: Option<String>, describe: impl FnOnce() -> String) -> String {
        let given = [self.own, subject, self.fallback].into_iter().flatten();
        given.map(|text| one_line(&text)).find(|text| !text.is_empty()).unwrap_or_else(describe)
    }
}

/// The change where nobody has words for it: its files, and how much of them.
pub(super) fn describe(change: &Change, stat: DiffStat) -> String {
    const SHOWN: usize = 3;
    let paths = change.paths();
    let mut text =
        paths.iter().take(SHOWN).map(|changed| changed.path.display().to_string()).collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        text += &format!(" and {} more", paths.len() - SHOWN);
    }
    one_line(&format!("{text}: {stat}"))
}
