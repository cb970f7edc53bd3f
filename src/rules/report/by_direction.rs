//! The results of each direction.

use std::collections::BTreeMap;

use serde::Serialize;

use super::summary::KeptStep;
use crate::domain::{ExperimentId, Layout, Record};
use crate::rules::history::{Ended, same_direction};
use crate::rules::schedule::{RunOf, distinct_runs, gpu_hours, run_seconds};

/// The results of the experiments in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DirectionResult {
    /// The name, as it was last written; absent for experiments without a direction.
    pub direction: Option<String>,
    /// The number of its changes that ran.
    pub tried: u32,
    /// The number of its keeps.
    pub kept: u32,
    /// The total gain of the keeps, in the metric's unit; absent if no gain is known. Each change of a train has an
    /// equal share of the train's gain.
    pub gain: Option<f64>,
    /// The GPU-hours of its runs, those of crashes among them; hours of runs where there is no GPU.
    pub gpu_hours: f64,
    /// The gain for each of these hours.
    pub gain_per_gpu_hour: Option<f64>,
}

/// Sums up experiments by direction, the largest gain first. `kept` are the steps of their summary, by the places of
/// `records`; the baseline belongs to no direction. Empty where no experiment names one.
pub fn by_direction(records: &[Record], kept: &[KeptStep], layout: Option<&Layout>) -> Vec<DirectionResult> {
    let mut found: Vec<DirectionResult> = Vec::new();
    let mut places: Vec<Option<usize>> = Vec::new();
    for record in records {
        let ended = Ended::of_record(record);
        if record.id.is_baseline() || !ended.is_judged() {
            places.push(None);
            continue;
        }
        let is_of = |known: &DirectionResult| match (&known.direction, &record.direction) {
            (Some(one), Some(other)) => same_direction(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let place = found.iter().position(is_of).unwrap_or_else(|| {
            found.push(DirectionResult::default());
            found.len() - 1
        });
        let direction = &mut found[place];
        direction.direction.clone_from(&record.direction);
        direction.tried += 1;
        direction.kept += u32::from(ended == Ended::Keep);
        places.push(Some(place));
    }
    if found.iter().all(|direction| direction.direction.is_none()) {
        return Vec::new();
    }
    for (at, step) in kept.iter().enumerate() {
        let Some(gain) = step.gain_of_each() else { continue };
        let members = usize::try_from(step.keeps).unwrap_or(1);
        for member in &kept[(at + 1).saturating_sub(members)..=at] {
            if let Some(place) = places[member.index] {
                *found[place].gain.get_or_insert(0.0) += gain;
            }
        }
    }
    let runs = distinct_runs(records);
    let place_of: BTreeMap<ExperimentId, usize> =
        records.iter().zip(&places).filter_map(|(record, place)| Some((record.id, (*place)?))).collect();
    let mut own: Vec<Vec<RunOf<'_>>> = vec![Vec::new(); found.len()];
    for run in runs {
        if let Some(place) = place_of.get(&run.record.id) {
            own[*place].push(run);
        }
    }
    for (direction, own) in found.iter_mut().zip(own) {
        direction.gpu_hours = gpu_hours(&own, layout).unwrap_or_else(|| run_seconds(&own) / 3600.0);
        let hours = Some(direction.gpu_hours).filter(|hours| *hours > 0.0);
        direction.gain_per_gpu_hour = direction.gain.zip(hours).map(|(gain, hours)| gain / hours);
    }
    found.sort_by(|one, other| other.gain.unwrap_or(0.0).total_cmp(&one.gain.unwrap_or(0.0)));
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
            tried,
            kept,
            gain,
            gpu_hours,
            gain_per_gpu_hour: gain.map(|gain| gain / gpu_hours),
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
        let gains: Vec<_> = by_direction(&records, &train, None).iter().map(|found| found.gain).collect();
        assert_eq!(gains, [Some(0.25), Some(0.25), None]);
        assert_eq!(by_direction(&records[4..5], &[], None), [], "nobody names one");
    }
}
