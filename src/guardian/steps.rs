//! The steps that install and remove the guard, each of which may be repeated.

use std::fs::{self, File};
use std::io::{self};
use std::path::{Path, PathBuf};

use super::ensure::ensure_resident;
use super::program::guardian_folder;
use super::scheduler::{run, write_crontab};
use super::service_error::ServiceError;
use super::wanted::want;
use crate::domain::{Resident, shell_word};
use crate::fs::{create_folder, failed, if_exists, write_atomic};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Replaces a file.
    Write {
        /// The file.
        path: PathBuf,
        /// Its content.
        content: String,
    },
    /// Removes a file.
    Remove(PathBuf),
    /// Runs a command.
    Run {
        /// The program and its arguments.
        words: Vec<String>,
        /// True if its failure is not an error, because it ends something that may not be running.
        may_fail: bool,
    },
    /// Replaces the user's crontab.
    Crontab {
        /// The whole of it.
        content: Vec<u8>,
        /// The line that is added; without one, the guard's is removed.
        line: Option<String>,
    },
    /// Says that a resident guard is wanted, and starts it if none runs.
    Want(Resident),
}

impl Step {
    /// A step that runs a command.
    pub(super) fn run(words: &[&str]) -> Step {
        Step::Run { words: words.iter().map(|word| (*word).to_owned()).collect(), may_fail: false }
    }

    /// A step that runs a command which may fail.
    pub(super) fn try_run(words: &[&str]) -> Step {
        Step::Run { words: words.iter().map(|word| (*word).to_owned()).collect(), may_fail: true }
    }

    /// The step as an imperative, for a plan.
    pub fn text(&self) -> String {
        match self {
            Step::Write { path, .. } => format!("write {}", shell_word(path)),
            Step::Remove(path) => format!("remove {}", shell_word(path)),
            Step::Run { words, .. } => format!("run `{}`", in_shell(words)),
            Step::Crontab { line: Some(line), .. } => format!("add to your crontab: {}", line.trim_end()),
            Step::Crontab { line: None, .. } => "remove the guard's line from your crontab".to_owned(),
            Step::Want(_) => "start the resident guard".to_owned(),
        }
    }

    /// Takes the step; says what was done.
    ///
    /// # Errors
    ///
    /// A file cannot be written or removed, or a command fails.
    pub fn take(&self) -> Result<String, ServiceError> {
        match self {
            Step::Write { path, content } => {
                create_folder(path.parent().unwrap_or(Path::new("/")))?;
                write_atomic(path, content.as_bytes())?;
                Ok(format!("wrote {}", shell_word(path)))
            }
            Step::Remove(path) => {
                remove(path).map_err(failed("remove", path))?;
                Ok(format!("removed {}", shell_word(path)))
            }
            Step::Run { words, may_fail } => {
                let parts: Vec<&str> = words.iter().map(String::as_str).collect();
                match run(&parts) {
                    Err(error) if !may_fail => Err(error),
                    Err(ServiceError::Command { why, .. }) => Ok(format!("ran `{}`: {why}", in_shell(words))),
                    Err(_) => Ok(format!("skipped `{}`", in_shell(words))),
                    Ok(()) => Ok(format!("ran `{}`", in_shell(words))),
                }
            }
            Step::Crontab { content, line } => {
                write_crontab(content)?;
                Ok(match line {
                    Some(line) => format!("added to your crontab: {}", line.trim_end()),
                    None => "removed the guard's line from your crontab".to_owned(),
                })
            }
            Step::Want(settings) => {
                want(&guardian_folder()?, settings)?;
                Ok(match ensure_resident()? {
                    Some(process) => format!("started the resident guard: process {process}"),
                    None => "the resident guard is running already".to_owned(),
                })
            }
        }
    }
}

/// A command line for a person to read or type.
fn in_shell(words: &[String]) -> String {
    words.iter().map(|word| shell_word(Path::new(word))).collect::<Vec<_>>().join(" ")
}

/// Removes a file, and has that last.
fn remove(path: &Path) -> io::Result<()> {
    let removed = if_exists(fs::remove_file(path))?.and_then(|()| path.parent());
    removed.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
