//! Repeated measurements: compared with the record, or of two experiments in pairs; and the noise of a command: how far
//! its runs lie apart, and how much of that its seeds explain.

use std::collections::{BTreeMap, BTreeSet};

use super::{compare, quantile, samples};
use crate::domain::{Direction, Failure, FailureClass, Number, Record, VerifiedPair, two_digits};
use crate::rules::{History, OtherBaseline, format_step, session_noise, spread};

/// After how many runs in a row that crash the best experiment is run again: as many attempts as it takes the ladder to pivot.
pub const CRASHES_TO_CHECK: u32 = 5;

/// The reason for a rerun of the best experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckReason {
    /// So many changes crashed in a row: their cause may lie outside of them.
    Crashes(u32),
    /// `--recheck` asks for it.
    Schedule,
}

impl CheckReason {
    /// Returns whether nothing else starts until the rerun is over: a schedule lets others go on.
    pub fn holds_up_others(self) -> bool {
        self != CheckReason::Schedule
    }
}

/// Returns whether to rerun the best experiment, and why. `seen` is the number of crashes in a row at the last call, because
/// several runs may have ended since. One rerun serves both reasons, and crashes are the more urgent one.
pub fn check_due(crashes: u32, seen: u32, is_scheduled: bool) -> Option<CheckReason> {
    if crashes / CRASHES_TO_CHECK > seen.min(crashes) / CRASHES_TO_CHECK {
        return Some(CheckReason::Crashes(crashes));
    }
    is_scheduled.then_some(CheckReason::Schedule)
}

/// The largest difference of a run and its repeat by the same seed in 19 of 20 cases, by what fresh runs show: both have the
/// variance that seeds do not explain, `σ̂² (1 - r)`, and the quantile is Student's. Without fresh runs, it is the session's
/// spread. `None` if neither is known.
pub fn repeat_limit(history: &History, elsewhere: &[OtherBaseline]) -> Option<f64> {
    match session_noise(history) {
        Some(noise) => {
            let deviation = noise.deviation * (2.0 * (1.0 - noise.pairing)).sqrt();
            Some(if deviation > 0.0 { quantile(0.975, noise.freedom) * deviation } else { 0.0 })
        }
        None => spread(history.records(), elsewhere).map(|spread| spread.limit),
    }
}

/// The result of repeating a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameBack {
    /// The same value.
    Exactly,
    /// No value, for the same reason as the first time.
    Failure(FailureClass),
    /// A different value within the limit of repeats.
    Within {
        /// Its distance from the first, with its sense.
        distance: String,
        /// The limit.
        spread: String,
    },
    /// A different value.
    No {
        /// Its distance from the first, with its sense.
        distance: String,
        /// The limit of repeats, if known.
        spread: Option<String>,
    },
}

impl CameBack {
    /// Returns whether it was reproduced.
    pub fn is_same(&self) -> bool {
        !matches!(self, CameBack::No { .. })
    }
}

/// Compares a measured value with the `recorded` one, within [`repeat_limit`] if known.
pub fn came_back(direction: Direction, recorded: &Number, measured: &Number, limit: Option<f64>) -> CameBack {
    if recorded.value == measured.value {
        return CameBack::Exactly;
    }
    let distance = format_step(direction, measured, recorded);
    match limit {
        Some(limit) if (recorded.value - measured.value).abs() <= limit => {
            CameBack::Within { distance, spread: two_digits(limit) }
        }
        limit => CameBack::No { distance, spread: limit.map(two_digits) },
    }
}

/// Returns [`CameBack::Failure`] if an experiment without a value failed again with the recorded class.
pub fn failed_again(recorded: Option<&Failure>, now: Option<&Failure>) -> Option<CameBack> {
    let class = now?.class;
    (recorded?.class == class).then_some(CameBack::Failure(class))
}

/// The level of the interval.
const LEVEL: f64 = 0.95;

/// The difference of two experiments by fresh runs of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verified {
    /// The difference, in the metric's unit; positive if the second is better.
    pub difference: f64,
    /// The low end of its interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// The level of the interval: how often it covers the true difference.
    pub level: f64,
    /// The runs of the one that has fewer.
    pub runs: u32,
    /// Whether the second is better: the whole interval is above 0.
    pub better: bool,
}

/// The baseline and the best experiment, which the end of a night verifies, if both have a number and are not the same.
pub fn to_verify(history: &History) -> Option<(&Record, &Record)> {
    let has_number = |record: &&Record| record.metric.value.is_some();
    let baseline = history.baseline().filter(has_number)?;
    let best = history.incumbent().filter(has_number).filter(|best| best.id != baseline.id)?;
    Some((baseline, best))
}

/// Compares all verifying runs of two experiments; positive is better for `b`. `None` without a run of each, or if
/// nothing is known about the noise.
pub fn verified(direction: Direction, a: &[Sample], b: &[Sample], noise: Option<&Noise>) -> Option<Verified> {
    let found = compare(direction, a, b, noise)?;
    let half = if found.error > 0.0 { found.error * quantile(0.5 + LEVEL / 2.0, found.freedom) } else { 0.0 };
    let (low, high) = (found.difference - half, found.difference + half);
    let runs = u32::try_from(a.len().min(b.len())).unwrap_or(u32::MAX);
    Some(Verified { difference: found.difference, low, high, level: LEVEL, runs, better: low > 0.0 })
}

/// Puts into a pair what all its runs say. The noise is that of these and of the `others`, one group for each experiment; see
/// [`noise`]. Returns false, and leaves it as it is, while nothing is known of the noise.
pub fn judge_pair(
    pair: &mut VerifiedPair,
    direction: Direction,
    (others, takes_seeds): (&[Vec<Sample>], bool),
) -> bool {
    let own = [samples(&pair.values_a), samples(&pair.values_b)];
    let noise = noise(&others.iter().chain(&own).cloned().collect::<Vec<_>>(), takes_seeds);
    let Some(found) = verified(direction, &own[0], &own[1], noise.as_ref()) else { return false };
    let Verified { difference, low, high, level, runs, better } = found;
    (pair.difference, pair.low, pair.high) = (difference, low, high);
    (pair.level, pair.runs, pair.better) = (level, runs, better);
    true
}

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
    /// The degrees of freedom of the correlation; 0 while nothing is known about it, infinite where the script takes no seed.
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
/// repeats, less that of the seeds' means as far as these explain the values. A script that takes no seed has no pairs, and the
/// correlation that it seems to have is chance.
pub fn noise(groups: &[Vec<Sample>], takes_seeds: bool) -> Option<Noise> {
    let repeated: Vec<&Vec<Sample>> = groups.iter().filter(|group| group.len() > 1).collect();
    let repeats = repeated.iter().map(|group| group.len() - 1).sum::<usize>() as f64;
    if repeats == 0.0 {
        return None;
    }
    let within = repeated.iter().map(|group| squares(group)).sum::<f64>() / repeats;
    // Rounding alone is no correlation.
    let pairs = if within > 0.0 && takes_seeds { Pairs::of(groups) } else { Pairs::default() };
    let pairing = pairs.correlation();
    let shared = if pairs.squares > 0.0 { pairs.squares / pairs.count } else { within };
    let seeds: BTreeSet<u64> = repeated.iter().flat_map(|group| group.iter().map(|run| run.seed)).collect();
    Some(Noise {
        deviation: (within + pairing * (shared - within)).sqrt(),
        freedom: (repeats - pairing * (seeds.len() - 1) as f64).max(1.0),
        pairing,
        pairs: if takes_seeds { pairs.count } else { f64::INFINITY },
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
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

fn is_constant(group: &[Sample]) -> bool {
    group.windows(2).all(|pair| pair[0].value == pair[1].value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::Record;
    use crate::rules::sample::{record, run};

    fn limit_of(records: &[Record]) -> Option<f64> {
        repeat_limit(&History::new(records.to_vec()), &[])
    }

    #[test]
    fn the_best_experiment_is_run_again_after_every_fifth_crash_in_a_row() {
        let due = |crashes: &u32| check_due(*crashes, crashes.saturating_sub(1), false).is_some();
        assert_eq!((0..12).filter(due).collect::<Vec<u32>>(), [5, 10]);
    }

    #[test]
    fn one_rerun_serves_crashes_and_schedule() {
        assert_eq!(check_due(5, 4, true), Some(CheckReason::Crashes(5)));
        assert_eq!(check_due(4, 3, true), Some(CheckReason::Schedule));
        assert_eq!(check_due(5, 5, false), None);
    }

    /// A baseline whose runs with seeds from 1 on have these values, and a kept change with those from 2 on.
    fn records(baseline: &[f64], kept: &[f64]) -> [Record; 2] {
        let runs = |role: &str, first: usize, values: &[f64]| {
            let seeded = |(seed, value): (usize, &f64)| {
                let mut run = run(1.0, Some(*value));
                (run["role"], run["seed"]) = (role.into(), seed.into());
                run
            };
            (first..).zip(values).map(seeded).collect::<Vec<_>>()
        };
        let mean = |values: &[f64]| format!("{:.4}", values.iter().sum::<f64>() / values.len() as f64);
        [
            record(json!({"value": mean(baseline), "runs": runs("baseline", 1, baseline)})),
            record(json!({"id": 1, "commit": "c1", "value": mean(kept), "runs": runs("confirm", 2, kept)})),
        ]
    }

    #[test]
    fn repeats_by_a_seed_differ_by_what_the_seed_leaves() {
        // Standard deviation 1 on 3 degrees of freedom, for which t is 3.182.
        let alone = records(&[1.0, 1.0, 3.0, 3.0], &[9.0]);
        let limit = limit_of(&alone).unwrap();
        assert!((limit - 3.1824 * (4.0_f64 / 3.0 * 2.0).sqrt()).abs() < 0.001, "{limit}");
        let paired = records(&[1.0, 1.0, 2.0, 3.0], &[6.0, 7.0, 8.0]);
        let noise = session_noise(&History::new(paired.to_vec())).unwrap();
        assert!(noise.pairing > 0.5, "{noise:?}");
        let expected = quantile(0.975, noise.freedom) * noise.deviation * (2.0 * (1.0 - noise.pairing)).sqrt();
        assert!((limit_of(&paired).unwrap() - expected).abs() < 1e-12);
        assert_eq!(limit_of(&records(&[2.0; 4], &[3.0])), Some(0.0), "a command without noise");
    }

    #[test]
    fn without_seeds_the_spread_is_the_limit() {
        let runs = [run(1.0, Some(2.0)), run(1.0, Some(2.5))];
        let repeated = record(json!({"value": "2.0", "runs": runs}));
        let limit = limit_of(std::slice::from_ref(&repeated)).unwrap();
        assert!((limit - 2.8 * 0.125_f64.sqrt()).abs() < 1e-12, "{limit}");
        assert_eq!(limit_of(&[record(json!({"value": "2.0"}))]), None);
    }

    #[test]
    fn a_number_comes_back_exactly_within_the_spread_or_not_at_all() {
        let limit = Some(0.028);
        let number = |text: &str| text.parse::<Number>().unwrap();
        let compare = |measured: &str, limit| came_back(Direction::Lower, &number("1.50"), &number(measured), limit);
        assert_eq!(compare("1.5", None), CameBack::Exactly);
        let (distance, wide) = ("0.02 (1.3%) worse".to_owned(), "0.028".to_owned());
        assert_eq!(compare("1.52", limit), CameBack::Within { distance: distance.clone(), spread: wide.clone() });
        assert_eq!(compare("1.52", None), CameBack::No { distance, spread: None });
        assert_eq!(compare("1.4", limit), CameBack::No { distance: "0.10 (6.7%) better".into(), spread: Some(wide) });
    }

    #[test]
    fn a_failure_comes_back_where_it_is_of_the_same_class() {
        let failure = |class| Failure::new(class, "");
        let (crash, oom) = (failure(FailureClass::Crash), failure(FailureClass::Oom));
        assert_eq!(failed_again(Some(&crash), Some(&crash)), Some(CameBack::Failure(FailureClass::Crash)));
        assert_eq!([failed_again(Some(&oom), Some(&crash)), failed_again(None, Some(&crash))], [None, None]);
    }

    fn runs(values: &[f64]) -> Vec<Sample> {
        (6..).zip(values).map(|(seed, value)| Sample { seed, value: *value }).collect()
    }

    #[test]
    fn the_interval_is_that_of_students_t() {
        let noise = Noise { deviation: 0.3, freedom: 10.0, pairing: 0.0, pairs: 0.0 };
        let found = verified(Direction::Lower, &runs(&[2.0; 3]), &runs(&[1.5; 3]), Some(&noise)).unwrap();
        // The error is 0.3 times the root of 2/3, and t is 2.228.
        let half = 2.228 * 0.3 * (2.0_f64 / 3.0).sqrt();
        assert!((found.low - (0.5 - half)).abs() < 0.0002 && (found.high - (0.5 + half)).abs() < 0.0002, "{found:?}");
        assert_eq!((found.difference, found.level, found.runs, found.better), (0.5, 0.95, 3, false));
        let higher = verified(Direction::Higher, &runs(&[2.0; 3]), &runs(&[1.5; 3]), Some(&noise)).unwrap();
        assert_eq!((higher.difference, higher.low, higher.better), (-0.5, -found.high, false));
    }

    #[test]
    fn exact_runs_have_an_interval_of_nothing() {
        let found = verified(Direction::Lower, &runs(&[2.0; 4]), &runs(&[1.5; 2]), None).unwrap();
        assert_eq!((found.low, found.high, found.runs, found.better), (0.5, 0.5, 2, true));
    }

    #[test]
    fn one_run_of_each_says_nothing_by_itself() {
        assert_eq!(verified(Direction::Lower, &runs(&[2.0]), &runs(&[1.5]), None), None);
    }

    /// Runs with the seeds from `first` on.
    fn group(first: u64, values: &[f64]) -> Vec<Sample> {
        (first..).zip(values).map(|(seed, value)| Sample { seed, value: *value }).collect()
    }

    #[test]
    fn the_deviation_is_pooled_within_experiments() {
        // Means 2 and 13, squares 2 and 6, on 1 + 2 degrees of freedom; no seed in common.
        let found = noise(&[group(1, &[1.0, 3.0]), group(6, &[12.0, 12.0, 15.0]), group(20, &[99.0])], true).unwrap();
        assert!((found.deviation - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{found:?}");
        assert_eq!((found.freedom, found.pairing, found.pairs), (3.0, 0.0, 0.0));
        assert_eq!(noise(&[group(1, &[1.0]), group(1, &[2.0])], true), None, "nothing twice");
    }

    #[test]
    fn seeds_that_move_all_experiments_alike_correlate() {
        // Squares 5 and 5, products 5, on 3 degrees of freedom: 1 less a third, then 1 less a third of (1 - 4/9)².
        let alike = [group(1, &[0.0, 1.0, 2.0, 3.0]), group(1, &[10.0, 11.0, 12.0, 13.0])];
        let found = noise(&alike, true).unwrap();
        assert!((found.pairing - 218.0 / 243.0).abs() < 1e-12, "{found:?}");
        assert!((found.deviation - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{found:?}");
        assert!((found.freedom - (6.0 - 3.0 * 218.0 / 243.0)).abs() < 1e-12, "6 repeats, less 3 seeds: {found:?}");
        let opposite = noise(&[group(1, &[0.0, 1.0, 2.0, 3.0]), group(1, &[13.0, 12.0, 11.0, 10.0])], true).unwrap();
        assert_eq!((opposite.pairing, opposite.freedom), (0.0, 6.0));
        let by_chance = noise(&alike, false).unwrap();
        assert_eq!((by_chance.pairing, by_chance.freedom), (0.0, 6.0), "a script without a seed");
    }

    #[test]
    fn equal_numbers_have_no_noise_despite_rounding() {
        let found = noise(&[group(1, &[0.1; 3]), group(1, &[0.3; 3])], true).unwrap();
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
            if let (Some(one), Some(other)) = (noise(&plain, true), noise(&moved, true)) {
                prop_assert!((0.0..=LARGEST_PAIRING).contains(&one.pairing) && one.freedom >= 1.0, "{one:?}");
                prop_assert!((one.pairing - other.pairing).abs() < 1e-6, "{one:?} {other:?}");
                prop_assert!((one.deviation * scale - other.deviation).abs() < 1e-6 * scale, "{one:?} {other:?}");
            }
        }
    }
}
