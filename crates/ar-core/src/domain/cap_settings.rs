//! Caps on what goes on unwatched: silence of runs and calls, rounds of a call, length of a file, and what a whole session
//! may come to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::setting::{Form, Heading, Held, line, texts};
use super::settings::{asked, described};
use super::values::{non_negative, not_zero};
use super::{Asked, Setting, count_of, duration_text, money_text, tokens_text};

/// Declares [`Caps`] and [`CAPS`]. A cap is declared as `field: type of what is asked as type of the cap { description }`.
macro_rules! caps {
    ($(
        $(#[$meta:meta])*
        $field:ident: $asked:ty as $held:ty, { $($part:ident: $value:expr),* $(,)? }
    )*) => {
        /// What ends a run or a call before its time limit, how long a file may get, and what ends the session whatever the night
        /// has left; nothing by default.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Caps {
            $($(#[$meta])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$held>,)*
        }

        impl Caps {
            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                *self == Caps::default()
            }

            /// Takes over those that are asked for.
            pub(super) fn take(&mut self, asked: &Asked) {
                $(if let Some(value) = asked.$field { Held::take(&mut self.$field, value); })*
            }
        }

        /// The caps as settings.
        pub(super) static CAPS: &[Setting] = described! {$(
            asked!($field: $asked) => { $($part: $value,)* stored: |it| texts(it.caps.$field.as_ref()) }
        )*};
    };
}

caps! {
    /// How long a run may write nothing while its GPU, or without one its processes, do nothing.
    #[serde(with = "crate::domain::seconds::option")]
    silence: Option<Duration> as Duration, {
        key: "silence", heading: Heading::Measuring, value: "DURATION",
        help: "Time after which a run is ended that prints nothing and leaves its GPU idle, or without a GPU uses no \
               processor [default: none]",
        comment: "Time after which a run is ended that prints nothing and does nothing.", example: "\"20m\"",
        lines: |it| line(it.caps.silence, |limit| format!("silence   {} at most in a run", duration_text(limit))),
    }

    /// How long a call of the agent may write nothing and use no processor.
    #[serde(with = "crate::domain::seconds::option")]
    agent_silence: Option<Duration> as Duration, {
        key: "agent-silence", heading: Heading::Agent, value: "DURATION",
        help: "Time after which an agent call is ended that prints nothing and uses no processor [default: none]",
        comment: "Time after which an agent call is ended that prints nothing and uses no processor.",
        example: "\"10m\"",
        lines: |it| line(it.caps.agent_silence, |limit| {
            format!("silence   {} at most in a call", duration_text(limit))
        }),
    }

    /// How many rounds a call of the agent may take: answers of its model, each with what it does then.
    agent_rounds: u32 as u32, {
        key: "agent-rounds", heading: Heading::Agent, value: "N",
        help: "Largest number of rounds in an agent call, for agents that report them: claude, gemini and opencode \
               [default: none]",
        comment: "How many rounds an agent call may take, for agents that report them.", example: "15",
        check: not_zero,
        lines: |it| line(it.caps.agent_rounds, |rounds| format!("at most   {} in a call", count_of(rounds, "round"))),
    }

    /// How many lines a file of a change may have.
    max_file_total: u32 as u32, {
        key: "max-file-total", heading: Heading::Changes, value: "N",
        help: "Largest file, in lines, that an experiment may add or change",
        comment: "How many lines a file may have that an experiment adds or changes.", example: "300",
        check: not_zero,
        lines: |it| line(it.caps.max_file_total, |lines| {
            format!("files     of at most {} in a change", count_of(lines, "line"))
        }),
    }

    /// How many experiments the session may have in all its nights, the baseline not counted.
    session_max_experiments: u32 as u32, {
        key: "session-max-experiments", heading: Heading::Stopping, value: "N",
        help: "Largest number of experiments in the session, in all nights together",
        comment: "How many experiments a session may have in all its nights.", example: "1000",
        ends_loop: true,
        lines: |it| line(it.caps.session_max_experiments, |limit| {
            format!("at most   {} in the session", count_of(limit, "experiment"))
        }),
    }

    /// What all calls of the session's agent may cost.
    session_max_cost: f64 as f64, {
        key: "session-max-cost", heading: Heading::Stopping, value: "COST",
        help: "Cost of all agent calls of the session at which the loop stops",
        comment: "Stop when all calls of the session have cost this much.", example: "200.0",
        check: non_negative, ends_loop: true,
        lines: |it| line(it.caps.session_max_cost, |cost| format!("at most   {} in the session", money_text(cost))),
    }

    /// How many tokens they may use.
    session_max_tokens: u64 as u64, {
        key: "session-max-tokens", heading: Heading::Stopping, value: "N",
        help: "Tokens of all agent calls of the session at which the loop stops",
        comment: "Stop when all calls of the session have used so many tokens.", example: "500000000",
        ends_loop: true,
        lines: |it| line(it.caps.session_max_tokens, |tokens| {
            format!("at most   {} tokens in the session", tokens_text(tokens))
        }),
    }
}
