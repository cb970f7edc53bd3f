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

use super::{mean, probability_below};
use crate::domain::{Direction, ExperimentId, MetricDrift, Record, RunRole};
use crate::rules::{History, Noise};

/// The share of sessions without drift that may have a warning, however many reruns they have.
const LEVEL: f64 = 0.05;

/// Sudden or slow, each by either variance.
const TESTS: f64 = 4.0;

/// The reruns that the journal keeps: enough for the slope of several nights, at a few kilobytes in
/// a journal that is written often.
const MOST: usize = 50;

/// A rerun of the best experiment that gave a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftCheck {
    /// The experiment.
    #[serde(rename = "experiment")]
    pub id: ExperimentId,
    /// The seed, that of the recorded run that it repeats.
    pub seed: Option<u64>,
    /// Its value.
    pub value: f64,
    /// The recorded value.
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

/// The conclusion from the newest rerun.
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
    made: Vec<DriftCheck>,
    /// Whether the last one that gave a number showed a drift.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    drifts: bool,
}

impl DriftCheck {
    /// A rerun of a recorded experiment that measured `value`, begun before the record of sequence `after`.
    pub fn of(record: &Record, recorded: f64, value: f64, after: u32, ended: Timestamp) -> DriftCheck {
        let seed = record.to_repeat().0;
        let role = record.deciding_runs().first().and_then(|run| run.role);
        let is_fresh = record.id.is_baseline() || matches!(role, Some(RunRole::Confirm | RunRole::Trial));
        let (id, since) = (record.id, record.sequence());
        DriftCheck { id, seed, value, recorded, was_selected: !is_fresh, since, after, ended, drift: None }
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
    pub fn note(&mut self, after: u32, check: Option<(DriftCheck, bool)>) {
        self.last = self.last.max(after);
        if let Some((check, drifts)) = check {
            self.made.push(check);
            self.drifts = drifts;
        }
        let surplus = self.made.len().saturating_sub(MOST);
        self.made.drain(..surplus);
    }

    /// Those that gave a number, in order.
    pub fn made(&self) -> &[DriftCheck] {
        &self.made
    }

    /// Returns whether the one that began before the record of sequence `next` gave a number.
    pub fn is_made(&self, next: u32) -> bool {
        self.made.last().is_some_and(|check| check.after == next)
    }

    /// The conclusion from the reruns with `newest`, which is not noted yet.
    pub fn judge(&self, newest: &DriftCheck, direction: Direction, noise: Option<&Noise>) -> Shift {
        let all: Vec<&DriftCheck> = self.made.iter().chain([newest]).collect();
        shift(&all, direction, noise)
    }

    /// Returns whether the last one that gave a number showed a drift, by what was known of the noise then.
    pub fn drifts(&self) -> bool {
        self.drifts
    }
}

/// Judges the newest of these reruns. The level of the first is a half of [`LEVEL`], that of the second a sixth, of the n-th
/// `1 / (n (n + 1))`, which are 1 together; each is shared by the tests.
fn shift(checks: &[&DriftCheck], direction: Direction, noise: Option<&Noise>) -> Shift {
    let Some((newest, before)) = checks.split_last() else { return Shift::Unknown };
    let count = checks.len() as f64;
    let probability = 1.0 - LEVEL / (count * (count + 1.0)) / TESTS / 2.0;
    let rounding = rounding(checks);
    let known = noise.map(|it| ((it.deviation.powi(2) * (1.0 - it.pairing)).max(rounding), it.freedom));
    let (series, earlier) = (SeedRuns::of(checks), SeedRuns::of(before));
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
fn rounding(checks: &[&DriftCheck]) -> f64 {
    let values = checks.iter().flat_map(|check| [check.value, check.recorded]);
    let decimals = |value: f64| value.to_string().split_once('.').map_or(0, |(_, digits)| digits.len());
    let most = values.map(decimals).max().unwrap_or_default();
    let unit = 10.0_f64.powi(-i32::try_from(most).unwrap_or(i32::MAX));
    unit.powi(2) / 12.0
}

/// A run, at its place in the order of experiments.
struct PlacedRun {
    place: f64,
    value: f64,
}

/// The runs of each experiment by the same seed, in order.
struct SeedRuns(BTreeMap<(ExperimentId, Option<u64>), Vec<PlacedRun>>);

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

impl SeedRuns {
    fn of(checks: &[&DriftCheck]) -> SeedRuns {
        let mut series: BTreeMap<_, Vec<PlacedRun>> = BTreeMap::new();
        for check in checks {
            let runs = series.entry((check.id, check.seed)).or_default();
            if runs.is_empty() && !check.was_selected {
                runs.push(PlacedRun { place: f64::from(check.since), value: check.recorded });
            }
            runs.push(PlacedRun { place: f64::from(check.after), value: check.value });
        }
        SeedRuns(series)
    }

    /// The runs that are compared with this one, which is the newest.
    fn before(&self, newest: &DriftCheck) -> &[PlacedRun] {
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
mod tests {
    use serde_json::json;

    use super::super::repeats::{Sample, noise};
    use super::*;
    use crate::rules::sample::record;

    const NOISE: Noise = Noise { deviation: 1.0, freedom: 12.0, pairing: 0.5, pairs: 9.0 };

    /// A rerun of an experiment that was recorded with `recorded` at place `since`.
    fn check(id: u32, (since, recorded): (u32, f64), (after, value): (u32, f64)) -> DriftCheck {
        let ended = Timestamp::UNIX_EPOCH;
        DriftCheck {
            id: id.into(),
            seed: Some(2),
            value,
            recorded,
            was_selected: false,
            since,
            after,
            ended,
            drift: None,
        }
    }

    /// The conclusion from the last of these reruns.
    fn judged(checks: &[DriftCheck], noise: Option<&Noise>) -> Shift {
        shift(&checks.iter().collect::<Vec<_>>(), Direction::Lower, noise)
    }

    fn drift(checks: &[DriftCheck], noise: Option<&Noise>) -> MetricDrift {
        match judged(checks, noise) {
            Shift::Drift(drift) => drift,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_rerun_is_off_by_more_than_two_runs_by_one_seed_are() {
        // Half the variance is left of each run, so that their difference has an error of 1. At a level of 1/40 for the first
        // rerun, four tests and two sides, t is 3.37 on 12 degrees of freedom.
        let off = |by: f64| [check(7, (3, 10.0), (23, 10.0 + by))];
        assert_eq!([judged(&off(3.3), Some(&NOISE)), judged(&off(-3.3), Some(&NOISE))], [Shift::Chance; 2]);
        let found = drift(&off(3.45), Some(&NOISE));
        assert!((found.shift + 3.45).abs() < 1e-9 && (found.error - 1.0).abs() < 1e-9, "lower is better: {found:?}");
        assert_eq!((found.checks, found.experiments), (1, 20));
        assert!(drift(&off(-3.45), Some(&NOISE)).shift > 0.0);
        let seed_explains_all = Noise { pairing: 0.99, ..NOISE };
        assert!(drift(&off(0.6), Some(&seed_explains_all)).shift < 0.0);
        assert_eq!(judged(&off(99.0), None), Shift::Unknown, "nothing is known about the noise");
    }

    #[test]
    fn a_command_that_repeats_by_seed_shows_a_shift_below_the_noise_of_its_seeds() {
        let checks: Vec<DriftCheck> = [2.345, 2.345, 2.345, 2.375]
            .into_iter()
            .zip(1..)
            .map(|(value, n)| check(7, (0, 2.345), (20 * n, value)))
            .collect();
        assert_eq!(judged(&checks[..3], Some(&NOISE)), Shift::Chance);
        for noise in [Some(&NOISE), None] {
            let found = drift(&checks, noise);
            assert!((found.shift + 0.03).abs() < 1e-9 && found.checks == 1, "{found:?}");
        }
        // The last digit alone is no shift: it may be rounding.
        let rounded = [&checks[..3], &[check(7, (0, 2.345), (80, 2.346))]].concat();
        assert_eq!(judged(&rounded, Some(&NOISE)), Shift::Chance);
    }

    #[test]
    fn a_slow_drift_shows_in_all_reruns_together() {
        // Of two experiments, each with a slope of 0.01: over the 60 experiments from the first record on it is 0.6.
        let of = |id, since: u32, after: &[u32]| {
            let at = |place: u32| f64::from(id) + 0.01 * f64::from(place) + 0.001 * f64::from(place / 10 % 2);
            let make = |after: &u32| check(id, (since, at(since)), (*after, at(*after)));
            after.iter().map(make).collect::<Vec<_>>()
        };
        let checks = [of(1, 0, &[10, 20, 30]), of(2, 31, &[41, 51, 60])].concat();
        assert_eq!(judged(&checks[..1], Some(&NOISE)), Shift::Chance);
        let found = drift(&checks, Some(&NOISE));
        assert!((found.shift + 0.6).abs() < 0.03 && found.error < 0.05, "{found:?}");
        assert_eq!((found.checks, found.experiments), (6, 60));
    }

    #[test]
    fn a_run_that_selected_its_experiment_is_not_compared_with() {
        let lucky = |after, value| DriftCheck { was_selected: true, ..check(7, (3, 1.0), (after, value)) };
        assert_eq!(judged(&[lucky(23, 9.0)], Some(&NOISE)), Shift::Unknown);
        assert_eq!(judged(&[lucky(23, 9.0), lucky(43, 9.5)], Some(&NOISE)), Shift::Chance, "with the first rerun");
        assert!(drift(&[lucky(23, 9.0), lucky(43, 15.0)], Some(&NOISE)).shift < 0.0);
        let run = |role: &str| {
            json!({"command": "c", "role": role, "seed": 2, "started": "2026-11-20T22:00:00Z",
        "seconds": 1.0, "exit": 0, "signal": null, "value": 1.0})
        };
        let selected = |id: u32, role: &str| {
            let record = record(json!({"id": id, "value": "1.0", "runs": [run(role)]}));
            DriftCheck::of(&record, 1.0, 2.0, 9, Timestamp::UNIX_EPOCH).was_selected
        };
        assert_eq!([selected(0, "baseline"), selected(1, "screen"), selected(1, "confirm")], [false, true, false]);
    }

    #[test]
    fn a_rerun_is_due_after_so_many_experiments_since_the_last_one_and_the_last_keep() {
        let outcomes = |kept: &[u32], count: u32| {
            let outcome = |id: &u32| if kept.contains(id) { "keep" } else { "discard" };
            History::new(
                (0..count).map(|id| record(json!({"id": id, "value": "1.0", "outcome": outcome(&id)}))).collect(),
            )
        };
        let mut checks = Checks::default();
        let due = |checks: &Checks, kept: &[u32]| {
            (0..14).filter(|count| checks.is_due(&outcomes(kept, *count), 4)).collect::<Vec<_>>()
        };
        assert_eq!(due(&checks, &[0]), [5, 6, 7, 8, 9, 10, 11, 12, 13], "four experiments and the baseline");
        assert_eq!(due(&checks, &[0, 3]), [8, 9, 10, 11, 12, 13]);
        assert!(!checks.is_due(&outcomes(&[0], 13), 0), "off");
        checks.note(8, None);
        assert_eq!(due(&checks, &[0, 3]), [12, 13], "also where it gave no number");
        assert!(checks.made().is_empty() && !checks.are_none());
        checks.note(6, Some((check(7, (3, 1.0), (6, 1.0)), true)));
        assert!(checks.drifts());
        assert_eq!((due(&checks, &[0, 3]), checks.made().len()), (vec![12, 13], 1));
        assert_eq!([checks.is_made(6), checks.is_made(8)], [true, false], "the one before 8 gave no number");
    }

    /// Normal numbers that are the same on every machine.
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    /// A night of 100 experiments with `--decide confirmed`: a run's value is the sum of its code's worth, the drift so far, and
    /// noise of variance 1. Of that, the seed has a share for all codes alike, another for each code by itself, and the rest is
    /// new with each run.
    struct Night {
        shared: f64,
        of_code: f64,
        /// The drift until the end of the night.
        drift: f64,
        every: u32,
    }

    impl Night {
        /// Returns whether the night warns of a drift.
        fn warns(&self, random: &mut Random) -> bool {
            let shared: Vec<f64> = (0..6).map(|_| random.normal() * self.shared.sqrt()).collect();
            let rest = (1.0 - self.shared - self.of_code).max(0.0).sqrt();
            let mut of_code: BTreeMap<(u32, u64), f64> = BTreeMap::new();
            let mut run = |random: &mut Random, code: u32, worth: f64, seed: u64, at: u32| {
                let own = *of_code.entry((code, seed)).or_insert_with(|| random.normal() * self.of_code.sqrt());
                let drift = self.drift * f64::from(at) / 100.0;
                let value = worth + drift + shared[seed as usize] + own + rest * random.normal();
                Sample { seed, value: (value * 1e4).round() / 1e4 }
            };
            let value_of = |runs: &[Sample]| mean(runs.iter().map(|run| run.value)).unwrap();
            let mut runs: Vec<Sample> = (1..=4).map(|seed| run(random, 0, 0.0, seed, 0)).collect();
            let mut groups = vec![runs.clone()];
            let (mut best, mut worth) = (0, 0.0);
            let (mut last, mut checks) = (0, Checks::default());
            for at in 1..=100 {
                let gain = if random.uniform() < 0.15 { -random.normal().abs() } else { 1.5 * random.normal().abs() };
                let screen = run(random, at, worth + gain, 1, at);
                if screen.value < value_of(&runs) - 0.8 {
                    let fresh: Vec<Sample> = (2..=5).map(|seed| run(random, at, worth + gain, seed, at)).collect();
                    groups.push(fresh.clone());
                    if value_of(&fresh) < value_of(&runs) {
                        (best, worth, last, runs) = (at, worth + gain, at, fresh);
                    }
                }
                if at - last >= self.every {
                    last = at;
                    let seed = runs[0].seed;
                    let value = run(random, best, worth, seed, at).value;
                    let check = DriftCheck { seed: Some(seed), ..check(best, (best, runs[0].value), (at, value)) };
                    if matches!(checks.judge(&check, Direction::Lower, noise(&groups, true).as_ref()), Shift::Drift(_))
                    {
                        return true;
                    }
                    checks.note(at, Some((check, false)));
                }
            }
            false
        }

        /// The share of nights that warn.
        fn share(&self) -> f64 {
            const NIGHTS: usize = 300;
            let mut random = Random(0x9E37_79B9_7F4A_7C15);
            (0..NIGHTS).filter(|_| self.warns(&mut random)).count() as f64 / NIGHTS as f64
        }
    }

    #[test]
    fn nights_without_drift_warn_in_fewer_than_one_of_twenty() {
        for (shared, of_code) in [(0.0, 0.0), (0.9, 0.0), (0.2, 0.7), (0.2, 0.8)] {
            for every in [5, 20] {
                let share = Night { shared, of_code, drift: 0.0, every }.share();
                assert!(share < 0.05, "seed {shared} + {of_code}, every {every}: {share}");
            }
        }
    }

    #[test]
    fn a_drift_of_one_deviation_is_seen_if_the_seed_explains_the_noise() {
        let share = |of_code: f64, drift: f64| Night { shared: 0.2, of_code, drift, every: 5 }.share();
        assert!(share(0.8, 1.0) > 0.9 && share(0.8, -1.0) > 0.8);
        assert!(share(0.79, 1.0) > 0.5, "it repeats all but exactly");
        // What the noise of each run covers, no number of reruns in a night can show.
        assert!(share(0.0, 1.0) < 0.2 && share(0.0, 10.0) > 0.8);
    }
}
