//! Further runs of the baseline at the start: on every slot, and as often as the contract asks. Their spread is the first estimate
//! of the noise.

use std::fs;
use std::path::Path;

use futures_util::future::join_all;

use crate::crash;
use crate::domain::{ExperimentId, RunRole};
use crate::machine::{Made, OpenRun};
use crate::rules::{FileTerms, LOST_RETRIES, Measurement};
use crate::session::attempt::{RunningChange, end_further_runs};
use crate::session::errors::SessionError;
use crate::session::files::clear_folder;
use crate::session::handlers::Workspace;
use crate::session::store::{Interrupt, RUN};
use crate::session::wait::{SessionContext, WaitEnd, await_gpus};
use crate::state::further_runs;

/// Runs the baseline in every slot but the first, up to the run of number `most`: each slot has every so many of them. Picks up
/// runs that an earlier process started. Starts others only while the first run is still running, so that all share the load.
/// Returns each run with its number.
///
/// # Errors
///
/// Returns the error of the first failed repeat, after all have ended.
pub(crate) async fn repeat_in_other_slots(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
    most: u32,
    is_going_on: bool,
) -> Result<Vec<(u32, Measurement)>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let repeats = (1..slots).map(|slot| repeat_in_slot(shared, terms, first, (slot, slots), most, is_going_on));
    Ok(join_all(repeats).await.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The further runs of a slot, one after the other, up to one that is interrupted.
async fn repeat_in_slot(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
    (slot, slots): (u32, u32),
    most: u32,
    is_going_on: bool,
) -> Result<Vec<(u32, Measurement)>, SessionError> {
    let mut measured = Vec::new();
    for number in (slot + 1..=most).step_by(slots as usize) {
        let may_start = is_going_on || number > slots;
        match repeat(shared, terms, first, (slot, number), may_start).await? {
            Some(run) => measured.push((number, run)),
            None => break,
        }
    }
    Ok(measured)
}

/// The further runs of the first slot, after the first run: *in place* all of them, in the user's tree.
pub(crate) async fn repeat_in_first_slot(
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
    first: &Made,
    most: u32,
) -> Result<WaitEnd<Vec<(u32, Measurement)>>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let mut measured = Vec::new();
    for number in (1 + slots..=most).step_by(slots as usize) {
        let mut attempt = further(shared, first, number);
        let folder = attempt.run_folder(&shared.store())?;
        loop {
            shared.runs.await_files(&folder, RUN).await;
            let is_there = attempt.run.starts > 0 && shared.runs.found(&folder, RUN).is_there();
            if !is_there {
                match shared.asked()? {
                    Interrupt::None | Interrupt::AfterExperiment => {}
                    Interrupt::Detach => return Ok(WaitEnd::Detached),
                    Interrupt::Now => return Ok(WaitEnd::Interrupted),
                }
                shared.runs.stop(&folder, RUN).await?;
                let store = &mut *shared.store();
                workspace.check_out(store, &attempt.made)?;
                attempt.prepare_run(workspace, store)?;
                crash::point("baseline.repeat_prepared");
            }
            match attempt.measured(workspace, shared, None).await? {
                WaitEnd::Done(run) => break measured.push((number, *run)),
                // Repeats for other reasons do not count.
                WaitEnd::Lost if attempt.run.tries() <= LOST_RETRIES => {}
                WaitEnd::Lost => break measured.push((number, Measurement::lost(attempt.run.tries()))),
                WaitEnd::Interrupted => return Ok(WaitEnd::Interrupted),
                WaitEnd::Detached => return Ok(WaitEnd::Detached),
            }
        }
        crash::point("baseline.repeat_over");
    }
    Ok(WaitEnd::Done(measured))
}

/// The baseline's further run of this number, as the journal has it.
fn further(shared: &SessionContext<'_>, first: &Made, number: u32) -> RunningChange {
    let ready = OpenRun::new(RunRole::Baseline, number);
    let run = shared.store().journal.find(first.head.id).and_then(|found| found.started(&ready).cloned());
    RunningChange::for_extra_run(first.clone(), run.unwrap_or(ready))
}

/// Ends and removes all further runs of the baseline before its measurement begins: those found later belong to it.
pub(crate) async fn forget_repeats(shared: &SessionContext<'_>) -> Result<(), SessionError> {
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
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
) -> Result<(), SessionError> {
    let mut check = RunningChange::for_extra_run(first.clone(), OpenRun::new(RunRole::Check, 1));
    run_in(shared, terms, 0, &mut check, false).await.map(drop)
}

/// Makes a run of the baseline in a slot, unless it was made. `None` if it was interrupted, was lost too often, or may not
/// start.
async fn repeat(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
    (slot, number): (u32, u32),
    may_start: bool,
) -> Result<Option<Measurement>, SessionError> {
    let mut attempt = further(shared, first, number);
    let folder = attempt.run_folder(&shared.store())?;
    while attempt.run.tries() <= LOST_RETRIES {
        shared.runs.await_files(&folder, RUN).await;
        let is_there = is_there(shared, slot, &attempt, &folder);
        if !is_there && !may_start {
            return Ok(None);
        }
        match run_in(shared, terms, slot, &mut attempt, is_there).await? {
            WaitEnd::Done(measured) => return Ok(Some(*measured)),
            WaitEnd::Lost => clear_folder(&folder)?,
            // The run that counts ends in the same way.
            WaitEnd::Interrupted | WaitEnd::Detached => return Ok(None),
        }
    }
    Ok(None)
}

/// Returns whether a repeat that the journal knows is active or finished, in a tree that still exists.
fn is_there(shared: &SessionContext<'_>, slot: u32, attempt: &RunningChange, folder: &Path) -> bool {
    let store = shared.store();
    let found = shared.runs.found(folder, RUN);
    attempt.run.starts > 0 && found.is_there() && store.repo.has_kept(&store.folder.slot(slot))
}

/// Picks up a further run of the baseline in a slot, or starts it, and measures it.
async fn run_in(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    slot: u32,
    attempt: &mut RunningChange,
    is_there: bool,
) -> Result<WaitEnd<Box<Measurement>>, SessionError> {
    let (folder, commit) = (attempt.run_folder(&shared.store())?, attempt.made.commit.clone());
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
