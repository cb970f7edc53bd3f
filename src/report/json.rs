//! A report as a JSON document; docs/report.md says what each field is.

use serde_json::{Value, json};

use super::found::Report;
use crate::domain::FORMAT_VERSION;
use crate::rules::Point;

impl Report {
    /// The report as a JSON document.
    pub fn to_json(&self) -> Value {
        let summary = &self.summary;
        json!({
            "version": FORMAT_VERSION,
            "headline": self.headline(),
            "tag": self.tag,
            "metric": self.metric,
            "direction": self.direction,
            "counts": self.counts,
            "baseline": self.baseline().map(point_json),
            "best": self.best().map(point_json),
            "gain": summary.gain,
            "relative_gain": summary.relative_gain,
            "keep_rate": summary.keep_rate,
            "failures": summary.failures,
            "failed": self.failed_json(),
            "longest_streak": summary.longest_streak,
            "streak": summary.streak.map(|(first, last)| [self.points[first].id, self.points[last].id]),
            "times": self.times,
            "time_split": self.time_split,
            "flagged": self.flagged,
            "ended": self.ended,
            "kept": self.kept_json(),
            "near_misses": self.misses_json(),
            "spread": self.spread,
            "environment_changes": self.changes,
            "warnings": self.warnings,
            "experiments": self.experiments_json(),
            "assumed": self.assumed,
            "unread": self.unread.iter().map(|(line, why)| json!({ "line": line, "why": why })).collect::<Vec<_>>(),
        })
    }

    fn experiments_json(&self) -> Vec<Value> {
        let experiments = self.points.iter().zip(&self.details);
        experiments
            .map(|(point, details)| {
                let mut value = point_json(point);
                if let Some(fields) = value.as_object_mut() {
                    fields.extend(details.clone());
                }
                value
            })
            .collect()
    }

    fn kept_json(&self) -> Vec<Value> {
        let steps = self.summary.kept.iter();
        steps
            .map(|step| {
                let point = &self.points[step.index];
                json!({
                    "id": point.id,
                    "commit": point.commit,
                    "value": point.value.as_ref().map(|number| number.value),
                    "gain": step.gain,
                    "relative_gain": step.relative_gain,
                    "share": step.share,
                    "description": point.description,
                })
            })
            .collect()
    }

    fn failed_json(&self) -> Vec<Value> {
        let classes = self.summary.failures.iter();
        classes
            .map(|(class, count)| {
                let newest = self.summary.examples.get(class).map(|index| &self.points[*index]);
                json!({
                    "class": class,
                    "count": count,
                    "newest": newest.map(|point| point.id),
                    "reason": newest.map(|point| &point.reason),
                    "excerpt": newest.map(|point| &point.excerpt),
                })
            })
            .collect()
    }

    fn misses_json(&self) -> Value {
        let misses = self.misses.iter().map(|miss| {
            let point = &self.points[miss.index];
            json!({
                "id": point.id,
                "commit": point.commit,
                "value": point.value.as_ref().map(|number| number.value),
                "had_to_beat": self.points[miss.rival].id,
                "gain": miss.gain,
                "reason": point.reason,
                "description": point.description,
            })
        });
        json!({"margin": self.margin, "experiments": misses.collect::<Vec<_>>()})
    }
}

/// One experiment.
pub(super) fn point_json(point: &Point) -> Value {
    json!({
        "id": point.id,
        "commit": point.commit,
        "value": point.value.as_ref().map(|number| number.value),
        "raw": point.value.as_ref().map(|number| &number.raw),
        "outcome": point.outcome,
        "failure": point.failure,
        "description": point.description,
    })
}
