//! The backlog of ideas.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How far an idea has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdeaState {
    /// It waits.
    Open,
    /// An agent was offered it, and made an experiment.
    Drawn,
    /// An agent made an experiment of it, which was kept.
    Kept,
    /// Somebody does not want it any more.
    Dropped,
}

impl fmt::Display for IdeaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            IdeaState::Open => "open",
            IdeaState::Drawn => "drawn",
            IdeaState::Kept => "kept",
            IdeaState::Dropped => "dropped",
        })
    }
}

/// An idea that is not in the backlog yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewIdea {
    /// What to try, on one line.
    pub text: String,
    /// The strategy that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What whoever had it thinks of it: the higher, the better, on a scale of his own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// Who a person is in the backlog.
pub const USER: &str = "user";

/// Who an agent is in the backlog, by the experiment that it is at work on.
pub fn agent_name(tag: &str, experiment: &str) -> String {
    format!("agent of {tag}/{experiment}")
}

/// One idea of the backlog.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Idea {
    /// Its number, from 1.
    pub id: u32,
    /// What to try.
    #[serde(flatten)]
    pub idea: NewIdea,
    /// Who had it: `user`, or `agent of nov20/7`.
    pub by: String,
    /// When it was added.
    #[serde(serialize_with = "crate::domain::millis::serialize")]
    pub time: Timestamp,
    /// How far it has come.
    pub state: IdeaState,
    /// Whether it was drawn, and the experiment was made of something else: then it is offered again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unused: bool,
}
