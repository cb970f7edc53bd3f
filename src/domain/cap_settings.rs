//! Caps on what goes on unwatched.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::setting::{Form, Heading, line, texts};
use super::settings::asked;
use super::{Asked, Setting, duration_text};

/// What ends a run or a call before its time limit; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    /// How long a run may write nothing while its GPU, or without one its processes, do nothing.
    #[serde(with = "crate::domain::seconds::option", skip_serializing_if = "Option::is_none")]
    pub silence: Option<Duration>,
    /// How long a call of the agent may write nothing and use no processor.
    #[serde(with = "crate::domain::seconds::option", skip_serializing_if = "Option::is_none")]
    pub agent_silence: Option<Duration>,
}

impl Caps {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Caps::default()
    }

    /// Takes over those that are asked for.
    pub(super) fn take(&mut self, asked: &Asked) {
        self.silence = asked.silence.or(self.silence);
        self.agent_silence = asked.agent_silence.or(self.agent_silence);
    }
}

/// The caps as settings.
pub(super) static CAPS: &[Setting] = &[
    Setting {
        key: "silence",
        heading: Heading::Measuring,
        value: "DURATION",
        help: "Time after which a run is ended that prints nothing and leaves its GPU idle, or without a GPU uses no \
               processor [default: none]",
        comment: "Time after which a run is ended that prints nothing and does nothing.",
        example: "\"20m\"",
        lines: |it| line(it.caps.silence, |limit| format!("silence   {} at most in a run", duration_text(limit))),
        stored: |it| texts(it.caps.silence.as_ref()),
        ..asked!(silence: Duration)
    },
    Setting {
        key: "agent-silence",
        heading: Heading::Agent,
        value: "DURATION",
        help: "Time after which an agent call is ended that prints nothing and uses no processor [default: none]",
        comment: "Time after which an agent call is ended that prints nothing and uses no processor.",
        example: "\"10m\"",
        lines: |it| {
            line(it.caps.agent_silence, |limit| format!("silence   {} at most in a call", duration_text(limit)))
        },
        stored: |it| texts(it.caps.agent_silence.as_ref()),
        ..asked!(agent_silence: Duration)
    },
];
