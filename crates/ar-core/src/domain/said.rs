//! What an agent says during its call, beside its proposal.

use serde::{Deserialize, Serialize};

use super::NewIdea;

/// Something that `ar` writes down for an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub enum Said {
    /// An idea for the backlog.
    Idea(NewIdea),
    /// The number of an idea to drop.
    Drop {
        /// The number.
        idea: u32,
    },
    /// A note on an experiment.
    Note {
        /// The experiment, as the user names it.
        experiment: String,
        /// The note, on one line.
        text: String,
        /// The session, if named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
    },
}
