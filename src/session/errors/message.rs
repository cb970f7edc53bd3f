//! Errors about messages to the agents.

use strum::EnumProperty;

use crate::domain::{Tag, bytes_text};

/// The reason why a word cannot be added or dropped.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum MessageError {
    #[error("the text is empty")]
    #[strum(props(hint = "write what the agent must know, as in `ar tell \"keep the batch size\"`"))]
    Empty,
    #[error("the text has {}, more than the limit of {}", bytes_text(*.0 as u64), bytes_text(LONGEST as u64))]
    #[strum(props(hint = "put it into a file that the agent can read, and name that file"))]
    TooLong(usize),
    #[error("session {tag} has no word {id}")]
    #[strum(props(hint = "run `ar tell --list` to see them"))]
    NoWord { tag: Tag, id: u32 },
    #[error("no home folder for the key that marks a word as yours")]
    #[strum(props(hint = "set HOME, or XDG_STATE_HOME to an absolute path"))]
    NoHome,
}

/// The longest text of a word, in bytes.
pub(crate) const LONGEST: usize = 1 << 20;
