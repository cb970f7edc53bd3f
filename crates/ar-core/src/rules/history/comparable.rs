//! Whether a value compares: changes of the environment, and the reason why an experiment was not kept.

use std::collections::BTreeMap;

use crate::domain::{Environment, EnvironmentChange, ExperimentId, FailureClass, Outcome, Record};

/// All changes between experiments, in the order of `records`. Unknown facts are not changes. Experiments that never
/// ran are skipped.
pub fn environment_changes<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<EnvironmentChange> {
    let mut last = BTreeMap::new();
    let ran = records.into_iter().filter(|record| !record.runs.is_empty());
    ran.flat_map(|record| changes(&mut last, record.id, &record.environment)).collect()
}

/// The changes from the environment of `before` to `now`, in which experiment `next` will run.
pub fn environment_differences(before: &Record, next: ExperimentId, now: &Environment) -> Vec<EnvironmentChange> {
    changes(&mut before.environment.known().into_iter().collect(), next, now)
}

/// The changes of an experiment's environment from the `last` known one.
fn changes<'a>(
    last: &mut BTreeMap<&'a str, &'a str>,
    experiment: ExperimentId,
    environment: &'a Environment,
) -> Vec<EnvironmentChange> {
    let change = |(field, after): (&'a str, &'a str)| {
        let before = last.insert(field, after).filter(|before| *before != after)?;
        Some(EnvironmentChange { experiment, field: field.into(), before: before.into(), after: after.into() })
    };
    environment.known().into_iter().filter_map(change).collect()
}

/// Returns whether others may build on an experiment's value: it was kept, or discarded for its value alone. A value
/// that broke a limit or failed a guard came at a forbidden price.
pub fn is_sound(record: &Record) -> bool {
    let is_bought = record.failure.is_some() || !record.unmet_limits.is_empty();
    record.outcome == Outcome::Keep || !is_bought
}

/// Returns the reason why an experiment was not kept: the limit or guard that it failed, else the reason in its record.
/// `None` for a keep.
pub fn why_not_kept(record: &Record) -> Option<String> {
    if record.outcome == Outcome::Keep {
        return None;
    }
    let is_guard = record.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::GuardFailed);
    if let Some(guard) = record.guards.iter().find(|guard| is_guard && !guard.passed) {
        return Some(format!("guard failed: `{}`", guard.command));
    }
    if record.failure.is_none() && !record.unmet_limits.is_empty() {
        return Some(format!("broke a limit: {}", record.unmet_limits.join(", ")));
    }
    Some(record.reason.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(id: u32, environment: serde_json::Value) -> Record {
        let run = json!({"command": "c", "seed": null, "started": "2025-11-20T01:00:00Z", "seconds": 1.0, "exit": 0,
            "signal": null, "value": 1.0});
        serde_json::from_value(json!({
            "version": 1, "id": id, "tag": "t", "commit": "c", "base": "b", "description": "", "direction": null,
            "outcome": "keep", "failure": null, "reason": "", "metrics": {}, "memory_gb": null, "runs": [run],
            "metric": {"name": "loss", "direction": "lower", "value": 1.0, "raw": "1.0"},
            "diff": {"files": 0, "added": 0, "deleted": 0}, "agent": null, "environment": environment,
            "started": "2025-11-20T01:00:00Z", "finished": "2025-11-20T01:00:00Z",
        }))
        .unwrap()
    }

    fn on(host: &str, driver: Option<&str>, tools: serde_json::Value) -> serde_json::Value {
        json!({"host": host, "gpu": null, "driver": driver, "lockfile": null, "tools": tools})
    }

    fn words(changes: &[EnvironmentChange]) -> Vec<String> {
        let words = |it: &EnvironmentChange| format!("{} {} {} {}", it.experiment, it.field, it.before, it.after);
        changes.iter().map(words).collect()
    }

    #[test]
    fn a_change_is_named_once_with_the_experiment_that_first_had_it() {
        let records = [
            record(0, on("a", Some("550"), json!({"torch": "2.4"}))),
            record(1, on("a", Some("550"), json!({"torch": "2.4"}))),
            record(2, on("b", Some("550"), json!({"torch": "2.5"}))),
            record(3, on("b", Some("550"), json!({"torch": "2.5"}))),
            record(4, on("a", Some("560"), json!({"torch": "2.5"}))),
        ];
        let changes = environment_changes(&records);
        assert_eq!(words(&changes), ["2 host a b", "2 torch 2.4 2.5", "4 host b a", "4 driver 550 560"]);
        assert_eq!(environment_changes(&records[..2]), []);
        let pair = environment_changes([&records[4], &records[0]]);
        assert_eq!(words(&pair), ["0 driver 560 550", "0 torch 2.5 2.4"]);
        let here = &records[1].environment;
        assert_eq!(words(&environment_differences(&records[2], 3.into(), here)), ["3 host b a", "3 torch 2.5 2.4"]);
    }

    #[test]
    fn what_was_not_found_out_or_never_ran_is_no_change() {
        let refused = Record { runs: Vec::new(), ..record(3, on("c", None, json!({}))) };
        let records = [
            record(0, on("a", Some("550"), json!({"python": "3.12"}))),
            record(1, on("a", None, json!({}))),
            record(2, on("", Some("550"), json!({"torch": "2.5"}))),
            refused,
            record(4, on("a", Some("560"), json!({"python": "3.13"}))),
        ];
        assert_eq!(words(&environment_changes(&records)), ["4 driver 550 560", "4 python 3.12 3.13"]);
    }

    #[test]
    fn a_hash_is_cut_short() {
        let change = |field: &str| EnvironmentChange {
            experiment: 1.into(),
            field: field.into(),
            before: "0123456789".into(),
            after: "abcdefghij".into(),
        };
        assert_eq!(change("lockfile").to_string(), "lockfile 01234567 → abcdefgh");
        assert_eq!(change("driver").to_string(), "driver 0123456789 → abcdefghij");
    }

    #[test]
    fn fields_of_another_program_survive_and_are_not_compared() {
        let before = json!({"host": "a", "kernel": "Linux 6.1", "tools": {"torch": "2.4", "uv": "0.5"}, "rack": 7});
        let after = json!({"host": "a", "kernel": "Linux 6.2", "tools": {"torch": "2.4", "uv": "0.6"}, "rack": 8});
        let read: Environment = serde_json::from_value(before.clone()).unwrap();
        let written = serde_json::to_value(read).unwrap();
        assert_eq!(
            (&written["rack"], &written["kernel"], &written["tools"]),
            (&before["rack"], &before["kernel"], &before["tools"])
        );
        assert_eq!(environment_changes(&[record(0, before), record(1, after)]), []);
    }
}

#[cfg(test)]
mod why_tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn a_limit_and_a_guard_are_named_before_the_number() {
        let why = |fields: serde_json::Value| {
            let record = record(fields);
            (is_sound(&record), why_not_kept(&record).unwrap_or_default())
        };
        let guard = json!({"command": "sh t.sh", "exit": 1, "signal": null, "timed_out": false, "seconds": 1.0, "passed": false,
            "excerpt": ""});
        for (fields, expected) in [
            (json!({"outcome": "keep", "reason": "better"}), (true, "")),
            (json!({"outcome": "discard", "reason": "loss 2 is worse"}), (true, "loss 2 is worse")),
            (
                json!({"outcome": "discard", "reason": "loss 1 is better, but …", "unmet_limits": ["memory_gb is 44 and must be <= 40"]}),
                (false, "broke a limit: memory_gb is 44 and must be <= 40"),
            ),
            (
                json!({"outcome": "discard", "reason": "", "failure": {"class": "guard_failed"}, "guards": [guard]}),
                (false, "guard failed: `sh t.sh`"),
            ),
            (
                json!({"outcome": "crash", "reason": "out of memory", "failure": {"class": "oom"}}),
                (false, "out of memory"),
            ),
        ] {
            assert_eq!(why(fields), (expected.0, expected.1.to_owned()));
        }
    }
}
