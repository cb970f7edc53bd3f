//! The results of each direction.

use serde::Serialize;

use super::summary::KeptStep;
use super::tally::{Tally, tally};
use crate::domain::{Layout, Record};
use crate::rules::history::{Ended, same_direction};

/// The results of the experiments in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DirectionResult {
    /// The name, as it was last written; absent for experiments without a direction.
    pub direction: Option<String>,
    /// Its results.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Sums up experiments by direction, the largest gain first. `kept` are the steps of their summary, by the places of
/// `records`; the baseline belongs to no direction. Empty where no experiment that ran names one.
pub fn by_direction(records: &[Record], kept: &[KeptStep], layout: Option<&Layout>) -> Vec<DirectionResult> {
    let mut names: Vec<Option<String>> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for record in records {
        if record.id.is_baseline() {
            groups.push(Vec::new());
            continue;
        }
        let is_of = |known: &Option<String>| match (known, &record.direction) {
            (Some(one), Some(other)) => same_direction(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let place = names.iter().position(is_of).unwrap_or_else(|| {
            names.push(record.direction.clone());
            names.len() - 1
        });
        if Ended::of_record(record).is_judged() {
            names[place].clone_from(&record.direction);
        }
        groups.push(vec![place]);
    }
    let tallies = tally(records, &groups, names.len(), kept, layout);
    let found = names.into_iter().zip(tallies).map(|(direction, tally)| DirectionResult { direction, tally });
    // What was never run says nothing of its direction.
    let mut found: Vec<DirectionResult> = found.filter(|found| found.tally.tried > 0).collect();
    if found.iter().all(|found| found.direction.is_none()) {
        return Vec::new();
    }
    let gain = |found: &DirectionResult| found.tally.gain.unwrap_or(0.0);
    found.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::{record, run};

    #[test]
    fn directions_are_summed_up_by_name_with_their_gains_and_hours() {
        let made = |id: u32, direction: Option<&str>, outcome: &str, seconds: f64| {
            let commit = format!("c{id}");
            record(
                json!({"id": id, "commit": commit, "direction": direction, "outcome": outcome, "runs": [run(seconds, None)]}),
            )
        };
        let records = [
            made(0, None, "keep", 3600.0),
            made(1, Some("schedule"), "keep", 1800.0),
            made(2, Some("Schedule"), "discard", 1800.0),
            made(3, Some("width"), "keep", 900.0),
            made(4, None, "discard", 900.0),
            record(
                json!({"id": 5, "direction": "width", "outcome": "crash", "runs": [], "failure": {"class": "scope", "excerpt": ""}}),
            ),
        ];
        let step = |index, gain, keeps| KeptStep { index, over: None, gain, keeps, relative_gain: None, share: None };
        let steps = [step(0, None, 1), step(1, Some(0.25), 1), step(3, Some(0.5), 1)];
        let found = by_direction(&records, &steps, None);
        let expected = |direction: Option<&str>, tried, kept, gain: Option<f64>, gpu_hours: f64| DirectionResult {
            direction: direction.map(str::to_owned),
            tally: Tally {
                tried,
                kept,
                refused: u32::from(direction == Some("width")),
                gain,
                gpu_hours,
                gain_per_gpu_hour: gain.map(|gain| gain / gpu_hours),
                never_helped: false,
            },
        };
        assert_eq!(
            found,
            [
                expected(Some("width"), 1, 1, Some(0.5), 0.25),
                expected(Some("Schedule"), 2, 1, Some(0.25), 1.0),
                expected(None, 1, 0, None, 0.25),
            ]
        );
        // A train's gain is that of all its changes.
        let train = [step(0, None, 1), step(1, None, 1), step(3, Some(0.5), 2)];
        let gains: Vec<_> = by_direction(&records, &train, None).iter().map(|found| found.tally.gain).collect();
        assert_eq!(gains, [Some(0.25), Some(0.25), None]);
        assert_eq!(by_direction(&records[4..5], &[], None), [], "nobody names one");
    }
}
