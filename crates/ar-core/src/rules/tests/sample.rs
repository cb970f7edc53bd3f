//! Records for tests, also those of other crates.

#![expect(clippy::unwrap_used, reason = "only tests call it")]

use serde_json::{Value, json};

use crate::domain::{CommitId, Contract, Direction, MetricSource, MetricSpec, Record};

/// A kept baseline record of session `t` with the lower-is-better metric `loss`, overridden by `fields`; `value` is the
/// metric's value as printed.
pub fn record(fields: Value) -> Record {
    let mut all = json!({
        "version": 1, "id": 0, "tag": "t", "commit": "c0", "base": "b0", "description": "", "direction": null,
        "outcome": "keep", "failure": null, "reason": "", "metrics": {}, "memory_gb": null, "runs": [],
        "metric": {"name": "loss", "direction": "lower", "value": null, "raw": null},
        "diff": {"files": 1, "added": 1, "deleted": 0}, "agent": null,
        "environment": {"host": "box", "gpu": null, "driver": null, "lockfile": null},
        "started": "2026-11-20T22:00:00Z", "finished": "2026-11-20T22:00:00Z",
    });
    let Value::Object(mut fields) = fields else { panic!("fields of a record") };
    if let Some(raw) = fields.remove("value") {
        let raw = raw.as_str().unwrap();
        all["metric"]["raw"] = raw.into();
        all["metric"]["value"] = raw.parse::<f64>().unwrap().into();
    }
    all.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(all).unwrap()
}

/// One execution of the measuring command.
pub fn run(seconds: f64, value: Option<f64>) -> Value {
    json!({"command": "sh train.sh", "seed": null, "started": "2026-11-20T22:00:00Z", "seconds": seconds, "exit": 0,
        "signal": null, "value": value})
}

/// The contract of session `t` with the lower-is-better metric `loss` and this command.
pub fn contract(command: &str) -> Contract {
    let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
    let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
    Contract::new(tag, metric, command.into(), start, jiff::Timestamp::UNIX_EPOCH)
}
