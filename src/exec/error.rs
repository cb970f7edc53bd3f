//! Errors of jobs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::{LargeLog, duration_text};
use crate::state::{SEE_DOCTOR, StateError};

/// The reason that a job was not started, or that its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// Another job of the same folder is still running.
    #[error("another command is still running in `{folder}`")]
    Busy {
        /// The job's folder.
        folder: PathBuf,
    },
    /// The folder that the command is to run in does not exist.
    #[error("the working folder `{0}` does not exist")]
    WorkingFolder(PathBuf),
    /// A file of the job cannot be written or read.
    #[error("cannot use `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A state file of the job cannot be written or read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The shim cannot be started.
    #[error("cannot start `{shim}`, which supervises the command")]
    Shim {
        /// The executable.
        shim: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The command cannot be started.
    #[error("cannot start `{command}`: {detail}")]
    Command {
        /// The command line.
        command: String,
        /// The cause.
        detail: String,
    },
    /// The command's wall cannot be built, so that it was not started.
    #[error("cannot start `{command}`: {detail}")]
    NoWall {
        /// The command line.
        command: String,
        /// The cause.
        detail: String,
    },
    /// The shim died without recording how the command ended.
    #[error("the supervisor of `{command}` {detail}; the command's exit status is unknown")]
    Lost {
        /// The command line.
        command: String,
        /// A clause that says how the shim died, with its last output if it had any.
        detail: String,
        /// The number of leftover processes of the command that were killed.
        killed: usize,
    },
    /// The engine refuses to take the job.
    #[error("the executor `{engine}` takes no job: {why}")]
    NotSubmitted {
        /// The engine.
        engine: String,
        /// What it said.
        why: String,
    },
    /// The engine has given no answer for too long.
    #[error("the executor `{engine}` has given no answer for {}: {why}", duration_text(*away))]
    EngineAway {
        /// The engine.
        engine: String,
        /// For how long.
        away: Duration,
        /// What was said instead.
        why: String,
    },
    /// Its node failed, or the job had to make room for another one, and it does not start again by itself.
    #[error("`{command}` was ended by the executor `{engine}`, for a reason of its own")]
    Evicted {
        /// The command line.
        command: String,
        /// The engine.
        engine: String,
    },
    /// The disk has no room to record how the command ended.
    #[error("cannot record how `{command}` ended: the disk is full")]
    DiskFull {
        /// The command line.
        command: String,
        /// The log of its that fills the disk.
        log: Option<LargeLog>,
    },
    /// The job is running where this process cannot signal it.
    #[error("`{command}` is still running on another machine{}", if host.is_empty() { String::new() } else { format!(": {host}") })]
    OtherMachine {
        /// The command line.
        command: String,
        /// The machine's name; empty when it is not known.
        host: String,
    },
    /// The system refuses to wait for the shim or to signal it.
    #[error("cannot reach the supervisor of the command")]
    Watch(#[source] io::Error),
}

impl ExecError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            ExecError::Busy { .. } => {
                Some("wait until it ends; `ar resume` waits for a session's run and then continues".to_owned())
            }
            ExecError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(SEE_DOCTOR.to_owned()),
            ExecError::File { path, .. } => Some(format!(
                "check disk space and permissions: `df -h {0}; ls -ld {0}`",
                path.parent().unwrap_or(path).display()
            )),
            ExecError::Lost { .. } => {
                Some("check `dmesg | tail` for a lack of memory, then run `ar resume` to continue".to_owned())
            }
            ExecError::DiskFull { log: Some(log), .. } => Some(log.hint()),
            ExecError::DiskFull { log: None, .. } => {
                Some("free disk space (`df -h .` shows the usage); nothing was lost".to_owned())
            }
            ExecError::NotSubmitted { engine, .. } if engine == "slurm" => {
                Some("pass correct options with --sbatch".to_owned())
            }
            ExecError::EngineAway { engine, .. } if engine == "slurm" => {
                Some("see whether `squeue --me` answers; its jobs run on, and `ar resume` picks them up".to_owned())
            }
            ExecError::EngineAway { .. } => {
                Some("see whether `states` of [executor] answers; `ar resume` picks its jobs up".to_owned())
            }
            ExecError::NotSubmitted { .. } => Some(
                "correct `submit` in [executor] of ar.toml, and pass --executor commands to start or resume again"
                    .to_owned(),
            ),
            ExecError::NoWall { .. } => Some("`ar doctor` says whether walls work here".to_owned()),
            ExecError::OtherMachine { .. } => Some("stop it there, or wait for it with `ar resume`".to_owned()),
            ExecError::State(error) => error.hint(),
            _ => None,
        }
    }

    /// Returns whether its hint already ends with the command that resumes the session.
    pub fn hint_resumes(&self) -> bool {
        matches!(
            self,
            ExecError::Busy { .. }
                | ExecError::Lost { .. }
                | ExecError::OtherMachine { .. }
                | ExecError::EngineAway { .. }
                | ExecError::DiskFull { log: Some(_), .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_resumes_where_it_names_the_command() {
        let command = || "python train.py".to_owned();
        let errors = [
            ExecError::Busy { folder: "/r".into() },
            ExecError::Lost { command: command(), detail: "died".into(), killed: 0 },
            ExecError::OtherMachine { command: command(), host: String::new() },
            ExecError::DiskFull { command: command(), log: None },
            ExecError::DiskFull { command: command(), log: Some(LargeLog { path: "/r/run.log".into(), bytes: 7 }) },
            ExecError::File { path: "/r/job.json".into(), source: io::ErrorKind::NotFound.into() },
        ];
        for error in errors {
            let is_named = error.hint().is_some_and(|hint| hint.contains("`ar resume`"));
            assert_eq!(error.hint_resumes(), is_named, "{error}");
        }
    }

    #[test]
    fn a_file_that_is_gone_is_a_matter_of_the_doctor_and_one_that_cannot_be_written_of_its_disk() {
        for (kind, command) in [(io::ErrorKind::NotFound, "ar doctor"), (io::ErrorKind::StorageFull, "df -h /r; ls")] {
            let hint = ExecError::File { path: "/r/job.json".into(), source: kind.into() }.hint();
            assert!(hint.is_some_and(|hint| hint.contains(command)), "{kind:?}");
        }
    }
}
