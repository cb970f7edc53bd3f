//! The use of a session's time.

use std::time::Duration;

use serde::Serialize;

use crate::domain::{GuardRun, Record, Waits};

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
