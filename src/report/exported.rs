//! Experiments of a session, and rows of a foreign ledger, for other programs.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::analysis::Report;
use super::axes::ArtifactData;
use super::grid::{Align, Grid, text};
use super::json::Each;
use super::render::signed_gain;
use crate::domain::{
    Area, CommitId, Direction, ExperimentId, FORMAT_VERSION, Finding, Note, Number, Record, exact_time,
};
use crate::ledger::{Ledger, Row, RowStatus};
use crate::rules::{Candidate, CountedOutcome, Selection, select_places};

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
    ("agent", |record| record.agent.as_ref().map(|call| call.command.clone()).unwrap_or_default()),
    ("agent_seconds", |record| text(record.agent.as_ref().map(|call| call.seconds))),
    ("files", |record| record.diff.files.to_string()),
    ("added", |record| record.diff.added.to_string()),
    ("deleted", |record| record.diff.deleted.to_string()),
    ("started", |record| exact_time(record.started)),
    ("finished", |record| exact_time(record.finished)),
    ("host", |record| record.environment.host.clone()),
    ("gpu", |record| record.environment.gpu.clone().unwrap_or_default()),
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
    let said = |record: &Record| record.imported.as_ref().and_then(|row| row.commit_text.clone()).unwrap_or_default();
    Grid::of(
        records,
        &[
            ("line", Align::Right, &|record| text(record.imported.as_ref().map(|row| row.line))),
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

/// What the report of a ledger doubts; unreadable rows are for [`examine`](crate::ledger::examine).
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
