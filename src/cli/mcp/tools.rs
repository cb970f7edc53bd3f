//! The tools: their names, arguments and results, cut to what fits into an agent's context.

use std::sync::Arc;

use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

use autoresearch::domain::{ExperimentId, Record};

/// The longest that one `wait` takes, in seconds: below the limits of the clients.
pub(super) const LONGEST_WAIT: u64 = 25;

/// A tool, each with its description for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray, EnumMessage, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Name {
    /// Prints goal, metric, rules, incumbent, what was tried and messages of the user. Read it before each change.
    Brief,
    /// Measures the change in the working tree as one experiment. Returns its number at once; then call `wait` until it is
    /// recorded. Edit no file meanwhile. Without a session it opens one by ar.toml and measures the baseline first.
    Try,
    /// Waits for the outcome of an experiment, at most 25 s a call: call it again while `phase` is neither `recorded` nor
    /// `stopped`. After a keep the working tree holds the change; after a discard or a crash it is back at the incumbent; a
    /// change that was refused without a run stays in it.
    Wait,
    /// Lists the experiments of the session with outcome, value and reason.
    Log,
    /// Shows one experiment: record, notes, diff, end of the log.
    Show,
    /// Reports what the session found: best value, gains, directions, failures.
    Report,
    /// Shows what is happening now.
    Status,
    /// Adds an idea for the agents of the session, lists all ideas, or drops one.
    Idea,
    /// Adds a note to an experiment. It does not change the outcome.
    Note,
    /// Has the loop or the open experiment of the session stop.
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

/// The last phases.
const RECORDED: &str = "recorded";

const STOPPED: &str = "stopped";

impl Waited {
    /// Returns whether nothing more is to come of it.
    pub(super) fn is_over(&self) -> bool {
        [RECORDED, STOPPED].contains(&self.phase.as_str())
    }

    /// An experiment whose outcome is not known yet.
    pub(super) fn at(id: ExperimentId, phase: String) -> Waited {
        Waited { experiment: id.number(), phase, outcome: None, value: None, reason: None, next: Vec::new() }
    }

    /// An experiment on which no process works any more, and which has no outcome.
    pub(super) fn stopped(id: ExperimentId, reason: &str) -> Waited {
        Waited { reason: Some(reason.to_owned()), ..Waited::at(id, STOPPED.into()) }
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
            ..Waited::at(id, RECORDED.into())
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

    /// As the client sees it.
    pub(super) fn tool(self) -> Tool {
        let name: &'static str = self.into();
        let description = self.get_documentation().map(|lines| lines.trim_end().replace('\n', " ").into());
        let tool = Tool::new_with_raw(name, description, self.input());
        tool.with_raw_output_schema(self.output()).annotate(self.annotations())
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

/// The most characters of a document; clients warn at about ten thousand tokens.
const DOCUMENT: usize = 30_000;

/// The most characters of a text.
const TEXT: usize = 8_000;

/// Limits on texts and lists in a document. The first pair with which it fits is taken.
const STEPS: [(usize, usize); 5] = [(4_000, 200), (1_000, 50), (300, 20), (200, 10), (100, 5)];

/// The number of fields that an object keeps at least.
const FIELDS: usize = 60;

/// Shortens long texts and lists of a document until it fits, and notes in `cut` which command prints all of it. Lists keep their
/// beginning.
pub(super) fn long_document(whole: Value, command: &str) -> Value {
    if length(&whole) <= DOCUMENT {
        return whole;
    }
    let shortened = |(text, list)| {
        let mut document = whole.clone();
        shorten(&mut document, text, list);
        document["cut"] = format!("long texts and lists are cut; `{command}` prints all of it").into();
        document
    };
    let mut steps = STEPS.into_iter().map(shortened);
    let fits = |document: &Value| length(document) <= DOCUMENT;
    steps.find(fits).unwrap_or_else(|| shortened(STEPS[STEPS.len() - 1]))
}

/// Cuts a text at the end of a line, and names the command that prints all of it.
pub(super) fn text(whole: &str, command: &str) -> String {
    if whole.chars().count() <= TEXT {
        return whole.to_owned();
    }
    let beginning = first(whole, TEXT);
    // A line that is longer than a quarter of it is cut within.
    let end = beginning.rfind('\n').filter(|end| *end > beginning.len() / 4 * 3).unwrap_or(beginning.len());
    format!("{}\n[cut; `{command}` prints all of it]\n", &beginning[..end])
}

fn length(value: &Value) -> usize {
    value.to_string().chars().count()
}

fn shorten(value: &mut Value, longest_text: usize, longest_list: usize) {
    match value {
        Value::String(text) if text.chars().count() > longest_text => {
            *text = format!("{} … [cut]", first(text, longest_text));
        }
        Value::Array(items) => {
            items.truncate(longest_list);
            items.iter_mut().for_each(|item| shorten(item, longest_text, longest_list));
        }
        Value::Object(fields) => {
            // The fields of a format are fewer than these; names in a log may be more.
            let names: Vec<String> = fields.keys().skip(longest_list.max(FIELDS)).cloned().collect();
            names.iter().for_each(|name| drop(fields.shift_remove(name)));
            fields.values_mut().for_each(|field| shorten(field, longest_text, longest_list));
        }
        _ => {}
    }
}

/// The first characters of a text.
fn first(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_left_as_it_is() {
        let short = json!({"version": 1, "log_tail": "x".repeat(20_000)});
        assert_eq!(long_document(short.clone(), "ar show 7"), short);
        assert_eq!(text("all of it\n", "ar brief"), "all of it\n");
    }

    #[test]
    fn long_texts_and_lists_are_cut_and_the_command_that_prints_them_is_named() {
        let long =
            json!({"version": 1, "id": 7, "diff_text": "é".repeat(50_000), "runs": vec![json!({"seconds": 1}); 500]});
        let cut = long_document(long, "ar show 7 --format json");
        assert_eq!(cut["id"], 7);
        assert!(cut["cut"].as_str().unwrap().contains("`ar show 7 --format json`"));
        assert!(cut["diff_text"].as_str().unwrap().ends_with("é … [cut]"));
        assert_eq!(cut["runs"].as_array().unwrap().len(), 200);
        assert!(length(&cut) <= DOCUMENT);
    }

    #[test]
    fn a_list_of_many_records_keeps_its_beginning() {
        let records: Vec<Value> = (0..900).map(|id| json!({"id": id, "reason": "r".repeat(900)})).collect();
        let cut = long_document(json!({"version": 1, "experiments": records}), "ar log --format json");
        let ids: Vec<_> = cut["experiments"].as_array().unwrap().iter().map(|record| record["id"].clone()).collect();
        assert_eq!((ids.len(), &ids[0]), (20, &json!(0)), "the first step that fits");
    }

    #[test]
    fn a_document_of_many_fields_and_a_text_of_one_line_fit() {
        let metrics: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("metric {n}"), json!(n))).collect();
        let cut = long_document(json!({"version": 1, "id": 7, "metrics": metrics}), "ar show 7 --format json");
        assert!(length(&cut) <= DOCUMENT && cut["id"] == 7 && cut["metrics"]["metric 0"] == 0, "{cut}");
        let line = text(&format!("heading\n{}", "x".repeat(20_000)), "ar brief");
        assert!(line.chars().count() > TEXT, "little was left: {line}");
    }

    #[test]
    fn a_text_is_cut_at_the_end_of_a_line() {
        let lines: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
        let cut = text(&lines, "ar log");
        assert!(cut.ends_with("\n[cut; `ar log` prints all of it]\n"), "{}", &cut[cut.len() - 80..]);
        assert!(lines.starts_with(cut.split_once("\n[cut").unwrap().0));
        assert!(cut.chars().count() < TEXT + 50);
    }
}
