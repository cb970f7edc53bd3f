//! The answer of codex: `exec --json`.

use serde::Deserialize;

use super::Answer;
use crate::domain::{Refusal, Tokens, Usage};

/// A line.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum CodexLine {
    #[serde(rename = "thread.started")]
    Thread {},
    #[serde(rename = "turn.started")]
    Turn {},
    #[serde(rename = "turn.completed")]
    Completed { usage: Option<CodexCounts> },
    #[serde(rename = "turn.failed")]
    Failed { error: CodexFailure },
    #[serde(rename = "item.started", alias = "item.updated")]
    Begun {},
    #[serde(rename = "item.completed")]
    Item { item: CodexItem },
    /// Also one that codex gets over by itself.
    #[serde(rename = "error")]
    Error(CodexFailure),
}

#[derive(Deserialize)]
struct CodexFailure {
    message: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CodexItem {
    AgentMessage {
        text: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CodexCounts {
    input_tokens: u64,
    cached_input_tokens: u64,
    output_tokens: u64,
}

/// Takes a line. Returns whether it is one of codex's.
pub(super) fn take_line(line: &[u8], answer: &mut Answer) -> bool {
    let Ok(line) = serde_json::from_slice(line) else { return false };
    match line {
        CodexLine::Thread {}
        | CodexLine::Turn {}
        | CodexLine::Begun {}
        | CodexLine::Item { item: CodexItem::Other } => {}
        CodexLine::Item { item: CodexItem::AgentMessage { text } } => answer.text = Some(text),
        CodexLine::Completed { usage } => {
            answer.is_complete = true;
            answer.refusal = None;
            let tokens = usage.map(|usage| Tokens {
                input: usage.input_tokens,
                output: usage.output_tokens,
                cached: usage.cached_input_tokens,
            });
            answer.usage.add(Usage { tokens, ..Usage::default() });
        }
        CodexLine::Failed { error: CodexFailure { message } } => {
            answer.is_complete = true;
            answer.refusal = Some(Refusal::saying(message));
        }
        CodexLine::Error(CodexFailure { message }) => answer.refusal = Some(Refusal::saying(message)),
    }
    true
}
