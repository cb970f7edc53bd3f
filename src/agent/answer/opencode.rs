//! The answer of opencode: `run --format json`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Answer;
use crate::domain::{Refusal, Tokens, Usage};

/// A line.
#[derive(Deserialize)]
struct OpencodeLine {
    #[serde(flatten)]
    event: OpencodeEvent,
    #[serde(rename = "sessionID")]
    _session: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OpencodeEvent {
    StepStart {},
    StepFinish { part: OpencodeStep },
    Text { part: Text },
    ToolUse {},
    Reasoning {},
    Error { error: OpencodeFailure },
    Done {},
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

/// The reason of the last step, after which no tool is called.
const STOP: &str = "stop";

#[derive(Deserialize)]
struct OpencodeStep {
    reason: Option<String>,
    tokens: Option<OpencodeCounts>,
    cost: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OpencodeCounts {
    input: u64,
    output: u64,
    reasoning: u64,
    cache: Cache,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: u64,
    write: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OpencodeFailure {
    name: String,
    data: Data,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Data {
    message: Option<String>,
    status_code: Option<u16>,
    response_headers: BTreeMap<String, String>,
}

/// The header with the seconds to wait before the next request.
const RETRY_AFTER: &str = "retry-after";

/// Takes a line. Returns whether it is one of opencode's.
pub(super) fn take_line(line: &[u8], answer: &mut Answer) -> bool {
    let Ok(OpencodeLine { event, .. }) = serde_json::from_slice(line) else { return false };
    match event {
        OpencodeEvent::StepStart {} => answer.rounds += 1,
        OpencodeEvent::ToolUse {} | OpencodeEvent::Reasoning {} | OpencodeEvent::Done {} => {}
        OpencodeEvent::Text { part } => answer.text = Some(part.text),
        OpencodeEvent::StepFinish { part: OpencodeStep { reason, tokens, cost } } => {
            answer.is_complete = reason.as_deref() == Some(STOP);
            answer.refusal = None;
            let tokens =
                tokens.map(|OpencodeCounts { input, output, reasoning, cache: Cache { read, write } }| Tokens {
                    input: input.saturating_add(read).saturating_add(write),
                    output: output.saturating_add(reasoning),
                    cached: read,
                });
            answer.usage.add(Usage { model: None, tokens, cost });
        }
        OpencodeEvent::Error { error: OpencodeFailure { name, data } } => {
            let mut said = data.message.filter(|message| !message.is_empty()).unwrap_or(name);
            if let Some(seconds) = data.response_headers.get(RETRY_AFTER) {
                said += &format!(" ({RETRY_AFTER}: {seconds})");
            }
            answer.refusal = Some(Refusal { status: data.status_code, ..Refusal::saying(said) });
        }
    }
    true
}
