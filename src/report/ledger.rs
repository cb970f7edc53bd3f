//! The rows of a foreign ledger as they stand in it.

use serde_json::{Value, json};

use super::experiments::signed_gain;
use super::grid::{Align, Grid};
use crate::domain::{Direction, FORMAT_VERSION, Number};
use crate::ledger::{Ledger, Row, RowStatus};
use crate::rules::{Candidate, Selection, select_places};

/// The places of the rows that are selected, in order.
pub fn select_rows(ledger: &Ledger, selection: &Selection) -> Vec<usize> {
    let candidates: Vec<_> = ledger.rows.iter().map(|row| candidate(row, ledger.direction)).collect();
    select_places(&candidates, selection)
}

fn candidate(row: &Row, direction: Direction) -> Candidate<'_> {
    Candidate {
        outcome: row.status.outcome(),
        value: row.value.as_ref().map(|number| number.value),
        direction,
        finished: None,
        said: [row.description.as_str()].into_iter().chain(row.problem.as_deref()).collect(),
    }
}

/// These rows of a ledger, those that cannot be read too. A gain is over the row that was kept before in the ledger.
pub fn ledger_grid(ledger: &Ledger, selected: &[usize]) -> Grid {
    let mut grid = Grid::new([
        ("line", Align::Right),
        ("commit", Align::Left),
        ("outcome", Align::Left),
        (ledger.metric.as_deref().unwrap_or("value"), Align::Right),
        ("gain", Align::Right),
        ("GiB", Align::Right),
        ("problem", Align::Below),
        ("description", Align::Text),
    ])
    .sparing(["GiB", "gain", "commit"]);
    let mut incumbent: Option<&Number> = None;
    let mut all = Vec::new();
    for row in &ledger.rows {
        let gain = row.value.as_ref().zip(incumbent).map(|(value, best)| signed_gain(ledger.direction, value, best));
        all.push([
            row.line.to_string(),
            row.commit.as_deref().unwrap_or_default().to_owned(),
            row.status.word().to_owned(),
            row.value.as_ref().map(Number::to_string).unwrap_or_default(),
            gain.unwrap_or_default(),
            row.memory_gb.map(|memory| format!("{memory:.1}")).unwrap_or_default(),
            row.problem.clone().unwrap_or_default(),
            row.description.to_string(),
        ]);
        if matches!(row.status, RowStatus::Keep | RowStatus::Baseline) {
            incumbent = row.value.as_ref().or(incumbent);
        }
    }
    selected.iter().for_each(|place| grid.push(all[*place].clone()));
    grid
}

/// These rows of a ledger as a JSON document, with what was assumed.
pub fn ledger_json(ledger: &Ledger, selected: &[usize]) -> Value {
    let rows = selected.iter().map(|place| &ledger.rows[*place]).map(|row| {
        json!({
            "line": row.line,
            "commit": row.commit,
            "status": row.status,
            "value": row.value.as_ref().map(|number| number.value),
            "raw": row.value.as_ref().map(|number| &number.raw),
            "memory_gb": row.memory_gb,
            "problem": row.problem,
            "description": row.description,
        })
    });
    json!({
        "version": FORMAT_VERSION,
        "metric": ledger.metric,
        "direction": ledger.direction,
        "rows": rows.collect::<Vec<_>>(),
        "assumed": ledger.assumed,
    })
}
