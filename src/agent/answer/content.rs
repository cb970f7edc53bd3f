//! The contents of an agent's output.

use crate::domain::{Refusal, Usage};

/// The answer of an agent.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The refusal that its answer ends with, if any.
    pub refusal: Option<Refusal>,
    /// Its tokens and cost.
    pub usage: Usage,
    /// The number of rounds that it has begun: answers of its model, each with the actions that follow. 0 if its output
    /// does not show them.
    pub rounds: u32,
    /// True if its last line is the result with which its program ends.
    pub is_complete: bool,
    /// True if it ended itself after as many rounds as allowed.
    pub rounds_are_up: bool,
    /// Its final words.
    pub text: Option<String>,
    /// The last lines of its output that belong to no stream, and its final words; absent where the output is no
    /// machine-readable stream.
    pub words: Option<String>,
}
