//! What an agent's output tells.

use crate::domain::{Refusal, Usage};

/// What an agent answered.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// What kept it from its work, where its answer ends with that.
    pub refusal: Option<Refusal>,
    /// What it used.
    pub usage: Usage,
    /// Its final words.
    pub text: Option<String>,
    /// The last lines of its output that belong to no stream, and its final words; absent where the output is no
    /// machine-readable stream.
    pub words: Option<String>,
}
