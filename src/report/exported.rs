//! Experiments, reports and rows of foreign ledgers for other programs; docs/report.md says what each field of a report is.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Align, ArtifactData, Details, Grid, Report, signed_gain, text};
use crate::domain::{
    Area, CommitId, Direction, ExperimentId, FORMAT_VERSION, FailureClass, Finding, Note, Number, Record, VerifiedPair,
    exact_time,
};
use crate::ledger::{Ledger, Row, RowStatus};
use crate::rules::{Candidate, CountedOutcome, Miss, Point, Selection, WallCounts, environment_changes, select_places};

/// A record with the notes on it, as JSON has it; without notes the field is absent.
#[derive(Serialize)]
struct NotedRecord<'a> {
    #[serde(flatten)]
    record: &'a Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<&'a Vec<Note>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<&'a ArtifactData>,
}

/// A record with the notes on it, as a JSON document.
pub fn record_json<'a>(record: &'a Record, notes: Option<&'a Vec<Note>>) -> impl Serialize + 'a {
    NotedRecord { record, notes, artifact: None }
}

/// The same of these records of a session, in their order, with what its artifact scored after each.
pub fn records_json<'a>(
    records: &'a [&Record],
    notes: &'a BTreeMap<ExperimentId, Vec<Note>>,
    artifact: &'a BTreeMap<ExperimentId, ArtifactData>,
) -> Vec<impl Serialize + 'a> {
    let noted =
        |record: &&'a Record| NotedRecord { record, notes: notes.get(&record.id), artifact: artifact.get(&record.id) };
    records.iter().map(noted).collect()
}

/// A field of a record as the text of a cell.
type Cell = fn(&Record) -> String;

/// The columns in their order.
const COLUMNS: [(&str, Cell); 28] = [
    ("id", |record| record.id.to_string()),
    ("session", |record| record.tag.to_string()),
    ("commit", |record| commit(&record.commit)),
    ("base", |record| commit(&record.base)),
    ("outcome", |record| record.outcome.to_string()),
    ("failure", |record| text(record.failure.as_ref().map(|failure| failure.class))),
    ("metric", |record| record.metric.name.clone()),
    ("better", |record| record.metric.direction.to_string()),
    ("value", |record| text(record.metric.value)),
    ("raw", |record| record.metric.raw.clone().unwrap_or_default()),
    ("memory_gb", |record| text(record.memory_gb)),
    ("runs", |record| record.runs.len().to_string()),
    ("seconds", |record| text((!record.runs.is_empty()).then(|| record.run_seconds()))),
    ("command", |record| record.runs.last().map(|run| run.command.clone()).unwrap_or_default()),
    ("seed", |record| deciding_seeds(record)),
    ("agent", |record| record.origin.agent.as_ref().map(|call| call.command.clone()).unwrap_or_default()),
    ("agent_seconds", |record| text(record.origin.agent.as_ref().map(|call| call.seconds))),
    ("files", |record| record.change.diff.files.to_string()),
    ("added", |record| record.change.diff.added.to_string()),
    ("deleted", |record| record.change.diff.deleted.to_string()),
    ("started", |record| exact_time(record.origin.started)),
    ("finished", |record| exact_time(record.origin.finished)),
    ("host", |record| record.origin.environment.host.clone()),
    ("gpu", |record| record.origin.environment.gpu.clone().unwrap_or_default()),
    ("direction", |record| record.direction.clone().unwrap_or_default()),
    ("reason", |record| record.reason.clone()),
    ("description", |record| record.description.clone()),
    ("metrics", |record| json!(record.metrics).to_string()),
];

/// A row for each record; what has no column of its own is in the JSON lines alone.
pub fn exported_grid(records: &[Record], notes: &BTreeMap<ExperimentId, Vec<Note>>) -> Grid {
    let names = COLUMNS.iter().map(|(name, _)| *name).chain(["notes"]);
    let mut grid = Grid::new(names.map(|name| (name, Align::Left)));
    for record in records {
        let said = notes.get(&record.id).into_iter().flatten().map(|note| note.text.as_str());
        let notes = said.collect::<Vec<_>>().join("; ");
        grid.push(COLUMNS.iter().map(|(_, cell)| cell(record)).chain([notes]));
    }
    grid
}

/// Tabulates the records made from a ledger's rows.
pub fn imported_grid(records: &[Record]) -> Grid {
    let metric = records.first().map_or("value", |record| record.metric.name.as_str());
    let known = |commit: &CommitId| if commit.is_known() { commit.short(12) } else { "not known" }.to_owned();
    let said =
        |record: &Record| record.origin.imported.as_ref().and_then(|row| row.commit_text.clone()).unwrap_or_default();
    Grid::of(
        records,
        &[
            ("line", Align::Right, &|record| text(record.origin.imported.as_ref().map(|row| row.line))),
            ("#", Align::Right, &|record| record.id.to_string()),
            ("outcome", Align::Left, &|record| record.outcome.to_string()),
            (metric, Align::Right, &|record| text(record.metric.number())),
            ("said", Align::Left, &|record| said(record)),
            ("commit", Align::Left, &|record| known(&record.commit)),
            ("description", Align::Left, &|record| record.description.clone()),
        ],
    )
}

/// The seeds of the deciding runs, with spaces between them.
fn deciding_seeds(record: &Record) -> String {
    let seeds = record.deciding_runs().into_iter().filter_map(|run| run.seed).map(|seed| seed.to_string());
    seeds.collect::<Vec<_>>().join(" ")
}

fn commit(commit: &CommitId) -> String {
    commit.short(usize::MAX).to_owned()
}

/// The places of the rows that are selected, in order.
pub fn select_rows(ledger: &Ledger, selection: &Selection) -> Vec<usize> {
    let candidates: Vec<_> = ledger.rows.iter().map(|row| candidate(row, ledger.direction)).collect();
    select_places(&candidates, selection)
}

fn candidate(row: &Row, direction: Direction) -> Candidate<'_> {
    Candidate {
        id: None,
        ended: CountedOutcome::of(row.status.outcome(), row.failure),
        value: row.value.as_ref().map(|number| number.value),
        direction,
        finished: None,
        said: [&*row.description].into_iter().chain(row.problem.as_deref()).collect(),
    }
}

/// These rows of a ledger, those that cannot be read too. A gain is over the row that was kept before in the ledger.
pub fn ledger_grid(ledger: &Ledger, selected: &[usize]) -> Grid {
    let mut incumbent: Option<&Number> = None;
    let mut had_to_beat = Vec::with_capacity(ledger.rows.len());
    for row in &ledger.rows {
        had_to_beat.push(incumbent);
        if matches!(row.status, RowStatus::Keep | RowStatus::Baseline) {
            incumbent = row.value.as_ref().or(incumbent);
        }
    }
    let gain = |place: usize| {
        let both = ledger.rows[place].value.as_ref().zip(had_to_beat[place]);
        both.map(|(value, best)| signed_gain(ledger.direction, value, best))
    };
    Grid::of(
        selected.iter().map(|place| (&ledger.rows[*place], *place)),
        &[
            ("line", Align::Right, &|(row, _)| row.line.to_string()),
            ("commit", Align::Left, &|(row, _)| text(row.commit.as_deref())),
            ("outcome", Align::Left, &|(row, _)| row.status.to_string()),
            (ledger.metric.as_deref().unwrap_or("value"), Align::Right, &|(row, _)| text(row.value.as_ref())),
            ("gain", Align::Right, &|(_, place)| text(gain(*place))),
            ("GiB", Align::Right, &|(row, _)| text(row.memory_gb.map(|memory| format!("{memory:.1}")))),
            ("problem", Align::Below, &|(row, _)| text(row.problem.as_deref())),
            ("description", Align::Text, &|(row, _)| row.description.to_string()),
        ],
    )
    .sparing(["GiB", "gain", "commit"])
}

/// Doubts about a ledger, without unreadable rows, which [`examine`](crate::ledger::examine) finds.
pub fn ledger_doubts(ledger: Ledger) -> Vec<Finding> {
    let warnings = Report::of_ledger(ledger).warnings.into_iter().filter(|warning| warning.kind != "malformed");
    warnings.map(|it| Finding { hint: it.hint, ..Finding::warning(Area::Ledger, it.what) }).collect()
}

/// These rows of a ledger as a JSON document, with what was assumed.
pub fn ledger_json(ledger: &Ledger, selected: &[usize]) -> impl Serialize {
    let rows = Each(move || selected.iter().map(|place| &ledger.rows[*place]));
    LedgerFields {
        version: FORMAT_VERSION,
        metric: ledger.metric.as_deref(),
        direction: ledger.direction,
        rows,
        assumed: &ledger.assumed,
    }
}

#[derive(Serialize)]
struct LedgerFields<'a, R> {
    version: u32,
    metric: Option<&'a str>,
    direction: Direction,
    rows: R,
    assumed: &'a [String],
}

/// One experiment with all that is known of it.
#[derive(Serialize)]
struct Recorded<'a> {
    #[serde(flatten)]
    point: &'a Point,
    #[serde(flatten)]
    details: Option<&'a Details>,
}

fn add_if_there<M: SerializeMap>(to: &mut M, name: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| to.serialize_entry(name, &value))
}

/// The document. Its long lists are iterators, so that one of a million experiments is never in memory.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (summary, facts, records) = (&self.summary, &self.facts, self.history.records());
        let directions = self.patterns.as_ref().map(|patterns| patterns.directions.as_slice());
        let tainted_runs: u32 = records.iter().map(|record| record.tainted_runs()).sum();
        let details = || self.details.iter().map(Some).chain(std::iter::repeat(None));
        let mut document = serializer.serialize_map(None)?;
        document.serialize_entry("version", &FORMAT_VERSION)?;
        document.serialize_entry("headline", &self.headline())?;
        document.serialize_entry("tag", &self.tag)?;
        document.serialize_entry("metric", &self.metric)?;
        document.serialize_entry("direction", &self.direction)?;
        document.serialize_entry("counts", &self.counts)?;
        document.serialize_entry("baseline", &self.baseline())?;
        document.serialize_entry("best", &self.best())?;
        document.serialize_entry("artifacts", &self.artifacts)?;
        document.serialize_entry("gain", &summary.gain)?;
        document.serialize_entry("relative_gain", &summary.relative_gain)?;
        document.serialize_entry("keep_rate", &summary.keep_rate)?;
        document.serialize_entry("failures", &summary.failures)?;
        document.serialize_entry("failed", &self.failed())?;
        document.serialize_entry("longest_streak", &summary.longest_streak)?;
        let ids = |(first, last): (usize, usize)| [self.points[first].id, self.points[last].id];
        document.serialize_entry("streak", &summary.streak.map(ids))?;
        document.serialize_entry("times", &self.times)?;
        document.serialize_entry("slots", &self.slots)?;
        document.serialize_entry("gain_per_experiment", &self.gain_per_experiment())?;
        document.serialize_entry("gain_per_gpu_hour", &self.gain_per_gpu_hour())?;
        document.serialize_entry("time_split", &self.times.and_then(|times| times.split))?;
        document.serialize_entry("cost", &self.cost())?;
        document.serialize_entry("tokens", &self.spent.tokens)?;
        document.serialize_entry("flagged", &facts.flagged)?;
        document.serialize_entry("ended", &facts.ended)?;
        document.serialize_entry("kept", &Each(|| self.kept()))?;
        add_if_there(&mut document, "directions", directions.filter(|directions| !directions.is_empty()))?;
        document.serialize_entry("patterns", &self.patterns)?;
        add_if_there(&mut document, "axes", self.composite.as_ref().map(|_| self.axes()))?;
        let artifact = self.details.iter().rev().find_map(|details| details.artifact.as_ref());
        add_if_there(&mut document, "artifact", artifact)?;
        add_if_there(&mut document, "sources", self.sources())?;
        document.serialize_entry("near_misses", &json!({"margin": self.margin, "experiments": self.near_misses()}))?;
        document.serialize_entry("spread", &self.spread)?;
        document.serialize_entry("checks", &facts.checks)?;
        document.serialize_entry("environment_changes", &environment_changes(records))?;
        add_if_there(&mut document, "tainted_runs", Some(tainted_runs).filter(|runs| *runs > 0))?;
        add_if_there(&mut document, "sandbox", WallCounts::of(records))?;
        document.serialize_entry("warnings", &self.warnings)?;
        document.serialize_entry(
            "experiments",
            &Each(|| self.points.iter().zip(details()).map(|(point, details)| Recorded { point, details })),
        )?;
        document.serialize_entry("assumed", &self.assumed)?;
        document.serialize_entry(
            "unread",
            &Each(|| self.unread.iter().map(|(line, why)| json!({"line": line, "why": why}))),
        )?;
        document.end()
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
                    self.verified(step.index, step.over).or(self.verified(step.index, self.summary.baseline)).map(verified),
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
