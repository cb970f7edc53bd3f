//! The process itself: its folder and runtime, the signals that it gets, and the call of a loop that it is in, where commands that
//! act are refused.

use std::future::{pending, poll_fn};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{env, fs, io};

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use autoresearch::exec;
use autoresearch::exec::{Executor, JobFiles, job_beyond, jobs_above, shield_from_terminal};
use autoresearch::git::Repo;
use autoresearch::session::{AGENT_JOB, Interrupt, Interrupts, SessionError, is_behind_wall};
use autoresearch::state::SESSIONS_FOLDER;

use super::run::JobLimits;
use super::{CliError, Command, error, output, settings};

/// Makes the runtime that waits for processes, timers and signals, on this thread.
pub(super) fn runtime() -> Result<Runtime, CliError> {
    exec::runtime().map_err(no_runtime)
}

/// The error of a process that cannot wait.
pub(super) fn no_runtime(error: io::Error) -> CliError {
    CliError::new(format!("cannot wait for processes and signals: {error}"), None)
}

/// Does work that a signal interrupts, on this thread.
pub(super) fn interruptible<T>(work: impl AsyncFnOnce(Interrupts) -> Result<T, CliError>) -> Result<T, CliError> {
    runtime()?.block_on(async { work(interrupts(None).map_err(no_runtime)?).await })
}

/// Tells what an interrupt left, and ends with the exit code of one.
pub(super) fn interrupted(told: &str) -> Result<ExitCode, CliError> {
    output::note(told);
    Ok(ExitCode::from(error::INTERRUPTED))
}

/// Signals that end a command which has nothing to finish.
pub(super) struct Signals(Vec<Signal>);

impl Signals {
    /// Hears Ctrl-C and SIGTERM, and with `hangup` also SIGHUP.
    pub(super) fn listen(hangup: bool) -> Result<Signals, CliError> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let kinds = kinds.into_iter().chain(hangup.then(SignalKind::hangup));
        kinds.map(signal).collect::<Result<_, _>>().map(Signals).map_err(no_runtime)
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        let heard = |context: &mut Context<'_>| match self.0.iter_mut().any(|it| it.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        poll_fn(heard).await
    }
}

/// The folder that the command was called in.
pub(super) fn current_dir() -> Result<PathBuf, SessionError> {
    env::current_dir().map_err(|source| SessionError::Io { action: "find", path: ".".into(), source })
}

/// Turns signals into interrupts: the first Ctrl-C lets the experiment finish, the second one and SIGTERM end its run,
/// and SIGHUP leaves it going. Under `nohup`, where SIGHUP is ignored, it stays so. They are heard on a thread of their own,
/// also while the loop waits for a program of git's.
///
/// With the `limits` of a batch job, USR1 lets the experiment finish, and so do its limits, the second one at once. TERM leaves
/// everything as it is, since Slurm sends it before it ends the job, also one that it starts again.
pub(super) fn interrupts(limits: Option<JobLimits>) -> io::Result<Interrupts> {
    let interrupts = Interrupts::default();
    let heard = interrupts.clone();
    let hears_hangup = shield_from_terminal();
    let runtime = exec::runtime()?;
    let entered = runtime.enter();
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hangup = hears_hangup.then(|| signal(SignalKind::hangup())).transpose()?;
    let mut user = limits.is_some().then(|| signal(SignalKind::user_defined1())).transpose()?;
    let from_now = |after: Option<Duration>| after.map(|after| Instant::now() + after);
    let after_experiment = from_now(limits.as_ref().and_then(|limits| limits.after_experiment));
    let at_once = from_now(limits.as_ref().and_then(|limits| limits.at_once));
    drop(entered);
    let hear = async move {
        let asks = |interrupt| {
            if let Some(limits) = &limits {
                limits.asked.store(true, Ordering::Relaxed);
            }
            heard.ask(interrupt);
        };
        let (mut finishes, mut leaves) = (after_experiment, at_once);
        loop {
            tokio::select! {
                Some(()) = int.recv() => heard.press(),
                Some(()) = term.recv() => match limits {
                    Some(_) => heard.ask(Interrupt::Detach),
                    None => heard.terminate(),
                },
                Some(()) = async { user.as_mut()?.recv().await }, if user.is_some() => asks(Interrupt::AfterExperiment),
                () = at(finishes), if finishes.is_some() => {
                    finishes = None;
                    asks(Interrupt::AfterExperiment);
                }
                () = at(leaves), if leaves.is_some() => {
                    leaves = None;
                    asks(Interrupt::Detach);
                }
                Some(()) = async { hangup.as_mut()?.recv().await }, if hangup.is_some() => heard.ask(Interrupt::Detach),
                else => return,
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(hear))?;
    Ok(interrupts)
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

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
    let root = real(repo.main_worktree());
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

pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
