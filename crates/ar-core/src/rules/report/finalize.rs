//! Commit messages for people who did not see the session.

use crate::domain::{ExperimentId, MetricSource, MetricSpec, Record, Tag, one_line};
use crate::rules::{decide, format_step, listed, replaced};

/// The commit message of a keep: its description, the metric before and after, and its record. The keep `replaced_by` has
/// removed its change.
/// `without` are the keeps before it that the tree lacks.
pub fn kept_message(
    tag: &Tag,
    record: &Record,
    before: &Record,
    replaced_by: Option<ExperimentId>,
    without: &[ExperimentId],
) -> String {
    let mut body = format!("{}\n\n{}\n", subject(record), step(record, before));
    if !record.reason.is_empty() && !says_the_step(record, before) {
        body += &format!("{}\n", one_line(&record.reason));
    }
    if let Some(by) = replaced_by {
        body += &format!("Replaced by experiment {by}, whose tree has none of this change.\n");
    }
    body += &not_measured(tag, record.id, without);
    body + &format!("\nExperiment: {tag}/{}\nRecord: {}\n", record.id, tag.record_ref(record.id))
}

/// The message of a single commit with all keeps: `chain` is the baseline and the keeps after it.
/// `without` are the keeps that its tree lacks.
pub fn squashed_message(tag: &Tag, chain: &[&Record], without: &[ExperimentId]) -> String {
    let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return String::new() };
    let kept = chain.len().saturating_sub(1);
    let plural = if kept == 1 { "" } else { "s" };
    let mut message = format!("Session {tag}: {kept} kept experiment{plural}\n\n{}\n\n", step(last, first));
    let replaced = replaced(chain.iter().copied());
    for (record, before) in kept_steps(chain) {
        let by = replaced.get(&record.id).map(|by| format!("; replaced by {by}")).unwrap_or_default();
        message += &format!("- {}: {} ({}{by})\n", record.id, subject(record), step(record, before));
    }
    message += &not_measured(tag, last.id, without);
    message + &format!("\nSession: {tag}\nRecords: {}/\n", tag.ref_prefix())
}

/// A note for a message about a tree that no run had. The tree lacks the keeps `without`, which came before experiment
/// `id`.
fn not_measured(tag: &Tag, id: ExperimentId, without: &[ExperimentId]) -> String {
    if without.is_empty() {
        return String::new();
    }
    let without = listed(without);
    format!(
        "Not measured: no run had this tree, without {without}. `ar repro {id} --tag {tag}` measures {id} as it was kept.\n"
    )
}

/// Each keep of a chain with the last one before it that has a number of its own.
pub fn kept_steps<'a>(chain: &[&'a Record]) -> Vec<(&'a Record, &'a Record)> {
    let mut before = chain.first().copied();
    let step = |record: &&'a Record| {
        let step = (*record, before?);
        before = Some(*record).filter(|record| record.number_of().is_none()).or(before);
        Some(step)
    };
    chain.iter().skip(1).filter_map(step).collect()
}

fn subject(record: &Record) -> String {
    let line = one_line(&record.description);
    if line.is_empty() { format!("Experiment {}", record.id) } else { line }
}

/// Returns whether the reason of a record only compares its value with the one before.
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
    if let Some(last) = record.number_of() {
        return format!("{name} was measured together with experiment {last}");
    }
    match (value, old) {
        (Some(value), Some(old)) => {
            format!("{name} {old} -> {value}, {}", format_step(record.metric.direction, &value, &old))
        }
        (Some(value), None) => format!("{name} {value}"),
        (None, _) => format!("{name} was not measured"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn the_gain_of_a_train_stands_at_its_last_commit() {
        let train = json!({"last": 5, "members": [3, 5]});
        let chain = [
            record(json!({"id": 0, "value": "2.0"})),
            record(json!({"id": 3, "description": "decay", "train": train})),
            record(json!({"id": 5, "value": "1.5", "description": "warm up", "train": train})),
        ];
        let chain: Vec<&Record> = chain.iter().collect();
        let ids: Vec<_> =
            kept_steps(&chain).iter().map(|(one, before)| (one.id.number(), before.id.number())).collect();
        assert_eq!(ids, [(3, 0), (5, 0)]);
        let message = squashed_message(&"t".parse().unwrap(), &chain, &[]);
        let lines: Vec<&str> = message.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(
            lines,
            [
                "- 3: decay (loss was measured together with experiment 5)",
                "- 5: warm up (loss 2.0 -> 1.5, 0.5 (25%) better)"
            ]
        );
    }

    #[test]
    fn what_was_removed_again_is_said_to_be_replaced() {
        let chain = [
            record(json!({"id": 0, "value": "2.0"})),
            record(json!({"id": 3, "value": "1.5", "description": "decay"})),
            record(json!({"id": 6, "value": "1.0", "description": "warm up", "replaces": [3]})),
        ];
        let (chain, tag): (Vec<&Record>, Tag) = (chain.iter().collect(), "t".parse().unwrap());
        let message = squashed_message(&tag, &chain, &[]);
        assert!(message.contains("- 3: decay (loss 2.0 -> 1.5, 0.5 (25%) better; replaced by 6)\n"), "{message}");
        let message = kept_message(&tag, chain[1], chain[0], Some(6.into()), &[]);
        assert!(message.contains("\nReplaced by experiment 6, whose tree has none of this change.\n"), "{message}");
    }
}
