//! What fresh runs say of two recorded experiments.

use serde::{Deserialize, Serialize};

use super::ExperimentId;

/// Two experiments by all fresh runs that were made of them. It is the message of a tag under `verified/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedPair {
    /// The format's version.
    pub version: u32,
    /// The experiment that is compared with.
    pub a: ExperimentId,
    /// The experiment that is compared.
    pub b: ExperimentId,
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
}
