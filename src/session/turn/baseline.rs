//! Runs the baseline on every slot; their spread is the only noise estimate.

use std::fs;
use std::path::Path;

use futures_util::future::join_all;

use crate::crash;
use crate::domain::{ExperimentId, RunRole};
use crate::rules::{FileTerms, LOST_RETRIES, Measured, RunFound};
use crate::session::attempt::{Attempt, end_further_runs};
use crate::session::errors::SessionError;
use crate::session::files::clear_folder;
use crate::session::store::{RUN, commit_of};
use crate::session::wait::{Ending, Shared, await_gpus};
use crate::state::{OpenExperiment, OpenRun, further_runs};

/// Runs the baseline in every slot but the first, whose run counts. Picks up repeats that an earlier process started.
/// Starts others only while the first run is still running, so that all share the load. Returns each repeat with its slot.
///
/// # Errors
///
/// Returns the error of the first failed repeat, after all have ended.
pub(crate) async fn repeat_in_other_slots(
    shared: &Shared<'_>,
    terms: &FileTerms,
    first: &OpenExperiment,
    is_going_on: bool,
) -> Result<Vec<(u32, Measured)>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let repeats = (1..slots).map(|slot| repeat(shared, terms, first, slot, is_going_on));
    join_all(repeats).await.into_iter().filter_map(Result::transpose).collect()
}

/// Ends and removes all further runs of the baseline before its measurement begins: those found later belong to it.
pub(crate) async fn forget_repeats(shared: &Shared<'_>) -> Result<(), SessionError> {
    end_further_runs(shared, ExperimentId::BASELINE).await?;
    let folder = shared.store().folder.run(ExperimentId::BASELINE);
    for further in further_runs(&folder) {
        let failed = |source| SessionError::Io { action: "remove", path: further.clone(), source };
        fs::remove_dir_all(&further).map_err(failed)?;
    }
    shared.store().journal.forget_runs(ExperimentId::BASELINE, |run| !run.is_first());
    crash::point("baseline.repeats_forgotten");
    Ok(())
}

/// Runs the baseline in the first slot once more. Nothing of it is recorded.
pub(crate) async fn check_baseline(
    shared: &Shared<'_>,
    terms: &FileTerms,
    first: &OpenExperiment,
) -> Result<(), SessionError> {
    let mut check = Attempt::further(first, OpenRun::new(RunRole::Check, 1));
    run_in(shared, terms, 0, &mut check, false).await.map(drop)
}

/// Runs the baseline in a slot, unless it ran there. `None` if it was interrupted, was lost too often, or may not start.
async fn repeat(
    shared: &Shared<'_>,
    terms: &FileTerms,
    first: &OpenExperiment,
    slot: u32,
    may_start: bool,
) -> Result<Option<(u32, Measured)>, SessionError> {
    // The first one has number 1.
    let ready = OpenRun::new(RunRole::Baseline, slot + 1);
    let run = shared.store().journal.find(first.id).and_then(|found| found.started(&ready).cloned());
    let mut attempt = Attempt::further(first, run.unwrap_or(ready));
    let folder = attempt.run_folder(&shared.store())?;
    for _ in 0..=LOST_RETRIES {
        shared.runs.await_files(&folder, RUN).await;
        let is_there = is_there(shared, slot, &attempt, &folder);
        if !is_there && !may_start {
            return Ok(None);
        }
        match run_in(shared, terms, slot, &mut attempt, is_there).await? {
            Ending::Done(measured) => return Ok(Some((slot, *measured))),
            Ending::Lost => clear_folder(&folder)?,
            // The run that counts ends in the same way.
            Ending::Interrupted | Ending::Detached => return Ok(None),
        }
    }
    Ok(None)
}

/// Returns whether a repeat that the journal knows is active or finished, in a tree that still exists.
fn is_there(shared: &Shared<'_>, slot: u32, attempt: &Attempt, folder: &Path) -> bool {
    let store = shared.store();
    let found = shared.runs.found(folder, RUN);
    attempt.run.starts > 0
        && matches!(found, RunFound::Going | RunFound::Over)
        && store.repo.has_kept(&store.folder.slot(slot))
}

/// Picks up a further run of the baseline in a slot, or starts it, and measures it.
async fn run_in(
    shared: &Shared<'_>,
    terms: &FileTerms,
    slot: u32,
    attempt: &mut Attempt,
    is_there: bool,
) -> Result<Ending<Box<Measured>>, SessionError> {
    let (folder, commit) = (attempt.run_folder(&shared.store())?, commit_of(&attempt.open)?);
    if !is_there {
        shared.runs.stop(&folder, RUN).await?;
        // Once the tree exists again, nothing tells that it was missing.
        clear_folder(&folder)?;
    }
    let mut workspace = shared.slots.open(&mut shared.store(), terms, slot, &commit)?;
    if !is_there {
        await_gpus(shared, slot).await?;
        let store = &mut *shared.store();
        workspace.switch_to(store, &commit)?;
        attempt.prepare_run(&workspace, store)?;
        crash::point("baseline.repeat_prepared");
    }
    let ended = attempt.measured(&mut workspace, shared, None).await?;
    crash::point("baseline.repeat_over");
    Ok(ended)
}
