//! The verdict on an experiment that was measured, or refused before it ran.

use std::path::PathBuf;

use super::decide::{Verdict, decide, describe_failure};
use super::history::History;
use super::limits::unmet;
use super::simplicity::{Rivals, decide_by_simplicity};
use crate::domain::{Contract, DiffStat, Failure, FailureClass, Metrics, Number, Outcome, Run};

/// The outcome of a run, or why there was none.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The metric's number, where there is one.
    pub value: Option<Number>,
    /// Why no number counts.
    pub failure: Option<Failure>,
    /// Every number that the log's summary gives.
    pub metrics: Metrics,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The run itself, where there was one, without its value.
    pub run: Option<Run>,
    /// How it ended, in words.
    pub ended: String,
    /// The tracked files that anyone changed during the run.
    pub changed: Vec<PathBuf>,
    /// What outside of the change may have made it fail.
    pub outside_cause: Option<String>,
}

impl Measured {
    /// An experiment that was refused before it ran.
    pub fn refused(failure: Failure) -> Measured {
        let ended = failure.excerpt.replace('\n', ", ");
        Measured { failure: Some(failure), ended, ..Measured::default() }
    }

    /// A run that was lost more often than it is restarted.
    pub fn lost(times: u32) -> Measured {
        let failure = Failure { class: FailureClass::Lost, excerpt: String::new() };
        Measured { failure: Some(failure), ended: format!("{times} times"), ..Measured::default() }
    }

    /// The limits of the contract that the run exceeded, in words.
    pub fn unmet_limits(&self, contract: &Contract) -> Vec<String> {
        unmet(&contract.limits, |name| match name {
            "memory_gb" => self.memory_gb,
            name if name == contract.metric.name => self.value.as_ref().map(|number| number.value),
            name => self.metrics.get(name),
        })
    }
}

/// The verdict on experiment `id`, whose change has this size, and the limits that count against it.
///
/// A failure is a crash. A number is compared with the incumbent's, where the contract says so by simplicity first; one that
/// would be kept is discarded if the run exceeded a limit. The baseline may exceed limits.
pub fn judge(
    contract: &Contract,
    history: &History,
    id: u32,
    diff: DiffStat,
    measured: &Measured,
) -> (Verdict, Vec<String>) {
    let mut verdict = match (&measured.value, &measured.failure) {
        (_, Some(failure)) => {
            let reason = describe_failure(failure, &contract.metric.name, &measured.ended);
            Verdict { outcome: Outcome::Crash, reason }
        }
        (Some(value), None) => verdict_on(contract, history, diff, value),
        (None, None) => unreachable!("a run has a number or a failure"),
    };
    let counts = id != 0 && measured.failure.is_none();
    let unmet = if counts { measured.unmet_limits(contract) } else { Vec::new() };
    if verdict.outcome == Outcome::Keep && !unmet.is_empty() {
        verdict.outcome = Outcome::Discard;
        verdict.reason += &format!(", but {}", unmet.join(", "));
    }
    if let Some(cause) = &measured.outside_cause {
        verdict.reason += &format!("; {cause}");
    }
    (verdict, unmet)
}

fn verdict_on(contract: &Contract, history: &History, diff: DiffStat, value: &Number) -> Verdict {
    let (metric, best) = (&contract.metric, history.best());
    let by_simplicity = || {
        let margin = contract.simpler_wins?;
        let ((id, incumbent), best) = best.as_ref().zip(history.best_kept())?;
        decide_by_simplicity(metric, value, Rivals { id: *id, incumbent, best: &best }, margin, diff)
    };
    let incumbent = best.as_ref().map(|(id, number)| (*id, number));
    by_simplicity().unwrap_or_else(|| decide(metric, value, incumbent, contract.min_delta))
}
