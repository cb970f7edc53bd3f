//! What fresh runs say: of two recorded experiments, of the changes that one carries, and of a drift of the numbers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ExperimentId, FORMAT_VERSION, Tag, count_of, experiment_name, two_digits};

/// An experiment as a verification names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VerifiedId {
    /// By its number, in the session itself.
    Own(ExperimentId),
    /// With its session, as in `nov20:7`, where two sessions are compared.
    Of(String),
}

impl VerifiedId {
    /// Names an experiment, with its session where two are compared.
    pub fn new(tag: Option<&Tag>, id: ExperimentId) -> VerifiedId {
        tag.map_or(VerifiedId::Own(id), |tag| VerifiedId::Of(format!("{tag}:{id}")))
    }

    /// The number, if the session is not named.
    pub fn own(&self) -> Option<ExperimentId> {
        if let VerifiedId::Own(id) = self { Some(*id) } else { None }
    }

    /// Returns whether it names an experiment with this session.
    pub fn is_of(&self, tag: &Tag) -> bool {
        matches!(self, VerifiedId::Of(name) if name.rsplit_once(':').is_some_and(|(of, _)| of == tag.as_str()))
    }

    /// Names the experiment in a sentence.
    pub fn text(&self) -> String {
        match self {
            VerifiedId::Own(id) => experiment_name(*id),
            VerifiedId::Of(name) => name.clone(),
        }
    }
}

/// Two experiments by all fresh runs that were made of them. It is the message of a tag under `verified/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedPair {
    /// The format's version.
    pub version: u32,
    /// The experiment that is compared with.
    pub a: VerifiedId,
    /// The experiment that is compared.
    pub b: VerifiedId,
    /// The fresh runs of each, of all verifications of the pair.
    pub runs: u32,
    /// How much better `b` is than `a`, in the metric's unit; negative if it is worse.
    pub difference: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// How often such an interval covers the true difference.
    pub level: f64,
    /// Whether `b` is better: the whole interval is above 0.
    pub better: bool,
    /// The seeds and the values of the runs of `a`.
    pub values_a: Vec<(u64, f64)>,
    /// Those of `b`.
    pub values_b: Vec<(u64, f64)>,
    /// How many runs of each were asked for: more than `runs` if somebody interrupted it.
    pub wanted: u32,
    /// Unknown fields, from a newer version.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl VerifiedPair {
    /// A pair that was not run yet.
    pub fn new(a: VerifiedId, b: VerifiedId) -> VerifiedPair {
        VerifiedPair {
            version: FORMAT_VERSION,
            a,
            b,
            runs: 0,
            difference: 0.0,
            low: 0.0,
            high: 0.0,
            level: 0.0,
            better: false,
            values_a: Vec::new(),
            values_b: Vec::new(),
            wanted: 0,
            more: Map::new(),
        }
    }

    /// Adds a run of the first one (0) or of the second (1).
    pub fn add(&mut self, which: usize, seed: u64, value: f64) {
        let values = if which == 0 { &mut self.values_a } else { &mut self.values_b };
        values.push((seed, value));
    }

    /// Returns whether it compares this experiment of the session.
    pub fn names(&self, id: ExperimentId) -> bool {
        [&self.a, &self.b].into_iter().any(|side| side.own() == Some(id))
    }

    /// Says how far apart the two are, with so many decimals.
    pub fn sentence(&self, decimals: usize) -> String {
        let VerifiedPair { a, b, difference, low, high, level, .. } = self;
        let (decimals, way) = (decimals.clamp(1, 12), if *difference < 0.0 { "worse" } else { "better" });
        let sure = match () {
            () if low == high => "each gave one value in all its runs, which says nothing about the noise",
            () if *low > 0.0 || *high < 0.0 => "more than chance explains",
            () => "that may be chance",
        };
        format!(
            "{} is {way} than {} by {:.decimals$} ({}% interval {low:+.decimals$} to {high:+.decimals$}, positive is better): {sure}",
            b.text(),
            a.text(),
            difference.abs(),
            (level * 100.0).round(),
        )
    }

    /// The number of seeds that both have.
    pub fn common_seeds(&self) -> u32 {
        let is_common = |(seed, _): &&(u64, f64)| has(&self.values_b, *seed);
        u32::try_from(self.values_a.iter().filter(is_common).count()).unwrap_or(u32::MAX)
    }

    /// The runs that it lacks, each with which of the two it runs: those that were interrupted first, then by fresh seeds. Who
    /// begins changes from seed to seed, so that a drift harms neither.
    pub fn missing(&self, first_fresh: u64) -> Vec<(usize, u64)> {
        let lacks_b = self.values_a.iter().filter(|(seed, _)| !has(&self.values_b, *seed)).map(|(seed, _)| (1, *seed));
        let lacks_a = self.values_b.iter().filter(|(seed, _)| !has(&self.values_a, *seed)).map(|(seed, _)| (0, *seed));
        let mut missing: Vec<(usize, u64)> = lacks_a.chain(lacks_b).collect();
        let begun = self.common_seeds() as usize + missing.len();
        let own = self.values_a.iter().chain(&self.values_b).map(|(seed, _)| seed.saturating_add(1));
        let first_fresh = own.chain([first_fresh]).max().unwrap_or(first_fresh);
        for (place, seed) in (begun..self.wanted as usize).zip(first_fresh..) {
            let first = place % 2;
            missing.extend([(first, seed), (1 - first, seed)]);
        }
        missing
    }
}

fn has(values: &[(u64, f64)], seed: u64) -> bool {
    values.iter().any(|(known, _)| *known == seed)
}

/// Fresh runs of the best experiment with and without what was kept before. It is the message of a tag under `ablated/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ablated {
    /// The format's version.
    pub version: u32,
    /// The experiment whose changes were taken out.
    pub best: ExperimentId,
    /// The runs of each tree that is compared with another one.
    pub runs: u32,
    /// What each kept change carries, in the order in which they were kept; empty until all of them were measured.
    pub kept: Vec<Contribution>,
    /// The changes that were taken out for good, in that order.
    pub dropped: Vec<ExperimentId>,
    /// All runs.
    pub values: Vec<AblatedRun>,
    /// Unknown fields, from a newer version.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a kept change carries: by how much the best experiment is better with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The experiment that made the change.
    pub experiment: ExperimentId,
    /// How much better the best one is with it, in the metric's unit; absent if it cannot be taken out by itself.
    pub contribution: Option<f64>,
    /// The low end of the interval.
    pub low: Option<f64>,
    /// The high end.
    pub high: Option<f64>,
    /// Whether it carries anything: the whole interval is above 0.
    pub carries: Option<bool>,
}

/// A fresh run of the best experiment without some changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AblatedRun {
    /// The changes that it lacks, in the order of their numbers; none for the best experiment itself.
    pub without: Vec<ExperimentId>,
    /// What it was made for.
    pub step: AblationStep,
    /// Its seed.
    pub seed: u64,
    /// Its value; absent if it gave none.
    pub value: Option<f64>,
}

/// The purpose of a run without some changes. The runs of one are never those that choose what the other measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AblationStep {
    /// To measure each change by itself.
    Ablate,
    /// To see what remains without the changes that are dropped.
    Drop,
}

/// A shift beyond chance in reruns of the best experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricDrift {
    /// By how much the same code is better now, in the metric's unit; negative if it is worse.
    pub shift: f64,
    /// Its standard error.
    pub error: f64,
    /// The reruns that show it: 1 for a sudden shift.
    pub checks: u32,
    /// The experiments over which it came.
    pub experiments: u32,
}

impl MetricDrift {
    /// Says of the newest rerun, which was of experiment `id`, what it shows.
    pub fn sentence(&self, id: ExperimentId, metric: &str) -> String {
        let way = if self.shift < 0.0 { "worse" } else { "better" };
        let size = format!("{} ± {} {way}", two_digits(self.shift.abs()), two_digits(self.error));
        match self.checks {
            1 => format!(
                "{metric} drifts: {} measures {size} than the same code by the same seed before, more than chance",
                experiment_name(id)
            ),
            checks => format!(
                "{metric} drifts: over {} the same code became {size} by {}, more than chance",
                count_of(self.experiments, "experiment"),
                count_of(checks, "rerun")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_runs_come_first_and_both_begin_in_turn() {
        let mut pair = VerifiedPair::new(VerifiedId::new(None, 0.into()), VerifiedId::new(None, 7.into()));
        pair.wanted = 4;
        for (which, seed) in [(0, 6), (1, 6), (0, 7), (1, 8)] {
            pair.add(which, seed, 1.0);
        }
        assert_eq!((pair.common_seeds(), pair.missing(9)), (1, vec![(0, 8), (1, 7), (1, 9), (0, 9)]));
        assert_eq!(pair.missing(3)[2].1, 9, "no seed of its own is fresh");
        let json = serde_json::to_value(&pair).unwrap();
        assert_eq!((&json["a"], &json["b"]), (&0.into(), &7.into()));
        let tag: Tag = "nov20".parse().unwrap();
        assert_eq!(serde_json::to_value(VerifiedId::new(Some(&tag), 7.into())).unwrap(), "nov20:7");
    }

    #[test]
    fn a_drift_says_its_size_and_its_error() {
        let drift = MetricDrift { shift: -0.0123, error: 0.003, checks: 1, experiments: 9 };
        assert_eq!(
            drift.sentence(7.into(), "loss"),
            "loss drifts: experiment 7 measures 0.012 ± 0.0030 worse than the same code by the same seed before, more than \
             chance"
        );
        let slow = MetricDrift { shift: 0.5, checks: 4, experiments: 80, ..drift };
        assert_eq!(
            slow.sentence(7.into(), "loss"),
            "loss drifts: over 80 experiments the same code became 0.50 ± 0.0030 better by 4 reruns, more than chance"
        );
    }
}
