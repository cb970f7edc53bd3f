//! The best experiment, run once again: when change after change crashes, as the cause may be none of theirs, such as data
//! that is gone; and on the schedule of `--recheck`, as the machine may drift.

use std::path::PathBuf;

use super::RunningChange;
use crate::domain::{
    Concurrency, ExperimentId, Failure, FailureClass, GpuOther, Notice, Number, Record, RunRole, experiment_name,
};
use crate::machine::{Attempt, AttemptHead, Made, OpenRun};
use crate::rules::{
    CRASHES_TO_CHECK, CameBack, CheckReason, DriftCheck, Measurement, Shift, came_back, describe_failure, repeat_limit,
    session_noise,
};
use crate::session::errors::SessionError;
use crate::session::handlers::Workspace;
use crate::session::store::Store;
use crate::session::wait::{SessionContext, WaitEnd, gate_of_run};

/// The result of a rerun of the best experiment.
struct RerunResult {
    best: Record,
    /// The number that it had.
    then: Number,
    /// The number that it has now, or why it has none.
    now: Result<Number, String>,
    /// The number that does not count, and who was on the GPU beside it.
    beside_others: Option<String>,
    /// The conclusion from all reruns.
    shift: Shift,
    log: PathBuf,
}

impl SessionContext<'_> {
    /// Runs the best experiment once again, in a slot if there are several, and reports what it measured. Records nothing, but
    /// notes in the journal that it was made. Runs nothing if there is no time, or if the best experiment had nothing to
    /// measure yet.
    ///
    /// # Errors
    ///
    /// [`SessionError::BestLost`] if no value counts after crashes. On schedule that is a warning: other experiments run, and
    /// if they crash as well, their crashes ask again.
    pub(crate) async fn check_incumbent(
        &self,
        workspace: &mut Workspace,
        slot: Option<u32>,
        reason: CheckReason,
    ) -> Result<WaitEnd<()>, SessionError> {
        let best = self.store().history.incumbent().cloned();
        let recorded = best.and_then(|best| {
            let (seed, number) = best.to_repeat();
            number.map(|number| (best, seed, number))
        });
        let Some((best, seed, then)) = recorded else { return Ok(WaitEnd::Done(())) };
        if self.times.no_time_for_run(&self.store()).is_some() {
            return Ok(WaitEnd::Done(()));
        }
        let after = self.store().history.next_sequence();
        let why = match reason {
            CheckReason::Crashes(_) => "change after change crashed",
            CheckReason::Schedule => "--recheck asks for it",
        };
        let rerun = RunAgain { role: RunRole::Check, record: &best, seed, slot, why };
        let noted =
            |store: &mut Store, measured: Measurement, log| store.note_check(best.clone(), then, after, &measured, log);
        match self.run_again(workspace, rerun, noted).await?.done() {
            Ok(checked) => self.tell_check(checked, reason).map(WaitEnd::Done),
            Err(ending) => Ok(ending),
        }
    }

    /// Runs a recorded experiment once again, and brings the working tree back. Records nothing: `note` gets what it measured,
    /// and its log, before the journal closes the attempt.
    pub(crate) async fn run_again<T>(
        &self,
        workspace: &mut Workspace,
        rerun: RunAgain<'_>,
        note: impl FnOnce(&mut Store, Measurement, PathBuf) -> T,
    ) -> Result<WaitEnd<T>, SessionError> {
        gate_of_run(self, &rerun.record.commit, !workspace.owner.is_one_of_many()).await?;
        let mut run = rerun.begin(workspace, &mut self.store())?;
        let measured = match run.measured(workspace, self, None).await? {
            WaitEnd::Detached => return Ok(WaitEnd::Detached),
            ended => ended.done(),
        };
        let noted = match measured {
            Ok(measured) => {
                let log = run.run_folder(&self.store())?.join("run.log");
                Ok(note(&mut self.store(), *measured, log))
            }
            Err(ending) => Err(ending),
        };
        workspace.check_out(&mut self.store(), &to_base(&run.made))?;
        self.store().journal.give_up(run.id());
        workspace.enter_idle(&mut self.store(), run.id(), None)?;
        self.publish()?;
        Ok(noted.map_or_else(|ending| ending, WaitEnd::Done))
    }

    /// Tells what a rerun of the best experiment said.
    fn tell_check(&self, checked: RerunResult, reason: CheckReason) -> Result<(), SessionError> {
        let RerunResult { best, then, now, beside_others, shift, log } = checked;
        let (id, name) = (best.id, &best.metric.name);
        let of_others =
            self.store().history.crashed_runs().next().is_some_and(|record| is_tainted(record.failure.as_ref()));
        if let Some(now) = beside_others.filter(|_| !of_others) {
            // It runs, which was the question, unless the same happened to those before.
            let excused = self.store().is_excused();
            return self.emit(match reason {
                CheckReason::Crashes(_) => Notice::BestRuns { id, now, excused },
                CheckReason::Schedule => Notice::BestAgain { id, now },
            });
        }
        let now = match (now, reason) {
            (Ok(now), _) => now,
            (Err(why), CheckReason::Crashes(crashes)) => {
                self.store().excuse_crashes(id)?;
                return Err(SessionError::BestLost { id, why, crashes, log });
            }
            (Err(why), CheckReason::Schedule) => return self.emit(Notice::BestFails { id, why, log }),
        };
        let limit = repeat_limit(&self.store().history, &[]);
        let came_back = came_back(best.metric.direction, &then, &now, limit);
        let same = if now.value == then.value { String::new() } else { format!(", recorded {then}") };
        let measured = format!("{name} {now}{same}");
        let said = match (reason, came_back, &shift) {
            // A schedule makes many comparisons, so that one limit for each would warn by chance.
            (CheckReason::Crashes(_), CameBack::No { distance, spread: Some(spread) }, _)
            | (CheckReason::Schedule, CameBack::No { distance, spread: Some(spread) }, Shift::Unknown) => {
                Notice::BestDiffers { id, now: format!("{name} {now}"), then: then.to_string(), distance, spread }
            }
            // Without repeats, the noise between runs of the same code is unknown.
            (CheckReason::Crashes(_), ..) => {
                Notice::BestRuns { id, now: measured, excused: of_others || self.store().is_excused() }
            }
            (CheckReason::Schedule, ..) => Notice::BestAgain { id, now: measured },
        };
        self.emit(said)?;
        match shift {
            Shift::Drift(drift) => self.emit(Notice::Drifts { id, metric: name.clone(), drift }),
            Shift::Unknown | Shift::Chance => Ok(()),
        }
    }
}

impl Store {
    /// Notes in the journal that the best experiment was run again, and what that says, to be written with the end of the
    /// attempt. A drift is new with the first rerun that shows it.
    fn note_check(
        &mut self,
        best: Record,
        then: Number,
        after: u32,
        measured: &Measurement,
        log: PathBuf,
    ) -> RerunResult {
        let now = match (&measured.value, &measured.failure) {
            (Some(now), None) => Ok(now.clone()),
            (_, failure) => {
                let unknown = Failure::new(FailureClass::NoMetric, "");
                Err(why_lost(failure.as_ref().unwrap_or(&unknown), &best.metric.name, measured))
            }
        };
        let ended = self.now();
        let check = now.as_ref().ok().map(|now| DriftCheck::of(&best, then.value, now.value, after, ended));
        let (direction, noise) = (best.metric.direction, session_noise(&self.history));
        let checks = &mut self.journal.checks;
        let was_known = checks.drifts();
        let shift = check.as_ref().map_or(Shift::Unknown, |check| checks.judge(check, direction, noise.as_ref()));
        let drifts = matches!(shift, Shift::Drift(_));
        let shift = if drifts && was_known { Shift::Chance } else { shift };
        let drift = match shift {
            Shift::Drift(drift) => Some(drift),
            Shift::Unknown | Shift::Chance => None,
        };
        checks.note(after, check.map(|check| (DriftCheck { drift, ..check }, drifts)));
        let number = measured.value.as_ref().filter(|_| is_tainted(measured.failure.as_ref()));
        let beside_others =
            number.map(|now| format!("{} {now}, though {}", best.metric.name, GpuOther::clause(&measured.gpu_others)));
        RerunResult { best, then, now, beside_others, shift, log }
    }

    /// Marks the newest crashes as retryable, because the best experiment failed as well.
    fn excuse_crashes(&mut self, best: ExperimentId) -> Result<(), SessionError> {
        let newest = self.history.crashed_runs().take(CRASHES_TO_CHECK as usize);
        let crashes: Vec<Record> = newest.filter(|it| it.outside_cause.is_none()).cloned().collect();
        for record in crashes {
            self.amend_record(&Record { outside_cause: Some(excuse(best)), ..record })?;
        }
        Ok(())
    }

    /// Returns whether the last of these crashes had a cause outside of its change.
    fn is_excused(&self) -> bool {
        self.history.crashed_runs().next().is_some_and(|last| last.outside_cause.is_some())
    }
}

/// Returns whether another process on the GPU is why there is no number.
fn is_tainted(failure: Option<&Failure>) -> bool {
    failure.is_some_and(|failure| failure.class == FailureClass::Tainted)
}

/// Returns the reason why a crash may not be the fault of its change.
fn excuse(best: ExperimentId) -> String {
    format!("{}, which ran before, failed as well", experiment_name(best))
}

/// A recorded experiment that is run again.
pub(crate) struct RunAgain<'a> {
    pub(crate) role: RunRole,
    pub(crate) record: &'a Record,
    pub(crate) seed: Option<u64>,
    /// The slot; absent *in place*.
    pub(crate) slot: Option<u32>,
    /// The reason, as a part of a sentence.
    pub(crate) why: &'a str,
}

impl RunAgain<'_> {
    /// Enters the run in the journal, and makes it ready.
    fn begin(self, workspace: &mut Workspace, store: &mut Store) -> Result<RunningChange, SessionError> {
        let RunAgain { role, record, seed, slot, why } = self;
        let is_best = store.history.incumbent().is_some_and(|best| best.id == record.id);
        let name = if is_best { "the best experiment".to_owned() } else { experiment_name(record.id) };
        let head = AttemptHead {
            description: format!("{name} once again, as {why}"),
            beside: Concurrency { slot, ..Concurrency::default() },
            ..AttemptHead::new(store.allocate(), store.tip(), store.now())
        };
        let made = Made { head, commit: record.commit.clone(), ..Made::default() };
        let run = OpenRun { seed, ..OpenRun::new(role, 1) };
        let mut run = RunningChange { run, ..RunningChange::new(made) };
        run.enter(store, Attempt::Rerun)?;
        workspace.check_out(store, &run.made)?;
        run.prepare_run(workspace, store)?;
        Ok(run)
    }
}

/// The change by which branch and working tree return from a commit to what it was made on.
pub(crate) fn to_base(made: &Made) -> Made {
    let head = AttemptHead { base: made.commit.clone(), ..made.head.clone() };
    Made { head, commit: made.head.base.clone(), ..made.clone() }
}

/// Explains why the best experiment has no value any more, with the line of its log that shows it.
fn why_lost(failure: &Failure, metric: &str, measured: &Measurement) -> String {
    if matches!(failure.class, FailureClass::Protected | FailureClass::Changed | FailureClass::Tainted) {
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
