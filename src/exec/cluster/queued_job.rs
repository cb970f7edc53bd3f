//! A job that an engine executes, as `ar` sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use jiff::Timestamp;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::{ExecError, Exit, Job, Started};
use super::commands::NamedJob;
use super::{PollResult, Submission, cancel_jobs, logs, note, shim_command};
use crate::crash;
use crate::exec::{JobFiles, Queue, Ticket, next_tick};
use crate::fs::{is_shared, read_at_most};
use crate::measure::last_lines;
use crate::rules::{CACHED, Fate, JOB_START, KnownJob, LossCause, NOT_CACHED, WrittenExit, fate};
use crate::state::{read_json, write_json};

/// Poll interval of the files of a job.
const LOOK: Duration = Duration::from_millis(256);

/// The largest output of a job that is read, in bytes, for its last lines.
const LARGEST_OUTPUT: u64 = 1 << 20;

/// The lines of a job's output that are told where it ended without a trace.
const LAST_LINES: usize = 3;

/// The number of a signal is added to it for the exit status of a shell whose command was ended by the signal.
const BY_SIGNAL: i32 = 128;

/// The signals by which engines end jobs: HUP, INT, KILL, TERM and XCPU.
const OF_ENGINES: [i32; 5] = [1, 2, 9, TERM, 24];

/// A job that an engine executes. When it is dropped, it goes on; one that is tied to this process is cancelled.
#[derive(Debug)]
pub(in super::super) struct QueuedJob {
    command: String,
    files: JobFiles,
    folder: PathBuf,
    name: String,
    ticket: Ticket,
    queue: Arc<Queue>,
    /// When its exit was first seen.
    exit_seen: Option<Instant>,
    is_over: bool,
    ends_with_this: bool,
    /// Its time limit.
    limit: Duration,
}

impl QueuedJob {
    /// Waits for the job of `ticket` from now on, which is submitted first if it `is_new`.
    pub(in super::super) fn new(job: &Job, ticket: &Ticket, queue: &Arc<Queue>, is_new: bool) -> QueuedJob {
        let files = JobFiles::of(job);
        let submission = Submission {
            token: ticket.token.clone(),
            id: ticket.id.clone(),
            command: shim_command(&queue.program, &files.job, &ticket.token),
            output: output_of(&job.folder).to_string_lossy().into_owned(),
            env: job.env.clone(),
            limit: job.timeout + job.grace + JOB_START,
        };
        queue.enter(ticket, submission, files.job.clone(), is_new);
        QueuedJob {
            command: job.command.clone(),
            files,
            folder: job.folder.clone(),
            name: job.name.clone(),
            ticket: ticket.clone(),
            queue: Arc::clone(queue),
            exit_seen: None,
            is_over: false,
            ends_with_this: job.tied,
            limit: job.timeout + job.grace,
        }
    }

    /// Waits until the job is over. It can be cancelled and called again.
    pub(in super::super) async fn wait(&mut self) -> Result<Exit, ExecError> {
        loop {
            let queue = Arc::clone(&self.queue);
            let changed = queue.changed.notified();
            queue.drive();
            if let Some(ended) = self.look()? {
                self.is_over = true;
                return ended;
            }
            tokio::select! {
                () = changed => {}
                () = sleep_until(next_tick(crash::wait(LOOK))) => {}
            }
        }
    }

    /// Asks the engine to end the job; [`wait`](Self::wait) returns when it is over.
    pub(in super::super) fn stop(&self) {
        self.queue.cancel(&self.ticket.token);
    }

    /// The name of its engine.
    pub(in super::super) fn engine(&self) -> String {
        self.ticket.cluster.engine.name().to_string()
    }

    /// For how long the engine has given no answer, and why.
    pub(in super::super) fn engine_away(&self) -> Option<(Duration, String)> {
        self.queue.away()
    }

    /// The result of the job, if it has ended.
    fn look(&mut self) -> Result<Option<Result<Exit, ExecError>>, ExecError> {
        let Some(heard) = self.queue.heard(&self.ticket.token) else { return Ok(None) };
        if let Some(why) = heard.refused {
            let engine = self.engine();
            self.note_end();
            return Ok(Some(Err(ExecError::NotSubmitted { engine, why })));
        }
        let exit = self.written_exit()?;
        if exit.is_some() && self.exit_seen.is_none() {
            self.exit_seen = Some(Instant::now());
        }
        if exit.is_none() && heard.was_never_submitted {
            return self.end(None, LossCause::Stopped).map(Some);
        }
        let started = Started::read(&self.folder, &self.name);
        let PollResult { word, absent, over, is_cancelled, .. } = heard;
        let known = KnownJob {
            exit: exit.as_ref().map(|exit| WrittenExit { by_signal: is_by_signal(exit) }),
            began: started.as_ref().map(|started| started.restarts),
            is_overdue: started.is_some_and(|started| self.is_overdue(&started)),
            word,
            is_fresh: heard.heard.zip(self.exit_seen).is_some_and(|(heard, seen)| heard > seen),
            absent,
            over,
            is_cancelled,
        };
        let seen_after = crash::wait(if is_shared(&self.folder) { CACHED } else { NOT_CACHED });
        match (fate(&known, self.ticket.cluster.lost_after, seen_after), exit) {
            (Fate::Open, _) | (Fate::Over, None) => Ok(None),
            (Fate::Ask, _) => {
                if !known.is_fresh {
                    self.queue.ask_soon();
                }
                Ok(None)
            }
            (Fate::Over, Some(exit)) => self.over(exit, &known).map(Some),
            (Fate::Ended(cause), exit) => self.end(exit, cause).map(Some),
        }
    }

    /// The exit that this start of the job wrote.
    fn written_exit(&self) -> Result<Option<Exit>, ExecError> {
        // Clients of a network file system look into a folder anew when it is listed.
        let _ = fs::read_dir(&self.folder).map(Iterator::count);
        let exit = match read_json::<Exit>(&self.files.exit) {
            Ok(exit) => exit,
            // It is not all here yet, or another process wrote it.
            Err(_) if self.files.exit.is_file() => None,
            Err(error) => return Err(error.into()),
        };
        let is_own = |exit: &Exit| exit.token.as_ref() == Some(&self.ticket.token) && self.files.may_have_exit();
        Ok(exit.filter(is_own))
    }

    /// The job is over with this exit.
    fn over(&self, mut exit: Exit, known: &KnownJob) -> Result<Result<Exit, ExecError>, ExecError> {
        if let Some(detail) = exit.error {
            if exit.no_wall {
                self.note_end();
                return Ok(Err(ExecError::NoWall { command: self.command.clone(), detail }));
            }
            return Ok(Err(ExecError::Command { command: self.command.clone(), detail }));
        }
        // An engine signals the command together with its shim, which may see the command end first.
        exit.stopped |= known.is_cancelled && is_by_signal(&exit);
        if exit.stopped && !known.is_cancelled {
            // Somebody else ended it, and not to begin again.
            exit.stopped = false;
            exit.signal = exit.signal.or(Some(TERM));
            write_json(&self.files.exit, &exit)?;
        }
        exit.queued = self.queued();
        Ok(Ok(exit))
    }

    /// The job ended without an exit of its own that counts.
    fn end(&self, written: Option<Exit>, cause: LossCause) -> Result<Result<Exit, ExecError>, ExecError> {
        let command = self.command.clone();
        match cause {
            LossCause::Lost => {
                let detail = self.epitaph();
                self.note_end();
                self.cancel_left_over();
                return Ok(Err(ExecError::Lost { command, detail, killed: 0 }));
            }
            LossCause::Evicted => {
                self.note_end();
                self.cancel_left_over();
                let engine = self.engine();
                return Ok(Err(ExecError::Evicted { command, engine }));
            }
            LossCause::Stopped | LossCause::Cancelled | LossCause::TimedOut | LossCause::OutOfMemory => {}
        }
        let token = Some(self.ticket.token.clone());
        let mut exit = written.unwrap_or_else(|| Exit { token, ..Exit::unwritten(&self.files) });
        exit.stopped = cause == LossCause::Stopped;
        exit.timed_out |= cause == LossCause::TimedOut;
        exit.oom_killed |= cause == LossCause::OutOfMemory;
        exit.signal = exit.signal.or((cause != LossCause::Stopped).then_some(TERM));
        exit.queued = self.queued();
        // As if its shim had written it.
        write_json(&self.files.exit, &exit)?;
        Ok(Ok(exit))
    }

    /// The seconds that it waited in the queue; the clocks of hosts may differ a little.
    fn queued(&self) -> Option<f64> {
        let written = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let (entered, began) = (self.ticket.submitted.as_millisecond(), written(&self.files.started)?);
        let began = Timestamp::try_from(began).ok()?.as_millisecond();
        Some((began - entered).max(0) as f64 / 1000.0)
    }

    /// Returns whether it should have ended long ago by its own limits, however the clocks of two hosts differ.
    fn is_overdue(&self, started: &Started) -> bool {
        let limit = self.limit + self.ticket.cluster.lost_after + CACHED;
        let age = Timestamp::now().duration_since(started.started);
        Duration::try_from(age).is_ok_and(|age| age > limit)
    }

    /// Has the engine end what it may still have of the job. If this process ends first, the job's shim finds that it was given up.
    fn cancel_left_over(&self) {
        let (engine, job) = (self.ticket.cluster.engine.clone(), named(&self.ticket));
        let _ = std::thread::Builder::new().spawn(move || cancel_jobs(&engine, &[job]));
    }

    /// Notes in the job's file that it is over, for whoever looks at it later.
    fn note_end(&self) {
        note(&self.files.job, &self.ticket.token, |ticket| ticket.ended = true);
    }

    /// The last facts about a job that its engine no longer knows.
    fn epitaph(&self) -> String {
        let engine = self.ticket.cluster.engine.name();
        let printed = read_at_most(&output_of(&self.folder), LARGEST_OUTPUT).ok();
        let printed = printed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // Its id was learnt after the ticket was made.
        let id = || Job::ticket_of(&self.folder, &self.name).filter(|it| it.token == self.ticket.token)?.id;
        let asked = || logs(&self.ticket.cluster.engine, &id()?);
        let printed = printed.filter(|text| !text.trim().is_empty()).or_else(asked).unwrap_or_default();
        match last_lines(printed.as_bytes(), LAST_LINES) {
            words if words.is_empty() => format!("left no trace at the executor `{engine}`"),
            words => format!("left no trace at the executor `{engine}` but this: {}", words.replace('\n', " / ")),
        }
    }
}

impl Drop for QueuedJob {
    fn drop(&mut self) {
        self.queue.leave(&self.ticket.token);
        if self.ends_with_this && !self.is_over {
            // If this process ends first, recovery cancels it.
            self.cancel_left_over();
        }
    }
}

/// The signal that clusters end jobs with.
const TERM: i32 = 15;

/// Returns whether whoever sent a signal says what the exit means.
fn is_by_signal(exit: &Exit) -> bool {
    let signal = exit.signal.or_else(|| exit.exit.map(|status| status - BY_SIGNAL));
    !exit.timed_out && (exit.stopped || signal.is_some_and(|signal| OF_ENGINES.contains(&signal)))
}

/// The file for what a job prints outside of its log.
fn output_of(folder: &Path) -> PathBuf {
    folder.join("executor.log")
}

fn named(ticket: &Ticket) -> NamedJob {
    NamedJob { id: ticket.id.clone(), token: ticket.token.clone() }
}

/// Cancels the job of a ticket, notes that in its file, and waits until its engine has taken it in. An engine that does not answer is
/// asked a few times.
pub(in super::super) async fn cancel(ticket: &Ticket, job_file: &Path) -> io::Result<()> {
    const TRIES: u32 = 3;
    note(job_file, &ticket.token, |ticket| ticket.cancelled = true);
    for attempt in 0..TRIES {
        let (engine, job) = (ticket.cluster.engine.clone(), named(ticket));
        let (done, answer) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().spawn(move || done.send(cancel_jobs(&engine, &[job])))?;
        match timeout(Duration::from_secs(40), answer).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            _ if attempt + 1 < TRIES => sleep(crash::wait(Duration::from_secs(1))).await,
            Ok(Ok(Err(why))) => return Err(io::Error::other(why.0)),
            _ => {}
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}
