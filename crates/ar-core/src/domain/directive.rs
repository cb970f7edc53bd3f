//! Instructions for the next experiment: stay close to earlier ones, or differ from them. At a pivot the agent proposes in roles.

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
    /// Refine after 3 experiments, pivot after 5, flag for review instead of the third pivot
    #[default]
    Refine,
    /// Pivot the structure after 2 experiments without a finding, flag for review after 4
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
    /// Returns whether it requires a new strategy, so that a tried direction is refused.
    pub fn wants_new_direction(self) -> bool {
        matches!(self, Directive::Pivot { .. } | Directive::FreshStart { .. })
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
pub struct LadderPosition {
    /// The count towards the next step.
    pub stale: u32,
    /// Pivots since the last keep or flag.
    pub pivots: u32,
    /// Pivots and flags in total; selects the next perturbation.
    pub turns: u32,
    /// The number of times that the session was flagged for review.
    pub flags: u32,
    /// Consecutive changes refused because their direction had been tried.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub repeated: u32,
    /// The instruction for the next agent call.
    #[serde(default)]
    pub directive: Directive,
}

/// The role of an agent that looks for a way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// It looks for the cause in what was measured.
    Investigate,
    /// It looks for the assumption that is wrong.
    Refute,
    /// It carries a solution over from elsewhere.
    Analogy,
}

/// A proposal by an agent in a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleProposal {
    /// Its role.
    pub role: Role,
    /// Its words.
    pub text: String,
}

/// The proposals for a pivot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explored {
    /// The last pivot that asked for them, by its number on the ladder, from 1.
    pub turns: u32,
    /// The number of roles asked.
    pub asked: u32,
    /// The proposals that came of it.
    pub proposals: Vec<RoleProposal>,
    /// The first experiment whose agent was shown them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<ExperimentId>,
}

impl Explored {
    /// Begins with the proposals for a pivot, from `count` roles. If some are still to be asked, what they propose serves
    /// this pivot as well.
    pub fn begin(&mut self, turns: u32, count: u32) {
        match self.next_role(count) {
            Some(_) => self.turns = turns,
            None => *self = Explored { turns, ..Explored::default() },
        }
    }

    /// The role to be asked next, if `count` are to be asked.
    pub fn next_role(&self, count: u32) -> Option<Role> {
        let is_open = self.turns > 0 && self.asked < count;
        Role::VARIANTS.get(self.asked as usize).copied().filter(|_| is_open)
    }

    /// Notes that a role was asked, and its proposal if it made one.
    pub fn note(&mut self, proposal: Option<RoleProposal>) {
        self.asked += 1;
        self.proposals.extend(proposal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_asked_once_for_each_pivot() {
        let mut explored = Explored::default();
        let proposal = |role| Some(RoleProposal { role, text: "x".into() });
        assert_eq!(explored.next_role(2), None, "no pivot yet");
        explored.begin(1, 2);
        assert_eq!((explored.next_role(0), explored.next_role(2)), (None, Some(Role::Investigate)));
        explored.note(proposal(Role::Investigate));
        explored.begin(2, 2);
        assert_eq!(explored.next_role(2), Some(Role::Refute), "a pivot meanwhile asks nobody twice");
        explored.note(None);
        assert_eq!((explored.next_role(2), explored.next_role(3)), (None, Some(Role::Analogy)));
        explored.begin(3, 2);
        assert_eq!((explored.next_role(2), explored.proposals.len()), (Some(Role::Investigate), 0), "begun anew");
    }
}
