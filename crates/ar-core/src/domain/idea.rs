//! The backlog of ideas.

use clap::ValueEnum;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of an idea.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IdeaState {
    /// No agent was offered it yet.
    Open,
    /// An agent was offered it and made an experiment.
    Drawn,
    /// An agent made an experiment of it, and `ar` kept that.
    Kept,
    /// The user or an agent dropped it.
    Dropped,
}

/// What an entry of the backlog is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::Display, strum::VariantArray, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IdeaKind {
    /// Something to try
    #[default]
    Idea,
    /// Something to read
    Source,
}

impl IdeaKind {
    /// The field of a record's proposal with the text of the one that the agent was offered.
    pub fn offered_field(self) -> &'static str {
        match self {
            IdeaKind::Idea => "offered_idea",
            IdeaKind::Source => "offered_source",
        }
    }

    /// The field of an agent's proposal with the number of the one that the change uses.
    pub fn used_field(self) -> &'static str {
        match self {
            IdeaKind::Idea => "idea",
            IdeaKind::Source => "source",
        }
    }
}

/// An idea that is not in the backlog yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewIdea {
    /// The thing to try or to read, on one line.
    pub text: String,
    /// Its kind: something to try, or to read.
    #[serde(default)]
    pub kind: IdeaKind,
    /// The strategy that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The author's score on a scale of their own; higher is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The author's name of the user's ideas.
pub const USER: &str = "user";

/// The author's name of an agent's ideas, by the experiment of its call.
pub fn agent_name(tag: &str, experiment: &str) -> String {
    format!("agent of {tag}/{experiment}")
}

/// The author's name of what search commands found, by the experiment that they were asked for.
pub fn search_name(tag: &str, experiment: &str) -> String {
    format!("search of {tag}/{experiment}")
}

/// One idea of the backlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idea {
    /// Its number, from 1.
    pub id: u32,
    /// The idea itself.
    #[serde(flatten)]
    pub idea: NewIdea,
    /// The author: `user`, or `agent of nov20/7`.
    pub by: String,
    /// When it was added.
    #[serde(with = "crate::domain::millis", alias = "ts")]
    pub time: Timestamp,
    /// Its state.
    pub state: IdeaState,
    /// True if an agent was offered it and made something else; then `ar` may offer it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unused: bool,
}
