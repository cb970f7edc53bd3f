//! The noise of a command: how far its runs lie apart, and how much of that its seeds explain.

use std::collections::{BTreeMap, BTreeSet};

/// One fresh run: one that nothing selected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Its seed, `AR_SEED`.
    pub seed: u64,
    /// Its value, in the metric's unit; finite.
    pub value: f64,
}

/// The repeats of a command: when they give the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Never for certain, also by the same seed.
    Noisy,
    /// By the same seed: one run per seed is enough.
    BySeed,
    /// By every seed: one run is enough.
    Exact,
}

/// The noise of one run of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The standard deviation of one run, in the metric's unit, pooled within experiments.
    pub deviation: f64,
    /// The degrees of freedom of that estimate.
    pub freedom: f64,
    /// The correlation over seeds between experiments, 0 to 1: the share of the variance that the seed explains.
    pub pairing: f64,
}

/// The number of repeats, of all experiments together, that have to agree to the last bit before a command counts as
/// exact. A coarse metric gives the same number now and then; this is what 4 runs of the baseline have.
const EXACT_REPEATS: usize = 3;

/// Correlation is capped here, so that a difference by seed never has no error at all.
const LARGEST_PAIRING: f64 = 0.99;

/// The noise that the fresh runs of experiments show, one group for each. `None` without two runs of one.
///
/// The variance is the mean within experiments (ISO 5725-2, 7.4.5.1). Its freedom is the number of repeats, less what
/// the seeds' means take of it, as in the analysis of variance in two ways.
pub fn noise(groups: &[Vec<Sample>]) -> Option<Noise> {
    let mut squares = 0.0;
    let mut repeats = 0;
    for group in groups.iter().filter(|group| group.len() > 1) {
        if !is_constant(group) {
            let mean = mean(group.iter().map(|run| run.value))?;
            squares += group.iter().map(|run| (run.value - mean).powi(2)).sum::<f64>();
        }
        repeats += group.len() - 1;
    }
    if repeats == 0 {
        return None;
    }
    let variance = squares / repeats as f64;
    let pairing = pairing(groups, variance);
    let seeds: BTreeSet<u64> =
        groups.iter().filter(|group| group.len() > 1).flatten().map(|sample| sample.seed).collect();
    let taken = pairing * (seeds.len().saturating_sub(1)) as f64;
    Some(Noise { deviation: variance.sqrt(), freedom: (repeats as f64 - taken).max(1.0), pairing })
}

/// What repeats give, by the runs so far, one group for each experiment.
pub fn repeats(groups: &[Vec<Sample>]) -> Repeats {
    let count: usize = groups.iter().map(|group| group.len().saturating_sub(1)).sum();
    if count >= EXACT_REPEATS && groups.iter().all(|group| is_constant(group)) {
        return Repeats::Exact;
    }
    let mut same_seed = 0;
    for group in groups {
        let mut known: BTreeMap<u64, f64> = BTreeMap::new();
        for run in group {
            match known.insert(run.seed, run.value) {
                Some(value) if value != run.value => return Repeats::Noisy,
                Some(_) => same_seed += 1,
                None => {}
            }
        }
    }
    if same_seed > 0 { Repeats::BySeed } else { Repeats::Noisy }
}

/// The correlation over seeds: the covariance of two experiments over the seeds that both have, as a mean over all pairs
/// of experiments, in shares of the variance.
///
/// Without any correlation, the mean over `count` degrees of freedom is off by `1 / sqrt(count)`. The estimate is shrunk
/// towards 0 by what that alone explains, after James and Stein (1961).
fn pairing(groups: &[Vec<Sample>], variance: f64) -> f64 {
    let groups: Vec<BTreeMap<u64, f64>> = groups.iter().map(|group| by_seed(group)).collect();
    let (mut products, mut count) = (0.0, 0.0);
    for (index, one) in groups.iter().enumerate() {
        for other in &groups[index + 1..] {
            let common: Vec<(f64, f64)> =
                one.iter().filter_map(|(seed, value)| Some((*value, *other.get(seed)?))).collect();
            let means = mean(common.iter().map(|pair| pair.0)).zip(mean(common.iter().map(|pair| pair.1)));
            let Some((first, second)) = means.filter(|_| common.len() > 1) else { continue };
            products += common.iter().map(|pair| (pair.0 - first) * (pair.1 - second)).sum::<f64>();
            count += (common.len() - 1) as f64;
        }
    }
    if count == 0.0 || variance == 0.0 {
        return 0.0;
    }
    let raw = products / count / variance;
    if raw <= 0.0 { 0.0 } else { (raw - 1.0 / (count * raw)).clamp(0.0, LARGEST_PAIRING) }
}

/// The mean value of each seed.
pub(super) fn by_seed(group: &[Sample]) -> BTreeMap<u64, f64> {
    let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for run in group {
        values.entry(run.seed).or_default().push(run.value);
    }
    values.into_iter().filter_map(|(seed, values)| Some((seed, mean(values.into_iter())?))).collect()
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

fn is_constant(group: &[Sample]) -> bool {
    group.windows(2).all(|pair| pair[0].value == pair[1].value)
}
