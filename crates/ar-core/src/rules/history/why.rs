//! The reason why an experiment was not kept, and whether its value is trustworthy.

use crate::domain::{FailureClass, Outcome, Record};

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
