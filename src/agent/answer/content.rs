//! What an agent's output tells.

use crate::domain::{Refusal, Usage};

/// What an agent answered.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// What kept it from its work, where its answer ends with that.
    pub refusal: Option<Refusal>,
    /// What it used.
    pub usage: Usage,
    /// How many rounds it has begun: answers of its model, each with what it does then; 0 where its output tells none.
    pub rounds: u32,
    /// Whether it ended itself because it had taken as many rounds as it may.
    pub rounds_are_up: bool,
    /// Its final words.
    pub text: Option<String>,
    /// The last lines of its output that belong to no stream, and its final words; absent where the output is no
    /// machine-readable stream.
    pub words: Option<String>,
}
