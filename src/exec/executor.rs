//! Starts, finds and ends jobs.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, iter};

use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::{ExecError, Exit, Job, SHIM_ARGUMENT, Started, Ticket};
use super::{
    JobFiles, LocalJob, Queue, QueuedJob, RUN, Running, Shim, Socket, cancel, has_other_shim, is_held, kill_job,
    lock_path, shims_of,
};
use crate::crash;
use crate::domain::Cluster;
use crate::fs::{GLANCE, if_exists, lock_within, make_folder, move_irregular_away, open_regular, retry_if_removed};
use crate::rules::RunFound;
use crate::state::{further_runs, read_json, write_json, write_json_unsynced};

/// The longest wait for an unreachable shim to end: its job has a grace, and a loaded machine needs seconds.
const ENDING: Duration = Duration::from_secs(30);

/// The longest wait for an engine to end a job: nodes kill what ignores TERM after half a minute, and a controller restarts in one.
const ENDING_ELSEWHERE: Duration = Duration::from_secs(120);

/// The most deletions of a job's folder to tolerate while the job is prepared.
const DELETIONS: u32 = 20;

/// The longest wait for a shim to restore the files of its job; it checks them every second.
const FILES_BACK: Duration = Duration::from_secs(10);

/// The time after which an engine knows that a job has ended.
const JUST_ENDED: Duration = Duration::from_secs(3);

/// Poll interval while a shim is ending or restoring files.
const LOOK: Duration = Duration::from_millis(20);

/// The place where jobs run. All code starts, finds and ends jobs through this type.
#[derive(Debug, Clone)]
pub enum Executor {
    /// On this machine, each job under a shim.
    Local {
        /// The executable of the shims: this package's program.
        program: PathBuf,
    },
    /// By an engine, elsewhere.
    Cluster(Arc<Queue>),
}

/// A path by which this process starts the program that it runs, also after its file was replaced or deleted.
pub fn running_program() -> PathBuf {
    let link = Path::new("/proc/self/exe");
    let there = link.exists().then(|| link.to_owned());
    there.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| link.to_owned())
}

impl Executor {
    /// The executor of runs and guards: the engine of `cluster`, or this machine without one.
    pub fn for_runs(cluster: Option<&Cluster>) -> Executor {
        // A link to the running program means another one on another host.
        let program = || std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ar"));
        cluster.map_or_else(Executor::local, |cluster| Executor::Cluster(Queue::of(cluster, program)))
    }

    /// An executor that only observes jobs, wherever they run: a job's file says where.
    pub fn of_any() -> Executor {
        Executor::local()
    }

    /// This machine, with shims of the program that runs here: for agents, reviewers, and helpers such as hooks.
    pub fn local() -> Executor {
        Executor::Local { program: running_program() }
    }

    /// Starts a job. Removes the `exit.json` of an earlier job of the same name, but not its log.
    ///
    /// # Errors
    ///
    /// [`ExecError::Busy`] when a job in the same folder is still running; otherwise when the working folder does not exist,
    /// a file cannot be written or read, or the shim cannot be started. A command that cannot be started shows in
    /// [`Running::wait`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O enabled.
    pub fn start(&self, job: &Job) -> Result<Running, ExecError> {
        let job = with_absolute_paths(job)?;
        if !job.cwd.is_dir() {
            return Err(ExecError::WorkingFolder(job.cwd));
        }
        let files = JobFiles::of(&job);
        let program = match self {
            Executor::Local { program } => program,
            Executor::Cluster(queue) => return self.enter(queue, job, &files),
        };
        let mut deletions = 0;
        let Prepared { lock, watched, last_words, handed, log } = loop {
            match prepare(&job, &files) {
                // The folder was deleted meanwhile.
                Err(ExecError::File { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && deletions < DELETIONS =>
                {
                    deletions += 1;
                }
                prepared => break prepared?,
            }
        };
        let (socket, theirs) = Socket::with(handed.each_ref().map(AsFd::as_fd)).map_err(ExecError::Watch)?;
        let words = last_words.try_clone().map_err(|source| ExecError::File { path: job.folder.clone(), source })?;
        let shim = start_shim(program, &files.job, [theirs, lock.into(), words.into()])
            .map_err(|source| ExecError::Shim { shim: program.clone(), source })?;
        crash::point("job.started");
        let shim = Shim { process: shim, socket, last_words, last: None, log: Some(log) };
        Ok(Running::here(LocalJob::new(job, files, watched, Some(shim))))
    }

    /// Writes the file of a job that an engine is to execute, with the ticket by which it is found also if nobody hears whether it
    /// was submitted.
    fn enter(&self, queue: &Arc<Queue>, job: Job, files: &JobFiles) -> Result<Running, ExecError> {
        if matches!(self.found(&job.folder, &job.name), RunFound::Pending | RunFound::Going) {
            return Err(ExecError::Busy { folder: job.folder });
        }
        let job = Job { ticket: Some(Ticket::new(&queue.cluster, &job)), ..job };
        let failed = |source| ExecError::File { path: job.folder.clone(), source };
        retry_if_removed(&job.folder, || {
            make_folder(&job.folder)?;
            for stale in [&files.started, &files.exit] {
                if_exists(fs::remove_file(stale))?;
            }
            Ok(())
        })
        .map_err(failed)?;
        write_json(&files.job, &job)?;
        crash::point("job.entered");
        self.queued(&job, true).ok_or(ExecError::Busy { folder: job.folder.clone() })
    }

    /// Waits for a job with a ticket, which is submitted first if it `is_new`.
    fn queued(&self, job: &Job, is_new: bool) -> Option<Running> {
        let ticket = job.ticket.as_ref()?;
        let queue = match self {
            Executor::Cluster(queue) if queue.cluster == ticket.cluster => Arc::clone(queue),
            _ => match Executor::for_runs(Some(&ticket.cluster)) {
                Executor::Cluster(queue) => queue,
                Executor::Local { .. } => return None,
            },
        };
        Some(Running::elsewhere(QueuedJob::new(job, ticket, &queue, is_new)))
    }

    /// Picks up a job that another process started in `folder`, whether it is still running or finished.
    ///
    /// # Errors
    ///
    /// When there was never a job of that name, or its files cannot be read.
    pub fn attach(&self, folder: &Path, name: &str) -> Result<Running, ExecError> {
        let files = JobFiles::named(folder, name);
        let path = lock_path(folder);
        let missing = || ExecError::File { path: files.job.clone(), source: io::ErrorKind::NotFound.into() };
        let job: Job = read_json(&files.job)?.ok_or_else(missing)?;
        if let Some(queued) = self.queued(&job, false) {
            return Ok(queued);
        }
        let lock = open_regular(&path).map_err(|source| ExecError::File { path, source })?;
        Ok(Running::here(LocalJob::new(job, files, lock, None)))
    }

    /// The state of the job `name` in `folder`, from its lock and files.
    pub fn found(&self, folder: &Path, name: &str) -> RunFound {
        let files = JobFiles::named(folder, name);
        let ticket = Job::ticket_of(folder, name);
        if let Some(ticket) = ticket {
            let wrote = |exit: Exit| exit.token.as_ref() == Some(&ticket.token);
            return match Exit::read(folder, name).is_some_and(wrote) && files.may_have_exit() {
                true => RunFound::Over,
                false if ticket.ended && files.started.is_file() => RunFound::Gone,
                // It never began, so that nothing was lost.
                false if ticket.ended => RunFound::Unstarted,
                false if files.started.is_file() => RunFound::Going,
                false => RunFound::Pending,
            };
        }
        // A shim that an engine forgot may still be ending there.
        if matches!(self, Executor::Cluster(_)) && !files.job.is_file() {
            return if files.started.is_file() { RunFound::Gone } else { RunFound::Unstarted };
        }
        if is_held(folder) {
            RunFound::Going
        } else if files.exit.is_file() && files.job.is_file() && files.may_have_exit() {
            RunFound::Over
        } else if files.started.is_file() {
            RunFound::Gone
        } else {
            RunFound::Unstarted
        }
    }

    /// Returns whether any job in this folder is still running, or its shim is still ending it.
    pub fn is_busy(&self, folder: &Path) -> bool {
        is_held(folder) || open_tickets(folder).next().is_some()
    }

    /// The folders in which a job is still running: those of experiments within `parent`, and of their further runs.
    pub fn busy_in<'a>(&'a self, parent: &Path) -> impl Iterator<Item = PathBuf> + use<'a> {
        folders_of_runs(parent).filter(|folder| self.is_busy(folder))
    }

    /// The jobs of experiments within `parent` that began at an engine and did not end, but whose supervisors are gone, as far as
    /// their locks tell.
    pub fn unsupervised(&self, parent: &Path) -> impl Iterator<Item = Ticket> {
        let alone = self.busy_in(parent).filter(|folder| !is_held(folder));
        alone.flat_map(|folder| open_tickets(&folder)).filter(|(files, _)| files.started.is_file()).map(|(_, job)| job)
    }

    /// The jobs of experiments within `parent` that an engine has and that are not known to be over, each with its file.
    pub fn open_jobs(parent: &Path) -> impl Iterator<Item = (PathBuf, Ticket)> {
        folders_of_runs(parent).flat_map(|folder| open_tickets(&folder)).map(|(files, ticket)| (files.job, ticket))
    }

    /// Cancels the jobs of experiments within `parent` that are over but still open to their engine, as after a crash of Slurm's
    /// controller, which forgets what it did last. One that has just ended gets a moment.
    pub async fn cancel_put_back(&self, parent: &Path) {
        let Executor::Cluster(queue) = self else { return };
        if queue.away().is_some() {
            return;
        }
        let is_over = |folder: &Path, name: &str| {
            let ticket = Job::ticket_of(folder, name)?;
            (ticket.ended || JobFiles::named(folder, name).exit.is_file()).then_some(ticket.token)
        };
        let jobs =
            folders_of_runs(parent).flat_map(|folder| job_names(&folder).map(move |name| (folder.clone(), name)));
        let over: Vec<String> = jobs.filter_map(|(folder, name)| is_over(&folder, &name)).collect();
        let (queue, mut open) = (Arc::clone(queue), Vec::new());
        for look in 0..2 {
            if look > 0 && open.is_empty() {
                return;
            }
            if look > 0 {
                sleep(crash::wait(JUST_ENDED)).await;
            }
            let (queue, over, before) = (Arc::clone(&queue), over.clone(), open);
            // At worst, a shim starts and finds that its job is over.
            open = spawn_blocking(move || queue.cancel_open(&over, &before)).await.unwrap_or_default();
        }
    }

    /// What is to be said once about the engine: that it does not answer, or that it does again.
    pub fn news(&self) -> Option<String> {
        match self {
            Executor::Cluster(queue) => queue.news(),
            Executor::Local { .. } => None,
        }
    }

    /// Returns whether a job of an experiment waits in the queue of an engine, in its `folder` or in that of a further run.
    pub fn has_pending(&self, folder: &Path) -> bool {
        let is_pending = |folder: &Path| open_tickets(folder).any(|(files, _)| !files.started.is_file());
        is_pending(folder) || further_runs(folder).any(|further| is_pending(&further))
    }

    /// Returns whether any job of an experiment is still running, in its `folder` or in that of a further run.
    pub fn has_job(&self, folder: &Path) -> bool {
        self.is_busy(folder) || further_runs(folder).any(|further| self.is_busy(&further))
    }

    /// Returns whether the job `name` in `folder` is still running, also when the folder or its lock was deleted.
    pub fn is_active(&self, folder: &Path, name: &str) -> bool {
        self.is_busy(folder) || !shims_of(&JobFiles::named(folder, name)).is_empty()
    }

    /// The process that supervises the active job `name` in `folder`, also when its files were deleted.
    pub fn supervisor(&self, folder: &Path, name: &str) -> Option<u32> {
        let shim = shims_of(&JobFiles::named(folder, name)).first().map(|pid| pid.as_raw_pid().cast_unsigned());
        shim.or_else(|| Some(Started::read(folder, name).filter(|_| self.is_busy(folder))?.pid))
    }

    /// Waits until the shim of an active job has restored the files by which the job is found, if another process has just
    /// deleted them. Ends the job if that takes too long. One that waits in the queue of an engine has not begun.
    pub async fn await_files(&self, folder: &Path, name: &str) {
        let JobFiles { job, started, .. } = JobFiles::named(folder, name);
        let (begun, has_ticket) = (Instant::now(), || Job::ticket_of(folder, name).is_some());
        let has_files = || job.is_file() && (started.is_file() || has_ticket());
        while self.is_active(folder, name) && !(self.is_busy(folder) && has_files()) {
            if begun.elapsed() > FILES_BACK {
                return self.end_left_over(folder, name).await;
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until the job `name` in `folder` is gone, and returns false if that takes longer than `patience`.
    pub async fn is_gone_within(&self, folder: &Path, name: &str, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.is_active(folder, name) {
            if begun.elapsed() > patience {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// Kills what is left of the job `name` in `folder`, also when its files were deleted, and waits until
    /// it is gone. Does nothing where there is no `/proc`.
    pub async fn end_left_over(&self, folder: &Path, name: &str) {
        let files = JobFiles::named(folder, name);
        if let Some(ticket) = Job::ticket_of(folder, name).filter(|_| self.is_active(folder, name)) {
            // An engine that does not answer starts a job whose file is gone by then: its shim finds that, and ends.
            let _ = cancel(&ticket, &files.job).await;
        }
        kill_job(&files).await;
    }

    /// Ends the job `name` in `folder`, if it was ever started, and waits until all of it is gone. Lets another job in the
    /// folder run on.
    ///
    /// # Errors
    ///
    /// It is running where this process cannot signal it, or what became of it cannot be read.
    pub async fn stop(&self, folder: &Path, name: &str) -> Result<(), ExecError> {
        if Job::ticket_of(folder, name).is_some() {
            return self.stop_elsewhere(folder, name).await;
        }
        let Ok(mut job) = self.attach(folder, name) else {
            // It was never started, or its files were deleted.
            self.end_left_over(folder, name).await;
            return Ok(());
        };
        let begun = Instant::now();
        while let Err(error) = job.stop() {
            // The lock is held for the other job, so this one has no shim any more.
            if has_other_shim(&JobFiles::named(folder, name)) {
                self.end_left_over(folder, name).await;
                return Ok(());
            }
            // A shim that is just ending is no process that can be asked, and still has the lock.
            if begun.elapsed() >= ENDING || !matches!(error, ExecError::OtherMachine { .. }) {
                return Err(error);
            }
            sleep(LOOK).await;
        }
        match job.wait().await {
            Ok(_) | Err(ExecError::Lost { .. } | ExecError::Command { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Executor {
    /// Ends a job that an engine executes.
    async fn stop_elsewhere(&self, folder: &Path, name: &str) -> Result<(), ExecError> {
        if !matches!(self.found(folder, name), RunFound::Pending | RunFound::Going) {
            return Ok(());
        }
        let mut job = self.attach(folder, name)?;
        job.stop()?;
        match timeout(ENDING_ELSEWHERE, job.wait()).await {
            Ok(Err(error @ (ExecError::File { .. } | ExecError::State(_)))) => Err(error),
            Ok(_) => Ok(()),
            Err(_) => {
                job.refuse_away(Duration::ZERO)?;
                Err(ExecError::Watch(io::Error::new(io::ErrorKind::TimedOut, "the job does not end")))
            }
        }
    }
}

/// The folders of the runs of experiments within `parent`, further runs too.
fn folders_of_runs(parent: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let folders = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.flat_map(|folder| {
        let further = further_runs(&folder);
        iter::once(folder).chain(further)
    })
}

/// The jobs in this folder, by name.
fn job_names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| match entry.file_name().to_str()? {
        "job.json" => Some(RUN.to_owned()),
        name => name.strip_suffix(".job.json").map(str::to_owned),
    })
}

/// The jobs in this folder that an engine has and that are not known to be over.
fn open_tickets(folder: &Path) -> impl Iterator<Item = (JobFiles, Ticket)> + use<> {
    let folder = folder.to_owned();
    job_names(&folder).filter_map(move |name| {
        let files = JobFiles::named(&folder, &name);
        // Most jobs of a night are over, and their exit alone says so.
        let ticket = if files.exit.is_file() { None } else { Job::ticket_of(&folder, &name) };
        Some((files, ticket.filter(|ticket| !ticket.ended)?))
    })
}

/// The files of a job that is ready for its shim: open, so that none can be deleted before it is needed.
struct Prepared {
    lock: File,
    /// Another handle on the lock's file.
    watched: File,
    last_words: File,
    /// The job's file, its log, to be written to, and its input.
    handed: [File; 3],
    /// The log, to be read.
    log: File,
}

/// Makes the folder of a job ready for its shim.
fn prepare(job: &Job, files: &JobFiles) -> Result<Prepared, ExecError> {
    let error_at = |path: &Path| {
        let path = path.to_owned();
        move |source| ExecError::File { path, source }
    };
    make_folder(&job.folder).map_err(error_at(&job.folder))?;
    let lock = lock(&job.folder)?;
    // Removes an earlier job's note.
    lock.set_len(0).map_err(error_at(&job.folder))?;
    crash::point("job.locked");
    for stale in [&files.started, &files.exit] {
        if_exists(fs::remove_file(stale)).map_err(error_at(stale))?;
    }
    // The shim syncs the file of a run.
    write_json_unsynced(&files.job, job)?;
    crash::point("job.written");
    let open = |path: &Path| File::open(path).map_err(error_at(path));
    let output = open_log(&job.log).map_err(error_at(&job.log))?;
    Ok(Prepared {
        watched: open_regular(&lock_path(&job.folder)).map_err(error_at(&job.folder))?,
        last_words: tempfile::tempfile_in(&job.folder).map_err(error_at(&job.folder))?,
        handed: [open(&files.job)?, output, open(job.stdin.as_deref().unwrap_or(Path::new("/dev/null")))?],
        log: open(&job.log)?,
        lock,
    })
}

/// Opens the log for the shim, which appends to it.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    // The shim would write through what another process put there.
    let open = || {
        move_irregular_away(path)?;
        File::options().create(true).read(true).append(true).open(path)
    };
    retry_if_removed(path, open)
}

/// Starts the shim of a job, which finds its end of the socket as standard input, the locked lock file as standard output,
/// and the file for its last words as standard error. The lock belongs to the open file, so there is no moment without a
/// holder, and it is held for as long as the shim lives.
fn start_shim(program: &Path, job_file: &Path, [socket, lock, last_words]: [OwnedFd; 3]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg0("ar").arg(SHIM_ARGUMENT).arg(job_file).current_dir("/");
    command.stdin(socket).stdout(lock).stderr(last_words).spawn()
}

fn with_absolute_paths(job: &Job) -> Result<Job, ExecError> {
    let absolute = |path: &PathBuf| absolute(path).map_err(|source| ExecError::File { path: path.clone(), source });
    Ok(Job {
        cwd: absolute(&job.cwd)?,
        folder: absolute(&job.folder)?,
        log: absolute(&job.log)?,
        stdin: job.stdin.as_ref().map(absolute).transpose()?,
        ..job.clone()
    })
}

fn lock(folder: &Path) -> Result<File, ExecError> {
    let path = lock_path(folder);
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let file = file.map_err(|source| ExecError::File { path: path.clone(), source })?;
    match lock_within(&file, GLANCE) {
        Ok(true) => Ok(file),
        Ok(false) => Err(ExecError::Busy { folder: folder.to_owned() }),
        Err(source) => Err(ExecError::File { path, source }),
    }
}
