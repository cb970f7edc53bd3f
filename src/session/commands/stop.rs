//! `ar stop`: asking whoever has a session to stop, from another process.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::domain::{Clock, DEFAULT_GRACE, ExperimentId, Phase, StopWhen, Tag, experiment_name};
use crate::exec::{ExecError, Executor};
use crate::fs::is_disk_full;
use crate::git::{Repo, WAY_BACK};
use crate::rules::{Activity, Seen, activity};
use crate::session::errors::SessionError;
use crate::session::files::{read_history, refuse_elsewhere};
use crate::session::store::{RUN, is_reported, remove_reports};
use crate::state::{EventLog, Journal, Owner, SessionFolder, StateError, Stopping, further_runs};

pub use crate::state::StoppingBeside;

/// Time for an active loop to answer a request. It polls each second, but not while git is busy, whose filters and signing
/// programs have [`WAY_BACK`] before they are terminated.
const HEARING: Duration = WAY_BACK.saturating_add(Duration::from_secs(10));

/// Time for the loop to end, beyond the grace of its run.
const ENDING: Duration = Duration::from_secs(30);

/// Poll interval while waiting for the loop.
const LOOK: Duration = Duration::from_millis(20);

/// The outcome of a request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// The session is idle, and nothing runs.
    NobodyThere,
    /// No process is active, but the run of this experiment is still running.
    RunsAlone(ExperimentId),
    /// No process is active, but a run of this experiment that the journal does not list is still running.
    RunsUnknown(ExperimentId),
    /// No process is active, and this experiment is open somewhere in between.
    Left(ExperimentId),
    /// It is heard; the loop stops after these experiments, or at once when none is open.
    After(Vec<ExperimentId>),
    /// It is heard by a loop with slots.
    Beside(StoppingBeside),
    /// The active process has ended. A change whose fresh runs are not over stays open.
    Ended(Option<ExperimentId>),
}

/// Asks whoever has the session to stop, and waits until that is heard, or with [`StopWhen::Now`] done.
///
/// # Errors
///
/// [`SessionError::NotStopped`] when it is not heard or done in time; the request stays then. [`SessionError::NotAsked`]
/// when the disk has no room for the request.
pub fn ask_to_stop(repo: &Repo, tag: &Tag, when: StopWhen, clock: Clock) -> Result<Stopped, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let owner = || folder.owner(repo.git_dir());
    let Some(asked) = owner()? else {
        refuse_elsewhere(&folder, false)?;
        let journal = journal(&folder);
        let open = || journal.iter().flat_map(Journal::steps).filter(|(phase, _)| *phase != Phase::Waiting);
        let alone = open().find(|(phase, open)| runs_alone(&folder, *phase, open.id));
        // Records that cannot be read name no next one.
        let next = read_history(repo, tag).ok().map(|history| history.next_id());
        return Ok(match (alone, open().next(), next) {
            (Some((_, open)), ..) => Stopped::RunsAlone(open.id),
            (None, Some((_, open)), _) => Stopped::Left(open.id),
            (None, None, Some(next)) if Executor::of_any().is_active(&folder.run(next), RUN) => {
                Stopped::RunsUnknown(next)
            }
            _ => Stopped::NobodyThere,
        });
    };
    folder.ask_to_stop(when, clock.now(), &asked).map_err(|error| match asked.process() {
        Some(process) if is_disk_full(&error) => SessionError::NotAsked { process, when, source: error },
        _ => error.into(),
    })?;
    let contract = folder.contract().ok().flatten();
    let grace = contract.map_or(DEFAULT_GRACE, |contract| contract.grace);
    let begun = Instant::now();
    loop {
        let said = match owner()? {
            Some(Owner { said, .. }) if said == asked.said => said,
            // Somebody else has it since.
            Some(_) => return Ok(Stopped::Ended(None)),
            None => {
                folder.take_stop_request();
                let journal = journal(&folder);
                let mut open = journal.iter().flat_map(Journal::steps);
                let confirming = open.find(|(phase, _)| *phase == Phase::Confirming);
                return Ok(Stopped::Ended(confirming.map(|(_, open)| open.id)));
            }
        };
        let heard = folder.stop_request().is_none();
        if heard && when == StopWhen::Experiment {
            return Ok(match journal(&folder).as_ref().map(Journal::stopping) {
                Some(Stopping::Beside(open)) => Stopped::Beside(open),
                Some(Stopping::After(open)) => Stopped::After(open),
                None => Stopped::After(Vec::new()),
            });
        }
        let patience = if heard { HEARING + grace + ENDING } else { HEARING };
        if begun.elapsed() > patience {
            return Err(SessionError::NotStopped { tag: tag.to_string(), holder: said });
        }
        thread::sleep(LOOK);
    }
}

/// Notes in the journal of an idle session that the user stopped it, so that guardians neither restart it nor nudge its
/// driver. Forgets the session's unsolved problem, since the user has seen it. Leaves a missing or unparsable journal alone.
///
/// # Errors
///
/// It cannot be written.
pub fn note_stopped(repo: &Repo, tag: &Tag, clock: Clock) -> Result<(), SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let is_open = |journal: &Journal| journal.is_to_be_ended() || is_reported(&folder);
    let unfinished = || journal(&folder).filter(is_open);
    let Some(found) = unfinished() else { return Ok(()) };
    let _lock = match folder.lock(repo.git_dir(), found.home().has_user()) {
        Ok(lock) => lock,
        // The process that holds it now started later.
        Err(StateError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    refuse_elsewhere(&folder, false)?;
    let Some(mut journal) = unfinished() else { return Ok(()) };
    journal.count_absence(clock.now());
    if let Some(reason) = journal.end_by_user() {
        EventLog::new(&folder.logs()).stopped_by_user(clock.now(), &reason)?;
    }
    journal.write(&folder.state(), clock.now())?;
    remove_reports(&folder);
    Ok(())
}

/// Ends the runs of an experiment at once and does nothing else: it needs no journal, and no room on the disk.
///
/// # Errors
///
/// It goes on where this process cannot signal it.
pub async fn end_run_only(main_worktree: &Path, tag: &Tag, id: ExperimentId) -> Result<(), SessionError> {
    let folder = SessionFolder::new(main_worktree, tag).run(id);
    let runs = Executor::of_any();
    for folder in further_runs(&folder).chain([folder.clone()]) {
        runs.end_left_over(&folder, RUN).await;
        if !runs.is_gone_within(&folder, RUN, HEARING).await {
            let command = format!("the run of {}", experiment_name(id));
            return Err(ExecError::OtherMachine { command, host: String::new() }.into());
        }
    }
    Ok(())
}

/// The journal, as far as it can be read.
fn journal(folder: &SessionFolder) -> Option<Journal> {
    folder.journal().ok().flatten()
}

fn runs_alone(folder: &SessionFolder, phase: Phase, id: ExperimentId) -> bool {
    let seen =
        Seen { phase: Some(phase), owned: false, job: Executor::of_any().found(&folder.run(id), RUN), outage: false };
    activity(seen) == Activity::RunningAlone
}
