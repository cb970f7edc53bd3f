//! The side of `ar`: starting a job, waiting for it, stopping it.

use std::fs::{self, File, TryLockError};
use std::io::{self, PipeWriter, Read, Seek};
use std::path::{Path, PathBuf, absolute};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::time::{sleep, sleep_until};

use super::beat::beat;
use super::job::{Files, lock_path, marker_of};
use super::shim::DISK_FULL;
use super::unix::{self, Signal};
use super::{ExecError, Exit, Job, SHIM_ARGUMENT, Started, tree};
use crate::crash;
use crate::state::{GLANCE, StateError, lock_within, open_regular, read_json, write_json};

/// How often the lock of a job that another process started is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(1024);

/// How long the processes of a lost job are killed before they are given up.
const SWEEP_PATIENCE: Duration = Duration::from_secs(5);

/// A job that was started.
///
/// When it is dropped, a tied job ends; another goes on.
#[derive(Debug)]
pub struct Running {
    shim: Shim,
    command: String,
    files: Files,
    /// What the shim said about itself; nobody else has this file open once it is dead.
    last_words: Option<File>,
    /// The shim of a tied job reads the end of this pipe as the end of its owner.
    _tie: Option<PipeWriter>,
}

/// How the shim of a job is known.
#[derive(Debug)]
enum Shim {
    /// This process started it.
    Child(Child),
    /// Another process did; it lives as long as this file, the lock of its folder, is locked.
    Elsewhere(File),
}

/// Picks up a job that another process started in `folder`, whether it still goes on or is over.
///
/// # Errors
///
/// When there was never a job of that name, or its files cannot be read.
pub fn attach(folder: &Path, name: &str) -> Result<Running, ExecError> {
    let files = Files::named(folder, name);
    let path = lock_path(folder);
    let missing = || ExecError::File { path: files.job.clone(), source: io::ErrorKind::NotFound.into() };
    let job: Job = read_json(&files.job)?.ok_or_else(missing)?;
    let lock = open_regular(&path).map_err(|source| ExecError::File { path, source })?;
    Ok(Running { shim: Shim::Elsewhere(lock), command: job.command, files, last_words: None, _tie: None })
}

/// Starts a job under a shim that is this very program. See [`start_with`].
pub fn start(job: &Job) -> Result<Running, ExecError> {
    // This link leads to the program that runs, also when its file was replaced or deleted since.
    let link = Path::new("/proc/self/exe");
    let shim = if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() };
    let shim = shim.map_err(|source| ExecError::Shim { shim: link.to_owned(), source })?;
    start_with(&shim, job)
}

/// Starts a job under the shim `shim`, an executable of this program. An `exit.json` of an earlier job of the same
/// name is removed; the log is not.
///
/// # Errors
///
/// [`ExecError::Busy`] when a job in the same folder still goes on; otherwise when the working folder is not there,
/// a file cannot be written, or the shim cannot be started. A command that cannot be started shows in
/// [`Running::wait`].
///
/// # Panics
///
/// Outside of a tokio runtime with I/O enabled.
pub fn start_with(shim: &Path, job: &Job) -> Result<Running, ExecError> {
    let job = with_absolute_paths(job)?;
    if !job.cwd.is_dir() {
        return Err(ExecError::WorkingFolder(job.cwd));
    }
    fs::create_dir_all(&job.folder).map_err(|source| ExecError::File { path: job.folder.clone(), source })?;
    let lock = lock(&job.folder)?;
    crash::point("job.locked");
    let files = Files::of(&job);
    for stale in [&files.started, &files.exit] {
        match fs::remove_file(stale) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(ExecError::File { path: stale.clone(), source });
            }
            _ => {}
        }
    }
    write_json(&files.job, &job)?;
    crash::point("job.written");

    let file_error = |source| ExecError::File { path: job.folder.clone(), source };
    let last_words = tempfile::tempfile_in(&job.folder).map_err(file_error)?;
    let (stdin, tie) = if job.tied {
        let (reader, writer) = io::pipe().map_err(ExecError::Watch)?;
        (Stdio::from(reader), Some(writer))
    } else {
        (Stdio::null(), None)
    };
    let mut command = Command::new(shim);
    // The locked file is handed down as standard output: the lock belongs to the open file, so there is no moment
    // at which nobody holds it, and it is held for as long as the shim lives.
    command.arg0("ar").arg(SHIM_ARGUMENT).arg(&files.job).current_dir("/").stdin(stdin).stdout(lock);
    command.stderr(last_words.try_clone().map_err(file_error)?);
    unix::in_new_session(&mut command);
    let shim = command.spawn().map_err(|source| ExecError::Shim { shim: shim.to_owned(), source })?;
    crash::point("job.started");
    Ok(Running { shim: Shim::Child(shim), command: job.command, files, last_words: Some(last_words), _tie: tie })
}

impl Running {
    /// Waits until the command is over and its whole process tree is gone. It can be cancelled and called again.
    ///
    /// # Errors
    ///
    /// [`ExecError::Command`] when the command could not be started; [`ExecError::Lost`] when the shim died before
    /// it could say how the command ended, or what it said was spoilt: what is left of the command is killed then.
    pub async fn wait(&mut self) -> Result<Exit, ExecError> {
        let status = match &mut self.shim {
            Shim::Child(child) => Some(child.wait().await.map_err(ExecError::Watch)?),
            Shim::Elsewhere(lock) => {
                released(lock).await.map_err(ExecError::Watch)?;
                None
            }
        };
        let exit = match read_json::<Exit>(&self.files.exit) {
            // Whoever put it there, it does not tell how the command ended.
            Err(StateError::Json { .. }) => None,
            Err(StateError::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => None,
            exit => exit?,
        };
        match exit {
            Some(Exit { error: Some(detail), .. }) => Err(ExecError::Command { command: self.command.clone(), detail }),
            Some(exit) => Ok(exit),
            None if status.and_then(|status| status.code()) == Some(i32::from(DISK_FULL)) => {
                Err(ExecError::DiskFull { command: self.command.clone() })
            }
            None => Err(ExecError::Lost {
                command: self.command.clone(),
                detail: self.epitaph(status),
                killed: kill_marked(&self.files.job).await,
            }),
        }
    }

    /// Asks the shim to end the command now, which takes up to the job's grace; [`Running::wait`] tells when it is
    /// done. Without effect when the job is over.
    ///
    /// # Errors
    ///
    /// [`ExecError::OtherMachine`] when the job goes on where no signal reaches it; when the system refuses the signal.
    pub fn stop(&self) -> Result<(), ExecError> {
        let (shims, host) = match &self.shim {
            Shim::Child(child) => {
                return child.id().map_or(Ok(()), ask_to_end);
            }
            Shim::Elsewhere(lock) if is_locked(lock) => {
                match read_json::<Started>(&self.files.started).unwrap_or_default() {
                    Some(started) if started.is_here() => (vec![started.pid], started.host),
                    Some(started) => (Vec::new(), started.host),
                    // It was deleted or spoilt, or is yet to be written.
                    None => (shims_of(&self.files), String::new()),
                }
            }
            Shim::Elsewhere(_) => return Ok(()),
        };
        let is_over = || matches!(&self.shim, Shim::Elsewhere(lock) if !is_locked(lock));
        if shims.is_empty() && !is_over() {
            return Err(ExecError::OtherMachine { command: self.command.clone(), host });
        }
        shims.into_iter().try_for_each(ask_to_end)
    }

    fn epitaph(&mut self, status: Option<ExitStatus>) -> String {
        let mut words = String::new();
        if let Some(file) = &mut self.last_words {
            // What cannot be read was not said.
            let _ = file.rewind().and_then(|()| file.take(4096).read_to_string(&mut words));
        }
        let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
        match words.trim() {
            "" => format!("died{how}"),
            words => format!("died{how}: {words}"),
        }
    }
}

/// Asks a shim to end its job.
fn ask_to_end(shim: u32) -> Result<(), ExecError> {
    unix::Pid::try_from(shim).map_or(Ok(()), |pid| unix::send(pid, Signal::Term).map_err(ExecError::Watch))
}

/// The process ids of the shims that look after the job `name` in `folder`, also when its files were deleted. None where
/// there is no `/proc`.
pub fn shims(folder: &Path, name: &str) -> Vec<u32> {
    shims_of(&Files::named(folder, name))
}

fn shims_of(files: &Files) -> Vec<u32> {
    shim_pids(files).into_iter().filter_map(|pid| pid.try_into().ok()).collect()
}

fn shim_pids(files: &Files) -> Vec<unix::Pid> {
    tree::with_arguments(&[SHIM_ARGUMENT.as_bytes(), files.job.as_os_str().as_encoded_bytes()])
}

/// Whether the job `name` in `folder` still goes on, also when the folder or its lock was deleted.
pub fn is_going_on(folder: &Path, name: &str) -> bool {
    is_held(folder) || !shims(folder, name).is_empty()
}

/// Whether a job in this folder still goes on, or its shim is still busy ending it.
pub fn is_held(folder: &Path) -> bool {
    open_regular(&lock_path(folder)).is_ok_and(|file| is_locked(&file))
}

fn is_locked(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Waits until nobody holds a lock any more. A lock cannot be waited for without a thread that nothing can cancel, so
/// it is tried again and again.
async fn released(lock: &File) -> io::Result<()> {
    loop {
        match lock.try_lock_shared() {
            Ok(()) => return lock.unlock(),
            Err(TryLockError::WouldBlock) => sleep_until(beat(LOCK_INTERVAL)).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Kills what is left of the job `name` in `folder`, its shim first, also when its files were deleted, and waits until
/// it is gone. Does nothing where there is no `/proc`.
pub async fn end_left_over(folder: &Path, name: &str) {
    let files = Files::named(folder, name);
    kill_all(|| shim_pids(&files)).await;
    kill_marked(&files.job).await;
}

/// Kills what is left of a job whose shim is dead, known by a variable that all its processes inherit, and gives
/// how many processes that were. Does nothing where there is no `/proc`.
async fn kill_marked(job_file: &Path) -> usize {
    let marker = marker_of(job_file);
    kill_all(|| tree::with_variable(&marker)).await
}

/// Kills the processes that are found until none is, and gives how many they were.
async fn kill_all(find: impl Fn() -> Vec<unix::Pid>) -> usize {
    let deadline = Instant::now() + SWEEP_PATIENCE;
    let mut killed = Vec::new();
    loop {
        let left = find();
        if left.is_empty() || Instant::now() > deadline {
            return killed.len();
        }
        for pid in left {
            // One that is gone meanwhile is no error.
            if unix::send(pid, Signal::Kill).is_ok() && !killed.contains(&pid) {
                killed.push(pid);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
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
