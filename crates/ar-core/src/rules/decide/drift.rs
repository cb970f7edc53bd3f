//! Drift: the same code gives other numbers than before, because the machine, its load or its data changed.
//!
//! Reruns of the best experiment show it. Each is compared with runs of the same code by the same seed alone: with that of
//! the record, unless it selected the experiment, and with earlier reruns. Two questions are asked of each rerun: is it off by
//! itself, for a sudden shift, and do all reruns so far have a slope over the experiments, for a slow one? Two variances
//! answer them. One is what seeds leave of σ̂², `σ̂² (1 - r)`. The other is what the reruns themselves show: a command that
//! repeats by seed scatters less than two experiments by one seed do.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::noise::{Noise, mean};
use super::student::probability_below;
use crate::domain::{Direction, ExperimentId, MetricDrift, Record, RunRole};
use crate::rules::history::History;

/// The share of sessions without drift that may have a warning, however many reruns they have.
const LEVEL: f64 = 0.05;

/// Sudden or slow, each by either variance.
const TESTS: f64 = 4.0;

/// The reruns that the journal keeps: enough for the slope of several nights, at a few kilobytes in
/// a journal that is written often.
const MOST: usize = 50;

/// A rerun of the best experiment that gave a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The experiment.
    #[serde(rename = "experiment")]
    pub id: ExperimentId,
    /// The seed, that of the recorded run that it repeats.
    pub seed: Option<u64>,
    /// What it measured.
    pub value: f64,
    /// What the recorded run measured.
    pub recorded: f64,
    /// Whether that run selected the experiment, so that it was probably lucky.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_selected: bool,
    /// The sequence of the experiment's record.
    pub since: u32,
    /// The sequence of the next record when it began.
    pub after: u32,
    /// When it ended.
    #[serde(with = "crate::domain::millis")]
    pub ended: Timestamp,
    /// The drift that it was the first to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<MetricDrift>,
}

/// What the newest rerun says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shift {
    /// Nothing, as nothing is known about the noise.
    Unknown,
    /// No more than chance.
    Chance,
    /// The session drifts.
    Drift(MetricDrift),
}

/// The reruns of the best experiment, as the journal notes them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// The sequence of the next record when the last one began, whether it gave a number or not.
    #[serde(default)]
    last: u32,
    /// Those that gave a number, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: Vec<Check>,
    /// Whether the last one that gave a number showed a drift.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    drifts: bool,
}

impl Check {
    /// A rerun of a recorded experiment that measured `value`, begun before the record of sequence `after`.
    pub fn of(record: &Record, recorded: f64, value: f64, after: u32, ended: Timestamp) -> Check {
        let seed = record.to_repeat().0;
        let role = record.deciding_runs().first().and_then(|run| run.role);
        let is_fresh = record.id.is_baseline() || matches!(role, Some(RunRole::Confirm | RunRole::Trial));
        let (id, since) = (record.id, record.sequence());
        Check { id, seed, value, recorded, was_selected: !is_fresh, since, after, ended, drift: None }
    }
}

impl Checks {
    /// Returns whether none was made.
    pub fn are_none(&self) -> bool {
        *self == Checks::default()
    }

    /// Returns whether another one is due, as so many experiments were recorded since the last one and the last
    /// keep; 0 for never.
    pub fn is_due(&self, history: &History, every: u32) -> bool {
        let Some(incumbent) = history.incumbent().filter(|_| every > 0) else { return false };
        let from = self.last.max(incumbent.sequence() + 1);
        history.next_sequence().saturating_sub(from) >= every
    }

    /// Notes a rerun that began before the record of sequence `after`; `check` is what it measured, if anything, and whether all
    /// reruns with it show a drift.
    pub fn note(&mut self, after: u32, check: Option<(Check, bool)>) {
        self.last = self.last.max(after);
        if let Some((check, drifts)) = check {
            self.made.push(check);
            self.drifts = drifts;
        }
        let surplus = self.made.len().saturating_sub(MOST);
        self.made.drain(..surplus);
    }

    /// Those that gave a number, in order.
    pub fn made(&self) -> &[Check] {
        &self.made
    }

    /// Returns whether the one that began before the record of sequence `next` gave a number.
    pub fn is_made(&self, next: u32) -> bool {
        self.made.last().is_some_and(|check| check.after == next)
    }

    /// What the reruns say with `newest`, which is not noted yet.
    pub fn judge(&self, newest: &Check, direction: Direction, noise: Option<&Noise>) -> Shift {
        let all: Vec<&Check> = self.made.iter().chain([newest]).collect();
        shift(&all, direction, noise)
    }

    /// Returns whether the last one that gave a number showed a drift, by what was known of the noise then.
    pub fn drifts(&self) -> bool {
        self.drifts
    }
}

/// Judges the newest of these reruns. The level of the first is a half of [`LEVEL`], that of the second a sixth, of the n-th
/// `1 / (n (n + 1))`, which are 1 together; each is shared by the tests.
fn shift(checks: &[&Check], direction: Direction, noise: Option<&Noise>) -> Shift {
    let Some((newest, before)) = checks.split_last() else { return Shift::Unknown };
    let count = checks.len() as f64;
    let probability = 1.0 - LEVEL / (count * (count + 1.0)) / TESTS / 2.0;
    let rounding = rounding(checks);
    let known = noise.map(|it| ((it.deviation.powi(2) * (1.0 - it.pairing)).max(rounding), it.freedom));
    let (series, earlier) = (Series::of(checks), Series::of(before));
    let by = |squares: f64, freedom: f64| (freedom >= 1.0).then(|| ((squares / freedom).max(rounding), freedom));
    let is_beyond = |estimate: f64, error: f64, freedom: f64| {
        estimate != 0.0 && probability_below(estimate.abs() / error, freedom) > probability
    };
    let mut is_known = false;

    // The newest against the mean of those before it: their shares of the variance are 1 and 1 / n.
    let own = series.before(newest);
    if let Some(usual) = mean(own.iter().map(|run| run.value)) {
        let difference = newest.value - usual;
        let within = by(earlier.sums().values, earlier.freedom());
        for (variance, freedom) in [known, within].into_iter().flatten() {
            is_known = true;
            let error = (variance * (1.0 + 1.0 / own.len() as f64)).sqrt();
            if is_beyond(difference, error, freedom) {
                let experiments = newest.after.saturating_sub(newest.since);
                return Shift::Drift(MetricDrift {
                    shift: direction.gain(newest.value, usual),
                    error,
                    checks: 1,
                    experiments,
                });
            }
        }
    }
    // The slope within experiments, by least squares.
    let Sums { places, products, values } = series.sums();
    if places > 0.0 && checks.len() > 1 {
        let slope = products / places;
        let rest = by((values - slope * products).max(0.0), series.freedom() - 1.0);
        for (variance, freedom) in [known, rest].into_iter().flatten() {
            is_known = true;
            let error = (variance / places).sqrt();
            if is_beyond(slope, error, freedom) {
                let experiments = series.span();
                let span = f64::from(experiments);
                let checks = u32::try_from(checks.len()).unwrap_or(u32::MAX);
                return Shift::Drift(MetricDrift {
                    shift: direction.gain(slope * span, 0.0),
                    error: error * span,
                    checks,
                    experiments,
                });
            }
        }
    }
    if is_known { Shift::Chance } else { Shift::Unknown }
}

/// The variance of rounding to the last digit that any of these numbers has: no number is known better than that.
fn rounding(checks: &[&Check]) -> f64 {
    let values = checks.iter().flat_map(|check| [check.value, check.recorded]);
    let decimals = |value: f64| value.to_string().split_once('.').map_or(0, |(_, digits)| digits.len());
    let most = values.map(decimals).max().unwrap_or_default();
    let unit = 10.0_f64.powi(-i32::try_from(most).unwrap_or(i32::MAX));
    unit.powi(2) / 12.0
}

/// A run, at its place in the order of experiments.
struct Placed {
    place: f64,
    value: f64,
}

/// The runs of each experiment by the same seed, in order.
struct Series(BTreeMap<(ExperimentId, Option<u64>), Vec<Placed>>);

/// Sums over all runs, around the means of each experiment.
#[derive(Default)]
struct Sums {
    /// Of the squares of their places.
    places: f64,
    /// Of the products of places and values.
    products: f64,
    /// Of the squares of their values.
    values: f64,
}

impl Series {
    fn of(checks: &[&Check]) -> Series {
        let mut series: BTreeMap<_, Vec<Placed>> = BTreeMap::new();
        for check in checks {
            let runs = series.entry((check.id, check.seed)).or_default();
            if runs.is_empty() && !check.was_selected {
                runs.push(Placed { place: f64::from(check.since), value: check.recorded });
            }
            runs.push(Placed { place: f64::from(check.after), value: check.value });
        }
        Series(series)
    }

    /// The runs that are compared with this one, which is the newest.
    fn before(&self, newest: &Check) -> &[Placed] {
        let own = self.0.get(&(newest.id, newest.seed)).map_or(&[][..], Vec::as_slice);
        own.split_last().map_or(&[], |(_, before)| before)
    }

    /// The degrees of freedom within experiments.
    fn freedom(&self) -> f64 {
        self.0.values().map(|runs| runs.len() - 1).sum::<usize>() as f64
    }

    /// The number of experiments from the first of these runs to the last.
    fn span(&self) -> u32 {
        let places = || self.0.values().flatten().map(|run| run.place);
        (places().fold(0.0, f64::max) - places().fold(f64::INFINITY, f64::min)) as u32
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for runs in self.0.values() {
            let place = mean(runs.iter().map(|run| run.place)).unwrap_or_default();
            let value = mean(runs.iter().map(|run| run.value)).unwrap_or_default();
            for run in runs {
                sums.places += (run.place - place).powi(2);
                sums.products += (run.place - place) * (run.value - value);
                sums.values += (run.value - value).powi(2);
            }
        }
        sums
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
