//! A job and the files it lives in. Its shim maintains its folder, which an agent or the command itself may delete.

use std::fs::{File, Metadata};
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use std::{env, fs, io, mem, thread};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ExecError, SHIM_ARGUMENT, Ticket, Uses, boot_id, gpu, host_name, is_held};
use crate::domain::{FORMAT_VERSION, GpuOther, Space, WallKind, is_default};
use crate::fs::{
    FileStamp, free_name, if_exists, is_irregular, make_folder, move_away, move_irregular_away, move_no_folder_away,
    open_regular, read_at_most, retry_if_removed,
};
use crate::rules::{GPU_MASKS, Silence, Wall};
use crate::state::{read_json, write_json, write_json_unsynced};

/// The job whose files carry no name.
pub(super) const RUN: &str = "run";

/// A command to run under a shim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The job's name, unique in its folder. The files of `run` are `job.json`, `started.json` and
    /// `exit.json`; those of any other name carry it, as in `agent.exit.json`.
    pub name: String,
    /// The command line, for `sh -c`.
    pub command: String,
    /// The folder that the command runs in.
    pub cwd: PathBuf,
    /// The folder of the job's files, created if it is missing.
    pub folder: PathBuf,
    /// Standard output and standard error are appended to this file.
    pub log: PathBuf,
    /// The most bytes of output for the log, if limited; the rest is read and dropped.
    pub log_limit: Option<u64>,
    /// Standard input; nothing when absent.
    pub stdin: Option<PathBuf>,
    /// Variables that the command gets beside those of `ar`.
    pub env: Vec<(String, String)>,
    /// The deadline, counted from the start of the command while the machine is awake.
    pub timeout: Duration,
    /// The silence after which the command is terminated, if any; only for a job whose log has no limit.
    pub silence: Option<Silence>,
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// True if the command ends with the process that started the job.
    pub tied: bool,
    /// A file, relative to `cwd`, whose stamp is noted once all processes of the command are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<PathBuf>,
    /// The wall that the command is started behind, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Wall>,
    /// The folder of the runs that may share its GPUs.
    #[serde(rename = "shares_gpus", default, skip_serializing_if = "Option::is_none")]
    pub gpu_sharers: Option<PathBuf>,
    /// True if processes behind that wall may ask something of the shim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
    /// By what an engine knows it that executes it; absent on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Ticket>,
}

impl Job {
    /// The modification times of the job `name` in `folder` and of its exit, by the clock of the file system. Omits an
    /// exit that is older than the job.
    pub fn lifetime(folder: &Path, name: &str) -> Option<(SystemTime, Option<SystemTime>)> {
        let JobFiles { job, exit, .. } = JobFiles::named(folder, name);
        let written = |path: PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let start = written(job)?;
        Some((start, written(exit).filter(|end| *end >= start)))
    }

    /// The ticket of the job `name` in `folder`, if an engine executes it.
    pub fn ticket_of(folder: &Path, name: &str) -> Option<Ticket> {
        read_json::<Job>(&JobFiles::named(folder, name).job).unwrap_or_default()?.ticket
    }
}

/// The contents of `started.json`, which exists before the command starts, and for a run is on the disk soon after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The format's version.
    pub version: u32,
    /// The shim.
    pub pid: u32,
    /// The boot of the machine that `pid` belongs to; absent where the system does not name it.
    pub boot_id: Option<String>,
    /// The host's name.
    #[serde(default)]
    pub host: String,
    /// The time when the command started.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// The time when its limit is reached, unless the machine sleeps in between.
    #[serde(default, with = "crate::domain::millis::option")]
    pub deadline: Option<Timestamp>,
    /// Number of times that the engine requeued the job.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: u32,
}

impl Started {
    /// The one of the job `name` in `folder`, unless it is missing or damaged.
    pub fn read(folder: &Path, name: &str) -> Option<Started> {
        read_json(&JobFiles::named(folder, name).started).unwrap_or_default()
    }

    /// Returns whether `pid` is a process that this one sees: a shim, of this boot of this machine. In another
    /// container, a different process may have the same id.
    pub(super) fn is_here(&self) -> bool {
        let is_shim = |line: Vec<u8>| line.split(|byte| *byte == 0).nth(1) == Some(SHIM_ARGUMENT.as_bytes());
        self.boot_id == boot_id()
            && fs::read(format!("/proc/{}/cmdline", self.pid)).map_or(self.boot_id.is_none(), is_shim)
    }
}

/// The effects of a full disk on a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FullDisk {
    /// The room that was left at its end on a disk that was full or nearly so; absent on others.
    #[serde(default, rename = "disk", skip_serializing_if = "Option::is_none")]
    pub room: Option<Space>,
    /// True if its log lacks output that could not be written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
}

/// The result of a command: the contents of `exit.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// The format's version.
    pub version: u32,
    /// The exit status of the shell; absent when a signal ended it. A shell reports a signal that ended its last
    /// command as 128 plus the signal.
    pub exit: Option<i32>,
    /// The signal that ended the shell.
    pub signal: Option<i32>,
    /// True if it was terminated at its time limit, or for being silent.
    pub timed_out: bool,
    /// The seconds of silence after which it was terminated, if that is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<f64>,
    /// True if it was terminated on request, or after its owner died.
    pub stopped: bool,
    /// True if the kernel killed it for lack of memory.
    pub oom_killed: bool,
    /// The effects of a full disk.
    #[serde(flatten)]
    pub disk: FullDisk,
    /// The token of the job's start at its engine; absent on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Number of times that the engine requeued the job.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// The seconds that the job waited in the queue of its engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<f64>,
    /// The GPUs of the node that it ran on, by their models; only for a job of an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The name of the host that it ran on; empty in files of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The GPUs that its environment showed it; absent when it saw all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_gpus: Option<String>,
    /// The wall that it had; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<WallKind>,
    /// The time when the command started.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// The time when it ended.
    #[serde(with = "crate::domain::millis")]
    pub finished: Timestamp,
    /// Its duration in seconds, without the time that the machine slept.
    pub seconds: f64,
    /// The memory that it used.
    #[serde(flatten)]
    pub memory: MemoryUse,
    /// Processes that not even KILL ended, stuck in the kernel; normally 0.
    pub survivors: u32,
    /// The reason that the command could not be started.
    pub error: Option<String>,
    /// True if that is the wall that it was to have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_wall: bool,
    /// The state of the watched file at the end, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<WatchedFile>,
    /// The use of the listed files, if there is a list and the kernel watched all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
}

/// The memory that a process tree had in use at most, and who else used its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The largest resident set of the whole process tree, in bytes. Memory shared between processes counts once
    /// for each of them.
    pub peak_rss_bytes: u64,
    /// The most GPU memory that the process tree had in use, in bytes; absent when it used none or this is unknown.
    pub gpu_peak_bytes: Option<u64>,
    /// The most memory that other processes had in use meanwhile on the GPUs of the tree, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_other_bytes: Option<u64>,
    /// Processes that were on GPUs of the tree in two samples in a row and have no right to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_others: Vec<GpuOther>,
}

/// The GPUs that a job of an engine found on its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Their models, each with its number where there are several.
    pub gpu: Option<String>,
    /// Their number.
    pub gpus: u32,
    /// The version of the driver.
    pub driver: Option<String>,
}

/// The stamp of a watched file; `None` if it was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFile(pub Option<FileStamp>);

impl WatchedFile {
    /// Reads the stamp of the file at `path`, or of the target of a link there.
    pub fn look(path: &Path) -> WatchedFile {
        WatchedFile(fs::metadata(path).ok().as_ref().map(FileStamp::from_metadata))
    }
}

impl Exit {
    /// The one of the job `name` in `folder`, unless it is missing or damaged.
    pub fn read(folder: &Path, name: &str) -> Option<Exit> {
        read_json(&JobFiles::named(folder, name).exit).unwrap_or_default()
    }

    /// The exit of a job whose shim wrote none.
    pub(super) fn unwritten(files: &JobFiles) -> Exit {
        let now = Timestamp::now();
        let started: Option<Started> = read_json(&files.started).unwrap_or_default();
        let (started, host) = started.map_or((now, String::new()), |started| (started.started, started.host));
        let seconds = now.duration_since(started).as_secs_f64().max(0.0);
        Exit { version: FORMAT_VERSION, host, started, finished: now, seconds, ..Exit::default() }
    }

    /// An exit with nothing known but where and when the job was started.
    pub(super) fn at(started: Timestamp, job: &Job) -> Exit {
        let given = |name: &str| job.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        Exit {
            version: FORMAT_VERSION,
            host: host_name(),
            token: job.ticket.as_ref().map(|ticket| ticket.token.clone()),
            restarts: restarts(),
            node: job.ticket.is_some().then(gpu::models),
            visible_gpus: GPU_MASKS.iter().find_map(|name| given(name).or_else(|| env::var(name).ok())),
            sandbox: Some(if job.wall.is_some() { WallKind::Bwrap } else { WallKind::None }),
            started,
            finished: started,
            ..Exit::default()
        }
    }
}

/// Number of times that Slurm requeued the job of this process.
pub(super) fn restarts() -> u32 {
    env::var("SLURM_RESTART_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The paths of a job's files.
#[derive(Debug, Clone)]
pub struct JobFiles {
    /// The job itself.
    pub job: PathBuf,
    /// Its start.
    pub started: PathBuf,
    /// Its exit.
    pub exit: PathBuf,
}

impl JobFiles {
    pub(super) fn of(job: &Job) -> JobFiles {
        JobFiles::named(&job.folder, &job.name)
    }

    /// Returns whether `file` is the task of a measuring run or a guard, and not of an agent.
    pub(super) fn is_of_run(file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name == "job.json" || name.starts_with("guard-")
    }

    /// The files of the job `name` in `folder`.
    pub fn named(folder: &Path, name: &str) -> JobFiles {
        let prefix = if name == RUN { String::new() } else { format!("{name}.") };
        let file = |kind: &str| folder.join(format!("{prefix}{kind}.json"));
        JobFiles { job: file("job"), started: file("started"), exit: file("exit") }
    }
}

impl JobFiles {
    /// Returns false for the exit of a job that was not over: then another process wrote it. Until the job is over, its lock is
    /// held and names that exit. Behind a wall the job cannot write to it; elsewhere it could only make another one.
    pub(super) fn may_have_exit(&self) -> bool {
        let folder = self.exit.parent().unwrap_or(Path::new("/"));
        let named = read_at_most(&lock_path(folder), LARGEST_LOCK).unwrap_or_default();
        let is_refused = self.exit.file_name().is_some_and(|exit| exit.as_encoded_bytes() == named);
        !is_refused && !is_held(folder)
    }
}

/// The largest lock file that is read, in bytes: a file name.
const LARGEST_LOCK: u64 = 255;

/// The lock of a folder, held by the shim that works in it.
pub(super) fn lock_path(folder: &Path) -> PathBuf {
    folder.join("lock")
}

/// The variable that marks every process of a job: it holds the job file's path.
pub(super) const MARKER: &str = "AR_JOB";

/// `MARKER=path` as it stands in a process's environment.
pub(super) fn marker_of(job_file: &Path) -> Vec<u8> {
    [MARKER.as_bytes(), b"=", job_file.as_os_str().as_encoded_bytes()].concat()
}

/// A stamp that changes when a log grows: its size, and the seconds and nanoseconds of its last change.
pub(super) type Written = (u64, i64, i64);

/// The files by which a job is found, and the lock that shows that it is running.
pub(super) struct JobFolder<'a> {
    job: &'a Job,
    files: &'a JobFiles,
    started: Option<Started>,
    lock: File,
    /// Locks whose files were deleted: a process that waits for the job may have opened one of them.
    deleted: Vec<File>,
    /// The output file of the job, still valid if its name is deleted or replaced.
    log: File,
}

impl<'a> JobFolder<'a> {
    /// Takes over the lock and the log that were handed down.
    pub(super) fn of(job: &'a Job, files: &'a JobFiles, lock: File, log: File) -> Self {
        JobFolder { job, files, started: None, lock, deleted: Vec::new(), log }
    }

    /// Releases the folder, also if another process has a copy of the lock's descriptor.
    pub(super) fn leave(self) {
        for lock in [self.lock].iter().chain(&self.deleted) {
            // The end of the process releases it at the latest.
            let _ = lock.unlock();
        }
    }

    /// Records when and where the job was started.
    pub(super) fn note_start(&mut self, started: Started) -> Result<(), ExecError> {
        write_json_unsynced(&self.files.started, &started)?;
        self.started = Some(started);
        Ok(())
    }

    /// Writes the name of `exit.json` into the lock: until [`JobFolder::allow_exit`] empties it, that file does not count.
    ///
    /// # Errors
    ///
    /// The lock cannot be written.
    pub(super) fn refuse_exit(&self) -> Result<(), ExecError> {
        let named = self.files.exit.file_name().unwrap_or_default();
        let noted = self.lock.set_len(0).and_then(|()| (&self.lock).write_all(named.as_encoded_bytes()));
        noted.map_err(|source| ExecError::File { path: lock_path(&self.job.folder), source })
    }

    /// Notes in the lock that the exit is the one of the job, whose processes are gone.
    pub(super) fn allow_exit(&self) {
        // In doubt, the command runs again.
        let _ = self.lock.set_len(0);
    }

    /// The lock.
    pub(super) fn lock_path(&self) -> PathBuf {
        lock_path(&self.job.folder)
    }

    /// Syncs the files by which a run is known after a power cut, in the thread that it returns, while the command is running
    /// already. A machine that goes down in that moment has a run that was never started, or none that can be read. A tied
    /// job needs none of this.
    pub(super) fn make_last(&self) -> Option<JoinHandle<()>> {
        let paths = [self.files.job.clone(), self.files.started.clone(), self.lock_path()];
        let folder = self.job.folder.clone();
        let sync = move || {
            // At worst, a power cut loses what cannot be synced.
            for path in &paths {
                let _ = open_regular(path).and_then(|file| file.sync_all());
            }
            let _ = File::open(&folder).and_then(|folder| folder.sync_all());
        };
        if self.job.tied { None } else { thread::Builder::new().spawn(sync).ok() }
    }

    /// The log, for the command to write to.
    pub(super) fn log_for_command(&self) -> Result<File, ExecError> {
        self.log.try_clone().map_err(|source| ExecError::File { path: self.job.log.clone(), source })
    }

    /// The size of the log and the time of its last change, by which more output is seen.
    pub(super) fn written(&self) -> Option<Written> {
        let log = self.log.metadata().ok()?;
        Some((log.len(), log.mtime(), log.mtime_nsec()))
    }

    /// Writes the log again where its name is missing or leads to something else, which is retained beside it.
    pub(super) fn restore_log(&mut self) -> Result<(), ExecError> {
        let path = &self.job.log;
        let log = &mut self.log;
        let restore = |log: &mut File| {
            match fs::symlink_metadata(path) {
                Ok(there) if is_same(&there, &log.metadata()?) => return Ok(()),
                Ok(_) => fs::rename(path, free_name(&path.with_extension("log.replaced")))?,
                Err(_) => {}
            }
            log.rewind()?;
            io::copy(log, &mut File::create_new(path)?).map(drop)
        };
        retry_if_removed(path, || restore(log)).map_err(|source| ExecError::File { path: self.job.log.clone(), source })
    }

    /// Restores what was deleted, so that the job can still be found and waited for. Returns whether the folder is this
    /// job's: after a deletion, another job may have been started in it.
    pub(super) fn keep(&mut self) -> Result<bool, ExecError> {
        let path = lock_path(&self.job.folder);
        let failed = |source| ExecError::File { path: path.clone(), source };
        move_no_folder_away(&self.job.folder).map_err(failed)?;
        if is_irregular(&path) {
            move_away(&path).map_err(failed)?;
        }
        let (there, own) = (if_exists(fs::metadata(&path)).map_err(failed)?, self.lock.metadata().map_err(failed)?);
        if !there.is_some_and(|there| is_same(&there, &own)) {
            make_folder(&self.job.folder).map_err(failed)?;
            let lock = File::options().create(true).truncate(false).read(true).write(true).open(&path);
            let lock = lock.map_err(failed)?;
            // Otherwise it is that of the next job.
            if lock.try_lock().is_err() {
                return Ok(false);
            }
            self.deleted.push(mem::replace(&mut self.lock, lock));
            self.refuse_exit()?;
        }
        restore(&self.files.job, self.job)?;
        if let Some(started) = &self.started {
            restore(&self.files.started, started)?;
        }
        Ok(true)
    }
}

/// Writes a file again that is missing, or not a file any more.
fn restore(path: &Path, content: &impl Serialize) -> Result<(), ExecError> {
    if path.is_file() {
        return Ok(());
    }
    move_irregular_away(path).map_err(|source| ExecError::File { path: path.to_owned(), source })?;
    Ok(write_json(path, content)?)
}

/// Returns whether both describe the same file.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exit_names_its_wall_unless_an_earlier_version_wrote_it() {
        let former = json!(Exit::default());
        assert_eq!(former.get("sandbox"), None);
        assert_eq!(serde_json::from_value::<Exit>(former).unwrap().sandbox, None);
        let walled = Exit { sandbox: Some(WallKind::Bwrap), ..Exit::default() };
        assert_eq!(json!(walled)["sandbox"], "bwrap");
        assert_eq!(serde_json::from_value::<Exit>(json!(walled)).unwrap(), walled);
    }
}
