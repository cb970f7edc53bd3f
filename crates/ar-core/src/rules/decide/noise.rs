//! The noise of a command: how far its runs lie apart, and how much of that its seeds explain.

use std::collections::{BTreeMap, BTreeSet};

/// One fresh run: one that did not select its own experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Its seed, `AR_SEED`.
    pub seed: u64,
    /// Its value, in the metric's unit; finite.
    pub value: f64,
}

/// When a command gives the same number again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Not even for the same seed, as far as known.
    Noisy,
    /// For the same seed: one run per seed is enough.
    BySeed,
    /// For every seed: one run is enough, and the rule of `--decide once` decides.
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
    /// The degrees of freedom of the correlation; 0 while nothing is known about it.
    pub pairs: f64,
}

/// The number of repeats, of all experiments together, that have to agree to the last bit before a command counts as
/// exact. A coarse metric gives the same number now and then; this is what 4 runs of the baseline have.
const EXACT_REPEATS: usize = 3;

/// Correlation is capped here, so that a difference by seed never has no error at all.
const LARGEST_PAIRING: f64 = 0.99;

/// The noise that the fresh runs of experiments show, one group for each. `None` without two runs of one.
///
/// The variance is pooled within experiments, as repeatability in ISO 5725-2. With correlation it comes as much from the
/// seeds that pairs of experiments share, so that the error of a paired difference is theirs. The freedom is the number of
/// repeats, less that of the seeds' means as far as these explain the values.
pub fn noise(groups: &[Vec<Sample>]) -> Option<Noise> {
    let repeated: Vec<&Vec<Sample>> = groups.iter().filter(|group| group.len() > 1).collect();
    let repeats = repeated.iter().map(|group| group.len() - 1).sum::<usize>() as f64;
    if repeats == 0.0 {
        return None;
    }
    let within = repeated.iter().map(|group| squares(group)).sum::<f64>() / repeats;
    // Rounding alone is no correlation.
    let pairs = if within > 0.0 { Pairs::of(groups) } else { Pairs::default() };
    let pairing = pairs.correlation();
    let shared = if pairs.squares > 0.0 { pairs.squares / pairs.count } else { within };
    let seeds: BTreeSet<u64> = repeated.iter().flat_map(|group| group.iter().map(|run| run.seed)).collect();
    Some(Noise {
        deviation: (within + pairing * (shared - within)).sqrt(),
        freedom: (repeats - pairing * (seeds.len() - 1) as f64).max(1.0),
        pairing,
        pairs: pairs.count,
    })
}

/// Returns when a command gives the same number, by the runs so far, one group for each experiment.
pub fn repeats(groups: &[Vec<Sample>]) -> Repeats {
    let seeds: usize = groups.iter().map(|group| by_seed(group).len().saturating_sub(1)).sum();
    if seeds >= EXACT_REPEATS && groups.iter().all(|group| is_constant(group)) {
        return Repeats::Exact;
    }
    let mut by_seed: BTreeMap<(usize, u64), Vec<Sample>> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        for run in group {
            by_seed.entry((index, run.seed)).or_default().push(*run);
        }
    }
    let is_repeated = by_seed.values().any(|runs| runs.len() > 1);
    if is_repeated && by_seed.values().all(|runs| is_constant(runs)) { Repeats::BySeed } else { Repeats::Noisy }
}

/// Sums over all pairs of experiments and the seeds that both have, around their means over these.
#[derive(Debug, Default)]
struct Pairs {
    /// Of the squares, as a mean of both.
    squares: f64,
    /// Of the products.
    products: f64,
    /// The degrees of freedom.
    count: f64,
}

impl Pairs {
    fn of(groups: &[Vec<Sample>]) -> Pairs {
        let groups: Vec<Vec<(u64, f64)>> = groups.iter().map(|group| by_seed(group)).collect();
        let mut found = Pairs::default();
        let mut common = Vec::new();
        for (index, one) in groups.iter().enumerate() {
            for other in &groups[index + 1..] {
                common.clear();
                common.extend(one.iter().filter_map(|(seed, value)| Some((*value, value_of(other, *seed)?))));
                let means = mean(common.iter().map(|pair| pair.0)).zip(mean(common.iter().map(|pair| pair.1)));
                let Some((first, second)) = means.filter(|_| common.len() > 1) else { continue };
                for (one, other) in &common {
                    found.products += (one - first) * (other - second);
                    found.squares += ((one - first).powi(2) + (other - second).powi(2)) / 2.0;
                }
                found.count += (common.len() - 1) as f64;
            }
        }
        found
    }

    /// The correlation over seeds, shrunk towards 0 by what chance alone explains, after James and Stein (1961). The
    /// variance of a correlation `r` with so many degrees of freedom is `(1 - r²)²` through them (Fisher, 1915). It is first
    /// taken as without correlation, then by what was found so.
    fn correlation(&self) -> f64 {
        if self.products <= 0.0 || self.squares <= 0.0 {
            return 0.0;
        }
        let raw = self.products / self.squares;
        let shrunk = |chance: f64| (raw - chance / (self.count * raw)).clamp(0.0, LARGEST_PAIRING);
        shrunk((1.0 - shrunk(1.0).powi(2)).powi(2))
    }
}

/// The sum of the squares around the mean; 0 for equal values, whatever the rounding of their mean.
fn squares(runs: &[Sample]) -> f64 {
    match mean(runs.iter().map(|run| run.value)) {
        Some(mean) if !is_constant(runs) => runs.iter().map(|run| (run.value - mean).powi(2)).sum(),
        _ => 0.0,
    }
}

/// The first value of each seed, by seed.
fn by_seed(group: &[Sample]) -> Vec<(u64, f64)> {
    let mut values: Vec<(u64, f64)> = group.iter().map(|run| (run.seed, run.value)).collect();
    values.sort_by_key(|(seed, _)| *seed);
    values.dedup_by_key(|(seed, _)| *seed);
    values
}

/// The value of a seed.
fn value_of(by_seed: &[(u64, f64)], seed: u64) -> Option<f64> {
    by_seed.iter().find(|(other, _)| *other == seed).map(|(_, value)| *value)
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

fn is_constant(group: &[Sample]) -> bool {
    group.windows(2).all(|pair| pair[0].value == pair[1].value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs with the seeds from `first` on.
    fn group(first: u64, values: &[f64]) -> Vec<Sample> {
        (first..).zip(values).map(|(seed, value)| Sample { seed, value: *value }).collect()
    }

    #[test]
    fn the_deviation_is_pooled_within_experiments() {
        // Means 2 and 13, squares 2 and 6, on 1 + 2 degrees of freedom; no seed in common.
        let found = noise(&[group(1, &[1.0, 3.0]), group(6, &[12.0, 12.0, 15.0]), group(20, &[99.0])]).unwrap();
        assert!((found.deviation - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{found:?}");
        assert_eq!((found.freedom, found.pairing, found.pairs), (3.0, 0.0, 0.0));
        assert_eq!(noise(&[group(1, &[1.0]), group(1, &[2.0])]), None, "nothing twice");
    }

    #[test]
    fn seeds_that_move_all_experiments_alike_correlate() {
        // Squares 5 and 5, products 5, on 3 degrees of freedom: 1 less a third, then 1 less a third of (1 - 4/9)².
        let found = noise(&[group(1, &[0.0, 1.0, 2.0, 3.0]), group(1, &[10.0, 11.0, 12.0, 13.0])]).unwrap();
        assert!((found.pairing - 218.0 / 243.0).abs() < 1e-12, "{found:?}");
        assert!((found.deviation - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{found:?}");
        assert!((found.freedom - (6.0 - 3.0 * 218.0 / 243.0)).abs() < 1e-12, "6 repeats, less 3 seeds: {found:?}");
        let opposite = noise(&[group(1, &[0.0, 1.0, 2.0, 3.0]), group(1, &[13.0, 12.0, 11.0, 10.0])]).unwrap();
        assert_eq!((opposite.pairing, opposite.freedom), (0.0, 6.0));
    }

    #[test]
    fn equal_numbers_have_no_noise_despite_rounding() {
        let found = noise(&[group(1, &[0.1; 3]), group(1, &[0.3; 3])]).unwrap();
        assert_eq!((found.deviation, found.pairing), (0.0, 0.0));
    }

    #[test]
    fn a_command_is_exact_after_three_repeats_that_agree_to_the_last_bit() {
        let same = |seeds: &[u64]| seeds.iter().map(|seed| Sample { seed: *seed, value: 0.5 }).collect::<Vec<_>>();
        assert_eq!(repeats(&[same(&[1, 2, 3])]), Repeats::Noisy, "too few");
        assert_eq!(repeats(&[same(&[1, 2, 3, 4])]), Repeats::Exact);
        assert_eq!(repeats(&[same(&[1, 2]), group(1, &[0.7, 0.7]), same(&[1, 2])]), Repeats::Exact);
        assert_eq!(repeats(&[same(&[1, 2, 3, 4]), group(1, &[0.7, 0.8])]), Repeats::Noisy, "no longer");
        assert_eq!(repeats(&[same(&[1, 1, 1, 1])]), Repeats::BySeed, "other seeds were not tried");
        assert_eq!(repeats(&[[same(&[1, 1]), group(2, &[0.7])].concat()]), Repeats::BySeed);
        assert_eq!(repeats(&[[same(&[1]), group(1, &[0.7])].concat()]), Repeats::Noisy);
        assert_eq!(repeats(&[]), Repeats::Noisy);
    }

    proptest! {
        #[test]
        fn noise_does_not_depend_on_what_experiments_are_worth(
            values in prop::collection::vec(prop::collection::vec(-5.0..5.0_f64, 1..5), 1..6),
            scale in 0.1..10.0_f64,
            shift in -50.0..50.0_f64,
        ) {
            let plain: Vec<Vec<Sample>> = values.iter().map(|values| group(1, values)).collect();
            let of = |(index, values): (usize, &Vec<f64>)| -> Vec<Sample> {
                group(1, &values.iter().map(|value| scale * value + shift * index as f64).collect::<Vec<_>>())
            };
            let moved: Vec<Vec<Sample>> = values.iter().enumerate().map(of).collect();
            if let (Some(one), Some(other)) = (noise(&plain), noise(&moved)) {
                prop_assert!((0.0..=LARGEST_PAIRING).contains(&one.pairing) && one.freedom >= 1.0, "{one:?}");
                prop_assert!((one.pairing - other.pairing).abs() < 1e-6, "{one:?} {other:?}");
                prop_assert!((one.deviation * scale - other.deviation).abs() < 1e-6 * scale, "{one:?} {other:?}");
            }
        }
    }
}
