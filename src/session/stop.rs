//! `ar stop`: asking whoever has a session to stop, from another process.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::SessionError;
use super::escalating::{ESCALATION, remove_report};
use super::jobs::RUN;
use super::reading::read_history;
use crate::domain::{Clock, DEFAULT_GRACE, ExperimentId, Phase, StopReason, StopWhen, Tag, experiment_name};
use crate::exec::{self, ExecError, Executor};
use crate::fs::is_disk_full;
use crate::git::{Repo, WAY_BACK};
use crate::rules::{Activity, Seen, activity};
use crate::state::{Journal, OpenExperiment, Owner, SessionFolder, StateError, Status};

/// How long an active loop has to hear a request. It looks each second, but not while it is busy with git, whose filters and
/// signing programs have [`WAY_BACK`] before they are ended.
const HEARING: Duration = WAY_BACK.saturating_add(Duration::from_secs(10));

/// How long whoever is at work has to end, beside the grace that its run has.
const ENDING: Duration = Duration::from_secs(30);

/// How often it is looked meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// What became of a request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// Nobody is at work, and nothing runs.
    NobodyThere,
    /// Nobody is at work, and the run of this experiment goes on by itself.
    RunsAlone(ExperimentId),
    /// Nobody is at work, and a run of this experiment goes on that no journal knows any more.
    RunsUnknown(ExperimentId),
    /// No process is active, and this experiment is open somewhere in between.
    Left(ExperimentId),
    /// It is heard; the loop stops after these experiments, or at once when none is open.
    After(Vec<ExperimentId>),
    /// Whoever was at work has ended.
    Ended,
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
        let journal = journal(&folder);
        let open = || journal.iter().flat_map(Journal::steps).filter(|(phase, _)| *phase != Phase::Waiting);
        let alone = open().find(|(phase, open)| runs_alone(&folder, *phase, open.id));
        // Records that cannot be read name no next one.
        let next = read_history(repo, tag).ok().map(|history| history.next_id());
        return Ok(match (alone, open().next(), next) {
            (Some((_, open)), ..) => Stopped::RunsAlone(open.id),
            (None, Some((_, open)), _) => Stopped::Left(open.id),
            (None, None, Some(next)) if exec::is_going_on(&folder.run(next), RUN) => Stopped::RunsUnknown(next),
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
            Some(_) => return Ok(Stopped::Ended),
            None => {
                folder.take_stop_request();
                return Ok(Stopped::Ended);
            }
        };
        let heard = folder.stop_request().is_none();
        if heard && when == StopWhen::Experiment {
            return Ok(Stopped::After(journal(&folder).map(|journal| last_experiments(&journal)).unwrap_or_default()));
        }
        let patience = if heard { HEARING + grace + ENDING } else { HEARING };
        if begun.elapsed() > patience {
            return Err(SessionError::NotStopped { tag: tag.to_string(), holder: said });
        }
        thread::sleep(LOOK);
    }
}

/// Notes in the journal of a session that nobody holds that a person stopped it: guardians neither restart it nor nudge
/// its driver then. What it could not solve is forgotten, since that person has seen it. A journal that is missing or cannot
/// be parsed is left as it is.
///
/// # Errors
///
/// It cannot be written.
pub fn note_stopped(repo: &Repo, tag: &Tag, clock: Clock) -> Result<(), SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let is_reported = || folder.state().join(ESCALATION).exists();
    let is_open = |journal: &Journal| {
        !journal.is_stopped() || journal.was_terminated() || journal.escalation.is_some() || is_reported()
    };
    let unfinished = || journal(&folder).filter(is_open);
    let Some(found) = unfinished() else { return Ok(()) };
    let _lock = match folder.lock(repo.git_dir(), found.layout.is_none()) {
        Ok(lock) => lock,
        // Whoever has it now was begun later.
        Err(StateError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let Some(mut journal) = unfinished() else { return Ok(()) };
    if !journal.is_stopped() || journal.was_terminated() {
        journal.status = Status::Stopped;
        journal.ended = Some(StopReason::Interrupted { requested: true }.in_short());
    }
    journal.escalation = None;
    journal.write(&folder.state(), clock.now())?;
    remove_report(&folder);
    Ok(())
}

/// Ends the run of an experiment at once and does nothing else: it needs no journal, and no room on the disk.
///
/// # Errors
///
/// It goes on where this process cannot signal it.
pub async fn end_run_only(main_worktree: &Path, tag: &Tag, id: ExperimentId) -> Result<(), SessionError> {
    let folder = SessionFolder::new(main_worktree, tag).run(id);
    exec::end_left_over(&folder, RUN).await;
    let begun = Instant::now();
    while exec::is_going_on(&folder, RUN) {
        if begun.elapsed() > HEARING {
            let command = format!("the run of {}", experiment_name(id));
            return Err(ExecError::OtherMachine { command, host: String::new() }.into());
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// The journal, as far as it can be read.
fn journal(folder: &SessionFolder) -> Option<Journal> {
    Journal::read(&folder.state()).ok().flatten()
}

/// The experiments after which the loop stops: a baseline that a change waits for is measured for that change's sake.
fn last_experiments(journal: &Journal) -> Vec<ExperimentId> {
    let is_at_work = |phase| !matches!(phase, Phase::Waiting | Phase::Committing);
    let is_own = |phase, open: &OpenExperiment| phase != Phase::Checking && open.trial.is_none();
    let open = || journal.steps().filter(|(phase, open)| is_own(*phase, open));
    match (&journal.aside, &journal.layout) {
        (Some(_), _) => vec![ExperimentId::BASELINE.next()],
        (None, None) => open().map(|(_, open)| open.id).collect(),
        // What waits for a slot is put away.
        (None, Some(_)) => open().filter(|(phase, _)| is_at_work(*phase)).map(|(_, open)| open.id).collect(),
    }
}

fn runs_alone(folder: &SessionFolder, phase: Phase, id: ExperimentId) -> bool {
    let seen =
        Seen { phase: Some(phase), owned: false, job: Executor::local().found(&folder.run(id), RUN), outage: false };
    activity(seen) == Activity::RunningAlone
}
