//! Errors when printing or starting the guard.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::program::guardian_folder;
use super::wanted;
use crate::domain::shell_word;
use crate::fs::FileError;
use crate::session::ErrorKind;
use crate::state::StateError;

/// The reason why the guard cannot be printed or started.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Neither variable names a folder.
    #[error("no home folder: neither HOME nor XDG_STATE_HOME is an absolute path")]
    NoHome,
    /// A resident guard is running.
    #[error("another resident guard is running{}", process.map(|pid| format!(": process {pid}")).unwrap_or_default())]
    Running {
        /// Its process, if its lock file names it.
        process: Option<u32>,
    },
    /// A path or an argument that the unit of a scheduler cannot contain.
    #[error("cannot write {what} into a file of the guard: it contains a line break or is not UTF-8")]
    Unwritable {
        /// A name for the path or argument.
        what: String,
    },
    /// A line that some versions of cron would cut.
    #[error("the line of the crontab would be longer than cron reads")]
    LongLine,
    /// A program did not start.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The resident guard ended by an error.
    #[error("it ended ({0}); guard/resident.log in your state folder has its output")]
    Ended(ExitStatus),
    /// A file of the guard's.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the guard's with JSON.
    #[error(transparent)]
    State(#[from] StateError),
}

impl ServiceError {
    /// The kind, which gives the exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ServiceError::Running { .. } => ErrorKind::Held,
            _ => ErrorKind::CannotStart,
        }
    }

    /// The next command to type, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServiceError::NoHome => Some("set HOME to your home folder: export HOME=/home/you".into()),
            ServiceError::Running { process } => {
                let end = process.map(|pid| format!("run `kill {pid}` to end it, or ")).unwrap_or_default();
                let path = guardian_folder().map(|folder| wanted::file(&folder)).unwrap_or_default();
                Some(format!("{end}run `rm {}` to want none", shell_word(&path)))
            }
            ServiceError::Unwritable { .. } => Some("change it to one line of UTF-8".into()),
            ServiceError::LongLine => {
                Some("run it with a short PATH: `PATH=/usr/local/bin:/usr/bin:/bin ar guard --print cron`".into())
            }
            ServiceError::Start { program, .. } => {
                Some(format!("run `ls -l {}` to see what it is", shell_word(program)))
            }
            ServiceError::Ended(_) => Some("run `ar guard --resident` to see why".into()),
            ServiceError::File(error) => {
                let folder = error.path.parent().unwrap_or(Path::new("/"));
                Some(format!("run `ls -ld {}` to see who may write there", shell_word(folder)))
            }
            ServiceError::State(error) => error.hint(),
        }
    }
}
