//! Instructions for the next experiment: stay close to earlier ones, or differ from them.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, VariantArray};

use super::{ExperimentId, Number};

/// The steps that a session takes without recent keeps.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Ladder {
    /// Refine, then pivot, then look elsewhere, then flag.
    #[default]
    #[strum(message = "Refine after 3 experiments, pivot after 5, flag for review instead of the third pivot")]
    Refine,
    /// Pivot the structure soon, and flag soon.
    #[strum(message = "Pivot the structure after 2 experiments without a finding, flag for review after 4")]
    Structural,
}

/// The source of a pivot's new idea.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum Perturbation {
    /// The opposite of what was assumed.
    #[strum(to_string = "the opposite hypothesis")]
    Opposite,
    /// A structurally similar case elsewhere.
    #[strum(to_string = "a structurally similar case elsewhere")]
    Analogy,
    /// Taking something away instead of adding.
    #[strum(to_string = "removal instead of addition")]
    Removal,
    /// A combination of two near misses.
    #[strum(to_string = "a near miss combined with another")]
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
        /// The source of the new idea.
        perturbation: Perturbation,
        /// True if the agent may look for ideas outside the repository.
        research: bool,
    },
    /// Start over in an untried direction: the session is flagged for review.
    FreshStart {
        /// The source of the new idea.
        perturbation: Perturbation,
    },
}

impl Directive {
    /// Returns whether it requires a new strategy.
    pub fn wants_new_direction(self) -> bool {
        matches!(self, Directive::Pivot { .. } | Directive::FreshStart { .. })
    }

    /// Returns whether it refuses a tried direction. A refutation or a combination may name an old one.
    pub fn refuses_tried(self) -> bool {
        use Perturbation::{Analogy, Removal};
        matches!(
            self,
            Directive::Pivot { perturbation: Analogy | Removal, .. }
                | Directive::FreshStart { perturbation: Analogy | Removal }
        )
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
    /// The number of experiments in it.
    pub experiments: u32,
    /// The number of kept ones among them.
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
    /// The number of times that the session was flagged for review.
    pub flags: u32,
    /// Consecutive changes refused because their direction had been tried.
    #[serde(default, skip_serializing_if = "super::stall::is_zero")]
    pub repeated: u32,
    /// The instruction for the next agent call.
    #[serde(default)]
    pub directive: Directive,
}
