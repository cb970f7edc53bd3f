//! The review of a change before it is kept, by an agent of its own in a tree of its own, also beside others, in the line of
//! winners.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::{Attempted, MeasuredChange, Stage, join_line, restore_after, wait_for_agent};
use crate::agent::{Answer, Reviewing, review_prompt};
use crate::domain::{
    Actor, Event, ExperimentId, Failure, FailureClass, Outcome, Phase, Record, Review, ReviewVerdict, bytes_text, cut,
    ended_text, with_causes,
};
use crate::exec::{Job, Running};
use crate::fs::write_unsynced;
use crate::git::ChangeKind;
use crate::machine::{Attempt, Draft, Made};
use crate::measure::last_lines;
use crate::rules::{JobPlaces, WalledRole, priced};
use crate::session::errors::SessionError;
use crate::session::files::{refuse_spoilt, remove_file};
use crate::session::handlers::{Workspace, make_review_tree, remove_review_tree};
use crate::session::research::artifact::new_claims;
use crate::session::store::{REVIEW, Store, clear_run_folder, own_names, run_variables};
use crate::session::wait::{Deadline, Exited, SessionContext, WaitEnd};
use crate::state::{SessionFolder, read_log_tail};
use crate::{agent, crash, exec};

/// Limit on the retained output in bytes; the rest is dropped. Structured answers of long reviews have some MiB.
const OUTPUT: u64 = 16 << 20;

/// Number of last lines of the run's log that a reviewer sees.
const LOG_LINES: usize = 100;

/// Limit on the quoted last line of a reviewer, in characters.
const LAST: usize = 200;

/// The shortest time that a review gets when somebody waits for it no longer, or the loop has less left.
const SHORTEST: Duration = Duration::from_secs(1);

/// The call of a reviewer for an experiment: its files in the folder of the experiment's runs, and its working tree.
pub(crate) struct ReviewCall<'a> {
    record: &'a Record,
    folder: PathBuf,
    tree: PathBuf,
}

impl<'a> ReviewCall<'a> {
    pub(crate) fn of(record: &'a Record, folder: &SessionFolder) -> Self {
        ReviewCall { record, folder: folder.run(record.id), tree: review_tree(folder, record.id) }
    }

    fn prompt(&self) -> PathBuf {
        self.folder.join("review.md")
    }

    fn answer(&self) -> PathBuf {
        self.folder.join("review.json")
    }

    fn diff(&self) -> PathBuf {
        self.folder.join("review.diff")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("review.log")
    }
}

/// The working tree in which an experiment is reviewed.
pub(crate) fn review_tree(folder: &SessionFolder, id: ExperimentId) -> PathBuf {
    folder.trees().join(format!("review-{id}"))
}

impl MeasuredChange {
    /// Returns whether it would be kept and needs a review first.
    pub(crate) fn awaits_review(&self, store: &Store) -> bool {
        let Draft { made: Made { head, .. }, record, .. } = &self.draft;
        let is_own = head.trial().is_none() && !head.id.is_baseline();
        let would_be_kept = record.outcome == Outcome::Keep && record.proof.review.is_none();
        is_own && would_be_kept && store.contract.reviewer.is_some()
    }

    /// Has the change reviewed, which would be kept. Beside others it leaves its slot first.
    pub(crate) async fn review(
        mut self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<Stage, SessionError> {
        if self.phase != Phase::Reviewing {
            self.enter(&mut shared.store(), Attempt::Review)?;
            crash::point("reviewing.entered");
        }
        if workspace.owner.is_one_of_many() {
            return Ok(Stage::Over(Attempted::Waiting));
        }
        match self.have_reviewed(shared, deadline).await? {
            WaitEnd::Detached => Ok(Stage::Over(Attempted::StillRunning)),
            _ => self.conclude(workspace, shared),
        }
    }

    /// Puts the verdict and what follows from it into the record, unless it has one. Every ending but [`WaitEnd::Detached`]
    /// leaves a record with a review, if the session still has a reviewer.
    pub(crate) async fn have_reviewed(
        &mut self,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<()>, SessionError> {
        let record = &mut *self.draft.record;
        if record.proof.review.is_some() {
            return Ok(WaitEnd::Done(()));
        }
        if shared.store().contract.reviewer.is_none() {
            // It was turned off after it had been called.
            let store = &mut *shared.store();
            remove_review_tree(store, &ReviewCall::of(record, &store.folder).tree);
            return Ok(WaitEnd::Done(()));
        }
        let call = ReviewCall::of(record, &shared.store().folder);
        let review = match call.review(shared, deadline).await? {
            WaitEnd::Done(review) => review,
            _ => return Ok(WaitEnd::Detached),
        };
        shared.emit(Event::ReviewFinished { id: record.id, review: review.clone(), late: false })?;
        if review.verdict == ReviewVerdict::NotEarned {
            record.outcome = Outcome::Discard;
            record.reason += &format!(", but the reviewer says {}", review.sentence());
            record.failure = Some(Failure::new(FailureClass::ReviewFailed, review.why.clone()));
        }
        record.proof.review = Some(review);
        self.enter(&mut shared.store(), Attempt::Review)?;
        crash::point("reviewing.noted");
        Ok(WaitEnd::Done(()))
    }
}

impl ReviewCall<'_> {
    /// Reviews an experiment, until `deadline` or the end of the loop. Without a verdict, for whatever reason, the review is
    /// `unreviewed`.
    ///
    /// # Errors
    ///
    /// Fails on errors that the reviewer did not cause: the session's own files, or a full disk.
    pub(crate) async fn review(
        &self,
        shared: &SessionContext<'_>,
        deadline: Deadline,
    ) -> Result<WaitEnd<Review>, SessionError> {
        let id = self.record.id;
        let began = Instant::now();
        let ended = match self.start(shared, deadline) {
            Ok(mut job) => {
                shared.publish()?;
                let (ended, _) = wait_for_agent(shared, &mut job, (&self.log(), 0), None).await?;
                crash::point("reviewing.reviewer_over");
                ended
            }
            Err(error) if error.is_disk_full() => return Err(error),
            Err(error) => {
                shared.store().end_detection(id)?;
                remove_review_tree(&mut shared.store(), &self.tree);
                return Ok(WaitEnd::Done(unreviewed(format!("it cannot be called: {}", with_causes(&error)), began)));
            }
        };
        if ended.is_over() {
            restore_after(shared, id, REVIEW).await?;
            remove_review_tree(&mut shared.store(), &self.tree);
        }
        if matches!(ended, WaitEnd::Detached) {
            return Ok(WaitEnd::Detached);
        }
        let store = &mut *shared.store();
        let answer = agent::read_answer(&self.log(), 0);
        let model = agent::model_in(store.contract.reviewer.as_deref().unwrap_or_default());
        let usage = priced(answer.usage.clone(), model, &store.contract.prices);
        store.journal.spend(&usage);
        let review = match ended {
            WaitEnd::Done(exited) => self.read(store, exited, answer, began)?,
            WaitEnd::Interrupted => unreviewed("it was interrupted".into(), began),
            WaitEnd::Detached | WaitEnd::Lost => unreviewed("its shim was killed".into(), began),
        };
        Ok(WaitEnd::Done(Review { tokens: usage.tokens, cost: usage.cost, ..review }))
    }

    /// Makes the tree, writes the prompt and calls the reviewer.
    fn start(&self, shared: &SessionContext<'_>, deadline: Deadline) -> Result<Running, SessionError> {
        let (store, record) = (&mut *shared.store(), self.record);
        let contract = store.contract.clone();
        let Some(command) = contract.reviewer.clone() else { return Err(SessionError::Missing("--reviewer")) };
        clear_run_folder(&store.folder, record.id, contract.guards.len(), &mut store.notices)?;
        make_review_tree(store, &self.tree, &record.commit)?;
        let diff = store.repo.objects.diff_text(&record.base, &record.commit)?;
        let prompt = prompt(store, self, &diff)?;
        [self.answer(), self.diff(), self.log()].iter().try_for_each(|path| remove_file(path))?;
        store.begin_detection(Actor::Reviewer, record.id)?;
        write_unsynced(&self.prompt(), prompt.as_bytes())?;
        write_unsynced(&self.diff(), &diff)?;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut env =
            run_variables(&command, &contract.tag, record.id, &record.commit, &store.folder.state(), &self.folder);
        env.extend([
            ("AR_ROOT".into(), path(store.repo.worktree())),
            ("AR_PROMPT".into(), path(&self.prompt())),
            ("AR_REVIEW".into(), path(&self.answer())),
        ]);
        let waited = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let of_loop = shared.times.end(store).map(|end| end.left);
        let left = waited.into_iter().chain(of_loop).min().unwrap_or(contract.agent_timeout).max(SHORTEST);
        let places = JobPlaces { own: own_names(&self.folder, contract.guards.len(), false), ..JobPlaces::default() };
        let wall = store.walls.of_job(&self.tree, &self.folder, places, &WalledRole::Reviewer);
        let job = shared.local.start(&Job {
            name: REVIEW.into(),
            command,
            cwd: self.tree.clone(),
            log: self.log(),
            stdin: Some(self.prompt()),
            folder: self.folder.clone(),
            env,
            timeout: left.min(contract.agent_timeout),
            grace: contract.grace,
            log_limit: Some(OUTPUT),
            tied: true,
            wall,
            ..Job::default()
        })?;
        store.note(Event::ReviewStarted { id: record.id });
        Ok(job)
    }

    /// Reads the review from the answer of a finished reviewer.
    fn read(&self, store: &Store, exited: Exited, answer: Answer, began: Instant) -> Result<Review, SessionError> {
        let exit = match exited {
            Ok(exit) => exit,
            Err(full @ exec::ExecError::DiskFull { .. }) => return Err(full.into()),
            Err(error) => return Ok(unreviewed(format!("it cannot be called: {}", with_causes(&error)), began)),
        };
        refuse_spoilt(&store.repo, &store.folder, "the reviewer", exit.exit != Some(0))?;
        let said = answer.text.or(answer.words).unwrap_or_else(|| agent::last_words(&self.log(), 0));
        let review = match exit.exit {
            Some(0) if !exit.timed_out => {
                agent::read_review(&self.answer(), &said).unwrap_or_else(|why| unreviewed(why, began))
            }
            _ => {
                let ended = ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds);
                let last = agent::last_line(&said).map(|line| format!(": {}", cut(&line, LAST))).unwrap_or_default();
                unreviewed(format!("it gave no verdict ({ended}){last}"), began)
            }
        };
        Ok(Review { seconds: exit.seconds, ..review })
    }
}

/// A review without a verdict.
fn unreviewed(why: String, began: Instant) -> Review {
    Review { seconds: began.elapsed().as_secs_f64(), ..Review::of(ReviewVerdict::Unreviewed, why) }
}

/// The prompt for the reviewer of an experiment.
fn prompt(store: &Store, call: &ReviewCall<'_>, diff: &[u8]) -> Result<String, SessionError> {
    let (objects, record) = (&store.repo.objects, call.record);
    let (base, commit) = (&record.base, &record.commit);
    let changed = objects.changed_between(base, commit)?;
    let changed = changed.iter().map(|changed| {
        let path = changed.path.display();
        match changed.kind {
            ChangeKind::Deleted => format!("{path}: deleted"),
            ChangeKind::Added => format!("{path}: new, {}", bytes_text(changed.size)),
            ChangeKind::Modified => format!("{path}: changed, {}", bytes_text(changed.size)),
            ChangeKind::TypeChanged => format!("{path}: another kind of file now, {}", bytes_text(changed.size)),
        }
    });
    let incumbent = store.history.kept_at(base).and_then(|id| store.history.get(id));
    let log = read_log_tail(&store.folder.log(record.id, "run.log"));
    Ok(review_prompt(&Reviewing {
        contract: &store.contract,
        record,
        incumbent,
        files: &changed.collect::<Vec<_>>(),
        diff: &String::from_utf8_lossy(diff),
        diff_file: &call.diff(),
        log: &log.map(|log| last_lines(&log, LOG_LINES)).unwrap_or_default(),
        claims: &new_claims(&store.repo, &store.contract, base, commit)?,
        answer: &call.answer(),
    }))
}

/// The attempts that are to be reviewed, or are being reviewed.
pub(crate) fn to_review(store: &Store) -> Vec<ExperimentId> {
    store.journal.in_phase(Phase::Reviewing).map(Attempt::id).collect()
}

/// Has a change reviewed. Then it is a winner, or is recorded.
pub(crate) async fn review(mut change: MeasuredChange, shared: &SessionContext<'_>) -> Result<Attempted, SessionError> {
    if let WaitEnd::Detached = change.have_reviewed(shared, None).await? {
        return Ok(Attempted::StillRunning);
    }
    let alone = join_line(change.draft, &mut shared.store())?;
    if let Some(Draft { made, record, .. }) = alone {
        let record = Record { beside: made.head.beside.clone(), ..*record };
        shared.store().record(made, vec![record], None)?;
    }
    shared.publish()?;
    Ok(Attempted::Waiting)
}
