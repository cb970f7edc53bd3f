//! The verdicts on stale attempts: on their own base, merged before they ran, and in a train.

use super::noise::Noise;
use super::outcome::{Verdict, exceeds, format_distance};
use super::trains::{Car, MergedChange, Tested};
use crate::domain::{Contract, Number, Outcome};
use crate::rules::history::LIMIT;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::judge::{Measured, judge};
    use super::*;
    use crate::domain::{CommitId, DiffStat, Direction, Failure, FailureClass, MetricSource, MetricSpec, Number};
    use crate::rules::history::History;
    use crate::rules::sample::record;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    fn judged(direction: Direction, measured: &Measured, alone: &[&str], tolerance: f64) -> (Tested, String) {
        judged_by(None, direction, measured, alone, tolerance)
    }

    fn judged_by(
        keep_above: Option<f64>,
        direction: Direction,
        measured: &Measured,
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

    fn measured(value: &str) -> Measured {
        Measured { value: Some(number(value)), memory_gb: Some(4.0), ..Measured::default() }
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
        let failed = Measured { failure, ended: "exit 1".into(), ..measured("1.0") };
        assert_eq!(judged(Direction::Lower, &failed, &["1.5"], 0.0).0, Tested::NotBetter(None));
        let large = Measured { memory_gb: Some(44.0), ..measured("1.0") };
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
