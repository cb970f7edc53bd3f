//! Doubts that the numbers of a session tell of its changes at all.

use super::evidence::{Warning, listed};
use super::summary::Point;
use crate::domain::{ExperimentId, Outcome, Record};
use crate::rules::decide::{kept_uncontrolled, moved_in_a_row};

/// The measured experiments in a row with the digits of the baseline from which it is doubtful that the code is run. A coarse
/// metric often gives the same number, but seldom so many times.
const SAME: usize = 6;

/// The controls in a row that moved from which it is doubtful that the metric can be compared at all.
const MOVED: usize = 3;

/// The doubts about the numbers of session `tag`: those of `points` are the baseline's, though the command starts `program`; the
/// last gains did not stand, as their controls moved; or the controls of keeps gave no number.
pub fn doubted_numbers(tag: &str, points: &[Point], records: &[Record], program: Option<&str>) -> Vec<Warning> {
    let doubts = [
        controls_moved(tag, &moved_in_a_row(records)),
        controls_failed(tag, &kept_uncontrolled(records)),
        same_digits(tag, points, program),
    ];
    doubts.into_iter().flatten().collect()
}

fn controls_failed(tag: &str, uncontrolled: &[ExperimentId]) -> Option<Warning> {
    let last = uncontrolled.last()?;
    Some(Warning {
        kind: "controls_failed",
        what: format!("kept although the control gave no number: {}", listed(uncontrolled)),
        hint: Some(format!("run `ar verify {last} --tag {tag}` to compare it by fresh runs")),
    })
}

fn controls_moved(tag: &str, moved: &[ExperimentId]) -> Option<Warning> {
    let last = moved.last().filter(|_| moved.len() >= MOVED)?;
    Some(Warning {
        kind: "controls_moved",
        what: format!(
            "{} gains in a row did not stand, because what they had beaten gave another number when it ran again: {}",
            moved.len(),
            listed(moved)
        ),
        hint: Some(format!(
            "run `ar show {last} --tag {tag}` for the numbers; look for state that runs leave behind, and for other load"
        )),
    })
}

fn same_digits(tag: &str, points: &[Point], program: Option<&str>) -> Option<Warning> {
    let (baseline, others) = points.split_first().filter(|(first, _)| first.id.is_baseline())?;
    let digits = &baseline.value.as_ref()?.raw;
    let measured = others.iter().rev().filter(|point| point.value.is_some() || point.outcome != Some(Outcome::Crash));
    let same = measured.take_while(|point| point.value.as_ref().is_some_and(|number| number.raw == *digits));
    let count = same.count();
    let last = others.iter().rfind(|point| point.value.is_some()).filter(|_| count >= SAME)?;
    let starts = program.map(|program| format!(" The command starts {program}.")).unwrap_or_default();
    Some(Warning {
        kind: "same_digits",
        what: format!(
            "the last {count} measured changes gave the digits of the baseline, {digits}: is your code run?{starts}"
        ),
        hint: Some(format!(
            "run `ar show {} --tag {tag}` for the last change, and check that the command runs this code, no installed copy \
             and no other tree",
            last.id
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Outcome::{Crash, Discard, Keep};
    use crate::rules::report::summary::tests::point;

    fn said(values: &[&str], program: Option<&str>) -> Option<Warning> {
        let point = |(id, value): (u32, &&str)| match *value {
            "-" => point(id, None, Crash),
            value => point(id, Some(value), if id == 0 { Keep } else { Discard }),
        };
        let points: Vec<Point> = (0..).zip(values).map(point).collect();
        doubted_numbers("t", &points, &[], program).pop()
    }

    #[test]
    fn six_changes_with_the_digits_of_the_baseline_are_a_doubt_until_another_number_comes() {
        let six = ["1.50"; 7];
        let warning = said(&six, Some("/usr/bin/bench")).unwrap();
        assert_eq!(
            warning.what,
            "the last 6 measured changes gave the digits of the baseline, 1.50: is your code run? The command starts \
             /usr/bin/bench."
        );
        assert!(warning.hint.unwrap().starts_with("run `ar show 6 --tag t` for the last change"));
        assert_eq!(said(&six[..6], None), None, "five");
        let with_crash = ["1.50", "1.50", "-", "1.50", "1.50", "1.50", "1.50", "1.50", "-"];
        assert!(said(&with_crash, None).unwrap().hint.unwrap().contains("ar show 7 "), "a crash tells nothing");
        assert_eq!(said(&[&six[..], &["1.5"]].concat(), None), None, "other digits");
    }

    #[test]
    fn three_controls_in_a_row_that_moved_are_a_doubt() {
        let doubts = |moved: &[u32]| {
            let moved: Vec<ExperimentId> = moved.iter().copied().map(ExperimentId::from).collect();
            controls_moved("t", &moved).map(|warning| warning.what)
        };
        assert_eq!(doubts(&[1, 4]), None);
        assert_eq!(
            doubts(&[1, 4, 5]).as_deref(),
            Some(
                "3 gains in a row did not stand, because what they had beaten gave another number when it ran again: 1, 4 and 5"
            )
        );
    }

    #[test]
    fn a_keep_whose_control_gave_no_number_is_a_doubt() {
        let doubt = controls_failed("t", &[4.into()]).unwrap();
        assert_eq!(doubt.what, "kept although the control gave no number: 4");
        assert!(doubt.hint.unwrap().starts_with("run `ar verify 4 --tag t`"));
    }
}
