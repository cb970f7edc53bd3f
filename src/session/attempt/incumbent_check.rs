//! The best experiment, run once again when change after change crashes: the cause may be none of theirs, such as data that
//! is gone.

use std::path::PathBuf;

use super::lifecycle::Attempt;
use crate::domain::{
    Beside, ExperimentId, Failure, FailureClass, Notice, Number, Phase, Record, experiment_name, legacy,
};
use crate::rules::{CRASHES_TO_CHECK, CameBack, Measured, came_back, describe_failure, spread};
use crate::session::errors::SessionError;
use crate::session::store::Store;
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared, gate_of_run};
use crate::state::OpenExperiment;

impl Shared<'_> {
    /// After `crashes` crashes in a row, runs the best experiment once again, in a slot if there are several, and reports
    /// what it measured. Records nothing. Runs nothing if there is no time, or if the best experiment had nothing to measure
    /// yet.
    ///
    /// # Errors
    ///
    /// [`SessionError::BestLost`] if no value counts.
    pub(crate) async fn check_incumbent(
        &self,
        workspace: &mut Workspace,
        slot: Option<u32>,
        crashes: u32,
    ) -> Result<Ending<()>, SessionError> {
        let best = self.store().history.incumbent().cloned();
        let recorded = best.and_then(|best| {
            let (seed, number) = best.to_repeat();
            number.map(|number| (best, seed, number))
        });
        let Some((best, seed, number)) = recorded else { return Ok(Ending::Done(())) };
        if self.times.no_time_for_run(&self.store()).is_some() {
            return Ok(Ending::Done(()));
        }
        gate_of_run(self, &best.commit, !workspace.home.is_one_of_many()).await?;
        let mut check = begin_check(&best, seed, slot, workspace, &mut self.store())?;
        let measured = match check.measured(workspace, self, None).await? {
            Ending::Detached => return Ok(Ending::Detached),
            ended => ended.done(),
        };
        workspace.check_out(&mut self.store(), &check.open)?;
        self.store().journal.give_up(check.open.id);
        workspace.enter_idle(&mut self.store(), check.open.id, None)?;
        self.publish()?;
        match measured {
            Ok(measured) => {
                let log = check.run_folder(&self.store())?.join("run.log");
                self.compare_check((&best, &number), &measured, crashes, log).map(Ending::Done)
            }
            Err(ending) => Ok(ending),
        }
    }

    /// Tells what the best experiment measured this time, with what it measured `then`.
    fn compare_check(
        &self,
        (best, then): (&Record, &Number),
        measured: &Measured,
        crashes: u32,
        log: PathBuf,
    ) -> Result<(), SessionError> {
        let (id, name) = (best.id, &best.metric.name);
        let now = match (&measured.value, &measured.failure) {
            (Some(now), None) => now,
            (_, failure) => {
                let unknown = Failure { class: FailureClass::NoMetric, excerpt: String::new() };
                let why = why_lost(failure.as_ref().unwrap_or(&unknown), name, measured);
                self.store().excuse_crashes(id)?;
                return Err(SessionError::BestLost { id, why, crashes, log });
            }
        };
        let spread = spread(self.store().history.records(), &[]);
        let same = if now.value == then.value { String::new() } else { format!(", recorded {then}") };
        self.emit(match came_back(best.metric.direction, then, now, spread.as_ref()) {
            CameBack::No { distance, spread: Some(spread) } => {
                Notice::BestDiffers { id, now: format!("{name} {now}"), then: then.to_string(), distance, spread }
            }
            // Without repeats, the noise between runs of the same code is unknown.
            _ => Notice::BestRuns { id, now: format!("{name} {now}{same}"), excused: self.store().is_excused(id) },
        })
    }
}

impl Store {
    /// Notes on the newest crashes, whose cause is not known to be their own, that the best experiment failed as well: they
    /// may be tried again.
    fn excuse_crashes(&mut self, best: ExperimentId) -> Result<(), SessionError> {
        let newest: Vec<&Record> = self.history.crashed_runs().take(CRASHES_TO_CHECK as usize).collect();
        let excused = newest.first().filter(|it| it.outside_cause.is_none()).map(|it| it.id);
        let crashes: Vec<Record> = newest.into_iter().filter(|it| it.outside_cause.is_none()).cloned().collect();
        for record in crashes {
            self.amend_record(&Record { outside_cause: Some(excuse(best)), ..record })?;
        }
        self.journal.excused = excused.or(self.journal.excused);
        Ok(())
    }

    /// Returns whether the last of these crashes was excused.
    fn is_excused(&self, best: ExperimentId) -> bool {
        let Some(last) = self.history.crashed_runs().next() else { return false };
        let said = || last.outside_cause.as_ref().is_some_and(|cause| legacy::says_excused(cause, best));
        self.journal.excused.map_or_else(said, |excused| excused == last.id)
    }
}

/// Returns the reason why a crash may not be the fault of its change.
fn excuse(best: ExperimentId) -> String {
    format!("{}, which ran before, failed as well", experiment_name(best))
}

/// Enters the check in the journal, and makes its run ready.
fn begin_check(
    best: &Record,
    seed: Option<u64>,
    slot: Option<u32>,
    workspace: &mut Workspace,
    store: &mut Store,
) -> Result<Attempt, SessionError> {
    let open = OpenExperiment::new(store.allocate(), best.commit.clone(), store.now());
    let open = OpenExperiment {
        commit: Some(best.commit.clone()),
        description: format!("{} once again, as change after change crashed", experiment_name(best.id)),
        beside: Beside { slot, ..Beside::default() },
        ..open
    };
    let mut check = Attempt::at(open, Phase::Checking);
    check.run.seed = seed;
    check.enter(store, Phase::Checking)?;
    workspace.check_out(store, &check.open)?;
    check.prepare_run(workspace, store)?;
    Ok(check)
}

/// Explains why the best experiment has no value any more, with the line of its log that shows it.
fn why_lost(failure: &Failure, metric: &str, measured: &Measured) -> String {
    if matches!(failure.class, FailureClass::Protected | FailureClass::Changed) {
        return failure.excerpt.replace('\n', ", ");
    }
    let mut why = describe_failure(failure, metric, &measured.ended, measured.run.as_ref());
    if failure.class.is_in_log()
        && let Some(line) = failure.excerpt.lines().rev().find(|line| !line.trim().is_empty())
    {
        why += &format!(": {}", line.trim());
    }
    if let Some(cause) = &measured.outside_cause {
        why += &format!("; {cause}");
    }
    why
}
