//! Calls of the agent for proposals at a pivot, each in another role.

use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

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
    /// The pivot, by its number on the ladder.
    pub turns: u32,
    /// The number of roles asked.
    pub asked: u32,
    /// The proposals that came of it.
    pub proposals: Vec<RoleProposal>,
}

impl Explored {
    /// Returns whether no role was asked and no proposal exists.
    pub fn is_nothing(&self) -> bool {
        *self == Explored::default()
    }

    /// The role to be asked next at this pivot, if `count` are to be asked.
    pub fn next_role(&self, turns: u32, count: u32) -> Option<Role> {
        let asked = if self.turns == turns { self.asked } else { 0 };
        Role::VARIANTS.get(asked as usize).copied().filter(|_| asked < count)
    }

    /// Notes that a role was asked at this pivot, and its proposal if it made one.
    pub fn note(&mut self, turns: u32, proposal: Option<RoleProposal>) {
        if self.turns != turns {
            *self = Explored { turns, ..Explored::default() };
        }
        self.asked += 1;
        self.proposals.extend(proposal);
    }

    /// The proposals for this pivot.
    pub fn at(&self, turns: u32) -> &[RoleProposal] {
        if self.turns == turns { &self.proposals } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_asked_once_for_each_pivot() {
        let mut explored = Explored::default();
        let proposal = |role| Some(RoleProposal { role, text: "x".into() });
        assert_eq!((explored.next_role(1, 0), explored.next_role(1, 2)), (None, Some(Role::Investigate)));
        explored.note(1, proposal(Role::Investigate));
        explored.note(1, None);
        assert_eq!((explored.next_role(1, 2), explored.next_role(1, 3)), (None, Some(Role::Analogy)));
        assert_eq!((explored.at(1).len(), explored.at(2).len()), (1, 0));
        assert_eq!(explored.next_role(2, 2), Some(Role::Investigate), "the next pivot begins anew");
        explored.note(2, proposal(Role::Investigate));
        assert_eq!((explored.asked, explored.at(2).len(), explored.at(1).len()), (1, 1, 0));
    }
}
