//! The outcome of a measured change: keep or discard by the comparison of two values, also of stale attempts and in a
//! train, and when the agent is called again for it.

use crate::domain::{
    Contract, DiffStat, Direction, ExperimentId, Failure, FailureClass, MetricSpec, Number, Outcome, Run, Version,
    percent_text, span_text,
};
use crate::rules::{Car, LIMIT, MergedChange, Noise, Tested};

/// An outcome with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason in one sentence, with values.
    pub reason: String,
}

/// Decides on a measured value against the incumbent.
///
/// A value is kept if it is better than the incumbent's by more than `min_delta` (0 or more, in the metric's unit); an
/// equal one is discarded. Without an incumbent (the baseline) it is kept.
pub fn decide(
    metric: &MetricSpec,
    measured: &Number,
    incumbent: Option<(ExperimentId, &Number)>,
    min_delta: f64,
) -> Verdict {
    let name = &metric.name;
    let Some((id, best)) = incumbent else {
        return Verdict { outcome: Outcome::Keep, reason: format!("{name} is {measured}, the number to beat") };
    };
    let gain = metric.direction.gain(measured.value, best.value);
    let size = format_gain(measured, best);
    let (outcome, reason) = if gain == 0.0 {
        (Outcome::Discard, format!("{name} {measured} equals experiment {id}"))
    } else if gain < 0.0 {
        (Outcome::Discard, format!("{name} {measured} is worse than {best} of experiment {id} by {size}"))
    } else if exceeds(gain, min_delta, measured, best) {
        (Outcome::Keep, format!("{name} {measured} is better than {best} of experiment {id} by {size}"))
    } else {
        let reason = format!(
            "{name} {measured} is better than {best} of experiment {id} by {size}, which is not more than the \
             minimum of {min_delta}"
        );
        (Outcome::Discard, reason)
    };
    Verdict { outcome, reason }
}

/// Decides on a measured value by a threshold, whatever was kept before: what reaches it is kept.
pub(crate) fn decide_by_threshold(metric: &MetricSpec, measured: &Number, threshold: f64) -> Verdict {
    let is_missed = metric.direction.better(threshold, measured.value);
    let (outcome, how) = match (is_missed, metric.direction) {
        (false, _) => (Outcome::Keep, "reaches"),
        (true, Direction::Higher) => (Outcome::Discard, "is below"),
        (true, Direction::Lower) => (Outcome::Discard, "is above"),
    };
    Verdict { outcome, reason: format!("{} {measured} {how} the threshold of {threshold}", metric.name) }
}

/// Returns whether `gain` exceeds `min_delta`. A difference of exactly `min_delta` between decimal numbers does not,
/// despite binary rounding: a difference is off by at most two roundings of the larger number.
pub(crate) fn exceeds(gain: f64, min_delta: f64, a: &Number, b: &Number) -> bool {
    let rounding = if min_delta == 0.0 { 0.0 } else { 4.0 * f64::EPSILON * a.value.abs().max(b.value.abs()) };
    gain > min_delta + rounding
}

/// The most decimals of a difference; finer ones read better in scientific notation.
pub(super) const MOST_DECIMALS: usize = 12;

/// 2 to the power of 53: from here a number holds fewer digits than stand before its decimal point.
const TOO_LARGE: f64 = 9_007_199_254_740_992.0;

/// Formats the distance of two numbers with the decimals of the more precise one; never all zeros if they differ.
pub fn format_distance(a: &Number, b: &Number) -> String {
    let distance = (a.value - b.value).abs();
    let decimals = a.decimals().max(b.decimals());
    if distance < TOO_LARGE {
        let text = format!("{distance:.*}", decimals.min(MOST_DECIMALS));
        // If a number is written to its last bit, trailing zeros of a difference mean nothing.
        let text = if decimals > MOST_DECIMALS { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if distance == 0.0 || text.contains(|c: char| ('1'..='9').contains(&c)) {
            return text.to_owned();
        }
    }
    format!("{distance:.3e}")
}

/// Formats the distance of two numbers, see [`format_distance`], also relative to the second: `0.0531 (2.9%)`.
pub fn format_gain(a: &Number, b: &Number) -> String {
    let absolute = format_distance(a, b);
    match relative_gain(Direction::Higher, a.value, b.value) {
        Some(ratio) => format!("{absolute} ({})", percent_text(ratio.abs())),
        None => absolute,
    }
}

/// Formats the distance of two different numbers, see [`format_gain`], with its sense: `0.0531 (2.9%) better`.
pub fn format_step(direction: Direction, a: &Number, b: &Number) -> String {
    let way = if direction.gain(a.value, b.value) < 0.0 { "worse" } else { "better" };
    format!("{} {way}", format_gain(a, b))
}

/// The gain of `a` over `b`, relative to the size of `b`; `None` if `b` is 0.
pub fn relative_gain(direction: Direction, a: f64, b: f64) -> Option<f64> {
    let ratio = direction.gain(a, b) / b.abs();
    ratio.is_finite().then_some(ratio)
}

/// One sentence that says why an experiment has no number. `run` is the one that failed, if there was one.
pub fn describe_failure(failure: &Failure, metric: &str, ended: &str, run: Option<&Run>) -> String {
    let reason = match run.and_then(|run| run.silent) {
        Some(seconds) => format!("silent for {} ({ended})", span_text(seconds)),
        None => failure.class.reason().replace("{metric}", metric).replace("{ended}", ended),
    };
    match &failure.detail {
        Some(detail) if failure.class == FailureClass::NoMetric => format!("{detail} ({ended})"),
        Some(detail) => format!("{reason}; {detail}"),
        None => reason,
    }
}

/// The values to beat: the incumbent's and the best ever kept. They differ after a simplification that worsened the
/// value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rivals<'a> {
    /// The incumbent's experiment.
    pub(crate) id: ExperimentId,
    /// Its value.
    pub(crate) incumbent: &'a Number,
    /// The best value ever kept.
    pub(crate) best: &'a Number,
}

/// The verdict if simplicity decides: the value is within `margin` (0 or more, in the metric's unit) of the
/// incumbent's. Then a change that deletes more lines than it adds is kept, and one that adds more is not. `None` if
/// the values decide.
///
/// The criterion is that of Karpathy's program.md: a small gain is not worth ugly complexity, but an equal value with
/// less code is. Repeated simplifications cannot drift: each must be within the margin of the best value, too.
pub(crate) fn decide_by_simplicity(
    metric: &MetricSpec,
    measured: &Number,
    rivals: Rivals<'_>,
    margin: f64,
    diff: DiffStat,
) -> Option<Verdict> {
    let Rivals { id, incumbent, best } = rivals;
    let distance = (measured.value - incumbent.value).abs();
    if exceeds(distance, margin, measured, incumbent) {
        return None;
    }
    let lines = format!("+{} -{} lines", diff.added, diff.deleted);
    let name = &metric.name;
    let within = format!("{name} {measured} is within {margin} of {incumbent} of experiment {id}");
    if diff.deleted > diff.added {
        let behind = match metric.direction {
            Direction::Lower => measured.value - best.value,
            Direction::Higher => best.value - measured.value,
        };
        if exceeds(behind, margin, measured, best) {
            let size = format_distance(measured, best);
            let reason =
                format!("{within}, but {size} behind the best, {best}, which is more than a simplification may cost");
            return Some(Verdict { outcome: Outcome::Discard, reason });
        }
        return Some(Verdict { outcome: Outcome::Keep, reason: format!("simplification: {within}, with {lines}") });
    }
    (diff.added > diff.deleted)
        .then(|| Verdict { outcome: Outcome::Discard, reason: format!("{within}, which is not worth {lines}") })
}

/// The next step for a stale change that was merged onto the incumbent before it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedStep {
    /// Run the merged tree; the incumbent is its base now.
    Run,
    /// Have the agent merge it.
    Ask,
    /// Refuse it: it conflicts, also after the agent's work.
    Conflict,
    /// Refuse it: the incumbent contains it.
    Duplicate,
}

/// The next step after the merge of a stale change that did not run yet; the agent is asked once.
pub fn before_run(merged: MergedChange, was_asked: bool) -> MergedStep {
    match merged {
        MergedChange::Clean => MergedStep::Run,
        MergedChange::Empty => MergedStep::Duplicate,
        MergedChange::Conflict if was_asked => MergedStep::Conflict,
        MergedChange::Conflict => MergedStep::Ask,
    }
}

/// The largest amount by which a train may be worse than its best car alone, in the metric's unit. It is the minimum
/// gain, or the distance between the best and the worst run of the baseline if that is larger. Without an estimate of
/// the noise, nothing better is known.
pub fn train_tolerance(min_delta: f64, baseline_runs: &[f64]) -> f64 {
    let worst = baseline_runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let best = baseline_runs.iter().copied().fold(f64::INFINITY, f64::min);
    min_delta.max(worst - best)
}

/// The largest amount by which the mean of so many runs of a train may be worse than its best car alone, in the metric's unit:
/// the minimum gain, or the repeatability limit of such means (ISO 5725-6) if that is larger.
pub fn mean_tolerance(min_delta: f64, noise: Option<&Noise>, runs: usize) -> f64 {
    let limit = noise.map_or(0.0, |noise| LIMIT * noise.deviation / (runs.max(1) as f64).sqrt());
    min_delta.max(limit)
}

/// What the `verdict` on merged winners with this value means for their line: that of a single change, also by simplicity or by
/// a threshold. Without a threshold, the value is then compared with the best car's alone.
pub fn judge_train<'a>(
    contract: &Contract,
    value: Option<&Number>,
    mut verdict: Verdict,
    cars: &[&'a Car],
    tolerance: f64,
) -> (Tested, Verdict) {
    let direction = contract.metric.direction;
    let (Some(value), Outcome::Keep) = (value, verdict.outcome) else {
        return (Tested::NotBetter(value.cloned()), verdict);
    };
    if contract.keep_above.is_some() {
        return (Tested::Holds(value.clone()), verdict);
    }
    let better =
        |one: &'a Car, other: &'a Car| if direction.better(one.number.value, other.number.value) { one } else { other };
    let best = cars.iter().copied().reduce(|best, car| better(car, best));
    let behind = |car: &Car| exceeds(direction.gain(car.number.value, value.value), tolerance, &car.number, value);
    let tested = match best.filter(|car| behind(car)) {
        Some(car) => {
            let Car { id, number, .. } = car;
            let less = format_distance(value, number);
            verdict.reason += &format!(", but less good than {number} of experiment {id} alone by {less}");
            Tested::Better(value.clone())
        }
        None => Tested::Holds(value.clone()),
    };
    (tested, verdict)
}

/// The most times that the agent may rework a change that failed a guard: 2, as in the bounded modify-verify-decide
/// protocols in use.
pub const REWORKS: u32 = 2;

/// The most fixes of a change that does not parse or import: 2, after which the protocols of overnight training skip
/// the idea.
pub const FIXES: u32 = 2;

/// The reason to call the agent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReworkTask {
    /// Fix: the code does not parse, or an import fails.
    Fix,
    /// Rework: the value is better, but a guard fails.
    Rework,
    /// Mend: it was merged with what was kept meanwhile, and fails since.
    Mend,
}

/// A further call of the agent for the same experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReworkCall {
    /// Its reason.
    pub task: ReworkTask,
    /// Retry number, from 1.
    pub time: u32,
    /// The most retries allowed.
    pub limit: u32,
}

/// Decides whether to call the agent again for an experiment that ended with `failure`, after earlier `versions` that
/// failed.
pub fn next_rework(failure: Option<&Failure>, versions: &[Version]) -> Option<ReworkCall> {
    let task = task_of(failure)?;
    let limit = match task {
        ReworkTask::Fix => FIXES,
        ReworkTask::Rework => REWORKS,
        ReworkTask::Mend => 1,
    };
    let before = versions.iter().filter(|version| task_of(version.failure.as_ref()) == Some(task)).count();
    let time = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
    (time <= limit).then_some(ReworkCall { task, time, limit })
}

/// The tree of a run on slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// The change on its own base.
    Own,
    /// The change, merged with what was kept meanwhile before its first run.
    Merged,
    /// A trial of winners.
    Trial,
}

/// The same on slots. A change that fails once it is merged goes to the agent once, whatever the failure is: the idea is not
/// to blame. A trial has no agent of its own: it did not hold, and its halves are tried.
pub fn next_rework_on_slots(ran: Ran, failure: Option<&Failure>, versions: &[Version]) -> Option<ReworkCall> {
    let judges = failure.is_some_and(|failure| failure.class.judges_change());
    match ran {
        Ran::Own => next_rework(failure, versions),
        Ran::Merged => next_rework(failure, versions).or_else(|| {
            (judges && versions.is_empty()).then_some(ReworkCall { task: ReworkTask::Mend, time: 1, limit: 1 })
        }),
        Ran::Trial => None,
    }
}

fn task_of(failure: Option<&Failure>) -> Option<ReworkTask> {
    match failure?.class {
        FailureClass::SyntaxError | FailureClass::ImportError => Some(ReworkTask::Fix),
        FailureClass::GuardFailed => Some(ReworkTask::Rework),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CommitId, MetricSource};

    fn spec(direction: Direction) -> MetricSpec {
        MetricSpec { name: "val_bpb".into(), direction, source: MetricSource::Log }
    }

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    fn judge(direction: Direction, new: &str, old: &str, min_delta: f64) -> (Outcome, String) {
        let verdict = decide(&spec(direction), &number(new), Some((3.into(), &number(old))), min_delta);
        (verdict.outcome, verdict.reason)
    }

    #[test]
    fn what_was_found_instead_of_a_number_is_in_the_reason() {
        let failure = |class| Failure { detail: Some("loss is 3 MB".into()), ..Failure::new(class, "") };
        let said = |class| describe_failure(&failure(class), "loss", "exit 0", None);
        assert_eq!(said(FailureClass::NoMetric), "loss is 3 MB (exit 0)");
        assert_eq!(said(FailureClass::Timeout), "the deadline passed (exit 0); loss is 3 MB");
    }

    #[test]
    fn a_threshold_is_reached_at_it_and_beyond_it() {
        let judge = |direction, value| decide_by_threshold(&spec(direction), &number(value), 0.45);
        for (direction, value, outcome, reason) in [
            (Direction::Higher, "0.4500", Outcome::Keep, "val_bpb 0.4500 reaches the threshold of 0.45"),
            (Direction::Higher, "0.4499", Outcome::Discard, "val_bpb 0.4499 is below the threshold of 0.45"),
            (Direction::Lower, "0.4500", Outcome::Keep, "val_bpb 0.4500 reaches the threshold of 0.45"),
            (Direction::Lower, "0.4501", Outcome::Discard, "val_bpb 0.4501 is above the threshold of 0.45"),
        ] {
            assert_eq!(judge(direction, value), Verdict { outcome, reason: reason.into() });
        }
    }

    #[test]
    fn every_sentence_has_its_numbers() {
        let cases = [
            (
                "1.7811",
                "1.8342",
                0.0,
                Outcome::Keep,
                "val_bpb 1.7811 is better than 1.8342 of experiment 3 by 0.0531 (2.9%)",
            ),
            (
                "1.8589",
                "1.8342",
                0.0,
                Outcome::Discard,
                "val_bpb 1.8589 is worse than 1.8342 of experiment 3 by 0.0247 (1.3%)",
            ),
            ("1.8342", "1.8342", 0.0, Outcome::Discard, "val_bpb 1.8342 equals experiment 3"),
            ("1.83420", "1.8342", 0.0, Outcome::Discard, "val_bpb 1.83420 equals experiment 3"),
            (
                "1.8340",
                "1.8342",
                0.001,
                Outcome::Discard,
                "val_bpb 1.8340 is better than 1.8342 of experiment 3 by 0.0002 (0.011%), which is not more than \
                    the minimum of 0.001",
            ),
        ];
        for (new, old, delta, outcome, reason) in cases {
            assert_eq!(judge(Direction::Lower, new, old, delta), (outcome, reason.to_owned()));
        }
    }

    #[test]
    fn direction_turns_the_verdict() {
        assert_eq!(judge(Direction::Higher, "0.91", "0.90", 0.0).0, Outcome::Keep);
        assert_eq!(judge(Direction::Higher, "0.89", "0.90", 0.0).0, Outcome::Discard);
        assert_eq!(judge(Direction::Lower, "-2", "-1", 0.0).0, Outcome::Keep);
    }

    #[test]
    fn a_gain_of_exactly_the_minimum_is_not_more_than_it() {
        // 1.1 - 1.0 is 0.10000000000000009 in binary.
        assert_eq!(judge(Direction::Lower, "1.0", "1.1", 0.1).0, Outcome::Discard);
        assert_eq!(judge(Direction::Lower, "0.99", "1.1", 0.1).0, Outcome::Keep);
        assert_eq!(judge(Direction::Lower, "0.3", "0.30000000000000004", 0.0).0, Outcome::Keep);
    }

    #[test]
    fn small_gains_keep_their_digits() {
        assert_eq!(format_gain(&number("0.9979"), &number("0.9980")), "0.0001 (0.010%)");
        assert_eq!(format_gain(&number("1.5e-7"), &number("2e-7")), "0.00000005 (25%)");
        assert_eq!(format_gain(&number("1.99e2"), &number("1.00e2")), "99 (99%)");
        assert_eq!(format_gain(&number("1.1000000000000001"), &number("1.3")), "0.2 (15%)");
        assert_eq!(format_gain(&number("0.3"), &number("0.30000000000000004")), "5.551e-17 (1.9e-14%)");
        assert_eq!(format_gain(&number("1e-20"), &number("3e-20")), "2.000e-20 (67%)");
        assert_eq!(format_gain(&number("1e30"), &number("3e30")), "2.000e30 (67%)");
        assert_eq!(format_gain(&number("2.50"), &number("2.5")), "0.00 (0%)");
        assert_eq!(format_gain(&number("3"), &number("0")), "3");
    }

    fn verdict(measured: &str, incumbent: &str, best: &str, added: u32, deleted: u32) -> Option<(Outcome, String)> {
        let metric = MetricSpec { name: "val_bpb".into(), direction: Direction::Lower, source: MetricSource::Log };
        let number = |text: &str| text.parse::<Number>().unwrap();
        let (incumbent, best) = (number(incumbent), number(best));
        let rivals = Rivals { id: 3.into(), incumbent: &incumbent, best: &best };
        let diff = DiffStat { files: 1, added, deleted };
        let verdict = decide_by_simplicity(&metric, &number(measured), rivals, 0.01, diff)?;
        Some((verdict.outcome, verdict.reason))
    }

    #[test]
    fn near_the_incumbent_what_deletes_is_kept_and_what_adds_is_not() {
        let outcome = |measured, added, deleted| verdict(measured, "1.00", "1.00", added, deleted).map(|(it, _)| it);
        assert_eq!(outcome("1.01", 2, 9), Some(Outcome::Keep), "exactly at the margin");
        assert_eq!(outcome("1.02", 2, 9), None, "worse by more");
        assert_eq!(outcome("0.995", 9, 2), Some(Outcome::Discard), "a small gain that costs lines");
        assert_eq!(outcome("0.98", 9, 2), None, "a gain");
        assert_eq!(outcome("0.995", 2, 2), None, "neither");
        let (_, reason) = verdict("1.005", "1.00", "1.00", 2, 9).unwrap();
        assert_eq!(reason, "simplification: val_bpb 1.005 is within 0.01 of 1.00 of experiment 3, with +2 -9 lines");
    }

    #[test]
    fn simplifications_in_a_row_do_not_drift_away() {
        assert_eq!(verdict("1.009", "1.005", "1.00", 0, 5).unwrap().0, Outcome::Keep);
        let (outcome, reason) = verdict("1.014", "1.005", "1.00", 0, 5).unwrap();
        assert_eq!(outcome, Outcome::Discard);
        assert!(reason.contains("0.014 behind the best, 1.00"), "{reason}");
    }

    fn failure(class: FailureClass) -> Option<Failure> {
        Some(Failure::new(class, ""))
    }

    #[test]
    fn fixes_and_reworks_are_counted_each_for_itself() {
        use FailureClass::{GuardFailed, ImportError, Oom, SyntaxError};
        let version = |class| Version {
            commit: CommitId::new(""),
            saved: String::new(),
            failure: failure(class),
            reason: String::new(),
            value: None,
            guards: Vec::new(),
        };
        for (last, before, expected) in [
            (Oom, vec![], None),
            (SyntaxError, vec![], Some((ReworkTask::Fix, 1))),
            (ImportError, vec![SyntaxError], Some((ReworkTask::Fix, 2))),
            (SyntaxError, vec![SyntaxError, ImportError], None),
            (GuardFailed, vec![SyntaxError, ImportError], Some((ReworkTask::Rework, 1))),
            (GuardFailed, vec![GuardFailed, SyntaxError], Some((ReworkTask::Rework, 2))),
            (GuardFailed, vec![GuardFailed, GuardFailed], None),
        ] {
            let versions: Vec<_> = before.iter().copied().map(version).collect();
            let found = next_rework(failure(last).as_ref(), &versions).map(|again| (again.task, again.time));
            assert_eq!(found, expected, "{last} after {before:?}");
        }
        assert_eq!(next_rework(None, &[]), None);
        let mend = |class, versions: &[Version]| {
            next_rework_on_slots(Ran::Merged, failure(class).as_ref(), versions).map(|it| it.task)
        };
        assert_eq!(mend(Oom, &[]), Some(ReworkTask::Mend));
        assert_eq!(mend(Oom, &[version(Oom)]), None, "once");
        assert_eq!(mend(SyntaxError, &[]), Some(ReworkTask::Fix));
        assert_eq!(mend(FailureClass::Lost, &[]), None, "nobody's change is to blame");
        assert_eq!(next_rework_on_slots(Ran::Merged, None, &[]), None);
        for class in [SyntaxError, ImportError, GuardFailed, Oom] {
            assert_eq!(next_rework_on_slots(Ran::Trial, failure(class).as_ref(), &[]), None, "{class} of a trial");
            let own = next_rework(failure(class).as_ref(), &[]);
            assert_eq!(next_rework_on_slots(Ran::Own, failure(class).as_ref(), &[]), own, "{class} on its own base");
        }
    }
}

#[cfg(test)]
mod settle_tests {
    use serde_json::json;

    use super::super::judge::{Measurement, judge};
    use super::*;
    use crate::domain::{CommitId, DiffStat, Direction, Failure, FailureClass, MetricSource, MetricSpec, Number};
    use crate::rules::history::History;
    use crate::rules::sample::record;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    fn judged(direction: Direction, measured: &Measurement, alone: &[&str], tolerance: f64) -> (Tested, String) {
        judged_by(None, direction, measured, alone, tolerance)
    }

    fn judged_by(
        keep_above: Option<f64>,
        direction: Direction,
        measured: &Measurement,
        alone: &[&str],
        tolerance: f64,
    ) -> (Tested, String) {
        let metric = MetricSpec { name: "loss".into(), direction, source: MetricSource::default() };
        let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
        let mut contract = Contract::new(tag, metric, "true".into(), start, jiff::Timestamp::UNIX_EPOCH);
        contract.limits = vec!["memory_gb<=40".parse().unwrap()];
        contract.keep_above = keep_above.map(Into::into);
        let history = History::new(vec![record(json!({"value": "2.0"}))]);
        let cars: Vec<Car> =
            alone.iter().zip(3..).map(|(value, id)| Car::new(id.into(), 0.into(), number(value), 0.1)).collect();
        let cars: Vec<&Car> = cars.iter().collect();
        let id = cars.last().unwrap().id;
        let (verdict, _) = judge(&contract, (&history, history.records()), id, DiffStat::default(), measured);
        let value = measured.value.as_ref().filter(|_| measured.failure.is_none());
        let (tested, verdict) = judge_train(&contract, value, verdict, &cars, tolerance);
        (tested, verdict.reason)
    }

    fn measured(value: &str) -> Measurement {
        Measurement { value: Some(number(value)), memory_gb: Some(4.0), ..Measurement::default() }
    }

    #[test]
    fn a_train_that_reaches_the_threshold_holds_whatever_its_cars_had_alone() {
        let train = |value| judged_by(Some(1.8), Direction::Lower, &measured(value), &["1.25"], 0.0);
        let (tested, reason) = train("1.75");
        assert_eq!((tested, reason.contains("less good")), (Tested::Holds(number("1.75")), false), "{reason}");
        assert_eq!(train("1.9").0, Tested::NotBetter(Some(number("1.9"))));
    }

    #[test]
    fn a_train_holds_if_it_is_better_than_the_incumbent_and_as_good_as_its_best_car() {
        let lower = |value: &str, tolerance| judged(Direction::Lower, &measured(value), &["1.75", "1.5"], tolerance).0;
        assert_eq!(lower("1.25", 0.0), Tested::Holds(number("1.25")));
        assert_eq!(lower("1.5", 0.0), Tested::Holds(number("1.5")), "as good");
        assert_eq!(lower("1.6", 0.0), Tested::Better(number("1.6")));
        assert_eq!(
            lower("1.6", 0.1),
            Tested::Holds(number("1.6")),
            "within the tolerance, whatever binary rounding adds"
        );
        assert_eq!(lower("2.0", 1.0), Tested::NotBetter(Some(number("2.0"))), "the incumbent's value");
        let higher = |value: &str| judged(Direction::Higher, &measured(value), &["2.25", "2.5"], 0.0).0;
        assert_eq!(higher("2.5"), Tested::Holds(number("2.5")));
        assert_eq!(higher("2.3"), Tested::Better(number("2.3")));
        assert_eq!(higher("1.9"), Tested::NotBetter(Some(number("1.9"))));
        let (_, reason) = judged(Direction::Lower, &measured("1.6"), &["1.75", "1.5"], 0.0);
        assert!(reason.ends_with(", but less good than 1.5 of experiment 4 alone by 0.1"), "{reason}");
    }

    #[test]
    fn a_train_that_fails_or_exceeds_a_limit_is_not_better() {
        let failure = Some(Failure::new(FailureClass::Oom, ""));
        let failed = Measurement { failure, ended: "exit 1".into(), ..measured("1.0") };
        assert_eq!(judged(Direction::Lower, &failed, &["1.5"], 0.0).0, Tested::NotBetter(None));
        let large = Measurement { memory_gb: Some(44.0), ..measured("1.0") };
        assert_eq!(judged(Direction::Lower, &large, &["1.5"], 0.0).0, Tested::NotBetter(Some(number("1.0"))));
    }

    #[test]
    fn the_tolerance_is_the_minimum_gain_and_at_least_the_spread_of_the_baseline() {
        assert_eq!(train_tolerance(0.25, &[]), 0.25);
        assert_eq!(train_tolerance(0.25, &[2.0]), 0.25);
        assert_eq!(train_tolerance(0.25, &[2.0, 2.5, 1.75]), 0.75);
    }

    #[test]
    fn a_change_that_conflicts_before_its_run_goes_to_the_agent_once() {
        use MergedChange::{Clean, Conflict, Empty};
        let cases = [(Clean, MergedStep::Run), (Conflict, MergedStep::Ask), (Empty, MergedStep::Duplicate)];
        assert!(cases.into_iter().all(|(merged, expected)| before_run(merged, false) == expected));
        assert_eq!(before_run(Conflict, true), MergedStep::Conflict);
        assert_eq!(before_run(Clean, true), MergedStep::Run);
    }
}
