//! A started job as `ar` sees it: waiting for it, stopping it, and what is left of one.

use std::fs::{File, TryLockError};
use std::io::ErrorKind::{InvalidInput, NotADirectory};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{self, sleep, sleep_until};

use super::QueuedJob;
use super::{
    ExecError, Exit, Job, JobFiles, LastWord, SHIM_ARGUMENT, Socket, Started, at, lock_path, log_that_fills_disk,
    marker_of, next_tick, tree,
};
use crate::crash;
use crate::fs::open_regular;
use crate::state::{StateError, read_json};

/// Poll interval of the lock of a job that another process started.
const LOCK_INTERVAL: Duration = Duration::from_millis(1024);

/// Poll interval of the lock of a job whose shim just died.
const DEATH_INTERVAL: Duration = Duration::from_millis(1);

/// The time that a shim has beyond the limit of its job and the grace: it repeats KILL for half a minute, on a busy machine.
const LATE: Duration = Duration::from_secs(120);

/// Time limit for killing the processes of a lost job.
const SWEEP_PATIENCE: Duration = Duration::from_secs(5);

/// A job that was started.
///
/// When it is dropped, a tied job ends; another continues.
#[derive(Debug)]
pub struct Running(JobPlace);

/// The place of execution of a job.
#[derive(Debug)]
enum JobPlace {
    Here(Box<LocalJob>),
    Elsewhere(Box<QueuedJob>),
}

impl Running {
    /// A job under a shim of this machine.
    pub(super) fn here(job: LocalJob) -> Running {
        Running(JobPlace::Here(Box::new(job)))
    }

    /// A job that an engine executes.
    pub(super) fn elsewhere(job: QueuedJob) -> Running {
        Running(JobPlace::Elsewhere(Box::new(job)))
    }

    /// Takes the command's log, which stays readable if its name is deleted or replaced. `Some` once, and only if this
    /// process started the job on this machine.
    pub fn take_log(&mut self) -> Option<File> {
        match &mut self.0 {
            JobPlace::Here(job) => job.take_log(),
            JobPlace::Elsewhere(_) => None,
        }
    }

    /// Waits until the command is finished and its whole process tree is gone. It can be cancelled and called again.
    ///
    /// # Errors
    ///
    /// [`ExecError::Command`] when the command could not be started; [`ExecError::Lost`] when the shim died before
    /// it could report how the command ended, or its report was spoilt: what is left of the command is killed then.
    /// [`ExecError::Evicted`] and [`ExecError::NotSubmitted`] where an engine executes the job.
    pub async fn wait(&mut self) -> Result<Exit, ExecError> {
        match &mut self.0 {
            JobPlace::Here(job) => job.wait().await,
            JobPlace::Elsewhere(job) => job.wait().await,
        }
    }

    /// Asks for the end of the command now, which takes up to the job's grace; [`Running::wait`] returns when it is
    /// done. Without effect on a finished job.
    ///
    /// # Errors
    ///
    /// [`ExecError::OtherMachine`] when the job is running where no signal reaches it; when the system refuses the signal.
    pub fn stop(&mut self) -> Result<(), ExecError> {
        match &mut self.0 {
            JobPlace::Here(job) => job.stop(),
            JobPlace::Elsewhere(job) => {
                job.stop();
                Ok(())
            }
        }
    }

    /// Returns whether an engine executes it.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.0, JobPlace::Elsewhere(_))
    }

    /// For how long the engine that executes the job has given no answer, and why.
    pub fn engine_away(&self) -> Option<(Duration, String)> {
        match &self.0 {
            JobPlace::Here(_) => None,
            JobPlace::Elsewhere(job) => job.engine_away(),
        }
    }

    /// Refuses to wait for an engine that has given no answer for longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`ExecError::EngineAway`] then.
    pub fn refuse_away(&self, patience: Duration) -> Result<(), ExecError> {
        let JobPlace::Elsewhere(job) = &self.0 else { return Ok(()) };
        match self.engine_away().filter(|(away, _)| *away > patience) {
            Some((away, why)) => {
                let (engine, away) = (job.engine(), Duration::from_secs(away.as_secs()));
                Err(ExecError::EngineAway { engine, away, why })
            }
            None => Ok(()),
        }
    }
}

/// A job under a shim of this machine.
#[derive(Debug)]
pub(super) struct LocalJob {
    command: String,
    files: JobFiles,
    /// The lock of the job's folder, which the shim holds.
    lock: File,
    /// The shim, where this process started the job; without it, the job is running for as long as the lock is held.
    shim: Option<Shim>,
    /// The time that the shim may take to end the job.
    patience: Duration,
    /// The job's time limit.
    limit: Option<time::Instant>,
    /// The time when this process ends the job itself: a process of the job may keep the shim from it.
    end_by: Option<time::Instant>,
}

/// A shim that this process started.
#[derive(Debug)]
pub(super) struct Shim {
    pub(super) process: Child,
    pub(super) socket: Socket,
    /// Its standard error; no other process has this file open once the shim is dead.
    pub(super) last_words: File,
    /// Its last word on the socket.
    pub(super) last: Option<LastWord>,
    /// The log that the command writes to.
    pub(super) log: Option<File>,
}

impl LocalJob {
    /// A job that this process started under `shim`, or another process without.
    pub(super) fn new(job: Job, files: JobFiles, lock: File, shim: Option<Shim>) -> LocalJob {
        let patience = job.grace.saturating_add(crash::wait(LATE));
        let limit = time::Instant::now().checked_add(job.timeout);
        let end_by = limit.and_then(|limit| limit.checked_add(patience));
        LocalJob { command: job.command, files, lock, shim, patience, limit, end_by }
    }

    fn take_log(&mut self) -> Option<File> {
        self.shim.as_mut()?.log.take()
    }

    async fn wait(&mut self) -> Result<Exit, ExecError> {
        // Callers wait a second at a time, so a shim that the job stopped does not stay so.
        let _ = self.signal(Signal::CONT);
        let end_by = self.end_by;
        let last = tokio::select! {
            last = self.last_word() => last?,
            () = at(end_by) => {
                kill_job(&self.files).await;
                self.last_word().await?
            }
        };
        if let Some(shim) = &mut self.shim {
            // The shim exits right after its last word.
            let _ = shim.process.wait();
        }
        let exit = self.read_exit()?;
        // The shim's own report counts more than a file that any process may write.
        match self.reported_exit().or(exit) {
            Some(Exit { error: Some(detail), .. }) => Err(ExecError::Command { command: self.command.clone(), detail }),
            Some(exit) => Ok(exit),
            None if last == Some(LastWord::NoWall) => {
                Err(ExecError::NoWall { command: self.command.clone(), detail: self.last_words() })
            }
            None if last == Some(LastWord::DiskFull) => {
                let log = log_that_fills_disk(self.files.job.parent().map(Path::to_owned));
                Err(ExecError::DiskFull { command: self.command.clone(), log })
            }
            None => {
                let killed = kill_marked(&self.files.job).await;
                if self.limit.is_some_and(|limit| time::Instant::now() >= limit) {
                    let signal = Some(Signal::KILL.as_raw());
                    return Ok(Exit { signal, timed_out: true, ..Exit::unwritten(&self.files) });
                }
                Err(ExecError::Lost { command: self.command.clone(), detail: self.epitaph(), killed })
            }
        }
    }

    /// Waits until the shim is gone, or as good as. Returns its last word.
    async fn last_word(&mut self) -> Result<Option<LastWord>, ExecError> {
        if let Some(shim) = &mut self.shim {
            if shim.last.is_none() {
                shim.last = shim.socket.last().await.map_err(ExecError::Watch)?;
            }
            if shim.last.is_some() {
                return Ok(shim.last);
            }
        }
        // A dying process closes all its files at almost the same time.
        let interval = if self.shim.is_some() { DEATH_INTERVAL } else { crash::wait(LOCK_INTERVAL) };
        released(&self.lock, interval).await.map_err(ExecError::Watch)?;
        Ok(None)
    }

    /// Reads `exit.json`; a file that no shim can have written counts as missing.
    fn read_exit(&self) -> Result<Option<Exit>, ExecError> {
        match read_json::<Exit>(&self.files.exit) {
            Err(StateError::Json { .. }) => Ok(None),
            Err(StateError::File(error)) if matches!(error.source.kind(), InvalidInput | NotADirectory) => Ok(None),
            exit => Ok(exit?.filter(|_| self.files.may_have_exit())),
        }
    }

    /// Asks the shim to end the command now, and bounds the time for it.
    fn stop(&mut self) -> Result<(), ExecError> {
        self.end_by = self.end_by.into_iter().chain(time::Instant::now().checked_add(self.patience)).min();
        if let Some(shim) = &self.shim {
            shim.socket.stop();
            return Ok(());
        }
        if is_locked(&self.lock) && !self.signal(Signal::TERM).map_err(ExecError::Watch)? && is_locked(&self.lock) {
            let started = read_json::<Started>(&self.files.started).unwrap_or_default();
            let host = started.map(|started| started.host).unwrap_or_default();
            return Err(ExecError::OtherMachine { command: self.command.clone(), host });
        }
        Ok(())
    }

    /// Sends a signal to the shims of the job that are running here. Returns whether there are any.
    fn signal(&mut self, signal: Signal) -> io::Result<bool> {
        let shims = match &mut self.shim {
            Some(shim) => {
                let is_running = matches!(shim.process.try_wait(), Ok(None));
                is_running.then(|| Pid::from_child(&shim.process)).into_iter().collect()
            }
            None if !is_locked(&self.lock) => Vec::new(),
            None => match read_json::<Started>(&self.files.started).unwrap_or_default() {
                Some(started) if started.is_here() => {
                    i32::try_from(started.pid).ok().and_then(Pid::from_raw).into_iter().collect()
                }
                Some(_) => Vec::new(),
                // It was deleted or spoilt, or is yet to be written.
                None => shims_of(&self.files),
            },
        };
        shims.iter().try_for_each(|pid| kill_process(*pid, signal))?;
        Ok(!shims.is_empty())
    }

    /// The command's exit according to the shim's last output, if `exit.json` was deleted or could not be written.
    fn reported_exit(&mut self) -> Option<Exit> {
        let is_over = matches!(self.shim.as_ref()?.last, Some(LastWord::Over | LastWord::Failed));
        is_over.then(|| serde_json::from_str(self.last_words().lines().next()?).ok()).flatten()
    }

    fn epitaph(&mut self) -> String {
        match self.last_words().as_str() {
            "" => "died".into(),
            words => format!("died: {words}"),
        }
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(Shim { last_words, .. }) = &mut self.shim {
            // Keep as much as can be read.
            let _ = last_words.rewind().and_then(|()| last_words.take(1 << 20).read_to_string(&mut words));
        }
        words.trim().to_owned()
    }
}

/// The shims of a job, also when its files were deleted. None where there is no `/proc`.
pub(super) fn shims_of(files: &JobFiles) -> Vec<Pid> {
    tree::with_arguments(&[SHIM_ARGUMENT.as_bytes(), files.job.as_os_str().as_encoded_bytes()])
}

/// Returns whether another job in the same folder has a shim here.
pub(super) fn has_other_shim(files: &JobFiles) -> bool {
    let mut jobs = tree::with_arguments(&[SHIM_ARGUMENT.as_bytes()]).into_iter().filter_map(tree::job_of);
    jobs.any(|job| job != files.job && job.parent() == files.job.parent())
}

/// Returns whether a shim holds the lock of a folder.
pub(super) fn is_held(folder: &Path) -> bool {
    open_regular(&lock_path(folder)).is_ok_and(|file| is_locked(&file))
}

fn is_locked(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Waits until nobody holds a lock any more. To wait for a lock itself takes a thread that nothing can cancel, so this
/// tries it again and again.
async fn released(lock: &File, interval: Duration) -> io::Result<()> {
    loop {
        match lock.try_lock_shared() {
            Ok(()) => return lock.unlock(),
            Err(TryLockError::WouldBlock) => sleep_until(next_tick(interval)).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Kills what is left of a job and its shims. These are stopped first: so they report nothing, and what they adopted stays
/// below them until it is killed. Does nothing where there is no `/proc`.
pub(super) async fn kill_job(files: &JobFiles) {
    let shims = shims_of(files);
    for shim in &shims {
        let _ = kill_process(*shim, Signal::STOP);
    }
    let below = || shims.iter().flat_map(|shim| tree::descendants(*shim)).filter(|pid| tree::is_alive(*pid)).collect();
    kill_all(below).await;
    kill_all(|| shims_of(files)).await;
    kill_marked(&files.job).await;
}

/// Kills what is left of a job whose shim is dead, known by a variable that all its processes inherit, and returns
/// how many processes that were. Does nothing where there is no `/proc`.
pub(super) async fn kill_marked(job_file: &Path) -> usize {
    let marker = marker_of(job_file);
    kill_all(|| tree::with_variable(&marker)).await
}

/// Kills the processes that `find` returns until it returns none, and counts them.
pub(super) async fn kill_all(find: impl Fn() -> Vec<Pid>) -> usize {
    let deadline = Instant::now() + SWEEP_PATIENCE;
    let mut killed = Vec::new();
    loop {
        let left = find();
        if left.is_empty() || Instant::now() > deadline {
            return killed.len();
        }
        for pid in left {
            // One that is gone meanwhile is no error.
            if kill_process(pid, Signal::KILL).is_ok() && !killed.contains(&pid) {
                killed.push(pid);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}
