//! The rows of a foreign ledger as they stand in it.

use serde::Serialize;

use super::analysis::Report;
use super::each::Each;
use super::grid::{Align, Grid, text};
use super::point::signed_gain;
use crate::domain::{Area, Direction, FORMAT_VERSION, Finding, Number};
use crate::ledger::{Ledger, Row, RowStatus};
use crate::rules::{Candidate, Ended, Selection, select_places};

/// The places of the rows that are selected, in order.
pub fn select_rows(ledger: &Ledger, selection: &Selection) -> Vec<usize> {
    let candidates: Vec<_> = ledger.rows.iter().map(|row| candidate(row, ledger.direction)).collect();
    select_places(&candidates, selection)
}

fn candidate(row: &Row, direction: Direction) -> Candidate<'_> {
    Candidate {
        id: None,
        ended: Ended::of(row.status.outcome(), row.failure),
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
