//! The results of experiments that have something in common.

use std::collections::BTreeMap;

use serde::Serialize;

use super::summary::KeptStep;
use crate::domain::{ExperimentId, Layout, Record};
use crate::rules::history::Ended;
use crate::rules::schedule::{RunOf, distinct_runs, gpu_hours, run_seconds};

/// How often something has to be tried without a keep to be said never to help. Own judgement: one or two failures are chance.
const TRIED_ENOUGH: u32 = 3;

/// The results of some experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tally {
    /// The number of changes that ran; crashes are among them, refused ones are not.
    pub tried: u32,
    /// The number of keeps.
    pub kept: u32,
    /// The number of changes that were refused and never run.
    pub refused: u32,
    /// The total gain of the keeps, in the metric's unit; absent if no gain is known. Each change of a train has an
    /// equal share of the train's gain.
    pub gain: Option<f64>,
    /// The GPU-hours of the runs, those of crashes among them: the seconds of each run times its GPUs, divided by 3600. Hours of
    /// runs where there is no GPU. A train's run counts once, with its last change.
    pub gpu_hours: f64,
    /// The gain divided by these hours; absent if either is unknown, or the hours are 0.
    pub gain_per_gpu_hour: Option<f64>,
    /// True if it was tried at least three times, and never kept.
    pub never_helped: bool,
}

/// Sums up experiments by group: `groups` names those of each record, of which there are `count`. `kept` are the steps of the
/// summary, by the places of `records`. The baseline belongs to no group. An experiment of several groups counts whole in each.
pub(super) fn tally(
    records: &[Record],
    groups: &[Vec<usize>],
    count: usize,
    kept: &[KeptStep],
    layout: Option<&Layout>,
) -> Vec<Tally> {
    let mut found = vec![Tally::default(); count];
    let of = |place: usize| {
        let is_counted = !records[place].id.is_baseline();
        groups.get(place).filter(|_| is_counted).map(Vec::as_slice).unwrap_or_default()
    };
    for (place, record) in records.iter().enumerate() {
        let ended = Ended::of_record(record);
        for group in of(place) {
            let tally = &mut found[*group];
            tally.tried += u32::from(ended.is_judged());
            tally.kept += u32::from(ended == Ended::Keep);
            tally.refused += u32::from(ended == Ended::Refused);
        }
    }
    for (at, step) in kept.iter().enumerate() {
        let Some(gain) = step.gain_of_each() else { continue };
        let members = usize::try_from(step.keeps).unwrap_or(1);
        for member in &kept[(at + 1).saturating_sub(members)..=at] {
            for group in of(member.index) {
                *found[*group].gain.get_or_insert(0.0) += gain;
            }
        }
    }
    let place_of: BTreeMap<ExperimentId, usize> =
        records.iter().enumerate().map(|(place, record)| (record.id, place)).collect();
    let runs = distinct_runs(records);
    let has_gpu = gpu_hours(&runs, layout).is_some();
    let mut own: Vec<Vec<RunOf<'_>>> = vec![Vec::new(); count];
    for run in runs {
        for group in place_of.get(&run.record.id).map(|place| of(*place)).unwrap_or_default() {
            own[*group].push(run);
        }
    }
    for (tally, own) in found.iter_mut().zip(own) {
        let seconds = run_seconds(&own);
        tally.gpu_hours = if has_gpu { gpu_hours(&own, layout).unwrap_or(0.0) } else { seconds / 3600.0 };
        let hours = Some(tally.gpu_hours).filter(|hours| *hours > 0.0);
        tally.gain_per_gpu_hour = tally.gain.zip(hours).map(|(gain, hours)| gain / hours);
        tally.never_helped = tally.tried >= TRIED_ENOUGH && tally.kept == 0;
    }
    found
}
