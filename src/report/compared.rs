//! Two experiments side by side.

use serde_json::{Value, json};

use super::beside::train;
use super::grid::{Align, Grid};
use crate::domain::{FORMAT_VERSION, Record};
use crate::rules::{Aspect, Compared, MEMORY};

/// Two experiments side by side: what was said of them, then what was compared.
pub fn compared_grid(a: &Record, b: &Record, rows: &[Compared]) -> Grid {
    let columns = [("what", Align::Left), ("a", Align::Text), ("b", Align::Text), ("change", Align::Left)];
    let mut grid = Grid::new(columns);
    let name = |record: &Record| format!("{}/{}", record.tag, record.id);
    type Said = fn(&Record) -> String;
    let said: [(&str, Said); 4] = [
        ("commit", |record| record.commit.short(12).to_owned()),
        ("description", |record| record.description.clone()),
        ("outcome", |record| record.outcome.to_string()),
        ("diff", |record| record.diff.to_string()),
    ];
    grid.push(["experiment".into(), name(a), name(b), String::new()]);
    for (what, of) in said {
        grid.push([what.to_owned(), of(a), of(b), String::new()]);
    }
    let trains = [a, b].map(|record| train(record).unwrap_or_default());
    if trains.iter().any(|sentence| !sentence.is_empty()) {
        let [a, b] = trains;
        grid.push(["train".to_owned(), a, b, String::new()]);
    }
    for row in rows {
        let what = match row.aspect {
            Aspect::Metrics | Aspect::Cost => row.name.clone(),
            Aspect::Environment => format!("environment: {}", row.name),
            Aspect::Settings => format!("settings: {}", row.name),
        };
        let raw = |record: &Record, value: &Value| match (record.metric.number(), value.as_f64()) {
            (Some(number), _) if is_metric(row, record) => format!("{number:#}"),
            (_, Some(memory)) if row.aspect == Aspect::Cost && row.name == MEMORY => format!("{memory:.3} GiB"),
            _ => text(value),
        };
        let way = row.difference.filter(|change| *change != 0.0 && is_metric(row, a) && is_metric(row, b));
        let way = way.map(|change| if a.metric.direction.better(change, 0.0) { ", better" } else { ", worse" });
        grid.push([what, raw(a, &row.a), raw(b, &row.b), row.change.clone() + way.unwrap_or_default()]);
    }
    grid
}

/// Returns whether a row is about the metric that decides on an experiment.
fn is_metric(row: &Compared, record: &Record) -> bool {
    row.aspect == Aspect::Metrics && record.metric.name == row.name
}

/// The same as a JSON document; `diff_text` is how the code differs.
pub fn compared_json(a: &Record, b: &Record, rows: &[Compared], diff_text: &str) -> Value {
    let side = |record: &Record| {
        json!({
            "tag": record.tag,
            "id": record.id,
            "commit": record.commit,
            "description": record.description,
            "outcome": record.outcome,
            "diff": record.diff,
        })
    };
    json!({
        "version": FORMAT_VERSION, "a": side(a), "b": side(b), "compared": rows, "diff_text": diff_text,
    })
}

/// A value as a person reads it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}
