//! Decisions by fresh runs: the screen, the next step, and how sure it is.
//!
//! The first run of a change selects it, so it is no evidence: the luckiest of many look best. Only runs that follow
//! count, and all of those that an experiment has.

use std::collections::BTreeSet;

use super::repeats::{Noise, Sample, mean, noise as noise_of};
use crate::domain::Direction;

/// The fewest fresh runs that decide: one alone says little.
pub const MIN_FRESH: usize = 2;

/// The fresh runs of a kept experiment. None is kept with fewer, so its number always stands on as many.
pub const MAX_FRESH: usize = 4;

/// The bar for a change to be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeepBar {
    /// The metric's direction.
    pub direction: Direction,
    /// It has to be better by more than this, in the metric's unit; may be negative.
    pub min_delta: f64,
    /// The constants that decide.
    pub bars: Bars,
}

/// The constants of a way to decide. They are chosen by simulation: `cargo bench --bench night`, with the table in
/// `BENCHMARKS.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bars {
    /// By how much the first run has to exceed the bar, in standard deviations of what the seed does not explain.
    pub screen: f64,
    /// After 2 and 3 fresh runs: a candidate that is better with a smaller probability is discarded.
    pub hope: [f64; MAX_FRESH - MIN_FRESH],
    /// After all fresh runs: a candidate that is better with a larger probability is kept.
    pub sure: f64,
}

/// `--decide confirmed`: about 3 false keeps in 10, at nearly the true gain of keeping whatever looks better.
pub const CONFIRMED: Bars = Bars { screen: 0.8, hope: [0.3, 0.5], sure: 0.5 };

/// `--decide strict`: at most 1 false keep in 5.
pub const STRICT: Bars = Bars { screen: 0.9, hope: [0.5, 0.55], sure: 0.76 };

/// From so many first runs in a row on that fail the screen, one that is better than all before gets fresh runs: those tell how
/// much of what all of them lack is the seed's. Own judgement.
const SCREENS: usize = 8;

/// What the screen says of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// It gets fresh runs.
    Passed,
    /// It gets fresh runs, as it is better than all that failed before.
    BestFailed,
    /// It is discarded.
    Failed,
}

/// The next step for a candidate with fresh runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Another fresh run, by the next seed.
    Run,
    /// Keep it: it has [`MAX_FRESH`] runs.
    Keep,
    /// Discard it: not confirmed.
    Discard,
}

/// A candidate against the incumbent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The candidate's gain in the metric's unit.
    pub difference: f64,
    /// The standard error of the difference.
    pub error: f64,
    /// The candidate's fresh runs.
    pub runs: u32,
    /// The probability that it is better by more than the minimum gain.
    pub sure: f64,
}

/// Judges a candidate's first run. All runs of `incumbent` are fresh; it may be the baseline. Without any, every candidate
/// passes. `failed` are the first runs that failed since a candidate had fresh runs, all against this incumbent.
///
/// The bar is the incumbent's mean. What the baseline was off at this seed is added, by the correlation over seeds. If the
/// baseline was unlucky, the correlation counts as one standard error more.
pub fn judge_screen(
    bar: &KeepBar,
    (incumbent, baseline): (&[Sample], &[Sample]),
    noise: Option<&Noise>,
    failed: &[f64],
    screen: Sample,
) -> Screen {
    let Some(usual) = mean(incumbent.iter().map(|run| run.value)) else { return Screen::Passed };
    let (mut expected, mut width) = (usual, 0.0);
    if let Some(noise) = noise {
        let offset = offset(incumbent, baseline, screen.seed);
        let is_unlucky = bar.direction.better(0.0, offset);
        let allowance = if is_unlucky { noise.pairs.sqrt().recip() } else { 0.0 };
        expected += (noise.pairing + allowance).min(1.0) * offset;
        width = bar.bars.screen * noise.deviation * (1.0 - noise.pairing.powi(2)).sqrt();
    }
    let is_noisy = noise.is_none_or(|noise| noise.deviation > 0.0);
    let is_best = || failed.iter().all(|value| bar.direction.better(screen.value, *value));
    match bar.direction.gain(screen.value, expected) > bar.min_delta + width {
        true => Screen::Passed,
        false if is_noisy && failed.len() + 1 >= SCREENS && is_best() => Screen::BestFailed,
        false => Screen::Failed,
    }
}

/// The next step for a candidate with these fresh runs. A train, which has no screen, passes all its runs. The `noise` is
/// that of all experiments, this candidate's runs included.
pub fn next_step(bar: &KeepBar, incumbent: &[Sample], candidate: &[Sample], noise: Option<&Noise>) -> NextStep {
    let Some(Estimate { sure, .. }) = estimate(bar, incumbent, candidate, noise) else {
        // Without anything to compare with, no number of runs decides.
        return if candidate.len() < MAX_FRESH { NextStep::Run } else { NextStep::Discard };
    };
    let Some(place) = candidate.len().checked_sub(MIN_FRESH) else { return NextStep::Run };
    if bar.min_delta >= 0.0 && is_the_same(incumbent, candidate) {
        return NextStep::Discard;
    }
    match bar.bars.hope.get(place) {
        Some(hope) if sure < *hope => NextStep::Discard,
        Some(_) => NextStep::Run,
        None if sure > bar.bars.sure => NextStep::Keep,
        None => NextStep::Discard,
    }
}

/// Returns whether a candidate gave the incumbent's number for each of its seeds, to the last bit: the change does nothing, and
/// more runs would say no more.
fn is_the_same(incumbent: &[Sample], candidate: &[Sample]) -> bool {
    candidate.iter().all(|run| incumbent.contains(run))
}

/// By how much the baseline's run with `seed` was above its mean over the incumbent's seeds; 0 if unknown.
fn offset(incumbent: &[Sample], baseline: &[Sample], seed: u64) -> f64 {
    let value_of = |seed| baseline.iter().find(|run| run.seed == seed).map(|run| run.value);
    let common = mean(incumbent.iter().filter_map(|run| value_of(run.seed)));
    let usual = common.or_else(|| mean(baseline.iter().map(|run| run.value)));
    value_of(seed).zip(usual).map_or(0.0, |(value, usual)| value - usual)
}

/// Estimates how much better a candidate is, by all fresh runs of both. `None` without a run of each, or if nothing is
/// known about the noise.
///
/// The probability is that of Student's t distribution, without a prior.
pub fn estimate(bar: &KeepBar, incumbent: &[Sample], candidate: &[Sample], noise: Option<&Noise>) -> Option<Estimate> {
    let Difference { difference, error, freedom } = compare(bar.direction, incumbent, candidate, noise)?;
    let above = difference - bar.min_delta;
    let certain = if above > 0.0 { 1.0 } else { 0.0 };
    let sure = if error > 0.0 { probability_below(above / error, freedom) } else { certain };
    let runs = u32::try_from(candidate.len()).unwrap_or(u32::MAX);
    Some(Estimate { difference, error, runs, sure })
}

/// The difference of two experiments.
pub(super) struct Difference {
    /// Positive if the second is better.
    pub(super) difference: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// The degrees of freedom of that.
    pub(super) freedom: f64,
}

/// Compares two experiments by the best linear unbiased estimate of their difference, if runs by the same seed have the
/// correlation that `noise` says. Without correlation it is the difference of the means of all runs; the larger the
/// correlation, the more the seeds count that both have. Without `noise`, the runs themselves show it.
///
/// The variance is least with these weights: of `n` common runs and `p` others of the first, and as many and `q` of the
/// second, with correlation `r`, each common one of the first has `(n + q + r p) / ((n + p) (n + q) - r² p q)`, and its
/// others share what is left to 1; the second alike.
pub(super) fn compare(direction: Direction, a: &[Sample], b: &[Sample], noise: Option<&Noise>) -> Option<Difference> {
    let known = noise.copied().or_else(|| noise_of(&[a.to_vec(), b.to_vec()], true))?;
    let (first, second) = (Runs::new(a, b), Runs::new(b, a));
    let n = first.common.len() as f64;
    let (p, q) = (first.others.len() as f64, second.others.len() as f64);
    let r = known.pairing;
    let scale = (n + p) * (n + q) - r * r * p * q;
    let first = first.weighted((n + q + r * p) / scale)?;
    let second = second.weighted((n + p + r * q) / scale)?;
    let paired = 2.0 * r * n * first.weight * second.weight;
    let shares = first.squares + second.squares - paired;
    let difference = direction.gain(second.mean, first.mean);
    Some(Difference { difference, error: known.deviation * shares.max(0.0).sqrt(), freedom: known.freedom })
}

/// The values of an experiment's runs.
struct Runs {
    /// By a seed that the other experiment has too. A repeat of a seed is none of them.
    common: Vec<f64>,
    /// All others.
    others: Vec<f64>,
}

/// A weighted mean.
struct Weighted {
    mean: f64,
    /// The weight of each common run.
    weight: f64,
    /// The sum of the squares of all weights.
    squares: f64,
}

impl Runs {
    fn new(runs: &[Sample], others: &[Sample]) -> Runs {
        let mut seen = BTreeSet::new();
        let is_common = |run: &&Sample| seen.insert(run.seed) && others.iter().any(|other| other.seed == run.seed);
        let (common, others): (Vec<&Sample>, Vec<&Sample>) = runs.iter().partition(is_common);
        let values = |runs: Vec<&Sample>| runs.into_iter().map(|run| run.value).collect();
        Runs { common: values(common), others: values(others) }
    }

    /// The mean in which each common run has this `weight`, if there are others, and these share the rest. `None` without
    /// a run.
    fn weighted(&self, weight: f64) -> Option<Weighted> {
        let (common, others) = (self.common.len() as f64, self.others.len() as f64);
        let weight = if others > 0.0 { weight } else { 1.0 / common };
        let rest = 1.0 - common * weight;
        let part = |runs: &[f64], whole: f64| mean(runs.iter().copied()).map_or(0.0, |mean| whole * mean);
        let squares = common * weight * weight + if others > 0.0 { rest * rest / others } else { 0.0 };
        (common + others > 0.0).then(|| Weighted {
            mean: part(&self.common, 1.0 - rest) + part(&self.others, rest),
            weight,
            squares,
        })
    }
}

/// Freedom beyond which the distribution is taken as this one's: it is then normal to within 0.00001.
const LARGEST_FREEDOM: f64 = 100_000.0;

/// The probability that a t-distributed value with `freedom` degrees of freedom (more than 0, also not whole) is below
/// `t`. With infinite freedom it is that of the normal distribution. Off by less than 0.00001.
///
/// By the incomplete beta function: Abramowitz and Stegun, 26.7.1 and 26.5.27.
pub(super) fn probability_below(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.min(LARGEST_FREEDOM);
    let beyond = incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    if t < 0.0 { beyond } else { 1.0 - beyond }
}

/// The value that a t-distributed one is below with `probability`, which is between 0 and 1. Off by less than 1e-9 of it.
pub(super) fn quantile(probability: f64, freedom: f64) -> f64 {
    if probability < 0.5 {
        return -quantile(1.0 - probability, freedom);
    }
    let mut high = 1.0;
    while probability_below(high, freedom) < probability && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each step halves the interval.
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if probability_below(middle, freedom) < probability { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction: NIST Digital Library of Mathematical Functions,
/// 8.17.22, which converges quickly below the mean; beyond it, by 8.17.4.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    front / fraction(x, a, b)
}

/// The continued fraction of the incomplete beta function, by the modified method of Lentz. Its terms are never 0 where it
/// is called.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let (mut value, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 1..1000 {
        let m = f64::from(step / 2);
        let term = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / (1.0 + term * d);
        c = 1.0 + term / c;
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function for positive numbers, by Stirling's series from 10 on: NIST Digital Library of
/// Mathematical Functions, 5.11.1. Off by less than 1e-12 there.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BAR: KeepBar = KeepBar { direction: Direction::Lower, min_delta: 0.0, bars: CONFIRMED };

    const NOISE: Noise = Noise { deviation: 1.0, freedom: 12.0, pairing: 0.0, pairs: 9.0 };

    /// Runs with the seeds from `first` on.
    fn runs(first: u64, values: &[f64]) -> Vec<Sample> {
        (first..).zip(values).map(|(seed, value)| Sample { seed, value: *value }).collect()
    }

    fn screen(value: f64) -> Sample {
        Sample { seed: 1, value }
    }

    fn passes(incumbent: &[Sample], baseline: &[Sample], noise: Option<&Noise>, value: f64) -> bool {
        judge_screen(&BAR, (incumbent, baseline), noise, &[], screen(value)) == Screen::Passed
    }

    #[test]
    fn without_correlation_all_fresh_runs_of_both_count() {
        // Means 10 and 9, on 4 and 2 runs: the error is the root of 1/4 + 1/2.
        let found = estimate(&BAR, &runs(1, &[9.0, 10.0, 11.0, 10.0]), &runs(2, &[8.5, 9.5]), Some(&NOISE)).unwrap();
        assert_eq!((found.difference, found.runs), (1.0, 2));
        assert!((found.error - 0.75_f64.sqrt()).abs() < 1e-12, "{found:?}");
        // t is 1.155 on 12 degrees of freedom.
        assert!((found.sure - 0.865).abs() < 0.001, "{found:?}");
        let worse = KeepBar { direction: Direction::Higher, ..BAR };
        let found = estimate(&worse, &runs(1, &[10.0]), &runs(2, &[9.0]), Some(&NOISE)).unwrap();
        assert!(found.difference == -1.0 && found.sure < 0.5, "{found:?}");
    }

    #[test]
    fn with_correlation_common_seeds_count_more() {
        // Seeds 2 to 4 in common with half the variance: weights of 2/7, and 1/7 for the others; a variance of 2/7.
        let half = Noise { pairing: 0.5, ..NOISE };
        let found =
            estimate(&BAR, &runs(1, &[7.0, 7.0, 14.0, 21.0]), &runs(2, &[7.0, 14.0, 14.0, 0.0]), Some(&half)).unwrap();
        assert!((found.difference - (13.0 - 10.0)).abs() < 1e-12, "{found:?}");
        assert!((found.error - (2.0_f64 / 7.0).sqrt()).abs() < 1e-12, "{found:?}");
        // Only common seeds: 2 (1 - r) / n.
        let found = estimate(&BAR, &runs(2, &[1.0, 2.0]), &runs(2, &[0.0, 1.0]), Some(&half)).unwrap();
        assert!((found.error - 0.5_f64.sqrt()).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_candidate_has_to_be_better_by_more_than_the_minimum() {
        let exact = Noise { deviation: 0.0, ..NOISE };
        let sure = |min_delta, value| {
            let bar = KeepBar { min_delta, ..BAR };
            estimate(&bar, &runs(1, &[1.0]), &runs(1, &[value]), Some(&exact)).unwrap().sure
        };
        assert_eq!([sure(0.0, 0.5), sure(0.5, 0.5), sure(0.25, 0.5), sure(0.0, 1.0)], [1.0, 0.0, 1.0, 0.0]);
        let half = estimate(&KeepBar { min_delta: 1.0, ..BAR }, &runs(1, &[2.0]), &runs(1, &[1.0]), Some(&NOISE));
        assert!((half.unwrap().sure - 0.5).abs() < 1e-12, "exactly the minimum, with noise");
    }

    #[test]
    fn the_screen_is_the_mean_of_the_incumbent_and_a_part_of_the_noise() {
        let (baseline, incumbent) = (runs(1, &[13.0, 9.0, 9.0, 9.0]), runs(2, &[8.0, 8.0, 8.0]));
        let without_luck = |noise, value| passes(&incumbent, &baseline, Some(noise), value);
        // Seed 1 gave 4 more than the baseline's mean over the incumbent's seeds: with correlation, that is its bar.
        let paired = Noise { pairing: 0.6, pairs: 1e12, ..NOISE };
        let bar = 8.0 + 0.6 * 4.0 - CONFIRMED.screen * 0.8;
        assert!(without_luck(&paired, bar - 0.001) && !without_luck(&paired, bar + 0.001));
        // A lucky seed makes it harder.
        let lucky = runs(1, &[5.0, 9.0, 9.0, 9.0]);
        let with_luck = |value| passes(&incumbent, &lucky, Some(&paired), value);
        let bar = 8.0 - 0.6 * 4.0 - CONFIRMED.screen * 0.8;
        assert!(with_luck(bar - 0.001) && !with_luck(bar + 0.001));
    }

    #[test]
    fn before_anything_is_known_of_the_noise_a_candidate_has_to_beat_the_baselines_run() {
        let baseline = runs(1, &[2.0]);
        let judged = |min_delta, value| {
            judge_screen(&KeepBar { min_delta, ..BAR }, (&baseline, &baseline), None, &[], screen(value))
        };
        assert_eq!(
            [judged(0.0, 1.9), judged(0.0, 2.0), judged(0.5, 1.75)],
            [Screen::Passed, Screen::Failed, Screen::Failed]
        );
        assert!(passes(&[], &[], None, 9.0), "a baseline without a number");
    }

    #[test]
    fn an_unlucky_seed_of_the_baseline_does_not_shut_every_candidate_out() {
        let baseline = runs(1, &[13.0, 9.0, 9.0, 9.0]);
        let unknown = Noise { pairs: 0.0, ..NOISE };
        assert!(passes(&baseline, &baseline, Some(&unknown), 12.0));
        let known = Noise { pairs: 1e12, ..NOISE };
        assert!(!passes(&baseline, &baseline, Some(&known), 10.0), "the seed explains nothing");
    }

    #[test]
    fn the_best_of_eight_that_fail_the_screen_gets_fresh_runs() {
        let incumbent = runs(1, &[10.0; 4]);
        let judged =
            |noise, failed: &[f64], value| judge_screen(&BAR, (&incumbent, &incumbent), noise, failed, screen(value));
        let failed = [12.0, 11.0, 13.0, 12.0, 14.0, 12.0, 13.0, 12.0];
        assert_eq!(judged(Some(&NOISE), &failed[..7], 10.9), Screen::BestFailed);
        assert_eq!(judged(None, &failed[..7], 10.9), Screen::BestFailed, "a lucky first run of the baseline");
        assert_eq!(judged(Some(&NOISE), &failed[..6], 10.9), Screen::Failed, "too early");
        assert_eq!(judged(Some(&NOISE), &failed, 11.0), Screen::Failed, "not the best");
        assert_eq!(judged(Some(&NOISE), &failed, 8.0), Screen::Passed);
        let exact = Noise { deviation: 0.0, ..NOISE };
        assert_eq!(judged(Some(&exact), &failed, 10.5), Screen::Failed, "exact runs tell all");
    }

    #[test]
    fn runs_are_asked_for_until_it_is_hopeless_or_there_are_four() {
        let incumbent = runs(1, &[10.0; 4]);
        let step = |values: &[f64]| next_step(&BAR, &incumbent, &runs(2, values), Some(&NOISE));
        assert_eq!(step(&[]), NextStep::Run);
        assert_eq!([step(&[9.0]), step(&[9.0; 2]), step(&[9.0; 3])], [NextStep::Run; 3]);
        assert_eq!(step(&[99.0]), NextStep::Run, "one run alone decides nothing");
        assert_eq!(step(&[9.0; 4]), NextStep::Keep);
        assert_eq!([step(&[9.0, 12.0]), step(&[9.0, 9.0, 13.0])], [NextStep::Discard; 2]);
        assert_eq!(step(&[8.0, 9.0, 9.0, 14.0]), NextStep::Discard, "equal by all four");
        let strict = KeepBar { bars: STRICT, ..BAR };
        let slightly = runs(2, &[9.75; 4]);
        assert_eq!(next_step(&BAR, &incumbent, &slightly, Some(&NOISE)), NextStep::Keep);
        assert_eq!(next_step(&strict, &incumbent, &slightly, Some(&NOISE)), NextStep::Discard);
    }

    #[test]
    fn a_change_that_gives_the_same_number_for_each_seed_does_nothing() {
        let incumbent = runs(1, &[10.0, 9.5, 10.5, 10.0]);
        let step = |min_delta, values: &[f64]| {
            next_step(&KeepBar { min_delta, ..BAR }, &incumbent, &runs(2, values), Some(&NOISE))
        };
        assert_eq!(step(0.0, &[9.5, 10.5]), NextStep::Discard);
        assert_eq!([step(0.0, &[9.5]), step(0.0, &[9.5, 10.4])], [NextStep::Run; 2]);
        assert_eq!(step(-0.5, &[9.5, 10.5]), NextStep::Run, "the same with less code is enough");
    }

    #[test]
    fn without_anything_to_compare_with_fresh_runs_come_to_an_end() {
        let step = |count: usize| next_step(&BAR, &[], &runs(2, &vec![9.0; count]), Some(&NOISE));
        assert_eq!(
            [step(0), step(3), step(4), step(9)],
            [NextStep::Run, NextStep::Run, NextStep::Discard, NextStep::Discard]
        );
    }

    #[test]
    fn a_difference_needs_runs_of_both_and_some_noise() {
        assert_eq!(estimate(&BAR, &runs(1, &[1.0]), &runs(2, &[1.0]), None), None);
        assert_eq!(estimate(&BAR, &[], &runs(2, &[1.0]), Some(&NOISE)), None);
        assert!(
            estimate(&BAR, &runs(1, &[1.0, 2.0]), &runs(1, &[1.0, 1.5]), None).is_some(),
            "they show it themselves"
        );
    }

    proptest! {
        /// No other way to weigh the runs has a smaller error: not all of them alike, nor the common seeds alone.
        #[test]
        fn the_error_is_never_larger_than_that_of_plain_means(
            first in 1..5_u64, count in 1..6_usize, other in 1..5_u64, many in 1..6_usize, pairing in 0.0..0.99,
        ) {
            let (a, b) = (runs(first, &vec![0.0; count]), runs(other, &vec![1.0; many]));
            let found = compare(Direction::Higher, &a, &b, Some(&Noise { pairing, ..NOISE })).unwrap();
            let common = a.iter().filter(|run| b.iter().any(|other| other.seed == run.seed)).count() as f64;
            let (p, q) = (count as f64, many as f64);
            let all = 1.0 / p + 1.0 / q - 2.0 * pairing * common / (p * q);
            let paired = 2.0 * (1.0 - pairing) / common;
            prop_assert!(found.error <= all.min(paired).sqrt() + 1e-9, "{} {all} {paired}", found.error);
            prop_assert!((found.difference - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        // Two-sided 95% and one-sided 95% and 99.5%, as every textbook prints them.
        for (freedom, table) in [
            (1.0, [12.706, 6.314, 63.657]),
            (2.0, [4.303, 2.920, 9.925]),
            (3.0, [3.182, 2.353, 5.841]),
            (5.0, [2.571, 2.015, 4.032]),
            (10.0, [2.228, 1.812, 3.169]),
            (30.0, [2.042, 1.697, 2.750]),
            (120.0, [1.980, 1.658, 2.617]),
            (f64::INFINITY, [1.960, 1.645, 2.576]),
        ] {
            for (probability, expected) in [0.975, 0.95, 0.995].into_iter().zip(table) {
                let found = quantile(probability, freedom);
                assert!((found - expected).abs() < 0.0006, "{freedom} {probability}: {found}, not {expected}");
                assert!((quantile(1.0 - probability, freedom) + found).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn few_degrees_of_freedom_have_closed_forms() {
        for t in [-40.0, -3.0, -0.7, 0.0, 0.2, 1.0, 6.0_f64] {
            let cauchy = 0.5 + t.atan() / std::f64::consts::PI;
            assert!((probability_below(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 0.5 + t / (2.0 * (2.0 + t * t).sqrt());
            assert!((probability_below(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn the_ends_are_certain() {
        let ends = [f64::NEG_INFINITY, f64::INFINITY].map(|t| probability_below(t, 3.0));
        assert_eq!(ends, [0.0, 1.0]);
    }

    proptest::proptest! {
        #[test]
        fn a_larger_value_is_less_often_exceeded(t in -20.0..20.0, step in 0.001..5.0, freedom in 0.5..500.0) {
            let (low, high) = (probability_below(t, freedom), probability_below(t + step, freedom));
            proptest::prop_assert!(low <= high && (0.0..=1.0).contains(&low), "{low} {high}");
            proptest::prop_assert!((low + probability_below(-t, freedom) - 1.0).abs() < 1e-12);
        }
    }
}
