//! Runs the baseline on every slot; their spread is the only noise estimate.

use std::fs;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use super::gpu_turn::await_gpus;
use super::trees::open_slot;
use crate::crash;
use crate::domain::{CommitId, ExperimentId, Run, RunRole};
use crate::fs::{read_regular, write_unsynced};
use crate::rules::{FileTerms, LOST_RETRIES, RunFound};
use crate::session::begin::Baseline;
use crate::session::error::SessionError;
use crate::session::jobs::RUN;
use crate::session::measuring::{FinishedRun, MeasuringRun, metric_file_stamp};
use crate::session::own_files::clear_folder;
use crate::session::shared::Shared;
use crate::session::supervise::Ending;
use crate::state::further_runs;

/// The stamp of the metric file before a repeat, in its folder: whoever picks the repeat up compares with that.
const METRIC_BEFORE: &str = "metric.before";

/// Runs the baseline in every slot but the first, beside the run that counts there. Picks up the repeats that an earlier
/// process started, and starts the others if that run is going on, as without it there is no load to share.
///
/// # Errors
///
/// That of the first repeat that failed, once all have ended.
pub(in crate::session) async fn repeat_in_other_slots(
    shared: &Shared<'_>,
    terms: &FileTerms,
    commit: &CommitId,
    is_going_on: bool,
) -> Result<Vec<Baseline>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let repeats = (1..slots).map(|slot| repeat(shared, terms, commit, slot, is_going_on));
    join_all(repeats).await.into_iter().filter_map(Result::transpose).collect()
}

/// Ends and removes all further runs of the baseline before its measurement begins: those found later belong to it.
pub(in crate::session) async fn forget_repeats(shared: &Shared<'_>) -> Result<(), SessionError> {
    shared.end_further_runs(ExperimentId::BASELINE).await?;
    let folder = shared.store().folder.run(ExperimentId::BASELINE);
    for further in further_runs(&folder) {
        let failed = |source| SessionError::Io { action: "remove", path: further.clone(), source };
        fs::remove_dir_all(&further).map_err(failed)?;
    }
    crash::point("baseline.repeats_forgotten");
    Ok(())
}

/// Runs the baseline in the first slot once more. Nothing of it is recorded.
pub(in crate::session) async fn check_baseline(
    shared: &Shared<'_>,
    terms: &FileTerms,
    commit: &CommitId,
) -> Result<(), SessionError> {
    let place =
        Place { shared, terms, commit, slot: 0, role: RunRole::Check, folder: folder(shared, RunRole::Check, 1)? };
    place.run(false).await.map(drop)
}

/// Runs the baseline in a slot, unless it ran there. `None` if it was interrupted, was lost too often, or may not start.
async fn repeat(
    shared: &Shared<'_>,
    terms: &FileTerms,
    commit: &CommitId,
    slot: u32,
    may_start: bool,
) -> Result<Option<Baseline>, SessionError> {
    // The first one has number 1.
    let folder = folder(shared, RunRole::Baseline, slot + 1)?;
    let place = Place { shared, terms, commit, slot, role: RunRole::Baseline, folder };
    for _ in 0..=LOST_RETRIES {
        shared.runs.await_files(&place.folder, RUN).await;
        let is_there = place.has_run();
        if !is_there && !may_start {
            return Ok(None);
        }
        match place.run(is_there).await? {
            Ending::Done(baseline) => return Ok(Some(baseline)),
            Ending::Lost => clear_folder(&place.folder)?,
            // The run that counts ends in the same way.
            Ending::Interrupted | Ending::Detached => return Ok(None),
        }
    }
    Ok(None)
}

/// The folder of a further run of the baseline.
fn folder(shared: &Shared<'_>, role: RunRole, number: u32) -> Result<PathBuf, SessionError> {
    Ok(shared.store().folder.create_run(ExperimentId::BASELINE)?.join(role.folder(number)))
}

/// A slot for a run of the baseline.
struct Place<'s, 'a> {
    shared: &'s Shared<'a>,
    terms: &'s FileTerms,
    commit: &'s CommitId,
    slot: u32,
    role: RunRole,
    folder: PathBuf,
}

impl Place<'_, '_> {
    /// Whether its run is active or finished, in a tree that still exists.
    fn has_run(&self) -> bool {
        let store = self.shared.store();
        let found = self.shared.runs.found(&self.folder, RUN);
        matches!(found, RunFound::Going | RunFound::Over) && store.repo.has_kept(&store.folder.slot(self.slot))
    }

    /// Starts the run, or picks it up, and measures it.
    async fn run(&self, is_there: bool) -> Result<Ending<Baseline>, SessionError> {
        let Place { shared, commit, slot, folder, .. } = self;
        if !is_there {
            shared.runs.stop(folder, RUN).await?;
            clear_folder(folder)?;
        }
        let mut workspace = open_slot(shared, self.terms, *slot, commit)?;
        let contract = shared.store().contract.clone();
        let metric_before = if is_there {
            workspace.recall_tree(folder);
            read_regular(&folder.join(METRIC_BEFORE)).ok().and_then(|stamp| String::from_utf8(stamp).ok())
        } else {
            await_gpus(shared, *slot).await?;
            let store = &mut *shared.store();
            workspace.switch_to(store, commit)?;
            workspace.make_ready(store, ExperimentId::BASELINE, commit)?;
            workspace.note_tree(commit, (!self.role.is_tied()).then_some(folder))?;
            let stamp = metric_file_stamp(&contract, workspace.root());
            note_metric_file(folder, stamp.as_deref())?;
            crash::point("baseline.repeat_prepared");
            stamp
        };
        let run = MeasuringRun {
            role: self.role,
            contract: &contract,
            command: &contract.command,
            id: ExperimentId::BASELINE,
            commit: contract.start.clone(),
            state: shared.store().folder.state(),
            folder: folder.clone(),
            root: workspace.root(),
            variables: &workspace.variables,
            metric_before,
        };
        let run = if is_there { run.attach(&shared.runs)? } else { run.start(&shared.runs)? };
        let finished = match run.measured(*shared, &contract).await?.done() {
            Ok(finished) => finished,
            Err(ending) => return Ok(ending),
        };
        crash::point("baseline.repeat_over");
        let run = finished.run(&contract.command);
        let FinishedRun { mut verdict, .. } = finished;
        let store = &mut *shared.store();
        let disturbance = workspace.compare_after_run(store, ExperimentId::BASELINE, commit, &mut verdict)?;
        let value = verdict.value.filter(|_| verdict.failure.is_none()).map(|number| number.value);
        let run = Run { value, commit: Some((*commit).clone()), ..run };
        let log = folder.join("run.log");
        Ok(Ending::Done(Baseline { slot: *slot, run, failure: verdict.failure, disturbance, log }))
    }
}

/// Notes the stamp of the metric file, if there is one. After a power cut no run is left to compare with it.
fn note_metric_file(folder: &Path, stamp: Option<&str>) -> Result<(), SessionError> {
    match stamp {
        Some(stamp) => Ok(write_unsynced(&folder.join(METRIC_BEFORE), stamp.as_bytes())?),
        None => Ok(()),
    }
}
