//! Runs the baseline on every slot; their spread is the only noise estimate.

use futures_util::future::try_join_all;

use super::gpu_turn::await_gpus;
use super::trees::open_slot;
use crate::domain::{CommitId, ExperimentId, Run};
use crate::exec::Job;
use crate::rules::{FileTerms, is_empty_baseline};
use crate::session::begin::Baseline;
use crate::session::error::SessionError;
use crate::session::follow::LogFollower;
use crate::session::jobs::{RUN, run_variables};
use crate::session::own_files::remove_file;
use crate::session::running::{judge_run, metric_file_of, metric_file_stamp, run_of, silence_of_runs};
use crate::session::shared::Shared;
use crate::session::supervise::Ending;

/// Runs the baseline in every slot but the first, beside the run that counts there. None of these is picked up after a
/// kill: they are run again, as long as that run goes on.
pub(in crate::session) async fn run_in_other_slots(
    shared: &Shared<'_>,
    terms: &FileTerms,
    commit: &CommitId,
) -> Result<Vec<Baseline>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let runs = (1..slots).map(|slot| run_in_slot(shared, terms, commit, slot));
    Ok(try_join_all(runs).await?.into_iter().flatten().collect())
}

/// Runs the baseline in a slot, without counting it. `None` where it was ended on request.
pub(in crate::session) async fn run_in_slot(
    shared: &Shared<'_>,
    terms: &FileTerms,
    commit: &CommitId,
    slot: u32,
) -> Result<Option<Baseline>, SessionError> {
    let folder = shared.store().run_folder(ExperimentId::BASELINE)?.join(format!("slot-{slot}"));
    let failed = |source| SessionError::Io { action: "make", path: folder.clone(), source };
    std::fs::create_dir_all(&folder).map_err(failed)?;
    shared.runs.stop(&folder, RUN).await?;
    let mut workspace = open_slot(shared, terms, slot, commit)?;
    await_gpus(shared, slot).await?;
    let log = folder.join("run.log");
    remove_file(&log)?;
    let contract = {
        let store = &mut *shared.store();
        workspace.switch_to(store, commit)?;
        workspace.make_ready(store, ExperimentId::BASELINE, commit)?;
        workspace.note_tree(commit, None)?;
        store.contract.clone()
    };
    let before = metric_file_stamp(&contract.metric.source, workspace.root());
    let mut follower = LogFollower::new(log.clone(), &contract)?;
    let variables = run_variables(
        &contract.command,
        &contract.tag,
        ExperimentId::BASELINE,
        &contract.start,
        &shared.store().folder.state(),
        &folder,
    );
    let mut job = shared.runs.start(&Job {
        name: RUN.into(),
        command: contract.command.clone(),
        cwd: workspace.root().to_owned(),
        env: workspace.with_variables(variables),
        folder,
        log: log.clone(),
        stdin: None,
        timeout: contract.timeout,
        silence: silence_of_runs(&contract),
        grace: contract.grace,
        log_limit: None,
        tied: true,
        watched: metric_file_of(&contract),
    })?;
    follower.hold(job.take_log());
    let ended = shared.wait_for(&mut job, None, || follower.look().map(drop)).await?;
    // What was asked for ends the run that counts, too.
    let Ending::Done(exit) = ended else { return Ok(None) };
    let exit = exit?;
    follower.follow_name();
    while !follower.look()? {}
    let (_, mut verdict) = judge_run(follower, &contract, workspace.root(), before.as_deref(), &exit);
    verdict.failure.take_if(|failure| is_empty_baseline(&contract, failure.class, exit.exit));
    let disturbance = workspace.compare_after_run(&mut shared.store(), ExperimentId::BASELINE, commit, &mut verdict)?;
    let value = verdict.value.filter(|_| verdict.failure.is_none()).map(|number| number.value);
    let run = Run { value, commit: Some(commit.clone()), ..run_of(&contract.command, &exit) };
    Ok(Some(Baseline { slot, run, failure: verdict.failure, disturbance, log }))
}
