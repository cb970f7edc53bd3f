//! The summary of a series of experiments: gains, near misses, the use of the time, and what each keep cost.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::domain::{Direction, ExperimentId, FailureClass, GuardRun, Layout, Number, Outcome, Record, Waits};
use crate::rules::{CountedOutcome, RunOf, Spread, distinct_runs, gpu_hours, median, relative_gain, run_seconds};

/// One experiment for the summary, from a session's record or a foreign ledger's row.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Point {
    /// Its number, or its index in the ledger.
    pub id: ExperimentId,
    /// Its commit as written in the source.
    pub commit: Option<Box<str>>,
    /// Its metric value.
    #[serde(flatten, serialize_with = "Number::fields")]
    pub value: Option<Number>,
    /// Its outcome; absent for a row with another verdict.
    pub outcome: Option<Outcome>,
    /// The class of its failure, if it failed.
    pub failure: Option<FailureClass>,
    /// Its description.
    pub description: Box<str>,
    /// The reason for the outcome, in a sentence; empty if the source has none.
    #[serde(skip)]
    pub reason: Box<str>,
    /// The lines of the log that show the failure, or empty.
    #[serde(skip)]
    pub excerpt: Box<str>,
    /// True if fresh runs confirmed it.
    #[serde(skip)]
    pub is_confirmed: bool,
    /// True if it is never the best, whatever its number: its run did not finish, or its result is wrong.
    #[serde(skip)]
    pub is_barred: bool,
}

impl Point {
    /// Returns whether it may be the best, in a series with or without verdicts.
    pub fn may_be_best(&self, has_verdict: bool) -> bool {
        !self.is_barred && (self.outcome == Some(Outcome::Keep) || (self.outcome.is_none() && !has_verdict))
    }

    /// Its outcome, in the categories of summaries.
    pub fn ended(&self) -> CountedOutcome {
        CountedOutcome::of(self.outcome, self.failure)
    }
}

/// A keep and its gain over the keep before.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptStep {
    /// The index of the experiment among the points.
    pub index: usize,
    /// The index of the one that it improved on: the keep before, or a baseline without a verdict.
    pub over: Option<usize>,
    /// The gain over that, in the metric's unit; absent for the first, and for one without a number of its own.
    pub gain: Option<f64>,
    /// The number of keeps that share the gain: itself, and those of the same train just before it, which have no
    /// number.
    pub keeps: u32,
    /// The same relative to the number before.
    pub relative_gain: Option<f64>,
    /// Its share of the best one's gain over the baseline; absent without such a gain. A keep that a later one replaced has
    /// none: the gain of that one is over the keep before those that it replaced.
    pub share: Option<f64>,
}

impl KeptStep {
    /// Makes it one that had nothing to gain.
    pub fn forget_gain(&mut self) {
        (self.gain, self.relative_gain, self.share) = (None, None, None);
    }

    /// The gain, shared out among the keeps that it belongs to.
    pub(crate) fn gain_of_each(&self) -> Option<f64> {
        Some(self.gain? / f64::from(self.keeps))
    }
}

/// The summary of a series of experiments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// The index of the baseline among the points.
    pub baseline: Option<usize>,
    /// The index of the best keep among the points.
    pub best: Option<usize>,
    /// The gain of the best over the baseline, in the metric's unit.
    pub gain: Option<f64>,
    /// The same relative to the baseline.
    pub relative_gain: Option<f64>,
    /// The keeps in order.
    pub kept: Vec<KeptStep>,
    /// Keeps per experiment with a verdict, without the baseline and refused changes.
    pub keep_rate: Option<f64>,
    /// The number of failures by class.
    pub failures: BTreeMap<FailureClass, u32>,
    /// The index of the newest failure of each class.
    pub examples: BTreeMap<FailureClass, usize>,
    /// The longest streak without a keep.
    pub longest_streak: u32,
    /// The indices of its first and last experiment.
    pub streak: Option<(usize, usize)>,
}

/// Summarises a series. `baseline` is the index of the baseline among the points; `has_verdict` tells whether the
/// series has outcomes.
///
/// The best is the best value among keeps, never from a crash or a discard. In a series without verdicts it is the best
/// of all.
pub fn summarize(points: &[Point], direction: Direction, baseline: Option<usize>, has_verdict: bool) -> Summary {
    let mut kept: Vec<KeptStep> = Vec::new();
    let best = best_of(points, direction, has_verdict);
    let mut last_kept: Option<(usize, f64)> = None;
    let (mut failures, mut examples) = (BTreeMap::new(), BTreeMap::new());
    let (mut judged, mut kept_after_baseline) = (0u32, 0u32);
    let (mut began, mut since_keep) = (None, 0u32);
    let mut keeps = 0;
    let (mut longest_streak, mut streak) = (0u32, None);
    for (index, point) in points.iter().enumerate() {
        if let Some(class) = point.failure {
            *failures.entry(class).or_default() += 1;
            examples.insert(class, index);
        }
        let value = point.value.as_ref().map(|number| number.value);
        let Some(outcome) = point.outcome else {
            if Some(index) == baseline {
                last_kept = value.map(|value| (index, value)).or(last_kept);
            }
            continue;
        };
        let after_baseline = Some(index) != baseline;
        judged += u32::from(after_baseline && point.ended().is_judged());
        if outcome != Outcome::Keep {
            let first = *began.get_or_insert(index);
            since_keep += 1;
            if since_keep > longest_streak {
                (longest_streak, streak) = (since_keep, Some((first, index)));
            }
            continue;
        }
        (began, since_keep) = (None, 0);
        kept_after_baseline += u32::from(after_baseline);
        keeps += 1;
        let both = value.zip(last_kept);
        let over = both.map(|(_, (over, _))| over);
        let gain = both.map(|(value, (_, before))| direction.gain(value, before));
        let relative_gain = both.and_then(|(value, (_, before))| relative_gain(direction, value, before));
        kept.push(KeptStep { index, over, gain, keeps, relative_gain, share: None });
        if let Some(value) = value {
            (last_kept, keeps) = (Some((index, value)), 0);
        }
    }
    let value_of = |index: usize| points[index].value.as_ref().map(|number| number.value);
    let start = baseline.and_then(value_of);
    let ends = best.map(|(_, value)| value).zip(start);
    let gain = ends.map(|(value, start)| direction.gain(value, start));
    let mut summary = Summary {
        baseline,
        best: best.map(|(index, _)| index),
        gain,
        relative_gain: ends.and_then(|(value, start)| relative_gain(direction, value, start)),
        kept,
        keep_rate: (judged > 0).then(|| f64::from(kept_after_baseline) / f64::from(judged)),
        failures,
        examples,
        longest_streak,
        streak,
    };
    summary.share_out(points, direction, |_| false);
    summary
}

/// The best keep with its value, of equal ones the first; in a series without verdicts, the best of all.
fn best_of(points: &[Point], direction: Direction, has_verdict: bool) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for (index, point) in points.iter().enumerate() {
        if let Some(value) = point.value.as_ref().map(|number| number.value)
            && point.may_be_best(has_verdict)
            && best.is_none_or(|(_, other)| direction.better(value, other))
        {
            best = Some((index, value));
        }
    }
    best
}

impl Summary {
    /// Shares the gain of the best out among the keeps, without those that a later one replaced: it gained on the keep before
    /// them.
    pub fn share_out(&mut self, points: &[Point], direction: Direction, is_replaced: impl Fn(ExperimentId) -> bool) {
        let Some(all) = self.gain.filter(|all| *all > 0.0) else { return };
        let value_of = |index: usize| points[index].value.as_ref().map(|number| number.value);
        let mut before = None;
        for step in &mut self.kept {
            let stands = !is_replaced(points[step.index].id);
            let value = value_of(step.index).filter(|_| stands);
            let over = before.or(step.over).and_then(value_of);
            step.share = value.zip(over).map(|(value, over)| direction.gain(value, over) / all);
            before = value.map(|_| step.index).or(before);
        }
    }
}

/// The most near misses named: nobody would look at more.
const MOST: usize = 5;

/// The source of the margin of near misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarginBy {
    /// The spread of two measurements of the same code.
    Spread,
    /// The median gain of keeps: a typical step of this session.
    MedianGain,
}

/// The largest distance of a near miss behind the incumbent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Margin {
    /// In the metric's unit, 0 or more.
    pub size: f64,
    /// Its source.
    pub by: MarginBy,
}

/// The margin of a series: its spread, else the median gain of its keeps.
pub fn margin(kept: &[KeptStep], spread: Option<&Spread>) -> Option<Margin> {
    if let Some(spread) = spread {
        return Some(Margin { size: spread.limit, by: MarginBy::Spread });
    }
    let gains = kept.iter().filter_map(KeptStep::gain_of_each).filter(|gain| *gain > 0.0);
    median(gains).map(|size| Margin { size, by: MarginBy::MedianGain })
}

/// A discard and its incumbent, by their indices among the points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Miss {
    /// The experiment.
    pub index: usize,
    /// Its incumbent.
    pub rival: usize,
    /// Its gain over the incumbent, in the metric's unit; above 0 if a guard, a limit or the minimum gain refused it.
    pub gain: f64,
}

/// The near misses, best gain first: discards with a better value than their incumbent, whatever refused them, and
/// those at most `margin` behind it. Without a margin, those equal to it. `rivals` are the places of their incumbents, where
/// those are known; else it is the keep before.
pub fn misses(
    points: &[Point],
    rivals: &[Option<usize>],
    direction: Direction,
    baseline: Option<usize>,
    margin: Option<Margin>,
) -> Vec<Miss> {
    let value_of = |index: usize| points[index].value.as_ref().map(|number| number.value);
    let mut rival: Option<(usize, f64)> = None;
    let mut found = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let Some(value) = value_of(index) else { continue };
        let own = rivals.get(index).copied().flatten();
        match (point.outcome, own.and_then(|own| Some((own, value_of(own)?))).or(rival)) {
            (Some(Outcome::Keep), _) => rival = Some((index, value)),
            (None, _) if Some(index) == baseline => rival = Some((index, value)),
            // A number that was not earned is near nothing.
            (Some(Outcome::Discard), Some((rival, best))) if point.failure != Some(FailureClass::ReviewFailed) => {
                let gain = direction.gain(value, best);
                if -gain <= margin.map_or(0.0, |margin| margin.size) {
                    found.push(Miss { index, rival, gain });
                }
            }
            _ => {}
        }
    }
    found.sort_by(|one, other| other.gain.total_cmp(&one.gain));
    found.truncate(MOST);
    found
}

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
        let earlier = record.change.versions.iter().flat_map(|version| &version.guards);
        let guards = earlier.chain(&record.proof.guards).map(|guard: &GuardRun| guard.seconds).sum::<f64>();
        guards + record.proof.review.as_ref().map_or(0.0, |review| review.seconds)
    };
    let mut left = total;
    let mut part = |seconds: f64| {
        // An empty sum is -0.0.
        let seconds = seconds.clamp(0.0, left).abs();
        left -= seconds;
        seconds
    };
    let runs = part(records.iter().map(Record::run_seconds).sum());
    let calls = records.iter().filter_map(|record| record.origin.agent.as_ref()).map(|call| call.seconds);
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
mod unit_tests {
    use serde_json::json;

    use super::tests::point;
    use super::*;
    use crate::rules::sample::{record, run};

    fn near(points: &[(&str, Outcome)], margin: Option<f64>) -> Vec<(usize, usize)> {
        near_to(points, &[], margin)
    }

    fn near_to(points: &[(&str, Outcome)], rivals: &[Option<usize>], margin: Option<f64>) -> Vec<(usize, usize)> {
        let points: Vec<Point> =
            (0..).zip(points).map(|(id, (value, outcome))| point(id, Some(value), *outcome)).collect();
        let margin = margin.map(|size| Margin { size, by: MarginBy::Spread });
        misses(&points, rivals, Direction::Lower, Some(0), margin).iter().map(|miss| (miss.index, miss.rival)).collect()
    }

    #[test]
    fn a_miss_is_near_to_what_it_had_to_beat_and_not_to_what_came_later() {
        use Outcome::{Crash, Discard, Keep};
        let points = [
            ("2.0", Keep),
            ("2.125", Discard),
            ("2.25", Discard),
            ("1.0", Keep),
            ("1.5", Discard),
            ("1.0", Discard),
            ("0.5", Discard),
            ("0.25", Crash),
        ];
        assert_eq!(
            near(&points, Some(0.125)),
            [(6, 3), (5, 3), (1, 0)],
            "better but refused, equal, within the margin"
        );
        assert_eq!(near(&points, None), [(6, 3), (5, 3)], "without a margin only what was as good");
        assert_eq!(near(&points[1..3], Some(1.0)), [], "nothing to beat");
        let stale = [("2.0", Keep), ("1.0", Keep), ("2.0", Discard)];
        assert_eq!(near_to(&stale, &[None, Some(0), Some(0)], Some(0.125)), [(2, 0)], "as good as its own base");
        assert_eq!(near(&stale, Some(0.125)), []);
        let many: Vec<_> = [("2.0", Keep)].into_iter().chain([("2.0", Discard); 9]).collect();
        assert_eq!(near(&many, Some(0.0)).len(), MOST);
    }

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
pub(crate) mod tests {
    use super::*;

    pub(in crate::rules) fn point(id: u32, value: Option<&str>, outcome: Outcome) -> Point {
        Point {
            id: id.into(),
            value: value.map(|text| text.parse().unwrap()),
            outcome: Some(outcome),
            failure: (outcome == Outcome::Crash).then_some(FailureClass::Oom),
            ..Point::default()
        }
    }

    #[test]
    fn the_best_is_a_kept_one_and_a_zero_of_a_crash_never() {
        let points = [
            point(0, Some("2.0"), Outcome::Keep),
            point(1, Some("0.5"), Outcome::Discard),
            point(2, None, Outcome::Crash),
            point(3, Some("1.5"), Outcome::Keep),
            point(4, Some("0.0"), Outcome::Crash),
        ];
        let summary = summarize(&points, Direction::Lower, Some(0), true);
        assert_eq!(summary.best, Some(3));
        assert_eq!((summary.gain, summary.relative_gain), (Some(0.5), Some(0.25)));
        assert_eq!(summary.keep_rate, Some(0.25));
        assert_eq!(summary.kept.iter().map(|step| step.gain).collect::<Vec<_>>(), [None, Some(0.5)]);
        assert_eq!(summary.failures, BTreeMap::from([(FailureClass::Oom, 2)]));
        assert_eq!((&summary.examples, summary.kept[1].share), (&BTreeMap::from([(FailureClass::Oom, 4)]), Some(1.0)));
        assert_eq!((summary.longest_streak, summary.streak), (2, Some((1, 2))));
    }

    #[test]
    fn a_baseline_without_a_verdict_is_what_the_first_keep_gained_on() {
        let points =
            [Point { outcome: None, ..point(0, Some("3"), Outcome::Keep) }, point(1, Some("2"), Outcome::Keep)];
        let steps = summarize(&points, Direction::Lower, Some(0), true).kept;
        assert_eq!(steps.iter().map(|step| (step.over, step.gain)).collect::<Vec<_>>(), [(Some(0), Some(1.0))]);
        let steps = summarize(&points, Direction::Lower, None, true).kept;
        assert_eq!(steps[0].gain, None);
    }

    #[test]
    fn what_was_refused_lowers_no_keep_rate() {
        let refused = Point { failure: Some(FailureClass::Scope), ..point(2, None, Outcome::Crash) };
        let points = [point(0, Some("3"), Outcome::Keep), point(1, Some("2"), Outcome::Keep), refused];
        assert_eq!(summarize(&points, Direction::Lower, Some(0), true).keep_rate, Some(1.0));
    }

    #[test]
    fn the_gain_of_a_train_is_that_of_all_its_keeps() {
        let points = [
            point(0, Some("3"), Outcome::Keep),
            point(12, None, Outcome::Keep),
            point(14, None, Outcome::Keep),
            point(9, Some("2.5"), Outcome::Discard),
            point(15, Some("2"), Outcome::Keep),
            point(16, Some("1.5"), Outcome::Keep),
        ];
        let summary = summarize(&points, Direction::Lower, Some(0), true);
        let steps: Vec<_> = summary.kept.iter().map(|step| (step.index, step.over, step.gain, step.keeps)).collect();
        let expected = [
            (0, None, None, 1),
            (1, None, None, 1),
            (2, None, None, 2),
            (4, Some(0), Some(1.0), 3),
            (5, Some(4), Some(0.5), 1),
        ];
        assert_eq!(steps, expected);
        assert_eq!((summary.keep_rate, summary.longest_streak), (Some(0.8), 1), "each of them is a keep");
    }

    #[test]
    fn what_a_keep_removed_has_no_share_in_the_gain() {
        let points: Vec<Point> =
            (0..).zip(["4", "3", "2.5", "2"]).map(|(id, value)| point(id, Some(value), Outcome::Keep)).collect();
        let mut summary = summarize(&points, Direction::Lower, Some(0), true);
        summary.share_out(&points, Direction::Lower, |id| id == 2.into());
        let steps: Vec<_> = summary.kept.iter().map(|step| (step.gain, step.share)).collect();
        let expected = [(None, None), (Some(1.0), Some(0.5)), (Some(0.5), None), (Some(0.5), Some(0.5))];
        assert_eq!(steps, expected, "the staircase stays as it was recorded");
    }

    #[test]
    fn nothing_kept_is_no_best() {
        let points = [point(0, Some("1"), Outcome::Discard)];
        let summary = summarize(&points, Direction::Lower, None, true);
        assert_eq!((summary.best, summary.gain, summary.keep_rate), (None, None, Some(0.0)));
    }
}

#[cfg(test)]
mod time_split_tests {
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
