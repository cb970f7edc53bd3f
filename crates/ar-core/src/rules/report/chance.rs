//! Warnings about gains that may be chance.

use super::evidence::{Evidence, Warning, listed, next_tag};
use super::summary::KeptStep;
use crate::domain::{ExperimentId, count_of, two_digits};

/// The total run time, in seconds, from which a missing repeat is worth a warning: an hour. In a shorter session it is
/// obvious, and short runs are often exact.
const WORTH_REPEATING: f64 = 3600.0;

/// Keeps of one run whose gain is within the spread of the same code.
pub(crate) fn within_spread(evidence: Evidence<'_>) -> Option<Warning> {
    let limit = evidence.spread?.limit;
    let gains = gains(evidence);
    let is_confirmed = |id: ExperimentId| evidence.points.iter().any(|point| point.id == id && point.is_confirmed);
    let is_small = |(id, gain): &&(ExperimentId, f64)| *gain <= limit && !is_confirmed(*id);
    let small: Vec<ExperimentId> = gains.iter().filter(is_small).map(|(id, _)| *id).collect();
    if small.is_empty() || limit == 0.0 {
        return None;
    }
    let by = two_digits(limit);
    let all = gains.len() as u32;
    Some(Warning {
        kind: "within_spread",
        what: format!(
            "{} of {} gained no more than the spread of {by}: {}",
            small.len(),
            count_of(all, "keep"),
            listed(&small)
        ),
        hint: evidence.tag.map(|tag| {
            format!(
                "`ar run --tag {} --min-delta {by}`, with its other terms, keeps only what gains more",
                next_tag(tag)
            )
        }),
    })
}

/// A session without any repeated measurement to judge chance.
pub(crate) fn never_repeated(evidence: Evidence<'_>) -> Option<Warning> {
    let tag = evidence.tag?;
    let is_long = evidence.time.is_some_and(|time| time.runs >= WORTH_REPEATING);
    if evidence.spread.is_some() || !is_long || gains(evidence).is_empty() {
        return None;
    }
    Some(Warning {
        kind: "never_repeated",
        what: "no experiment was measured twice, so chance cannot be ruled out".into(),
        hint: evidence.summary.kept.last().map(|newest| how_to_repeat(tag, evidence.points[newest.index].id)),
    })
}

/// The commands that measure an experiment again: at once, and to learn the spread of session `tag`.
pub fn how_to_repeat(tag: &str, id: ExperimentId) -> String {
    format!(
        "rerun it with `ar repro {id} --tag {tag}` to see how far apart the numbers are; to tell the report, \
         measure the newest keep again with `ar run --tag {} --max-experiments 0` and the session's other settings",
        next_tag(tag)
    )
}

/// The gain of each keep over the one before, with its experiment number.
fn gains(evidence: Evidence<'_>) -> Vec<(ExperimentId, f64)> {
    let steps = evidence.summary.kept.iter();
    steps.filter_map(|KeptStep { index, gain, .. }| Some((evidence.points[*index].id, (*gain)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::evidence::tests::warned;
    use super::super::summary::Point;
    use super::super::time_split::TimeSplit;
    use super::*;
    use crate::domain::Outcome::{self, Keep};
    use crate::rules::history::Spread;

    const KEEPS: [(&str, Outcome); 6] =
        [("9.0", Keep), ("8.5", Keep), ("8.0", Keep), ("7.5", Keep), ("7.0", Keep), ("0.5", Keep)];

    #[test]
    fn keeps_within_the_spread_are_counted() {
        let spread = |limit| Spread { repeated: Vec::new(), deviation: limit / 2.8, limit };
        let said = |limit| {
            let rule = |evidence: Evidence<'_>| within_spread(Evidence { spread: Some(&spread(limit)), ..evidence });
            warned(&KEEPS, |evidence| rule(evidence).into_iter().collect(), |_| ()).pop().map(|warning| warning.what)
        };
        assert_eq!(said(0.25), None);
        assert_eq!(said(0.0), None, "exact");
        assert_eq!(said(0.5).as_deref(), Some("4 of 5 keeps gained no more than the spread of 0.50: 1, 2, 3 and 4"));
    }

    #[test]
    fn what_fresh_runs_confirmed_is_no_chance() {
        let spread = Spread { repeated: Vec::new(), deviation: 1.0, limit: 2.8 };
        let warned = |is_confirmed: bool| {
            let confirm =
                |points: &mut Vec<Point>| points.iter_mut().for_each(|point| point.is_confirmed = is_confirmed);
            let rule = |evidence: Evidence<'_>| {
                let mut points = evidence.points.to_vec();
                confirm(&mut points);
                within_spread(Evidence { spread: Some(&spread), points: &points, ..evidence }).into_iter().collect()
            };
            warned(&KEEPS, rule, |_| ()).len()
        };
        assert_eq!([warned(false), warned(true)], [1, 0]);
    }

    #[test]
    fn a_long_session_should_measure_something_twice() {
        let time = |runs| TimeSplit {
            total: runs,
            runs,
            agent: 0.0,
            guards: 0.0,
            outages: 0.0,
            nobody: 0.0,
            rest: 0.0,
            limit_met: None,
        };
        let kinds = |runs, points: &[_]| {
            let rule = |evidence: Evidence<'_>| never_repeated(Evidence { time: Some(&time(runs)), ..evidence });
            warned(points, |evidence| rule(evidence).into_iter().collect(), |_| ()).len()
        };
        assert_eq!([kinds(3600.0, &KEEPS), kinds(3599.0, &KEEPS), kinds(3600.0, &KEEPS[..1])], [1, 0, 0]);
    }
}
