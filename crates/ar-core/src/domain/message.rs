//! Words of the user to the agents of a session.

use serde::Serialize;

/// A word of the user to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Its number.
    pub id: u32,
    /// Its text, of several lines where the user wrote several.
    pub text: String,
    /// True if each prompt contains it, false if only the next one does.
    pub standing: bool,
}
