//! The answer of gemini: `--output-format stream-json`, and `json`, one document over several lines.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Answer;
use crate::domain::{Refusal, Tokens, Usage};

/// The most bytes of its final words to keep; they arrive in pieces.
const LONGEST_TEXT: usize = 64 << 10;

/// The role of the model in messages.
const ASSISTANT: &str = "assistant";

/// A line of the stream.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum GeminiLine {
    Init {
        model: Option<String>,
    },
    Message {
        role: String,
        #[serde(default)]
        content: String,
        #[serde(default)]
        delta: bool,
    },
    ToolUse {
        #[serde(rename = "tool_id")]
        _tool: String,
    },
    ToolResult {
        #[serde(rename = "tool_id")]
        _tool: String,
    },
    Error {
        severity: String,
        message: String,
    },
    Result {
        status: String,
        error: Option<GeminiFailure>,
        stats: Option<Stats>,
    },
}

#[derive(Deserialize)]
struct GeminiFailure {
    message: String,
    code: Option<serde_json::Value>,
}

impl From<GeminiFailure> for Refusal {
    fn from(failure: GeminiFailure) -> Refusal {
        let status = failure.code.and_then(|code| u16::try_from(code.as_u64()?).ok());
        Refusal { status, ..Refusal::saying(failure.message) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    input_tokens: u64,
    output_tokens: u64,
    cached: u64,
    models: BTreeMap<String, ModelStats>,
}

#[derive(Deserialize)]
struct ModelStats {
    #[serde(default)]
    total_tokens: u64,
}

/// Takes a line. Returns whether it is one of gemini's stream. `in_round` is true if its model has answered since the
/// last result of a tool.
pub(super) fn take_line(line: &[u8], in_round: &mut bool, answer: &mut Answer) -> bool {
    let Ok(line) = serde_json::from_slice(line) else { return false };
    // Its model answers again once it has the results of its tools.
    let speaks = matches!(&line, GeminiLine::Message { role, .. } if role == ASSISTANT)
        || matches!(line, GeminiLine::ToolUse { .. });
    if speaks && !*in_round {
        answer.rounds += 1;
    }
    *in_round = speaks || *in_round && !matches!(line, GeminiLine::ToolResult { .. });
    match line {
        GeminiLine::Init { model } => answer.usage.model = model,
        GeminiLine::Message { role, content, delta } => {
            if role == ASSISTANT {
                let text = answer.text.take().filter(|text| delta && text.len() < LONGEST_TEXT);
                answer.text = Some(text.unwrap_or_default() + &content);
            }
        }
        // The text after a tool call replaces the text before it.
        GeminiLine::ToolUse { .. } => answer.text = None,
        GeminiLine::ToolResult { .. } => {}
        GeminiLine::Error { severity, message } => {
            if severity == "error" {
                answer.refusal = Some(Refusal::saying(message));
            }
        }
        GeminiLine::Result { status, error, stats } => {
            answer.is_complete = true;
            match error {
                Some(failure) => answer.refusal = Some(failure.into()),
                None if status == "success" => answer.refusal = None,
                None => {}
            }
            if let Some(Stats { input_tokens, output_tokens, cached, models }) = stats {
                let tokens = Tokens { input: input_tokens, output: output_tokens, cached };
                // If it chooses a model by itself, only this names it.
                let most = models.into_iter().max_by_key(|(_, model)| model.total_tokens);
                answer.usage.add(Usage { model: most.map(|(name, _)| name), tokens: Some(tokens), cost: None });
            }
        }
    }
    true
}

/// The document that `json` prints, on standard error where it failed.
#[derive(Deserialize)]
struct GeminiDocument {
    response: Option<String>,
    stats: Option<DocumentStats>,
    error: Option<GeminiFailure>,
}

#[derive(Deserialize)]
struct DocumentStats {
    models: BTreeMap<String, DocumentModel>,
}

#[derive(Deserialize)]
struct DocumentModel {
    tokens: GeminiCounts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GeminiCounts {
    prompt: u64,
    candidates: u64,
    thoughts: u64,
    cached: u64,
}

/// Takes a document over several lines. Returns whether it is gemini's.
pub(super) fn take_document(bytes: &[u8], answer: &mut Answer) -> bool {
    let Ok(GeminiDocument { response, stats, error }) = serde_json::from_slice(bytes) else { return false };
    if response.is_none() && stats.is_none() && error.is_none() {
        return false;
    }
    for (model, DocumentModel { tokens }) in stats.into_iter().flat_map(|stats| stats.models) {
        let output = tokens.candidates.saturating_add(tokens.thoughts);
        let tokens = Tokens { input: tokens.prompt, output, cached: tokens.cached };
        answer.usage.add(Usage { model: Some(model), tokens: Some(tokens), cost: None });
    }
    answer.is_complete = true;
    answer.refusal = error.map(Refusal::from);
    answer.text = response.or(answer.text.take());
    true
}
