//! Decisions by fresh runs: the screen, the next step, and how sure it is.

use std::collections::BTreeSet;

use super::noise::{Noise, Sample, by_seed, mean, noise as noise_of};
use super::student::probability_below;
use crate::domain::Direction;

/// The fewest fresh runs that decide.
pub const MIN_FRESH: usize = 2;

/// The most fresh runs; a kept experiment has as many.
pub const MAX_FRESH: usize = 4;

/// What a change has to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeepBar {
    /// The metric's direction.
    pub direction: Direction,
    /// It has to be better by more than this, in the metric's unit.
    pub min_delta: f64,
    /// Whether the bars are those of `--decide strict`.
    pub strict: bool,
}

/// The constants of one way to decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bars {
    /// By how much the first run has to exceed the bar, in standard deviations of a run.
    pub screen: f64,
    /// Below this probability to be better, a candidate with fewer than all fresh runs is discarded.
    pub hope: f64,
    /// With all fresh runs, the probability to be better from which it is kept.
    pub sure: f64,
}

/// `--decide confirmed`.
pub const CONFIRMED: Bars = Bars { screen: 0.0, hope: 0.4, sure: 0.6 };

/// `--decide strict`.
pub const STRICT: Bars = Bars { screen: 0.0, hope: 0.5, sure: 0.8 };

/// The next step for a candidate with fresh runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Another fresh run.
    Run,
    /// Keep it: it has all its fresh runs.
    Keep,
    /// Discard it: not confirmed.
    Discard,
}

/// A candidate against the incumbent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// How much better the candidate is, in the metric's unit; negative if it is worse.
    pub difference: f64,
    /// The standard error of the difference.
    pub error: f64,
    /// The candidate's fresh runs.
    pub runs: u32,
    /// The probability that it is better by more than the minimum gain.
    pub sure: f64,
}

impl KeepBar {
    /// The constants that decide.
    pub fn bars(&self) -> Bars {
        if self.strict { STRICT } else { CONFIRMED }
    }
}

/// Returns whether a candidate's first run is good enough for fresh runs. The incumbent's runs are fresh; it may be the
/// baseline.
pub fn passes_screen(
    bar: &KeepBar,
    incumbent: &[Sample],
    baseline: &[Sample],
    noise: Option<&Noise>,
    screen: Sample,
) -> bool {
    bar.bars().passes_screen(bar, incumbent, baseline, noise, screen)
}

/// The next step for a candidate with these fresh runs.
pub fn next_step(bar: &KeepBar, incumbent: &[Sample], candidate: &[Sample], noise: Option<&Noise>) -> NextStep {
    bar.bars().next_step(bar, incumbent, candidate, noise)
}

impl Bars {
    /// [`passes_screen`] by these constants.
    pub fn passes_screen(
        &self,
        bar: &KeepBar,
        incumbent: &[Sample],
        baseline: &[Sample],
        noise: Option<&Noise>,
        screen: Sample,
    ) -> bool {
        let Some(expected) = mean(incumbent.iter().map(|run| run.value)) else { return true };
        let pairing = noise.map_or(0.0, |noise| noise.pairing);
        let expected = expected + pairing * offset(incumbent, baseline, screen.seed);
        let width = self.screen * noise.map_or(0.0, |noise| noise.deviation);
        bar.direction.gain(screen.value, expected) > bar.min_delta + width
    }

    /// [`next_step`] by these constants.
    pub fn next_step(
        &self,
        bar: &KeepBar,
        incumbent: &[Sample],
        candidate: &[Sample],
        noise: Option<&Noise>,
    ) -> NextStep {
        let is_exact = noise.is_some_and(|noise| noise.deviation == 0.0);
        let (fewest, most) = if is_exact { (1, 1) } else { (MIN_FRESH, MAX_FRESH) };
        if candidate.len() < fewest {
            return NextStep::Run;
        }
        let Some(found) = estimate(bar, incumbent, candidate, noise) else { return NextStep::Run };
        if candidate.len() < most {
            if found.sure < self.hope { NextStep::Discard } else { NextStep::Run }
        } else if found.sure >= self.sure {
            NextStep::Keep
        } else {
            NextStep::Discard
        }
    }
}

/// By how much the baseline's run with `seed` was off its mean over the incumbent's seeds; 0 if unknown.
fn offset(incumbent: &[Sample], baseline: &[Sample], seed: u64) -> f64 {
    let baseline = by_seed(baseline);
    let common = incumbent.iter().filter_map(|run| baseline.get(&run.seed)).copied();
    let usual = mean(common).or_else(|| mean(baseline.values().copied()));
    baseline.get(&seed).zip(usual).map_or(0.0, |(value, usual)| value - usual)
}

/// Estimates how much better a candidate is. `None` without a run of each, or if nothing is known about the noise.
pub fn estimate(bar: &KeepBar, incumbent: &[Sample], candidate: &[Sample], noise: Option<&Noise>) -> Option<Estimate> {
    let Compared { difference, error, freedom } = compare(bar.direction, incumbent, candidate, noise)?;
    let above = difference - bar.min_delta;
    let sure = if error > 0.0 {
        probability_below(above / error, freedom)
    } else if above > 0.0 {
        1.0
    } else {
        0.0
    };
    let runs = u32::try_from(candidate.len()).unwrap_or(u32::MAX);
    Some(Estimate { difference, error, runs, sure })
}

/// The difference of two experiments.
pub(super) struct Compared {
    /// Positive if the second is better.
    pub(super) difference: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// The degrees of freedom of that.
    pub(super) freedom: f64,
}

/// The best linear unbiased estimate of the difference of two experiments, with a known correlation of runs by the same
/// seed. Without correlation it is the difference of the means of all runs. The closer the correlation is to 1, the more
/// count the seeds that both have.
///
/// Weights: with `n` seeds in common, `p` others of the first, `q` of the second, and correlation `r`, a common run of
/// the first has the weight `(n + q + r p) / ((n + p)(n + q) - r² p q)`, by Lagrange from the least variance.
pub(super) fn compare(direction: Direction, a: &[Sample], b: &[Sample], noise: Option<&Noise>) -> Option<Compared> {
    let known = noise.copied().or_else(|| noise_of(&[a.to_vec(), b.to_vec()]))?;
    // A repeat of a seed counts as a run by itself.
    let (a, b) = (split(a, b), split(b, a));
    let count = |runs: &[(f64, bool)]| runs.iter().filter(|run| !run.1).count() as f64;
    let (n, p, q) = (a.iter().filter(|run| run.1).count() as f64, count(&a), count(&b));
    let r = known.pairing;
    let det = (n + p) * (n + q) - r * r * p * q;
    let (common_a, common_b) = ((n + q + r * p) / det, (n + p + r * q) / det);
    let other = |common: f64, others: f64| if others > 0.0 { (1.0 - n * common) / others } else { 0.0 };
    let (other_a, other_b) = (other(common_a, p), other(common_b, q));
    let weighted = |runs: &[(f64, bool)], common: f64, other: f64| {
        // Around the mean, so that rounding does not grow with the value.
        let reference = mean(runs.iter().map(|run| run.0))?;
        let weight = |is_common| if is_common { common } else { other };
        Some(reference + runs.iter().map(|run| (run.0 - reference) * weight(run.1)).sum::<f64>())
    };
    let difference = direction.gain(weighted(&b, common_b, other_b)?, weighted(&a, common_a, other_a)?);
    let shares = n * (common_a * common_a + common_b * common_b - 2.0 * r * common_a * common_b)
        + p * other_a * other_a
        + q * other_b * other_b;
    Some(Compared { difference, error: known.deviation * shares.max(0.0).sqrt(), freedom: known.freedom })
}

/// The values of `runs`, each with whether it is paired with a run of the `others` by its seed.
fn split(runs: &[Sample], others: &[Sample]) -> Vec<(f64, bool)> {
    let mut seen = BTreeSet::new();
    let is_common = |seed| others.iter().any(|run| run.seed == seed);
    runs.iter().map(|run| (run.value, seen.insert(run.seed) && is_common(run.seed))).collect()
}
