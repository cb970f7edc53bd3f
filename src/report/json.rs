//! A report as a JSON document; docs/report.md says what each field is.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::analysis::{Details, Report, Times};
use super::axes::{ArtifactData, AxisCourse, Sources};
use super::spending::Cost;
use crate::domain::{Direction, EnvironmentChange, ExperimentId, FORMAT_VERSION, FailureClass, Tokens, VerifiedPair};
use crate::rules::{
    Counts, DirectionResult, DriftCheck, Miss, Patterns, Point, Slots, Spread, TimeSplit, WallCounts, Warning,
    environment_changes,
};

/// The document. Its long lists are iterators, so that one of a million experiments is never in memory.
#[derive(Serialize)]
struct Document<'a, Kept, Experiments, Unread> {
    version: u32,
    headline: String,
    tag: &'a Option<String>,
    metric: &'a Option<String>,
    direction: Direction,
    counts: Counts,
    baseline: Option<&'a Point>,
    best: Option<&'a Point>,
    artifacts: &'a Option<String>,
    gain: Option<f64>,
    relative_gain: Option<f64>,
    keep_rate: Option<f64>,
    failures: &'a BTreeMap<FailureClass, u32>,
    failed: Vec<Value>,
    longest_streak: u32,
    streak: Option<[ExperimentId; 2]>,
    times: Option<Times>,
    slots: Option<Slots>,
    gain_per_experiment: Option<f64>,
    gain_per_gpu_hour: Option<f64>,
    time_split: Option<TimeSplit>,
    cost: Option<Cost>,
    tokens: Option<Tokens>,
    flagged: &'a [ExperimentId],
    ended: &'a Option<String>,
    kept: Kept,
    #[serde(skip_serializing_if = "Option::is_none")]
    directions: Option<&'a [DirectionResult]>,
    patterns: &'a Option<Patterns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    axes: Option<Vec<AxisCourse<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<&'a ArtifactData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Sources>,
    near_misses: Value,
    spread: &'a Option<Spread>,
    checks: &'a [DriftCheck],
    environment_changes: Vec<EnvironmentChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tainted_runs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<WallCounts>,
    warnings: &'a [Warning],
    experiments: Experiments,
    assumed: &'a [String],
    unread: Unread,
}

/// One experiment with all that is known of it.
#[derive(Serialize)]
struct Recorded<'a> {
    #[serde(flatten)]
    point: &'a Point,
    #[serde(flatten)]
    details: Option<&'a Details>,
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (summary, facts, records) = (&self.summary, &self.facts, self.history.records());
        let directions = self.patterns.as_ref().map(|patterns| patterns.directions.as_slice());
        let tainted_runs = records.iter().map(|record| record.tainted_runs()).sum();
        let details = || self.details.iter().map(Some).chain(std::iter::repeat(None));
        let document = Document {
            version: FORMAT_VERSION,
            headline: self.headline(),
            tag: &self.tag,
            metric: &self.metric,
            direction: self.direction,
            counts: self.counts,
            baseline: self.baseline(),
            best: self.best(),
            artifacts: &self.artifacts,
            gain: summary.gain,
            relative_gain: summary.relative_gain,
            keep_rate: summary.keep_rate,
            failures: &summary.failures,
            failed: self.failed(),
            longest_streak: summary.longest_streak,
            streak: summary.streak.map(|(first, last)| [self.points[first].id, self.points[last].id]),
            times: self.times,
            slots: self.slots,
            gain_per_experiment: self.gain_per_experiment(),
            gain_per_gpu_hour: self.gain_per_gpu_hour(),
            time_split: self.time_split,
            cost: self.cost(),
            tokens: self.spent.tokens,
            flagged: &facts.flagged,
            ended: &facts.ended,
            kept: Each(|| self.kept()),
            directions: directions.filter(|directions| !directions.is_empty()),
            patterns: &self.patterns,
            axes: self.composite.as_ref().map(|_| self.axes()),
            artifact: self.details.iter().rev().find_map(|details| details.artifact.as_ref()),
            sources: self.sources(),
            near_misses: json!({"margin": self.margin, "experiments": self.near_misses()}),
            spread: &self.spread,
            checks: &facts.checks,
            environment_changes: environment_changes(records),
            tainted_runs: Some(tainted_runs).filter(|runs| *runs > 0),
            sandbox: WallCounts::of(records),
            warnings: &self.warnings,
            experiments: Each(|| self.points.iter().zip(details()).map(|(point, details)| Recorded { point, details })),
            assumed: &self.assumed,
            unread: Each(|| self.unread.iter().map(|(line, why)| json!({"line": line, "why": why}))),
        };
        document.serialize(serializer)
    }
}

impl Report {
    fn kept(&self) -> impl Iterator<Item = impl Serialize> {
        self.summary.kept.iter().map(|step| {
            let (point, details) = (&self.points[step.index], self.details.get(step.index));
            let verified = |pair: &VerifiedPair| {
                let VerifiedPair { a, runs, difference, low, high, level, better, .. } = pair;
                json!({
                    "a": a, "runs": runs, "difference": difference, "low": low, "high": high, "level": level,
                    "better": better,
                })
            };
            json!({
                "id": point.id,
                "commit": point.commit,
                "value": point.value.as_ref().map(|number| number.value),
                "gain": step.gain,
                "relative_gain": step.relative_gain,
                "share": step.share,
                "replaced_by": details.and_then(|details| details.replaced_by),
                "gain_alone": details.and_then(|details| details.gain_alone),
                "keeps": step.keeps,
                "gpu_hours": details.and_then(|details| details.hours),
                "confounds": details.map_or(&[][..], |details| &details.confounds),
                "verified":
                    self.verified(step.index, step.over).or(self.verified(step.index, self.baseline)).map(verified),
                "description": point.description,
            })
        })
    }

    fn near_misses(&self) -> Vec<Value> {
        let miss = |miss: &Miss| {
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
        };
        self.misses.iter().map(miss).collect()
    }

    fn failed(&self) -> Vec<Value> {
        let summary = &self.summary;
        let class = |(class, count): (&FailureClass, &u32)| {
            let newest = summary.examples.get(class).map(|index| &self.points[*index]);
            json!({
                "class": class,
                "count": count,
                "newest": newest.map(|point| point.id),
                "reason": newest.map(|point| &point.reason),
                "excerpt": newest.map(|point| &point.excerpt),
            })
        };
        summary.failures.iter().map(class).collect()
    }
}

/// The items of an iterator as an array.
pub(super) struct Each<F>(pub(super) F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
