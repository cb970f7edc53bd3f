//! The use of a session's slots, from its records.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::domain::{CommitId, Layout, Outcome, Record, Run, TreeOwner};
use crate::rules::history::median;

/// The slots of a session, and how busy they were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slots {
    /// Their number; 1 *in place*.
    pub count: u32,
    /// The share of the time from the start of the first run to the end of the last in which a run was executed, over all
    /// slots; absent without runs.
    pub busy_share: Option<f64>,
    /// Median wait in the queue of an engine, in seconds; absent where no run waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued: Option<f64>,
}

/// A run and the record that tells of it.
#[derive(Debug, Clone, Copy)]
pub struct RunOf<'a> {
    /// The record; of a train's run, that of its last member.
    pub record: &'a Record,
    /// The run.
    pub run: &'a Run,
}

impl RunOf<'_> {
    /// When it ended.
    pub fn ended(&self) -> Timestamp {
        time_of(self.run).1
    }
}

/// When a run started and ended.
fn time_of(run: &Run) -> (Timestamp, Timestamp) {
    let length = SignedDuration::try_from_secs_f64(run.seconds).unwrap_or_default();
    (run.started, run.started.checked_add(length).unwrap_or(run.started))
}

/// All runs by time, each once: that of a train stands in the records of all its members.
pub fn distinct_runs(records: &[Record]) -> Vec<RunOf<'_>> {
    let mut seen: HashSet<(Timestamp, &CommitId)> = HashSet::new();
    let mut all = Vec::new();
    for record in records.iter().rev() {
        let is_new = |run: &&Run| !seen.contains(&(run.started, executed_commit(record, run)));
        // Runs of one record may start at the same moment: the baseline runs on all slots at once.
        all.extend(record.runs.iter().filter(is_new).map(|run| RunOf { record, run }));
        seen.extend(record.runs.iter().map(|run| (run.started, executed_commit(record, run))));
    }
    all.sort_by_key(|run| (run.run.started, run.record.sequence()));
    all
}

/// The commit that a run executed.
fn executed_commit<'a>(record: &'a Record, run: &'a Run) -> &'a CommitId {
    run.commit.as_ref().unwrap_or(&record.commit)
}

/// Returns whether experiments ran side by side, or can now.
pub fn is_concurrent(records: &[Record], layout: Option<&Layout>) -> bool {
    TreeOwner::of(layout).is_one_of_many() || records.iter().any(|record| record.beside.slot.is_some())
}

/// The slots of a session with this layout now, by its records.
pub fn slots(records: &[Record], layout: Option<&Layout>) -> Slots {
    slots_so_far(records, layout, &[], std::iter::empty(), None)
}

/// The same with the runs of open attempts that are over, and while others go on that started at these moments; until `now` if
/// a loop is active.
pub(crate) fn slots_so_far(
    records: &[Record],
    layout: Option<&Layout>,
    over: &[Run],
    going_on: impl Iterator<Item = Timestamp>,
    now: Option<Timestamp>,
) -> Slots {
    let used = records.iter().filter_map(|record| record.beside.slot).map(|slot| slot + 1).max();
    let count = layout.map(|layout| layout.slots).max(used).unwrap_or(1).max(1);
    let runs = distinct_runs(records);
    let queued = median(runs.iter().filter_map(|run| run.run.queued));
    let is_known =
        |run: &&Run| runs.iter().any(|known| (known.run.started, &known.run.commit) == (run.started, &run.commit));
    let over = over.iter().filter(|run| !is_known(run));
    let mut times: Vec<_> = runs.iter().map(|run| run.run).chain(over).map(time_of).collect();
    let end = |started: Timestamp| (started, now.map_or(started, |now| now.max(started)));
    times.extend(going_on.map(end));
    // Until now at least.
    times.extend(now.filter(|_| !times.is_empty()).map(|now| (now, now)));
    Slots { count, busy_share: busy_share(&times, count), queued }
}

/// The share of the time that `count` slots were busy with runs from and until these moments.
fn busy_share(times: &[(Timestamp, Timestamp)], count: u32) -> Option<f64> {
    let first = times.iter().map(|(from, _)| *from).min()?;
    let last = times.iter().map(|(_, until)| *until).max()?;
    let seconds = |from: Timestamp, until: Timestamp| until.duration_since(from).as_secs_f64();
    let busy: f64 = times.iter().map(|(from, until)| seconds(*from, *until)).sum();
    let span = seconds(first, last) * f64::from(count);
    // A session that had more slots before was busier than those that it has now could be.
    (span > 0.0).then(|| (busy / span).min(1.0))
}

/// The total duration of runs, in seconds.
pub fn run_seconds(runs: &[RunOf<'_>]) -> f64 {
    // An empty sum is -0.0.
    runs.iter().map(|run| run.run.seconds).sum::<f64>().abs()
}

/// The GPU-hours of runs: each has the GPUs of the layout, if that divides them, else all that its environment names. Absent
/// where there was none.
pub fn gpu_hours(runs: &[RunOf<'_>], layout: Option<&Layout>) -> Option<f64> {
    let divided = layout.filter(|layout| layout.gpus.is_some()).map(|layout| layout.gpus_per_run);
    let gpus = |run: &RunOf<'_>| match run.record.origin.environment.gpus {
        0 => 0,
        all => divided.unwrap_or(all),
    };
    let seconds: f64 = runs.iter().map(|run| run.run.seconds * f64::from(gpus(run))).sum();
    runs.iter().any(|run| gpus(run) > 0).then_some(seconds / 3600.0)
}

/// The runs by slot, and within a slot by time. A record names the slot of its last run; where an earlier one was is not
/// known, so it has a slot that was free.
pub fn lanes<'a>(records: &'a [Record], count: u32) -> Vec<Vec<RunOf<'a>>> {
    let mut lanes: Vec<Vec<RunOf<'a>>> = vec![Vec::new(); count as usize];
    let mut unknown = Vec::new();
    for run in distinct_runs(records) {
        let is_last = run.record.runs.last().is_some_and(|last| std::ptr::eq(last, run.run));
        match run.record.beside.slot.filter(|_| is_last).and_then(|slot| lanes.get_mut(slot as usize)) {
            Some(lane) => lane.push(run),
            None => unknown.push(run),
        }
    }
    for run in unknown {
        let is_free = |lane: &&mut Vec<RunOf<'a>>| {
            lane.iter().all(|other| other.ended() <= run.run.started || run.ended() <= other.run.started)
        };
        if let Some(lane) = lanes.iter_mut().find(is_free) {
            lane.push(run);
        }
    }
    lanes.iter_mut().for_each(|lane| lane.sort_by_key(|run| run.run.started));
    lanes
}

/// The gain of one change of a train over the keep that it was made on, in the metric's unit. The value of the train is
/// that of all its changes together.
pub fn gain_alone(records: &[Record], record: &Record) -> Option<f64> {
    record.beside.train.as_ref()?;
    record.beside.replays.iter().find_map(|replay| {
        let base = records.iter().find(|base| base.outcome == Outcome::Keep && base.commit == replay.base)?;
        Some(record.metric.direction.gain(replay.value?, base.metric.value?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::GpuChoice;
    use crate::rules::sample::record;

    fn run(minute: u32, seconds: f64, commit: Option<&str>) -> Value {
        json!({"command": "c", "seed": null, "started": format!("2026-11-20T22:{minute:02}:00Z"), "seconds": seconds,
            "exit": 0, "signal": null, "value": null, "commit": commit})
    }

    /// The baseline on two slots at once, a winner in slot 1, and a train of two that is measured in slot 0.
    fn session() -> Vec<Record> {
        let gpu = json!({"host": "box", "gpu": "H100", "gpus": 8, "driver": null, "lockfile": null});
        let of = |id: u32, slot: u32, runs: Vec<Value>| {
            record(json!({"id": id, "commit": format!("c{id}"), "slot": slot, "runs": runs, "environment": gpu}))
        };
        vec![
            of(0, 1, vec![run(0, 300.0, None), run(0, 300.0, None)]),
            of(2, 0, vec![run(5, 300.0, Some("c2-own")), run(10, 300.0, Some("c3"))]),
            of(3, 0, vec![run(5, 240.0, Some("c3-own")), run(10, 300.0, None)]),
        ]
    }

    #[test]
    fn a_run_of_a_train_counts_once_and_runs_at_the_same_moment_each() {
        let records = session();
        let runs = distinct_runs(&records);
        assert_eq!((runs.len(), run_seconds(&runs)), (5, 1440.0));
        let slots = slots(&records, None);
        assert_eq!((slots.count, slots.busy_share), (2, Some(1440.0 / 1800.0)));
        assert_eq!(super::slots(&records, Some(&Layout::of(4))).busy_share, Some(0.4));
        assert_eq!(super::slots(&records, Some(&Layout::of(1))).count, 2, "it had two before");
        assert_eq!(super::slots(&[], None), Slots { count: 1, busy_share: None, queued: None });
    }

    #[test]
    fn a_run_has_the_gpus_of_its_slot() {
        let records = session();
        let runs = distinct_runs(&records);
        assert_eq!(gpu_hours(&runs, None), Some(1440.0 * 8.0 / 3600.0));
        let divided = Layout { gpus: Some(GpuChoice::All), gpus_per_run: 2, ..Layout::of(2) };
        assert_eq!(gpu_hours(&runs, Some(&divided)), Some(0.8));
        let without = [record(json!({"runs": [run(0, 60.0, None)]}))];
        assert_eq!(gpu_hours(&distinct_runs(&without), None), None);
    }

    #[test]
    fn runs_whose_slot_is_not_known_go_where_there_is_room() {
        let records = session();
        let lanes = lanes(&records, 2);
        let named: Vec<Vec<(u32, i8)>> = lanes
            .iter()
            .map(|lane| {
                let minute = |run: &RunOf| run.run.started.to_zoned(jiff::tz::TimeZone::UTC).minute();
                lane.iter().map(|run| (run.record.id.number(), minute(run))).collect()
            })
            .collect();
        assert_eq!(named, [vec![(0, 0), (2, 5), (3, 10)], vec![(0, 0), (3, 5)]]);
    }

    #[test]
    fn a_change_of_a_train_has_the_gain_that_it_brought_by_itself() {
        let replays = json!([
            {"base": "b", "commit": "m", "value": null, "why": "merged"},
            {"base": "c0", "commit": "own", "value": 1.75, "why": ""},
            {"base": "c0", "commit": "both", "value": 1.5, "why": ""},
        ]);
        let train = json!({"last": 2, "members": [1, 2]});
        let records = [
            record(json!({"value": "2.0"})),
            record(json!({"id": 1, "commit": "c1", "train": train, "replays": replays})),
            record(json!({"id": 2, "commit": "c2", "value": "1.5", "replays": replays})),
        ];
        let alone: Vec<_> = records.iter().map(|record| gain_alone(&records, record)).collect();
        assert_eq!(alone, [None, Some(0.25), None], "without a train the number is its own");
    }
}
