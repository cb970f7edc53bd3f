//! Gains that are too large to be believed unread.

use super::evidence::{Evidence, Warning};
use super::summary::{KeptStep, Point, Summary, summarize};
use crate::domain::{Contract, Direction, ExperimentId, Outcome, two_digits};
use crate::rules::history::{History, RunningMedian};

/// The ratio to the median gain of earlier keeps from which a gain is suspicious. Own judgement: the first steps are
/// often the largest, later ones differ by small factors, and a cheated metric changes by an order of magnitude.
const JUMP: f64 = 10.0;

/// The number of earlier gains that a meaningful median needs.
const USUAL: usize = 2;

/// The share of the value to beat from which a gain is suspicious where lower is better. Own judgement: a loss falls by
/// percents, and one that is cheated falls to nothing.
const SHARE: f64 = 0.5;

/// The keeps whose gain is doubtful, each with a clause that says why.
fn doubtful(points: &[Point], summary: &Summary, direction: Direction) -> Vec<(ExperimentId, String)> {
    let mut before = RunningMedian::default();
    let mut found = Vec::new();
    for step in &summary.kept {
        let Some(gain) = step.gain_of_each().filter(|gain| *gain > 0.0) else { continue };
        let usual = before.get().filter(|_| before.count() >= USUAL);
        let times = usual.map(|usual| gain / usual).filter(|times| *times > JUMP);
        let why = match times {
            Some(times) => Some(format!("{} times the median of the keeps before it", two_digits(times))),
            None => falls_by_half(points, step, direction),
        };
        found.extend(why.map(|why| (points[step.index].id, why)));
        before.add(gain);
    }
    found
}

/// Returns the reason to doubt a step that takes more than half of the value to beat, where lower is better.
fn falls_by_half(points: &[Point], step: &KeptStep, direction: Direction) -> Option<String> {
    let beaten = points[step.over?].value.as_ref()?;
    let is_half = step.gain? > SHARE * beaten.value.abs() && beaten.value != 0.0;
    (direction == Direction::Lower && is_half).then(|| format!("more than half of {beaten}, the value to beat"))
}

/// Warns of keeps with doubtful gains.
pub(crate) fn jumps(evidence: Evidence<'_>) -> Vec<Warning> {
    let warning = |(id, why): (ExperimentId, String)| Warning {
        kind: "jump",
        what: format!("experiment {id} gained {why}"),
        hint: Some(match evidence.tag {
            Some(tag) => {
                format!("read its diff with `ar show {id} --tag {tag}`: does it still measure the same thing?")
            }
            None => "read its diff: does it still measure the same thing?".into(),
        }),
    };
    // With a threshold, there is no value to beat.
    let found = match evidence.has_threshold {
        true => Vec::new(),
        false => doubtful(evidence.points, evidence.summary, evidence.direction),
    };
    found.into_iter().map(warning).collect()
}

/// The reason to doubt the gain of a recorded experiment, as a clause. `None` if there is no doubt, if there was no
/// value to beat, or if a threshold decides.
pub fn doubtful_gain(contract: &Contract, history: &History, id: ExperimentId) -> Option<String> {
    let direction = contract.metric.direction;
    if contract.keep_above.is_some() || history.get(id).is_none_or(|record| record.outcome != Outcome::Keep) {
        return None;
    }
    let points: Vec<Point> = history
        .records()
        .iter()
        .map(|record| Point {
            id: record.id,
            value: history.number_to_beat(record),
            outcome: record.verdict(),
            ..Point::default()
        })
        .collect();
    let baseline = points.iter().position(|point| point.id.is_baseline());
    let summary = summarize(&points, direction, baseline, true);
    let found = doubtful(&points, &summary, direction).into_iter().find(|(doubted, _)| *doubted == id);
    found.map(|(_, why)| format!("gained {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::evidence::tests::warned;
    use super::*;
    use crate::domain::Outcome::{Discard, Keep};

    fn said(points: &[(&str, Outcome)], direction: Direction) -> Vec<String> {
        let rule = |evidence: Evidence<'_>| {
            let summary = summarize(evidence.points, direction, Some(0), true);
            jumps(Evidence { summary: &summary, direction, ..evidence })
        };
        warned(points, rule, |_| ()).into_iter().map(|warning| warning.what).collect()
    }

    #[test]
    fn the_third_keep_is_the_first_that_is_compared_with_the_others() {
        let third = [("90", Keep), ("89", Keep), ("88", Keep), ("77", Keep), ("76.5", Keep)];
        assert_eq!(said(&third, Direction::Lower), ["experiment 3 gained 11 times the median of the keeps before it"]);
        assert!(said(&[("90", Keep), ("89", Keep), ("77", Keep)], Direction::Lower).is_empty(), "the second");
        let ten = [("90", Keep), ("89", Keep), ("95", Discard), ("88", Keep), ("78", Keep)];
        assert!(said(&ten, Direction::Lower).is_empty(), "not more than ten times");
        let higher = [("1", Keep), ("2", Keep), ("3", Keep), ("40", Keep)];
        assert_eq!(
            said(&higher, Direction::Higher),
            ["experiment 3 gained 37 times the median of the keeps before it"]
        );
        let train = [("1", Keep), ("2", Keep), ("3", Keep), ("-", Keep), ("22", Keep)];
        assert!(said(&train, Direction::Higher).is_empty(), "a train of two gains more than one");
    }

    #[test]
    fn a_loss_that_falls_by_more_than_half_is_doubtful_at_once() {
        let said = |points: &[(&str, Outcome)]| said(points, Direction::Lower);
        let half = "experiment 1 gained more than half of 2.000, the value to beat";
        assert_eq!(said(&[("2.000", Keep), ("0.001", Keep)]), [half]);
        assert!(said(&[("2.000", Keep), ("1.000", Keep)]).is_empty());
        assert_eq!(said(&[("-2.0", Keep), ("-3.5", Keep)]).len(), 1, "a logarithm");
        assert!(said(&[("0.0", Keep), ("-3.5", Keep)]).is_empty());
        assert!(tests::said(&[("1.0", Keep), ("2.0", Keep)], Direction::Higher).is_empty());
    }
}
