//! Commands that act, refused inside a call that the loop made.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use autoresearch::exec::{Kinship, Namespaces, SEEN_AFTER, is_held, job_file, jobs_above, kinship};
use autoresearch::git::Repo;
use autoresearch::session::AGENT_JOB;
use autoresearch::state::SESSIONS_FOLDER;

use super::args::Command;
use super::error::CliError;
use super::settings;

/// How often a process in namespaces of its own looks whether a job has them.
const LOOK: Duration = Duration::from_millis(100);

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
    let root = real(&repo.main_worktree());
    if is_tell && by_variable.is_none() && jobs.is_empty() {
        jobs.extend(job_beyond(&root));
    }
    let by_variable = by_variable
        .filter(|(_, state)| real(Path::new(state)).starts_with(real(&root.join(SESSIONS_FOLDER))))
        .map(|(experiment, _)| experiment);
    let Some(experiment) = by_variable.or_else(|| jobs.iter().find_map(|job| experiment_of(job, &root))) else {
        return Ok(());
    };
    let hint = match settings::called_by_loop() || jobs.iter().any(|job| is_call(job)) {
        true => "edit the files, describe the change in $AR_PROPOSAL, then exit: `ar` does the rest",
        false => "take the command out of the run and its guards; `ar status` works there",
    };
    Err(CliError::new(format!("cannot call `ar {name}` inside experiment {experiment} of the loop"), Some(hint.into())))
}

/// The active job in the repository at `root` that this process is part of, where it cannot see that: it is in namespaces that
/// a process of the job made. Waits where only the job's shim can tell.
fn job_beyond(root: &Path) -> Option<PathBuf> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let runs = entries(root.join(SESSIONS_FOLDER)).flat_map(|session| entries(session.join("runs")));
    let own = Namespaces::own();
    if own.is_none() && !cfg!(target_os = "linux") {
        return None;
    }
    let related = |folder: &PathBuf| match &own {
        Some(own) => kinship(folder, own),
        // Somebody hid what the system says of processes.
        None => is_held(folder).then_some(Kinship::Below),
    };
    let (begun, mut folders) = (Instant::now(), runs.collect::<Vec<PathBuf>>());
    loop {
        if let Some(folder) = folders.iter().find(|folder| related(folder) == Some(Kinship::Below)) {
            return Some(job_file(folder, AGENT_JOB, "job"));
        }
        folders.retain(|folder| related(folder) == Some(Kinship::Unknown));
        if folders.is_empty() || begun.elapsed() > SEEN_AFTER {
            return None;
        }
        sleep(LOOK);
    }
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

/// Whether a job is a call of the agent.
fn is_call(job: &Path) -> bool {
    job.ends_with(job_file(Path::new(""), AGENT_JOB, "job"))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
