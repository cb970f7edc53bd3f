//! Experiments of a session as tables.

use crate::domain::{Direction, Number, Outcome, Record, one_line};
use crate::rules::{History, format_distance};

use super::grid::{Align, Grid};

/// The experiments of a session, oldest first.
pub fn experiments_grid(history: &History) -> Grid {
    let metric = history.records().first().map_or("value", |record| record.metric.name.as_str());
    let mut grid = Grid::new([
        ("#", Align::Right),
        ("commit", Align::Left),
        ("outcome", Align::Left),
        (metric, Align::Right),
        ("gain", Align::Right),
        ("GiB", Align::Right),
        ("seconds", Align::Right),
        ("failure", Align::Left),
        ("description", Align::Left),
    ]);
    let mut incumbent: Option<Number> = None;
    for record in history.records() {
        let value = record.metric.number();
        let gain = value
            .as_ref()
            .zip(incumbent.as_ref())
            .map(|(value, best)| signed_gain(record.metric.direction, value, best));
        grid.push([
            record.id.to_string(),
            record.commit.short(8).to_owned(),
            record.outcome.to_string(),
            value.as_ref().map(Number::to_string).unwrap_or_default(),
            gain.unwrap_or_default(),
            record.memory_gb.map(|memory| format!("{memory:.1}")).unwrap_or_default(),
            if record.runs.is_empty() { String::new() } else { format!("{:.1}", record.run_seconds()) },
            record.failure.as_ref().map(|failure| failure.class.to_string()).unwrap_or_default(),
            record.description.clone(),
        ]);
        if record.outcome == Outcome::Keep {
            incumbent = value;
        }
    }
    grid
}

/// A gain with its sign; positive is better.
pub(super) fn signed_gain(direction: Direction, value: &Number, before: &Number) -> String {
    let sign = if direction.gain(value.value, before.value) < 0.0 { '-' } else { '+' };
    format!("{sign}{}", format_distance(value, before))
}

/// The fields of one record, a row each.
pub fn record_grid(record: &Record) -> Grid {
    let mut grid = Grid::new([("field", Align::Left), ("value", Align::Left)]);
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            grid.push([name.to_owned(), value]);
        }
    };
    add("experiment", format!("{} of {}", record.id, record.tag));
    add("description", record.description.clone());
    add("direction", record.direction.clone().unwrap_or_default());
    add("outcome", record.outcome.to_string());
    add("reason", record.reason.clone());
    add("failure", record.failure.as_ref().map(|failure| failure.class.to_string()).unwrap_or_default());
    add(&record.metric.name, record.metric.number().map(|number| number.raw).unwrap_or_default());
    add("memory", record.memory_gb.map(|memory| format!("{memory:.3} GiB")).unwrap_or_default());
    add("commit", record.commit.to_string());
    add("base", record.base.to_string());
    add("change", record.diff.to_string());
    for run in &record.runs {
        let ended = match (run.exit, run.signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(exit), None) => format!("exit {exit}"),
            (None, None) => "unknown".into(),
        };
        add("run", format!("{} ({ended}, {:.1} s)", run.command, run.seconds));
    }
    for guard in &record.guards {
        let passed = if guard.passed { "passed" } else { "failed" };
        add("guard", format!("{} ({passed}, {})", guard.command, guard.ended()));
    }
    for (number, version) in (1..).zip(&record.versions) {
        let kept = version.saved.rsplit('/').next().unwrap_or_default();
        add(&format!("version {number}"), format!("{} (saved/{kept}): {}", version.commit.short(8), version.reason));
    }
    add(
        "agent",
        record.agent.as_ref().map(|call| format!("{} ({:.1} s)", call.command, call.seconds)).unwrap_or_default(),
    );
    for (name, value) in record.environment.known() {
        add(name, one_line(value));
    }
    add("started", record.started.to_string());
    add("finished", record.finished.to_string());
    for (name, value) in &record.metrics {
        if *name != record.metric.name {
            // 6785 is stored as the double that it is compared as.
            add(name, value.as_f64().map_or_else(|| value.to_string(), |number| number.to_string()));
        }
    }
    grid
}
