//! Caps on what goes on unwatched: silence of runs and calls, rounds of a call, length of a file, and what a whole session
//! may come to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::setting::{Form, Heading, line, texts};
use super::settings::asked;
use super::values::{non_negative, not_zero};
use super::{Asked, Setting, count_of, duration_text, money_text, tokens_text};

/// What ends a run or a call before its time limit, how long a file may get, and what ends the session whatever the night
/// has left; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    /// How long a run may write nothing while its GPU, or without one its processes, do nothing.
    #[serde(with = "crate::domain::seconds::option", skip_serializing_if = "Option::is_none")]
    pub silence: Option<Duration>,
    /// How long a call of the agent may write nothing and use no processor.
    #[serde(with = "crate::domain::seconds::option", skip_serializing_if = "Option::is_none")]
    pub agent_silence: Option<Duration>,
    /// How many rounds a call of the agent may take: answers of its model, each with what it does then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_rounds: Option<u32>,
    /// How many lines a file of a change may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_total: Option<u32>,
    /// How many experiments the session may have in all its nights, the baseline not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_max_experiments: Option<u32>,
    /// What all calls of the session's agent may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_max_cost: Option<f64>,
    /// How many tokens they may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_max_tokens: Option<u64>,
}

impl Caps {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Caps::default()
    }

    /// Takes over those that are asked for.
    pub(super) fn take(&mut self, asked: &Asked) {
        self.silence = asked.silence.unwrap_or(self.silence);
        self.agent_silence = asked.agent_silence.unwrap_or(self.agent_silence);
        self.agent_rounds = asked.agent_rounds.or(self.agent_rounds);
        self.max_file_total = asked.max_file_total.or(self.max_file_total);
        self.session_max_experiments = asked.session_max_experiments.or(self.session_max_experiments);
        self.session_max_cost = asked.session_max_cost.or(self.session_max_cost);
        self.session_max_tokens = asked.session_max_tokens.or(self.session_max_tokens);
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
        ..asked!(silence: Option<Duration>)
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
        ..asked!(agent_silence: Option<Duration>)
    },
    Setting {
        key: "agent-rounds",
        heading: Heading::Agent,
        value: "N",
        help: "Largest number of rounds in an agent call, for agents that report them: claude, gemini and opencode \
               [default: none]",
        comment: "How many rounds an agent call may take, for agents that report them.",
        example: "15",
        check: not_zero,
        lines: |it| line(it.caps.agent_rounds, |rounds| format!("at most   {} in a call", count_of(rounds, "round"))),
        stored: |it| texts(it.caps.agent_rounds.as_ref()),
        ..asked!(agent_rounds: u32)
    },
    Setting {
        key: "max-file-total",
        heading: Heading::Changes,
        value: "N",
        help: "Largest file, in lines, that an experiment may add or change",
        comment: "How many lines a file may have that an experiment adds or changes.",
        example: "300",
        check: not_zero,
        lines: |it| {
            line(it.caps.max_file_total, |lines| {
                format!("files     of at most {} in a change", count_of(lines, "line"))
            })
        },
        stored: |it| texts(it.caps.max_file_total.as_ref()),
        ..asked!(max_file_total: u32)
    },
    Setting {
        key: "session-max-experiments",
        heading: Heading::Stopping,
        value: "N",
        help: "Largest number of experiments in the session, in all nights together",
        comment: "How many experiments a session may have in all its nights.",
        example: "1000",
        ends_loop: true,
        lines: |it| {
            line(it.caps.session_max_experiments, |limit| {
                format!("at most   {} in the session", count_of(limit, "experiment"))
            })
        },
        stored: |it| texts(it.caps.session_max_experiments.as_ref()),
        ..asked!(session_max_experiments: u32)
    },
    Setting {
        key: "session-max-cost",
        heading: Heading::Stopping,
        value: "COST",
        help: "Cost of all agent calls of the session at which the loop stops",
        comment: "Stop when all calls of the session have cost this much.",
        example: "200.0",
        check: non_negative,
        ends_loop: true,
        lines: |it| line(it.caps.session_max_cost, |cost| format!("at most   {} in the session", money_text(cost))),
        stored: |it| texts(it.caps.session_max_cost.as_ref()),
        ..asked!(session_max_cost: f64)
    },
    Setting {
        key: "session-max-tokens",
        heading: Heading::Stopping,
        value: "N",
        help: "Tokens of all agent calls of the session at which the loop stops",
        comment: "Stop when all calls of the session have used so many tokens.",
        example: "500000000",
        ends_loop: true,
        lines: |it| {
            line(it.caps.session_max_tokens, |tokens| {
                format!("at most   {} tokens in the session", tokens_text(tokens))
            })
        },
        stored: |it| texts(it.caps.session_max_tokens.as_ref()),
        ..asked!(session_max_tokens: u64)
    },
];
