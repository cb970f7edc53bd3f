//! Values that an agent's transcript shows from programs that it ran.

use std::path::Path;

use serde_json::Value;

use crate::domain::Number;
use crate::fs::read_tail;
use crate::measure::{plain_text, summary_number};

/// The numbers of a metric in the end of `log` after byte `from`, from lines that consist of name and number, as a training
/// prints them. Agents that report in JSON have such lines in their strings.
pub fn printed_numbers(log: &Path, from: u64, metric: &str) -> Vec<Number> {
    let tail = read_tail(log, from).unwrap_or_default();
    let mut numbers = Vec::new();
    let mut take = |text: &str| numbers.extend(text.lines().filter_map(|line| summary_number(line, metric)));
    let mut rest = Vec::new();
    for line in tail.split_inclusive(|byte| *byte == b'\n') {
        match serde_json::from_slice::<Value>(line) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => each_text(&value, &mut take),
            _ => rest.extend_from_slice(line),
        }
    }
    take(&plain_text(&rest));
    numbers
}

/// Passes each string in a document to `take`.
fn each_text(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, take)),
        Value::Object(fields) => fields.values().for_each(|field| each_text(field, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_training_are_found_in_text_and_in_json_and_mentions_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("agent.log");
        let before = "val_bpb: 9.0\n";
        let text = "\u{1b}[1mval_bpb:          0.9979\u{1b}[0m\nI expect val_bpb: 0.95\nval_bpb: 1.2 is the best\n\
                    {\"type\":\"tool\",\"content\":[{\"text\":\"step 1\\nval_bpb: 0.9812\\nmfu: 3\"}]}\nval_bpb: nan\n";
        std::fs::write(&log, format!("{before}{text}")).unwrap();
        let raw = |from: usize| {
            let numbers = printed_numbers(&log, u64::try_from(from).unwrap(), "val_bpb");
            numbers.into_iter().map(|number| number.raw).collect::<Vec<_>>()
        };
        assert_eq!(raw(before.len()), ["0.9812", "0.9979"]);
        assert_eq!(printed_numbers(&folder.path().join("none"), 0, "val_bpb"), []);
    }
}
