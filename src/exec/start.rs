//! The side of `ar`: starting a job, waiting for it, stopping it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until};

use super::beat::beat;
use super::job::{Files, lock_path, marker_of};
use super::line::{Line, Word};
use super::unix::{self, Signal};
use super::{ExecError, Exit, ForkServer, Job, SHIM_ARGUMENT, Started, tree};
use crate::crash;
use crate::fs::{FileError, GLANCE, lock_within, move_odd_away, open_regular, standing};
use crate::state::{StateError, read_json, write_json_unsynced};

/// How often the lock of a job that another process started is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(1024);

/// How often that of one whose shim just died is tried.
const DEATH_INTERVAL: Duration = Duration::from_millis(1);

/// How long the processes of a lost job are killed before they are given up.
const SWEEP_PATIENCE: Duration = Duration::from_secs(5);

/// How often the folder of a job may be deleted while the job is made ready.
const DELETIONS: u32 = 20;

/// A job that was started.
///
/// When it is dropped, a tied job ends; another goes on.
#[derive(Debug)]
pub struct Running {
    /// To the shim, where this process started the job; without, the job goes on for as long as the lock is locked.
    line: Option<Line>,
    /// The lock of the job's folder, which the shim has locked.
    lock: File,
    /// The program that the shim was forked from, where this process started the job.
    program: PathBuf,
    command: String,
    files: Files,
    /// What the shim said about itself; nobody else has this file open once it is dead.
    last_words: Option<File>,
    /// What it said on the line when it was over.
    last: Option<Word>,
    /// What the command writes to, where this process started the job.
    log: Option<File>,
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
    let (program, command) = (PathBuf::new(), job.command);
    Ok(Running { line: None, lock, program, command, files, last_words: None, last: None, log: None })
}

/// Starts a job under a shim that is this very program. See [`start_with`].
pub fn start(job: &Job) -> Result<Running, ExecError> {
    start_with(ForkServer::own(), job)
}

/// Starts a job under a shim that `shims` forks. An `exit.json` of an earlier job of the same name is removed; the log
/// is not.
///
/// # Errors
///
/// [`ExecError::Busy`] when a job in the same folder still goes on; otherwise when the working folder is not there,
/// a file cannot be written or read, or the shim cannot be started. A command that cannot be started shows in
/// [`Running::wait`].
///
/// # Panics
///
/// Outside of a tokio runtime with I/O enabled.
pub fn start_with(shims: &ForkServer, job: &Job) -> Result<Running, ExecError> {
    let job = with_absolute_paths(job)?;
    if !job.cwd.is_dir() {
        return Err(ExecError::WorkingFolder(job.cwd));
    }
    let files = Files::of(&job);
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
    let (line, theirs) = Line::new().map_err(ExecError::Watch)?;
    // The locked file is handed down: the lock belongs to the open file, so there is no moment at which nobody holds
    // it, and it is held for as long as the shim lives.
    let words = last_words.try_clone().map_err(|source| ExecError::File { path: job.folder.clone(), source })?;
    let [job_file, output, stdin] = handed.map(Into::into);
    shims.fork(&files.job, [theirs, lock.into(), words.into(), job_file, output, stdin])?;
    crash::point("job.started");
    let (program, command) = (shims.program().to_owned(), job.command);
    let (line, last_words, log) = (Some(line), Some(last_words), Some(log));
    Ok(Running { line, lock: watched, program, command, files, last_words, last: None, log })
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
fn prepare(job: &Job, files: &Files) -> Result<Prepared, ExecError> {
    let error_at = |path: &Path| {
        let path = path.to_owned();
        move |source| ExecError::File { path, source }
    };
    fs::create_dir_all(&job.folder).map_err(error_at(&job.folder))?;
    let lock = lock(&job.folder)?;
    crash::point("job.locked");
    for stale in [&files.started, &files.exit] {
        match fs::remove_file(stale) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(ExecError::File { path: stale.clone(), source });
            }
            _ => {}
        }
    }
    // The shim sees to it that the file of a run lasts.
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

/// Opens the log for the command.
fn open_log(path: &Path) -> io::Result<File> {
    // What somebody put there beforehand would be written through.
    let open = || {
        move_odd_away(path)?;
        File::options().create(true).read(true).append(true).open(path)
    };
    standing(path, open)
}

impl Running {
    /// Gives what the command writes to, to be read whatever becomes of its name; once, and only where this process started
    /// the job.
    pub fn take_log(&mut self) -> Option<File> {
        self.log.take()
    }

    /// Waits until the command is over and its whole process tree is gone. It can be cancelled and called again.
    ///
    /// # Errors
    ///
    /// [`ExecError::Command`] when the command could not be started; [`ExecError::Lost`] when the shim died before
    /// it could say how the command ended, or what it said was spoilt: what is left of the command is killed then.
    pub async fn wait(&mut self) -> Result<Exit, ExecError> {
        if self.last.is_none() {
            self.last = match &self.line {
                Some(line) => line.last().await.map_err(ExecError::Watch)?,
                None => None,
            };
        }
        if self.last.is_none() {
            // Whoever dies lets go of all that he has at almost the same time.
            let interval = if self.line.is_some() { DEATH_INTERVAL } else { LOCK_INTERVAL };
            released(&self.lock, interval).await.map_err(ExecError::Watch)?;
        }
        let exit = match read_json::<Exit>(&self.files.exit) {
            // Whoever put it there, it does not tell how the command ended.
            Err(StateError::Json { .. }) => None,
            Err(StateError::File(FileError { source, .. }))
                if matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory) =>
            {
                None
            }
            exit => exit?,
        };
        match exit.or_else(|| self.told()) {
            Some(Exit { error: Some(detail), .. }) => Err(ExecError::Command { command: self.command.clone(), detail }),
            Some(exit) => Ok(exit),
            None if self.last == Some(Word::DiskFull) => Err(ExecError::DiskFull { command: self.command.clone() }),
            None if self.last == Some(Word::NoShim) => {
                let source = io::Error::other(self.last_words());
                Err(ExecError::Shim { shim: self.program.clone(), source })
            }
            None => Err(ExecError::Lost {
                command: self.command.clone(),
                detail: self.epitaph(),
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
        if let Some(line) = &self.line {
            line.stop();
            return Ok(());
        }
        if !is_locked(&self.lock) {
            return Ok(());
        }
        let (shims, host) = match read_json::<Started>(&self.files.started).unwrap_or_default() {
            Some(started) if started.is_here() => (vec![started.pid], started.host),
            Some(started) => (Vec::new(), started.host),
            // It was deleted or spoilt, or is yet to be written.
            None => (shims_of(&self.files), String::new()),
        };
        if shims.is_empty() && is_locked(&self.lock) {
            return Err(ExecError::OtherMachine { command: self.command.clone(), host });
        }
        shims.into_iter().try_for_each(ask_to_end)
    }

    /// How the command ended by the shim's last words, where its file was deleted or could not be written.
    fn told(&mut self) -> Option<Exit> {
        let is_over = matches!(self.last, Some(Word::Over | Word::Failed));
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
        if let Some(file) = &mut self.last_words {
            // What cannot be read was not said.
            let _ = file.rewind().and_then(|()| file.take(4096).read_to_string(&mut words));
        }
        words.trim().to_owned()
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
async fn released(lock: &File, interval: Duration) -> io::Result<()> {
    loop {
        match lock.try_lock_shared() {
            Ok(()) => return lock.unlock(),
            Err(TryLockError::WouldBlock) => sleep_until(beat(interval)).await,
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn where_no_process_is_to_be_had_no_shim_can_be_started() {
        let folder = tempfile::tempdir().unwrap();
        let lock = File::create(lock_path(folder.path())).unwrap();
        let mut last_words = tempfile::tempfile().unwrap();
        last_words.write_all(b"Resource temporarily unavailable").unwrap();
        let result = crate::exec::runtime().unwrap().block_on(async {
            let (line, theirs) = Line::new().unwrap();
            Word::NoShim.say(&UnixStream::from(theirs));
            let (files, program) = (Files::named(folder.path(), "run"), "/bin/ar".into());
            let (line, last_words) = (Some(line), Some(last_words));
            Running { line, lock, program, command: "true".into(), files, last_words, last: None, log: None }
                .wait()
                .await
        });
        let Err(ExecError::Shim { shim, source }) = result else { panic!("{result:?}") };
        assert_eq!((shim, source.to_string()), ("/bin/ar".into(), "Resource temporarily unavailable".to_owned()));
    }
}
