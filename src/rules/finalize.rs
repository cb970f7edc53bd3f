//! Commit messages for people who did not see the session.

use super::decide::{decide, format_step};
use crate::domain::{MetricSource, MetricSpec, Record, Tag, one_line};

/// The commit message of a keep: its description, the metric before and after, and its record.
pub fn kept_message(tag: &Tag, record: &Record, before: &Record) -> String {
    let mut body = format!("{}\n\n{}\n", subject(record), step(record, before));
    if !record.reason.is_empty() && !says_the_step(record, before) {
        body += &format!("{}\n", one_line(&record.reason));
    }
    body + &format!("\nExperiment: {tag}/{}\nRecord: {}\n", record.id, tag.record_ref(record.id))
}

/// The message of a single commit with all keeps: `chain` is the baseline and the keeps after it.
pub fn squashed_message(tag: &Tag, chain: &[&Record]) -> String {
    let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return String::new() };
    let kept = chain.len().saturating_sub(1);
    let plural = if kept == 1 { "" } else { "s" };
    let mut message = format!("Session {tag}: {kept} kept experiment{plural}\n\n{}\n\n", step(last, first));
    for pair in chain.windows(2) {
        let [before, record] = pair else { continue };
        message += &format!("- {}: {} ({})\n", record.id, subject(record), step(record, before));
    }
    message + &format!("\nSession: {tag}\nRecords: {}/\n", tag.ref_prefix())
}

fn subject(record: &Record) -> String {
    let line = one_line(&record.description);
    if line.is_empty() { format!("Experiment {}", record.id) } else { line }
}

/// Whether the reason of a record only compares its value with the one before.
fn says_the_step(record: &Record, before: &Record) -> bool {
    let (Some(value), Some(old)) = (record.metric.number(), before.metric.number()) else { return false };
    let (name, direction) = (record.metric.name.clone(), record.metric.direction);
    let metric = MetricSpec { name, direction, source: MetricSource::Log };
    decide(&metric, &value, Some((before.id, &old)), 0.0).reason == record.reason
}

/// Formats the metric before and after: `val_bpb 1.8342 -> 1.7811, 0.0531 (2.9%) better`.
fn step(record: &Record, before: &Record) -> String {
    let name = &record.metric.name;
    let (value, old) = (record.metric.number(), before.metric.number());
    match (value, old) {
        (Some(value), Some(old)) => {
            format!("{name} {old} -> {value}, {}", format_step(record.metric.direction, &value, &old))
        }
        (Some(value), None) => format!("{name} {value}"),
        (None, _) => format!("{name} was not measured"),
    }
}
