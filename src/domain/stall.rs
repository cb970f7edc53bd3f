//! Calls of the agent that bring nothing on.

use serde::{Deserialize, Serialize};

/// How a call of the agent stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// It changed no file.
    NoChange,
    /// It ended in a question.
    Question,
}

/// What the next call of the agent is told about the last one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastCall {
    /// The question that it ended in.
    pub question: Option<String>,
    /// After how many seconds it was ended, if its time was over.
    pub ended_after: Option<f64>,
    /// Why its proposal, or a part of it, was ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_error: Option<String>,
    /// Whether it committed its change and reset it, and that was measured all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// How many commits it made, where more than one: they are one change.
    #[serde(skip_serializing_if = "is_zero")]
    pub commits: u32,
    /// How many rows of its were taken out of results.tsv.
    #[serde(skip_serializing_if = "is_zero")]
    pub rows: u32,
    /// The ignored files that changed while it was at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
