//! The answer of codex: `exec --json`.

use serde::Deserialize;

use super::Answer;
use crate::domain::{Refusal, Tokens, Usage};

/// A line.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Line {
    #[serde(rename = "thread.started")]
    Thread {},
    #[serde(rename = "turn.started")]
    Turn {},
    #[serde(rename = "turn.completed")]
    Completed { usage: Option<Counts> },
    #[serde(rename = "turn.failed")]
    Failed { error: Failure },
    #[serde(rename = "item.started", alias = "item.updated")]
    Begun {},
    #[serde(rename = "item.completed")]
    Item { item: Item },
    /// Also one that codex gets over by itself.
    #[serde(rename = "error")]
    Error(Failure),
}

#[derive(Deserialize)]
struct Failure {
    message: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    AgentMessage {
        text: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

/// Takes a line. Returns whether it is one of codex's.
pub(super) fn take_line(line: &[u8], answer: &mut Answer) -> bool {
    let Ok(line) = serde_json::from_slice(line) else { return false };
    match line {
        Line::Thread {} | Line::Turn {} | Line::Begun {} | Line::Item { item: Item::Other } => {}
        Line::Item { item: Item::AgentMessage { text } } => answer.text = Some(text),
        Line::Completed { usage } => {
            answer.is_complete = true;
            answer.refusal = None;
            let tokens = usage.map(|usage| Tokens {
                input: usage.input_tokens,
                output: usage.output_tokens,
                cached: usage.cached_input_tokens,
            });
            answer.usage.add(Usage { tokens, ..Usage::default() });
        }
        Line::Failed { error: Failure { message } } => {
            answer.is_complete = true;
            answer.refusal = Some(Refusal::saying(message));
        }
        Line::Error(Failure { message }) => answer.refusal = Some(Refusal::saying(message)),
    }
    true
}
