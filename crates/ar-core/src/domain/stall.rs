//! Calls of the agent without progress.

use serde::{Deserialize, Serialize};

/// The way in which an agent call stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// It changed no file.
    NoChange,
    /// It ended in a question.
    Question,
}

/// Facts on the last agent call for the next one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastCall {
    /// Its last words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The question at its end.
    pub question: Option<String>,
    /// The time limit in seconds at which `ar` terminated it.
    pub ended_after: Option<f64>,
    /// The cap at which `ar` terminated it before its time limit, in words: `silent for 10 min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_for: Option<String>,
    /// The reason that `ar` ignored its proposal, or a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_error: Option<String>,
    /// True if its change named no direction although a new one was required.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unnamed: bool,
    /// True if it committed and then reset its change, which `ar` measured nevertheless.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// The number of its commits if more than one: they are one change.
    #[serde(skip_serializing_if = "is_zero")]
    pub commits: u32,
    /// The number of its rows that `ar` removed from results.tsv.
    #[serde(skip_serializing_if = "is_zero")]
    pub rows: u32,
    /// The ignored files that changed during the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(count: &u32) -> bool {
    *count == 0
}
