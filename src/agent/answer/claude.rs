//! The answer of claude: `--output-format stream-json --verbose`, and `json`, which is its last line alone.

use jiff::Timestamp;
use serde::Deserialize;

use super::Answer;
use crate::domain::{Refusal, Tokens, Usage};

/// The model name in messages that claude wrote itself.
const SYNTHETIC: &str = "<synthetic>";

/// The outcome of a call that took as many rounds as `--max-turns` allows.
const TOO_MANY_ROUNDS: &str = "error_max_turns";

/// A line; those of other kinds hold nothing that is looked for.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ClaudeLine {
    System {
        subtype: String,
        model: Option<String>,
    },
    Assistant {
        message: ClaudeMessage,
        /// Present in what an agent says that it called itself.
        parent_tool_use_id: Option<String>,
    },
    User {
        #[serde(rename = "session_id")]
        _session: String,
    },
    RateLimitEvent {
        rate_limit_info: ClaudeLimit,
    },
    Result(Box<ClaudeResult>),
}

#[derive(Deserialize)]
struct ClaudeMessage {
    id: Option<String>,
    model: Option<String>,
    usage: Option<ClaudeCounts>,
}

#[derive(Deserialize)]
struct ClaudeLimit {
    status: String,
    #[serde(rename = "resetsAt")]
    resets_at: Option<i64>,
}

#[derive(Deserialize)]
struct ClaudeResult {
    /// `success`, or what ended it; also a refusal of the service is a `success`, with `is_error`.
    subtype: String,
    is_error: bool,
    api_error_status: Option<u16>,
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    total_cost_usd: Option<f64>,
    usage: Option<ClaudeCounts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaudeCounts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl ClaudeCounts {
    fn tokens(&self) -> Tokens {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let input = self.input_tokens.unwrap_or(0).saturating_add(written).saturating_add(cached);
        Tokens { input, output: self.output_tokens.unwrap_or(0), cached }
    }
}

/// The state of reading a call that the stream has not summed up yet.
#[derive(Default)]
pub(super) struct Stream {
    /// The newest message that no agent of its own said.
    round: Option<String>,
    /// The newest message, and its usage, which each of its lines repeats.
    message: Option<String>,
    newest: Usage,
    /// The usage of the messages before it.
    before: Usage,
    /// The end of the rate limit that stops it.
    until: Option<Timestamp>,
}

impl Stream {
    /// Takes a line. Returns whether it is one of claude's.
    pub(super) fn take_line(&mut self, line: &[u8], answer: &mut Answer) -> bool {
        match serde_json::from_slice(line) {
            Ok(ClaudeLine::System { subtype, model }) => {
                if subtype == "init" {
                    answer.usage.model = model.or(answer.usage.model.take());
                }
            }
            Ok(ClaudeLine::Assistant { message, parent_tool_use_id: parent }) => {
                self.take_message(message, parent.is_none(), answer)
            }
            Ok(ClaudeLine::User { .. }) => {}
            Ok(ClaudeLine::RateLimitEvent { rate_limit_info: limit }) => {
                let resets_at = limit.resets_at.filter(|_| limit.status == "rejected");
                self.until = resets_at.and_then(|seconds| Timestamp::from_second(seconds).ok());
            }
            Ok(ClaudeLine::Result(outcome)) => self.take_outcome(*outcome, answer),
            Err(_) => return false,
        }
        true
    }

    fn take_message(&mut self, message: ClaudeMessage, is_own: bool, answer: &mut Answer) {
        if is_own && (message.id.is_none() || message.id != self.round) {
            answer.rounds += 1;
            self.round.clone_from(&message.id);
        }
        if message.id.is_none() || message.id != self.message {
            self.before.add(std::mem::take(&mut self.newest));
            self.message = message.id;
        }
        self.newest.tokens = message.usage.map(|usage| usage.tokens()).or(self.newest.tokens);
        let model = message.model.filter(|model| model != SYNTHETIC);
        answer.usage.model = answer.usage.model.take().or(model);
    }

    fn take_outcome(&mut self, outcome: ClaudeResult, answer: &mut Answer) {
        let tokens = outcome.usage.map(|usage| usage.tokens());
        answer.usage.add(Usage { tokens, cost: outcome.total_cost_usd, ..Usage::default() });
        answer.is_complete = true;
        answer.rounds_are_up = outcome.subtype == TOO_MANY_ROUNDS;
        let until = self.until.take();
        *self = Stream::default();
        let said = outcome.result.into_iter().chain(outcome.errors).find(|text| !text.trim().is_empty());
        if outcome.is_error {
            let said = said.unwrap_or(outcome.subtype);
            answer.refusal = Some(Refusal { said, status: outcome.api_error_status, until });
        } else {
            answer.refusal = None;
            answer.text = said;
        }
    }

    /// Adds what a call used that was ended before it summed that up.
    pub(super) fn finish(&mut self, answer: &mut Answer) {
        self.before.add(std::mem::take(&mut self.newest));
        answer.usage.add(std::mem::take(&mut self.before));
    }
}
