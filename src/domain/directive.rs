//! How the next experiment should differ from earlier ones.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ExperimentId, Number};

/// The steps that a session takes without recent keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ladder {
    /// Refine, then pivot, then look elsewhere, then flag.
    #[default]
    Refine,
    /// Pivot the structure soon, and flag soon.
    Structural,
}

impl Ladder {
    /// Each ladder by its name, with what the help says of it.
    pub(super) const ALL: &[(&'static str, &'static str, Ladder)] = &[
        (
            "refine",
            "Refine after 3 experiments, pivot after 5, flag for review instead of the third pivot",
            Ladder::Refine,
        ),
        (
            "structural",
            "Pivot the structure after 2 experiments without a finding, flag for review after 4",
            Ladder::Structural,
        ),
    ];
}

/// Where a pivot takes its new idea from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Perturbation {
    /// The opposite of what was assumed.
    Opposite,
    /// A structurally similar case elsewhere.
    Analogy,
    /// Taking something away instead of adding.
    Removal,
    /// A combination of two near misses.
    NearMisses,
}

/// The instruction for the next agent call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Directive {
    /// Nothing in particular.
    #[default]
    Free,
    /// Vary the strategy in one concrete way.
    Refine,
    /// Abandon the strategy and change a structural constraint.
    Pivot {
        /// Where the new idea comes from.
        perturbation: Perturbation,
        /// Whether it may look for ideas outside the repository.
        research: bool,
    },
    /// Start over in an untried direction: the session is flagged for review.
    FreshStart {
        /// Where the new idea comes from.
        perturbation: Perturbation,
    },
}

impl Directive {
    /// Whether it requires a new strategy.
    pub fn wants_new_direction(self) -> bool {
        matches!(self, Directive::Pivot { .. } | Directive::FreshStart { .. })
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Perturbation::Opposite => "the opposite hypothesis",
            Perturbation::Analogy => "a structurally similar case elsewhere",
            Perturbation::Removal => "removal instead of addition",
            Perturbation::NearMisses => "a near miss combined with another",
        })
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Directive::Free => f.write_str("free"),
            Directive::Refine => f.write_str("refine: one concrete change within the strategy"),
            Directive::Pivot { perturbation, research } => {
                let research = if *research { ", research allowed" } else { "" };
                write!(f, "pivot: another strategy, by {perturbation}{research}")
            }
            Directive::FreshStart { perturbation } => {
                write!(f, "fresh start: a direction that was never tried, by {perturbation}")
            }
        }
    }
}

/// A direction and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriedDirection {
    /// Its name, as the first experiment wrote it.
    pub direction: String,
    /// How many experiments belong to it.
    pub experiments: u32,
    /// How many of them were kept.
    pub kept: u32,
    /// Their best value, kept or not, without those that broke a limit or failed a guard.
    pub best: Option<Number>,
    /// The newest of them.
    pub last: ExperimentId,
}

/// A step of the ladder, with the experiment before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldStep {
    /// The experiment before it.
    pub after: ExperimentId,
    /// The instruction.
    pub directive: Directive,
}

/// The position of a session on its ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rung {
    /// The count towards the next step.
    pub stale: u32,
    /// Pivots since the last keep or flag.
    pub pivots: u32,
    /// Pivots and flags in total; selects the next perturbation.
    pub turns: u32,
    /// How often the session was flagged for review.
    pub flags: u32,
    /// The instruction for the next agent call.
    #[serde(default)]
    pub directive: Directive,
}
