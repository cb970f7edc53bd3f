//! Commands that act, refused inside a call that the loop made.

use std::path::{Path, PathBuf};
use std::{env, fs};

use autoresearch::exec::{Executor, JobFiles, job_beyond, jobs_above};
use autoresearch::git::Repo;
use autoresearch::session::{AGENT_JOB, is_behind_wall};
use autoresearch::state::SESSIONS_FOLDER;

use super::args::Command;
use super::error::CliError;
use super::settings;

/// Refuses a command that would change a session while this process is part of one of its experiments: the agent's call,
/// the run, or a guard. Commands that read are allowed, and so are commands in another repository.
pub(super) fn refuse(command: &Command) -> Result<(), CliError> {
    let Some(name) = command.acting() else { return Ok(()) };
    let by_variable = variable("AR_EXPERIMENT").zip(env::var_os("AR_STATE_DIR"));
    // Its text counts as the user's, so a process that cleared the variables is looked at, too.
    let is_tell = matches!(command, Command::Tell(_));
    let mut jobs = if is_tell { jobs_above() } else { Vec::new() };
    if by_variable.is_none() && jobs.is_empty() && !is_tell {
        return Ok(());
    }
    let Some(repo) = env::current_dir().ok().and_then(|dir| Repo::discover(&dir).ok()) else { return Ok(()) };
    if is_tell && is_behind_wall(&repo) {
        let hint = "run it outside of the loop's jobs, where the sessions of the repository can be written";
        return Err(CliError::new(format!("cannot call `ar {name}` behind a wall of the loop"), Some(hint.into())));
    }
    let root = real(&repo.main_worktree());
    if is_tell && by_variable.is_none() && jobs.is_empty() {
        let (sessions, executor) = (fs::read_dir(root.join(SESSIONS_FOLDER)), Executor::local());
        let runs = sessions.into_iter().flatten().flatten().map(|session| session.path().join("runs"));
        let busy = runs.flat_map(|runs| executor.busy_in(&runs)).collect();
        jobs.extend(job_beyond(busy).map(|folder| call_in(&folder)));
    }
    let by_variable = by_variable
        .filter(|(_, state)| real(Path::new(state)).starts_with(real(&root.join(SESSIONS_FOLDER))))
        .map(|(experiment, _)| experiment);
    let Some(experiment) = by_variable.or_else(|| jobs.iter().find_map(|job| experiment_of(job, &root))) else {
        return Ok(());
    };
    let hint = match settings::called_by_loop() || jobs.iter().any(|job| job.ends_with(call_in(Path::new("")))) {
        true => "edit the files, describe the change in $AR_PROPOSAL, then exit: `ar` does the rest",
        false => "take the command out of the run and its guards; `ar status` works there",
    };
    Err(CliError::new(format!("cannot call `ar {name}` inside experiment {experiment} of the loop"), Some(hint.into())))
}

/// Returns whether this process is part of an experiment of a loop. The variables tell, else its ancestors: clients may start a
/// server without the variables.
pub(super) fn is_inside() -> bool {
    let by_variable = || variable("AR_EXPERIMENT").is_some() && env::var_os("AR_STATE_DIR").is_some();
    by_variable() || jobs_above().iter().any(|job| job.ancestors().any(|above| above.ends_with(SESSIONS_FOLDER)))
}

/// The job file of the agent's call in a folder.
fn call_in(folder: &Path) -> PathBuf {
    JobFiles::named(folder, AGENT_JOB).job
}

/// The experiment that a job belongs to, by the place of its file: `.autoresearch/<tag>/runs/<n>/` in the root of the
/// repository. Hooks have another place.
fn experiment_of(job: &Path, root: &Path) -> Option<String> {
    let sessions = job.ancestors().find(|above| above.ends_with(SESSIONS_FOLDER))?;
    let mut rest = job.strip_prefix(sessions).ok()?.iter().skip(1);
    let is_run = real(sessions.parent()?) == root && rest.next()? == "runs";
    let experiment: u32 = rest.next().filter(|_| is_run)?.to_str()?.parse().ok()?;
    Some(experiment.to_string())
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
