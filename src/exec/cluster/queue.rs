//! All jobs of one engine that this process waits for: submitted, asked about in one question, and cancelled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::super::Job;
use super::commands::NamedJob;
use super::{NoAnswer, Submission, Ticket, commands, is_in_path, slurm};
use crate::crash;
use crate::domain::{Cluster, Engine, duration_text};
use crate::rules::{EngineWord, next_pause};
use crate::state::{read_json, write_json};

/// The shortest time between two questions, also when something has happened.
const BETWEEN: Duration = Duration::from_secs(2);

/// For how long a job must be missing, by two answers at least, before it is submitted once more after a failure.
const MISSING: Duration = Duration::from_secs(4);

/// The pause before a cancelled job that is still there is cancelled once more.
const CANCEL_AGAIN: Duration = Duration::from_secs(6);

/// The number of refusals after which a submission is given up, while the engine answers questions.
const REFUSALS: u32 = 4;

/// An engine's report of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobReport {
    pub(super) id: Option<String>,
    pub(super) token: String,
    pub(super) word: EngineWord,
}

/// The state of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubmitStep {
    /// It is to be submitted.
    Ready,
    /// It is being submitted.
    Submitting,
    /// Nobody knows whether a submission was made.
    Uncertain,
    /// The engine knows it, or did.
    Submitted,
}

/// A job that somebody waits for.
#[derive(Debug)]
struct Tracked {
    /// Number of waiting jobs.
    watchers: u32,
    submission: Submission,
    job_file: PathBuf,
    submitted: Timestamp,
    step: SubmitStep,
    word: Option<EngineWord>,
    /// When the last question began that was answered.
    heard: Option<Instant>,
    /// The first and the last answer without it, since there was one with it.
    absent: Option<(Instant, Instant)>,
    /// The first answer that said that it has ended.
    over: Option<Instant>,
    /// Number of refused submissions, with the last reason.
    refused: (u32, String),
    is_cancelled: bool,
    cancel_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct QueueState {
    jobs: BTreeMap<String, Tracked>,
    is_asking: bool,
    asked_at: Option<Instant>,
    pause: Option<Duration>,
    has_changed: bool,
    last: Vec<(String, EngineWord)>,
    /// Since when the engine has not answered, and why.
    away: Option<(Instant, String)>,
    /// What the files of the jobs say about that.
    noted: Option<String>,
    /// True if the user was told that it does not.
    is_told: bool,
}

/// The known state of a job.
#[derive(Debug, Clone)]
pub(super) struct PollResult {
    pub(super) word: Option<EngineWord>,
    pub(super) heard: Option<Instant>,
    pub(super) absent: Option<Duration>,
    pub(super) over: Option<Duration>,
    pub(super) is_cancelled: bool,
    /// True if it never came to the engine and was cancelled.
    pub(super) was_never_submitted: bool,
    /// The reason why it cannot be submitted.
    pub(super) refused: Option<String>,
}

/// The jobs of an engine.
#[derive(Debug)]
pub struct Queue {
    pub(in super::super) cluster: Cluster,
    pub(super) program: PathBuf,
    state: Mutex<QueueState>,
    pub(super) changed: Notify,
}

impl Queue {
    /// The queue of an engine, whose jobs start `program` as their shim. A process has one for each engine, so that all jobs there are
    /// asked about in one question.
    pub(in super::super) fn of(cluster: &Cluster, program: impl FnOnce() -> PathBuf) -> Arc<Queue> {
        static QUEUES: Mutex<Vec<Weak<Queue>>> = Mutex::new(Vec::new());
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        if let Some(known) = queues.iter().filter_map(Weak::upgrade).find(|known| known.cluster == *cluster) {
            return known;
        }
        let made = Arc::new(Queue {
            cluster: cluster.clone(),
            program: program(),
            state: Mutex::default(),
            changed: Notify::new(),
        });
        queues.push(Arc::downgrade(&made));
        made
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job from now on. It is submitted if it `is_new`; otherwise the engine is asked about it, and submission follows if
    /// it never came there.
    pub(super) fn enter(&self, ticket: &Ticket, submission: Submission, job_file: PathBuf, is_new: bool) {
        let step = match (is_new, &ticket.id) {
            (true, _) => SubmitStep::Ready,
            (false, None) => SubmitStep::Uncertain,
            (false, Some(_)) => SubmitStep::Submitted,
        };
        let tracked = Tracked {
            watchers: 1,
            submission,
            job_file,
            submitted: ticket.submitted,
            step,
            word: None,
            heard: None,
            absent: None,
            over: None,
            refused: (0, String::new()),
            is_cancelled: ticket.cancelled,
            cancel_at: None,
        };
        if ticket.away.is_some() {
            note(&tracked.job_file, &ticket.token, |ticket| ticket.away = None);
        }
        let state = &mut *self.state();
        state.has_changed = true;
        state.jobs.entry(ticket.token.clone()).and_modify(|known| known.watchers += 1).or_insert(tracked);
    }

    /// Forgets a job that nobody waits for any more.
    pub(super) fn leave(&self, token: &str) {
        let state = &mut *self.state();
        if let Some(job) = state.jobs.get_mut(token) {
            job.watchers -= 1;
        }
        state.jobs.retain(|_, job| job.watchers > 0);
        if state.jobs.is_empty() {
            // Nobody asks any more, so that nobody knows.
            (state.away, state.noted, state.is_told) = (None, None, false);
        }
    }

    /// Notes why the engine does not answer, or that it does, also in the files of the jobs, for whoever looks at them.
    fn note_away(&self, why: Option<String>) {
        let (files, shown) = {
            let state = &mut *self.state();
            let again = duration_text(next_pause(state.pause, false));
            let shown = why.as_ref().map(|why| format!("{why}; asking again in {again}"));
            let since = state.away.take().map_or_else(Instant::now, |(since, _)| since);
            state.away = why.map(|why| (since, why));
            if state.noted == shown {
                return;
            }
            state.noted.clone_from(&shown);
            let files = state.jobs.iter().map(|(token, job)| (token.clone(), job.job_file.clone()));
            (files.collect::<Vec<_>>(), shown)
        };
        for (token, file) in files {
            note(&file, &token, |ticket| ticket.away.clone_from(&shown));
        }
    }

    /// What is to be said once: that the engine does not answer, or that it does again.
    pub(in super::super) fn news(&self) -> Option<String> {
        let state = &mut *self.state();
        let name = self.cluster.engine.name();
        let text = match &state.away {
            Some((_, why)) if !state.is_told => {
                let again = duration_text(next_pause(state.pause, false));
                format!("the executor `{name}` does not answer: {why}; asking again in {again}")
            }
            None if state.is_told => format!("the executor `{name}` answers again"),
            _ => return None,
        };
        state.is_told = state.away.is_some();
        Some(text)
    }

    /// Asks for the end of a job, and notes that in its file: whoever finds it cancelled later is to know by whom.
    pub(super) fn cancel(&self, token: &str) {
        let file = self.state().jobs.get(token).map(|job| job.job_file.clone());
        if let Some(file) = file {
            note(&file, token, |ticket| ticket.cancelled = true);
        }
        let state = &mut *self.state();
        state.has_changed = true;
        if let Some(job) = state.jobs.get_mut(token) {
            job.is_cancelled = true;
        }
    }

    /// Has the engine asked soon.
    pub(super) fn ask_soon(&self) {
        self.state().has_changed = true;
    }

    /// Returns what is known of a job.
    pub(super) fn heard(&self, token: &str) -> Option<PollResult> {
        let state = self.state();
        let job = state.jobs.get(token)?;
        let is_ready = matches!(job.step, SubmitStep::Ready);
        let refused = job.refused.0 >= REFUSALS && is_ready;
        Some(PollResult {
            word: job.word,
            heard: job.heard,
            absent: job.absent.map(|(first, last)| last - first),
            over: job.over.zip(job.heard).map(|(first, last)| last - first),
            is_cancelled: job.is_cancelled,
            was_never_submitted: job.is_cancelled && is_ready,
            refused: refused.then(|| job.refused.1.clone()),
        })
    }

    /// For how long the engine has given no answer, and why.
    pub(in super::super) fn away(&self) -> Option<(Duration, String)> {
        self.state().away.as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }

    /// Cancels those of these jobs, which are over, that the engine calls open and did `before`. Gives all that it calls open: a controller
    /// that crashed may have put them back, or never have heard of their end.
    pub(in super::super) fn cancel_open(&self, over: &[String], before: &[String]) -> Vec<String> {
        // Without an answer they begin again, and their shims find that they are over.
        let told = states(&self.cluster.engine, &[], Timestamp::now()).unwrap_or_default();
        let is_open = |told: &&JobReport| told.word.state.is_open() && over.contains(&told.token);
        let open: Vec<&JobReport> = told.iter().filter(is_open).collect();
        let stays = |told: &&&JobReport| before.contains(&told.token);
        open.iter().filter(stays).for_each(|told| cancel_second(&self.cluster.engine, told));
        open.iter().map(|told| told.token.clone()).collect()
    }

    /// Does what is due: submits, cancels and asks, each in a thread of its own, so that nothing waits for an engine and what was begun
    /// is brought to its end.
    pub(super) fn drive(self: &Arc<Self>) {
        let now = Instant::now();
        let state = &mut *self.state();
        for job in state.jobs.values_mut() {
            if job.step == SubmitStep::Ready && !job.is_cancelled && job.refused.0 < REFUSALS {
                job.step = SubmitStep::Submitting;
                let (queue, submission, file) = (Arc::clone(self), job.submission.clone(), job.job_file.clone());
                if !in_background(move || queue.submit(&submission, &file)) {
                    job.step = SubmitStep::Ready;
                }
            }
        }
        let is_due = |job: &&mut Tracked| {
            job.is_cancelled
                && job.step == SubmitStep::Submitted
                && job.word.is_none_or(|word| word.state.is_open())
                && job.cancel_at.is_none_or(|at| now.duration_since(at) >= crash::wait(CANCEL_AGAIN))
        };
        let due: Vec<NamedJob> = state
            .jobs
            .values_mut()
            .filter(is_due)
            .map(|job| {
                job.cancel_at = Some(now);
                named(job)
            })
            .collect();
        if !due.is_empty() {
            let queue = Arc::clone(self);
            in_background(move || {
                // It is cancelled again while it is there.
                let _ = cancel_jobs(&queue.cluster.engine, &due);
                queue.ask_soon();
            });
        }
        if state.is_asking
            || !state.jobs.values().any(|job| matches!(job.step, SubmitStep::Uncertain | SubmitStep::Submitted))
        {
            return;
        }
        let pause = if state.has_changed { BETWEEN } else { next_pause(state.pause, false) };
        if state.asked_at.is_some_and(|at| now.duration_since(at) < crash::wait(pause)) {
            return;
        }
        state.pause = Some(pause);
        (state.is_asking, state.asked_at, state.has_changed) = (true, Some(now), false);
        let jobs: Vec<NamedJob> = state.jobs.values().map(named).collect();
        let since = state.jobs.values().map(|job| job.submitted).min().unwrap_or_else(Timestamp::now);
        let queue = Arc::clone(self);
        let is_asked = in_background(move || {
            let answer = states(&queue.cluster.engine, &jobs, since);
            queue.take_answer(now, answer);
            queue.changed.notify_waiters();
        });
        if !is_asked {
            state.is_asking = false;
            state.away.get_or_insert_with(|| (now, "no thread can be started to ask it".to_owned()));
        }
    }

    /// Submits a job, and notes its id in its file.
    fn submit(&self, submission: &Submission, job_file: &Path) {
        crash::point("job.submitting");
        let submitted = submit(&self.cluster.engine, submission);
        crash::point("job.submitted");
        let state = &mut *self.state();
        state.has_changed = true;
        let job = state.jobs.get_mut(&submission.token);
        match submitted {
            Ok(id) => {
                note_id(job_file, &submission.token, &id);
                if let Some(job) = job {
                    (job.step, job.submission.id) = (SubmitStep::Submitted, Some(id));
                }
            }
            Err(NoAnswer(why)) => {
                if let Some(job) = job {
                    (job.step, job.refused) = (SubmitStep::Uncertain, (job.refused.0 + 1, why));
                }
            }
        }
        self.changed.notify_waiters();
    }

    fn take_answer(&self, began: Instant, answer: Result<Vec<JobReport>, NoAnswer>) {
        self.state().is_asking = false;
        let told = match answer {
            Ok(told) => told,
            Err(NoAnswer(why)) => return self.note_away(Some(why)),
        };
        self.note_away(None);
        let state = &mut *self.state();
        let now = Instant::now();
        let mut last = Vec::new();
        for (token, job) in &mut state.jobs {
            if !matches!(job.step, SubmitStep::Uncertain | SubmitStep::Submitted) {
                continue;
            }
            let mut known: Vec<&JobReport> = told.iter().filter(|told| told.token == *token).collect();
            // The first of two submissions counts.
            known.sort_by_key(|told| (!told.word.state.is_open(), told.id != job.submission.id));
            job.heard = Some(began);
            let Some(first) = known.first() else {
                let since = job.absent.map_or(now, |(since, _)| since);
                (job.word, job.over, job.absent) = (None, None, Some((since, now)));
                if job.step == SubmitStep::Uncertain && now.duration_since(since) >= crash::wait(MISSING) {
                    (job.step, job.absent) = (SubmitStep::Ready, None);
                }
                continue;
            };
            // A controller that was restarted may list one job twice.
            let is_other = |told: &&&JobReport| told.id != first.id && told.word.state.is_open();
            for second in known.iter().filter(is_other) {
                let (engine, second) = (self.cluster.engine.clone(), (*second).clone());
                in_background(move || cancel_second(&engine, &second));
            }
            if job.submission.id != first.id
                && let Some(id) = &first.id
            {
                note_id(&job.job_file, token, id);
            }
            last.push((token.clone(), first.word));
            job.step = SubmitStep::Submitted;
            (job.submission.id, job.word, job.absent) = (first.id.clone(), Some(first.word), None);
            job.over = if first.word.state.is_open() { None } else { Some(job.over.unwrap_or(began)) };
        }
        if last != state.last {
            (state.last, state.pause) = (last, None);
        }
    }
}

/// Runs something that no job needs the outcome of at once. Returns false if there is no thread for it.
fn in_background(work: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().spawn(work).is_ok()
}

fn named(job: &Tracked) -> NamedJob {
    NamedJob { id: job.submission.id.clone(), token: job.submission.token.clone() }
}

/// Notes the engine's id of a job in the job's file.
fn note_id(job_file: &Path, token: &str, id: &str) {
    // Without it, the job is found by its token.
    note(job_file, token, |ticket| ticket.id = Some(id.to_owned()));
}

/// Changes the ticket in a job's file, while that is the file of the same start.
pub(super) fn note(job_file: &Path, token: &str, change: impl FnOnce(&mut Ticket)) {
    static NOTES: Mutex<()> = Mutex::new(());
    let _one = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(Some(mut job)) = read_json::<Job>(job_file) else { return };
    let Some(ticket) = job.ticket.as_mut().filter(|ticket| ticket.token == token) else { return };
    change(ticket);
    // At worst, the engine is asked once more.
    let _ = write_json(job_file, &job);
}

fn submit(engine: &Engine, job: &Submission) -> Result<String, NoAnswer> {
    match engine {
        Engine::Slurm { sbatch } => slurm::submit(sbatch, job),
        Engine::Commands(commands) => commands::submit(commands, job),
    }
}

fn states(engine: &Engine, jobs: &[NamedJob], since: Timestamp) -> Result<Vec<JobReport>, NoAnswer> {
    let commands = match engine {
        Engine::Slurm { .. } => {
            let mut told = slurm::queue()?;
            let is_missing = |job: &&NamedJob| told.iter().all(|told| told.token != job.token);
            let missing: Vec<String> = jobs.iter().filter(is_missing).map(|job| job.token.clone()).collect();
            if !missing.is_empty() && is_in_path("sacct") {
                // Without accounting, the queue alone says what there is.
                told.extend(slurm::accounting(&missing, since).unwrap_or_default());
            }
            return Ok(told);
        }
        Engine::Commands(commands) => commands,
    };
    // A job without an id is found by its token among all.
    let all = jobs.iter().any(|job| job.id.is_none());
    commands::states(commands, if all { &[] } else { jobs })
}

pub(super) fn cancel_jobs(engine: &Engine, jobs: &[NamedJob]) -> Result<(), NoAnswer> {
    match engine {
        Engine::Slurm { .. } => slurm::cancel(&jobs.iter().map(|job| job.token.clone()).collect::<Vec<_>>()),
        Engine::Commands(commands) => commands::cancel(commands, jobs),
    }
}

/// Ends the second of two jobs that one submission became.
fn cancel_second(engine: &Engine, told: &JobReport) {
    // Its shim does nothing beside the first one.
    let _ = match (engine, &told.id) {
        (Engine::Slurm { .. }, Some(id)) => slurm::cancel_id(id, &told.token),
        (Engine::Commands(commands), id) => {
            commands::cancel(commands, &[NamedJob { id: id.clone(), token: told.token.clone() }])
        }
        (Engine::Slurm { .. }, None) => Ok(()),
    };
}

/// The output of a job outside of its log, where only the engine has it.
pub(super) fn logs(engine: &Engine, id: &str) -> Option<String> {
    match engine {
        Engine::Slurm { .. } => None,
        Engine::Commands(commands) => commands::logs(commands, id),
    }
}
