//! The tools: their names, arguments and results.

use std::sync::Arc;

use autoresearch::domain::{ExperimentId, Record};
use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// The longest that one `wait` takes, in seconds: below the limits of the clients.
pub(super) const LONGEST_WAIT: u64 = 25;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Name {
    Brief,
    Try,
    Wait,
    Log,
    Show,
    Report,
    Status,
    Idea,
    Note,
    Stop,
}

/// The change to measure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TryArgs {
    /// Effect of the change in the working tree, on one line
    pub(super) description: String,
    /// Strategy that it belongs to, without parameters: `warmup`, not `warmup=0.1`
    pub(super) direction: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitArgs {
    /// Number of the experiment
    pub(super) experiment: u32,
    /// Longest time to wait, at most 25 s
    #[schemars(range(max = 25))]
    #[serde(default = "longest_wait")]
    pub(super) seconds: u64,
}

fn longest_wait() -> u64 {
    LONGEST_WAIT
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogArgs {
    /// List only this many, the best first; without it all, the newest first
    #[schemars(range(min = 1))]
    pub(super) top: Option<u32>,
    /// List only these
    pub(super) outcome: Option<Outcome>,
}

/// An outcome, as `ar log --outcome` has it.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Outcome {
    Keep,
    Discard,
    Crash,
    Refused,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowArgs {
    /// Number of the experiment
    pub(super) experiment: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IdeaArgs {
    /// Action on the list of ideas
    pub(super) action: IdeaAction,
    /// The idea, on one line; to drop one, its number
    pub(super) text: Option<String>,
    /// Strategy that a new idea belongs to
    pub(super) direction: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum IdeaAction {
    Add,
    List,
    Drop,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoteArgs {
    /// Number of the experiment
    pub(super) experiment: u32,
    /// The note
    pub(super) text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopArgs {
    /// Terminate the current run and roll its change back, instead of finishing it
    #[serde(default)]
    pub(super) now: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArgs {}

/// The answer of `try`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Begun {
    /// Number of the experiment; call `wait` with it
    pub(super) experiment: u32,
}

/// The answer of `wait`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Waited {
    /// Number of the experiment
    experiment: u32,
    /// Where it is: baseline, running, guards, confirm 2 of 4, review, recording; at the end: recorded or stopped
    phase: String,
    /// keep, discard or crash, once it is recorded
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// Value of the metric, if it was measured
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    /// Why this is the outcome
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Messages for the next change: of the user, and of `ar` about this one
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<String>,
}

impl Waited {
    /// An experiment whose outcome is not known yet.
    pub(super) fn at(id: ExperimentId, phase: String) -> Waited {
        Waited { experiment: id.number(), phase, outcome: None, value: None, reason: None, next: Vec::new() }
    }

    /// An experiment on which no process works any more, and which has no outcome.
    pub(super) fn stopped(id: ExperimentId, reason: &str) -> Waited {
        Waited { reason: Some(reason.to_owned()), ..Waited::at(id, "stopped".into()) }
    }

    /// An experiment of an earlier `try`.
    pub(super) fn recorded(record: &Record) -> Waited {
        Waited::of_document(record.id, &json!(record), &[])
    }

    /// An experiment by its record, by what `ar try` says beside that, and by its notes on standard error.
    pub(super) fn of_document(id: ExperimentId, document: &Value, notes: &[String]) -> Waited {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let words = document["words"].as_array().into_iter().flatten().filter_map(|word| text(&word["text"]));
        let doubt = text(&document["doubt"]).map(|doubt| format!("the gain is doubtful: {doubt}"));
        let told = ["words", "after_failure"].into_iter().filter_map(|key| text(&document["next"][key]));
        Waited {
            outcome: text(&document["outcome"]),
            value: document["metric"]["value"].as_f64(),
            reason: text(&document["reason"]),
            next: words
                .map(|word| format!("from the person in charge: {word}"))
                .chain(doubt)
                .chain(told)
                .chain(notes.iter().cloned())
                .collect(),
            ..Waited::at(id, "recorded".into())
        }
    }

    /// The same in a few lines.
    pub(super) fn sentence(&self) -> String {
        let mut text = format!("experiment {}: {}", self.experiment, self.outcome.as_ref().unwrap_or(&self.phase));
        text += &self.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        for line in &self.next {
            text += &format!("\nnext: {line}");
        }
        text
    }
}

impl Name {
    /// Returns whether it is listed inside a call of a loop, where the loop measures the change.
    pub(super) fn is_for_calls(self) -> bool {
        !matches!(self, Name::Try | Name::Wait | Name::Stop)
    }

    /// What the client is told about it.
    pub(super) fn tool(self) -> Tool {
        let name: &'static str = self.into();
        let tool = Tool::new_with_raw(name, Some(self.description().into()), self.input());
        tool.with_raw_output_schema(self.output()).annotate(self.annotations())
    }

    fn description(self) -> &'static str {
        match self {
            Name::Brief => {
                "Prints goal, metric, rules, incumbent, what was tried and messages of the user. Read it before each change."
            }
            Name::Try => {
                "Measures the change in the working tree as one experiment. Returns its number at once; then call `wait` until it is \
                 recorded. Edit no file meanwhile. Without a session it opens one by ar.toml and measures the baseline first."
            }
            Name::Wait => {
                "Waits for the outcome of an experiment, at most 25 s a call: call it again while `phase` is neither `recorded` nor \
                 `stopped`. After a keep the working tree holds the change; after a discard or a crash it is back at the incumbent; a \
                 change that was refused without a run stays in it."
            }
            Name::Log => "Lists the experiments of the session with outcome, value and reason.",
            Name::Show => "Shows one experiment: record, notes, diff, end of the log.",
            Name::Report => "Reports what the session found: best value, gains, directions, failures.",
            Name::Status => "Shows what is happening now.",
            Name::Idea => "Adds an idea for the agents of the session, lists all ideas, or drops one.",
            Name::Note => "Adds a note to an experiment. It does not change the outcome.",
            Name::Stop => "Has the loop or the open experiment of the session stop.",
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let is_reading = !matches!(self, Name::Try | Name::Wait | Name::Idea | Name::Note | Name::Stop);
        let annotations = ToolAnnotations::new().read_only(is_reading).open_world(false);
        if is_reading { annotations } else { annotations.destructive(self == Name::Stop) }
    }

    /// The schema of the arguments, with the repository that each tool takes.
    fn input(self) -> Arc<JsonObject> {
        let schema = match self {
            Name::Brief | Name::Report | Name::Status => schema_for_input::<NoArgs>(),
            Name::Try => schema_for_input::<TryArgs>(),
            Name::Wait => schema_for_input::<WaitArgs>(),
            Name::Log => schema_for_input::<LogArgs>(),
            Name::Show => schema_for_input::<ShowArgs>(),
            Name::Idea => schema_for_input::<IdeaArgs>(),
            Name::Note => schema_for_input::<NoteArgs>(),
            Name::Stop => schema_for_input::<StopArgs>(),
        };
        let mut schema = schema.map(|schema| portable(&schema)).unwrap_or_default();
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        properties[REPOSITORY] = json!({
            "type": "string",
            "description": "Folder of the repository, within the roots of the client [default: working directory of the server]",
        });
        Arc::new(schema)
    }

    fn output(self) -> Arc<JsonObject> {
        match self {
            Name::Try => Arc::new(portable(&schema_for_output::<Begun>())),
            Name::Wait => Arc::new(portable(&schema_for_output::<Waited>())),
            Name::Brief => document(&json!({"text": {"type": "string"}})),
            Name::Log => document(
                &json!({"tag": {"type": "string"}, "experiments": {"type": "array", "items": {"type": "object"}}}),
            ),
            Name::Show => document(
                &json!({"id": {"type": "integer"}, "outcome": {"type": "string"}, "reason": {"type": "string"}}),
            ),
            Name::Report => document(&json!({})),
            Name::Status => document(&json!({"sessions": {"type": "array", "items": {"type": "object"}}})),
            Name::Idea => document(&json!({"ideas": {"type": "array", "items": {"type": "object"}}})),
            Name::Note | Name::Stop => document(&json!({"done": {"type": "string"}})),
        }
    }
}

/// The argument of all tools.
pub(super) const REPOSITORY: &str = "repository";

/// The same schema without `null` as a type of properties that may be absent: some clients know one type for each.
fn portable(schema: &JsonObject) -> JsonObject {
    let mut schema = schema.clone();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        if let Some(only) = property["type"].as_array().and_then(|types| types.first()).cloned() {
            property["type"] = only;
        }
        if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
            values.retain(|value| !value.is_null());
        }
    }
    schema
}

/// The schema of a document with these fields, of which others may come later.
fn document(fields: &Value) -> Arc<JsonObject> {
    let mut required: Vec<&str> = fields.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    required.push("version");
    let mut properties = fields.clone();
    properties["version"] =
        json!({"type": "integer", "description": "Version of the format; docs/formats.md has all fields"});
    properties["cut"] = json!({"type": "string", "description": "Which command prints what is cut here"});
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}
