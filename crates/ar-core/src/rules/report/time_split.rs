//! The use of a session's time, and the GPU-hours that each keep cost.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::domain::{ExperimentId, GuardRun, Layout, Outcome, Record, Waits};
use crate::rules::schedule::{RunOf, distinct_runs, gpu_hours, run_seconds};

/// The use of a session's time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeSplit {
    /// From the start of the first experiment to the end of the last.
    pub total: f64,
    /// The measuring command ran.
    pub runs: f64,
    /// The agent worked, also without changes.
    pub agent: f64,
    /// Guards ran, and reviews.
    pub guards: f64,
    /// The agent was unavailable.
    pub outages: f64,
    /// No loop was active; an agent that drives by itself works then.
    pub nobody: f64,
    /// The rest: git, checks, input and output, and pauses.
    pub rest: f64,
    /// The time limit of a call, if a call came near it.
    #[serde(skip)]
    pub limit_met: Option<Duration>,
}

/// The shortest session with meaningful shares and rates, in seconds: a minute. In a shorter one the first run
/// dominates.
pub const SHORTEST: f64 = 60.0;

/// Splits `total` seconds; `None` for a session below [`SHORTEST`]. `limit` is the time limit of a call.
///
/// The parts never exceed the whole, although a run can continue while no loop is active.
pub fn time_split(records: &[Record], waits: Waits, limit: Option<Duration>, total: f64) -> Option<TimeSplit> {
    if total < SHORTEST {
        return None;
    }
    let guards = |record: &Record| {
        let earlier = record.versions.iter().flat_map(|version| &version.guards);
        let guards = earlier.chain(&record.guards).map(|guard: &GuardRun| guard.seconds).sum::<f64>();
        guards + record.review.as_ref().map_or(0.0, |review| review.seconds)
    };
    let mut left = total;
    let mut part = |seconds: f64| {
        // An empty sum is -0.0.
        let seconds = seconds.clamp(0.0, left).abs();
        left -= seconds;
        seconds
    };
    let runs = part(records.iter().map(Record::run_seconds).sum());
    let calls = records.iter().filter_map(|record| record.agent.as_ref()).map(|call| call.seconds);
    let agent = part(calls.sum::<f64>() + waits.idle_calls);
    let guards = part(records.iter().map(guards).sum());
    let outages = part(waits.outages);
    let nobody = part(waits.nobody);
    let limit_met = limit.filter(|limit| waits.limit_met >= limit.as_secs_f64());
    Some(TimeSplit { total, runs, agent, guards, outages, nobody, rest: left, limit_met })
}

/// The GPU-hours of a session's runs, keep by keep; hours of runs where the session has no GPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeepHours {
    /// The cost of each keep and of the baseline: the runs of all experiments recorded after the keep before it, and its own.
    pub of: BTreeMap<ExperimentId, f64>,
    /// The cost of the experiments recorded after the last keep.
    pub since: f64,
}

/// Shares the runs of `records` out among the keeps, each run once: that of a train counts with the last of its members.
pub fn keep_hours(records: &[Record], layout: Option<&Layout>) -> KeepHours {
    let runs = distinct_runs(records);
    let has_gpu = gpu_hours(&runs, layout).is_some();
    let hours = |runs: &[RunOf<'_>]| match has_gpu {
        true => gpu_hours(runs, layout).unwrap_or(0.0),
        false => run_seconds(runs) / 3600.0,
    };
    let mut own: BTreeMap<ExperimentId, Vec<RunOf<'_>>> = BTreeMap::new();
    for run in runs {
        own.entry(run.record.id).or_default().push(run);
    }
    let mut of = BTreeMap::new();
    let mut since: Vec<RunOf<'_>> = Vec::new();
    for record in records {
        since.extend(own.remove(&record.id).unwrap_or_default());
        if record.outcome == Outcome::Keep || record.id.is_baseline() {
            of.insert(record.id, hours(&since));
            since.clear();
        }
    }
    KeepHours { of, since: hours(&since) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::{record, run};

    #[test]
    fn the_parts_of_the_time_make_the_whole() {
        let guard = json!({"command": "", "exit": 0, "signal": null, "seconds": 6.0, "passed": true});
        let version =
            json!({"commit": "v", "saved": "s", "failure": null, "reason": "", "value": 3.0, "guards": [&guard]});
        let review = json!({"verdict": "earned", "why": "", "seconds": 1.0});
        let records =
            [record(json!({"runs": [run(10.0, None), run(20.0, None)], "guards": [&guard], "versions": [version],
            "review": review,
            "agent": {"command": "", "seconds": 5.0}}))];
        let waits = Waits { idle_calls: 2.0, outages: 8.0, nobody: 40.0, limit_met: 600.0 };
        let split = |total| time_split(&records, waits, None, total);
        let parts = |total, nobody, rest| {
            Some(TimeSplit { total, runs: 30.0, agent: 7.0, guards: 13.0, outages: 8.0, nobody, rest, limit_met: None })
        };
        assert_eq!(split(100.0), parts(100.0, 40.0, 2.0));
        assert_eq!(split(60.0), parts(60.0, 2.0, 0.0), "a run went on while nobody was at work");
        assert_eq!(split(59.0), None);
        let met = |limit| time_split(&records, waits, Some(Duration::from_secs(limit)), 60.0).unwrap().limit_met;
        assert_eq!((met(600), met(601)), (Some(Duration::from_secs(600)), None), "it was raised since");
    }
}

#[cfg(test)]
mod keep_hours_tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::GpuChoice;
    use crate::rules::sample::record;

    fn run(at: u32, seconds: f64, more: Value) -> Value {
        let mut run = json!({"command": "c", "seed": null, "started": format!("2026-11-20T{:02}:{:02}:00Z", at / 60, at % 60),
            "seconds": seconds, "exit": 0, "signal": null, "value": 1.0});
        run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run
    }

    /// A night on two of eight GPUs a run: four runs of the baseline; a discard, a crash, and a keep with a void run, a screen
    /// and two fresh runs; a train of two, whose trial stands in both records; a discard that nothing follows.
    fn night(gpus: u32) -> Vec<Record> {
        let of = |id: u32, outcome: &str, runs: Vec<Value>| {
            record(json!({"id": id, "commit": format!("c{id}"), "outcome": outcome, "runs": runs,
                "environment": {"host": "box", "gpu": null, "gpus": gpus, "driver": null, "lockfile": null}}))
        };
        let plain = |at: u32, seconds: f64| run(at, seconds, json!({}));
        let trial = |commit: Option<&str>| run(90, 3600.0, json!({"role": "trial", "commit": commit}));
        let confirm = |at: u32| run(at, 1800.0, json!({"role": "confirm"}));
        vec![
            of(0, "keep", vec![plain(0, 900.0), plain(0, 900.0), plain(0, 900.0), plain(0, 900.0)]),
            of(1, "discard", vec![plain(15, 1800.0)]),
            of(2, "crash", vec![plain(16, 360.0)]),
            of(3, "keep", vec![run(17, 1440.0, json!({"void": true})), plain(30, 1800.0), confirm(40), confirm(50)]),
            of(4, "keep", vec![run(60, 1800.0, json!({"commit": "own"})), trial(Some("c5"))]),
            of(5, "keep", vec![run(60, 900.0, json!({"commit": "own too"})), trial(None)]),
            of(6, "discard", vec![plain(150, 900.0)]),
        ]
    }

    #[test]
    fn a_keep_costs_all_runs_since_the_keep_before_and_each_counts_once() {
        let by_hand = |gpus: f64| KeepHours {
            of: [(0, 1.0), (3, 0.5 + 0.1 + 0.4 + 1.5), (4, 0.5), (5, 0.25 + 1.0)]
                .map(|(id, hours): (u32, f64)| (id.into(), hours * gpus))
                .into(),
            since: 0.25 * gpus,
        };
        let divided = Layout { gpus: Some(GpuChoice::All), gpus_per_run: 2, ..Layout::of(4) };
        assert_eq!(keep_hours(&night(8), Some(&divided)), by_hand(2.0));
        assert_eq!(keep_hours(&night(1), None), by_hand(1.0));
        assert_eq!(keep_hours(&night(0), Some(&divided)), by_hand(1.0), "without a GPU, hours of runs");
        assert_eq!(keep_hours(&[], None), KeepHours::default());
    }

    #[test]
    fn the_runs_of_a_baseline_that_is_no_keep_belong_to_no_keep() {
        let mut records = night(1);
        records[0].outcome = Outcome::Discard;
        let hours = keep_hours(&records, None);
        assert_eq!(hours.of[&ExperimentId::from(3)], 2.5);
    }
}
