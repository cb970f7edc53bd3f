//! What fresh runs say of two recorded experiments.

use serde::{Deserialize, Serialize};

use super::{ExperimentId, Tag, experiment_name};

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
}
