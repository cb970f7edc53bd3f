//! What the user says to the agents of a session.

use serde::Serialize;

/// A word of the user to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// Its number.
    pub id: u32,
    /// Its text, of several lines where the user wrote several.
    pub text: String,
    /// Whether each prompt has it, not only the next one.
    pub standing: bool,
}
