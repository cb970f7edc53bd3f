//! How the next experiment is to differ from those before it.

use serde::{Deserialize, Serialize};

/// By what a session goes when keeps fail to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ladder {
    /// Refine, then pivot, then look elsewhere, then flag.
    #[default]
    Refine,
    /// Pivot the structure soon, and flag soon.
    Structural,
}

/// Where a pivot takes its new idea from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Perturbation {
    /// The opposite of what was assumed.
    Opposite,
    /// A case elsewhere of the same structure.
    Analogy,
    /// Taking something away instead of adding.
    Removal,
    /// Two attempts that nearly worked, together.
    NearMisses,
}

/// What the next call of the agent is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Directive {
    /// Nothing in particular.
    #[default]
    Free,
    /// To vary within the strategy, differing from the recent attempts in one concrete way.
    Refine,
    /// To leave the strategy and change a structural constraint.
    Pivot {
        /// Where the new idea comes from.
        perturbation: Perturbation,
        /// Whether it may look for ideas outside the repository.
        research: bool,
    },
    /// To begin anew from a direction that nobody tried: the session is flagged for a person.
    FreshStart {
        /// Where the new idea comes from.
        perturbation: Perturbation,
    },
}

impl Directive {
    /// Whether the strategy has to be a new one.
    pub fn wants_new_direction(self) -> bool {
        matches!(self, Directive::Pivot { .. } | Directive::FreshStart { .. })
    }
}

/// How far up its ladder a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rung {
    /// What counts towards the next step.
    pub stale: u32,
    /// Pivots since the last keep or flag.
    pub pivots: u32,
    /// Pivots and flags in all; says whose turn it is among the perturbations.
    pub turns: u32,
    /// How often the session was flagged for a person.
    pub flags: u32,
    /// What the next call of the agent is told.
    #[serde(default)]
    pub directive: Directive,
}
