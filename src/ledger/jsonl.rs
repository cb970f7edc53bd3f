//! Ledgers of JSON lines, as pi-autoresearch writes them.

use serde_json::{Map, Value};

use super::columns::{Columns, memory_unit, verdict};
use super::read::{Ledger, Row, number};
use super::status::{RowStatus, classify};
use crate::domain::{Direction, Number};

/// Reads JSON lines. A config line says metric and direction of the rows behind it; the last one's count.
pub(super) fn read(text: &str, metric: Option<&str>, direction: Option<Direction>) -> Ledger {
    let mut assumed = Vec::new();
    let lines: Vec<Line<'_>> = (1..)
        .zip(text.lines())
        .filter(|(_, text)| !text.trim().is_empty() && !text.trim_start().starts_with('#'))
        .map(|(number, text)| Line { number, text, object: serde_json::from_str(text).ok() })
        .collect();
    let config = lines.iter().rev().filter_map(|line| line.object.as_ref()).find(|object| is_config(object));
    let said = |key: &str| config.and_then(|config| config.get(key)).and_then(Value::as_str);
    let metric = metric.or(said("metricName")).map(str::to_owned);
    let direction = direction.or_else(|| match said("bestDirection") {
        Some("higher") => Some(Direction::Higher),
        Some("lower") => Some(Direction::Lower),
        _ => None,
    });
    let direction = direction.unwrap_or_else(|| {
        assumed.push("lower is better; `--higher` says otherwise".to_owned());
        Direction::Lower
    });
    if metric.is_none() {
        assumed.push("the field `metric` holds the metric; `--metric NAME` names another".to_owned());
    }
    let mut current = None;
    let mut rows = Vec::new();
    let mut has_verdict = false;
    for line in &lines {
        match &line.object {
            Some(object) if is_config(object) => {
                current = object.get("metricName").and_then(Value::as_str);
            }
            Some(object) => {
                let row = row(line.number, object, metric.as_deref(), current, &mut has_verdict);
                rows.push(row.without_crash_zero());
            }
            None => rows.push(Row::malformed(line.number, line.text, "no JSON object".to_owned())),
        }
    }
    Ledger { metric, direction, assumed, columns: Vec::new(), has_verdict, rows }
}

/// A line that is neither blank nor a comment; without an object it is malformed.
struct Line<'a> {
    number: u64,
    text: &'a str,
    object: Option<Map<String, Value>>,
}

fn is_config(object: &Map<String, Value>) -> bool {
    object.get("type").and_then(Value::as_str) == Some("config")
        || (object.contains_key("metricName") && !object.contains_key("metric"))
}

/// `current` is the metric that the rows' own config line names.
fn row(
    line: u64,
    object: &Map<String, Value>,
    metric: Option<&str>,
    current: Option<&str>,
    has_verdict: &mut bool,
) -> Row {
    let names: Vec<&String> = object.keys().collect();
    let columns = Columns::by_name(&names, metric);
    let field = |column: Option<usize>| column.and_then(|column| object.get(names[column]));
    let named = field(columns.metric).or_else(|| object.get("metrics")?.get(metric?));
    let own = metric.is_none() || current.is_none() || current == metric;
    let value = if own { object.get("metric").or(named) } else { named };
    let memory = field(columns.memory).and_then(as_number).map(|number| number.value);
    let unit = columns.memory.and_then(|column| memory_unit(names[column])).unwrap_or(1.0);
    let status = columns.status.map(|column| (text(&object[names[column]]), verdict(names[column])));
    *has_verdict |= status.is_some();
    Row {
        line,
        commit: field(columns.commit).map(text),
        value: value.and_then(as_number),
        memory_gb: memory.map(|memory| memory / unit),
        status: status.map_or(RowStatus::Other, |(cell, verdict)| classify(&cell, verdict)),
        description: field(columns.description).map(text).unwrap_or_default(),
        problem: None,
    }
}

fn as_number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(_) | Value::String(_) => number(&text(value)),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
