//! What the kept changes of an experiment carry, by fresh runs without them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ExperimentId;

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
