//! Drift, by hand and over simulated nights.

use serde_json::json;

use super::super::noise::{Sample, noise};
use super::*;
use crate::rules::sample::record;

const NOISE: Noise = Noise { deviation: 1.0, freedom: 12.0, pairing: 0.5, pairs: 9.0 };

/// A rerun of an experiment that was recorded with `recorded` at place `since`.
fn check(id: u32, (since, recorded): (u32, f64), (after, value): (u32, f64)) -> Check {
    let ended = Timestamp::UNIX_EPOCH;
    Check { id: id.into(), seed: Some(2), value, recorded, was_selected: false, since, after, ended, drift: None }
}

/// What the last of these reruns says.
fn judged(checks: &[Check], noise: Option<&Noise>) -> Shift {
    shift(&checks.iter().collect::<Vec<_>>(), Direction::Lower, noise)
}

fn drift(checks: &[Check], noise: Option<&Noise>) -> MetricDrift {
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
    let checks: Vec<Check> = [2.345, 2.345, 2.345, 2.375]
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
    let lucky = |after, value| Check { was_selected: true, ..check(7, (3, 1.0), (after, value)) };
    assert_eq!(judged(&[lucky(23, 9.0)], Some(&NOISE)), Shift::Unknown);
    assert_eq!(judged(&[lucky(23, 9.0), lucky(43, 9.5)], Some(&NOISE)), Shift::Chance, "with the first rerun");
    assert!(drift(&[lucky(23, 9.0), lucky(43, 15.0)], Some(&NOISE)).shift < 0.0);
    let run = |role: &str| {
        json!({"command": "c", "role": role, "seed": 2, "started": "2026-11-20T22:00:00Z",
        "seconds": 1.0, "exit": 0, "signal": null, "value": 1.0})
    };
    let selected = |id: u32, role: &str| {
        let record = record(json!({"id": id, "value": "1.0", "runs": [run(role)]}));
        Check::of(&record, 1.0, 2.0, 9, Timestamp::UNIX_EPOCH).was_selected
    };
    assert_eq!([selected(0, "baseline"), selected(1, "screen"), selected(1, "confirm")], [false, true, false]);
}

#[test]
fn a_rerun_is_due_after_so_many_experiments_since_the_last_one_and_the_last_keep() {
    let outcomes = |kept: &[u32], count: u32| {
        let outcome = |id: &u32| if kept.contains(id) { "keep" } else { "discard" };
        History::new((0..count).map(|id| record(json!({"id": id, "value": "1.0", "outcome": outcome(&id)}))).collect())
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
                let check = Check { seed: Some(seed), ..check(best, (best, runs[0].value), (at, value)) };
                if matches!(checks.judge(&check, Direction::Lower, noise(&groups).as_ref()), Shift::Drift(_)) {
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
