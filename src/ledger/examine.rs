//! Findings about a foreign ledger. Pure.

use std::collections::HashMap;

use super::rows::{Ledger, Row};
use super::status::RowStatus;
use crate::domain::{Area, Finding, count_of};

/// Maximum number of lines to name.
const MOST_NAMED: usize = 20;

/// Looks at a ledger that was read: its form and columns, what was assumed, the rows that cannot be read or stand there twice.
pub fn examine(ledger: &Ledger) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(Area::Ledger, what_it_is(ledger))];
    let warn = |what: &str| Finding::warning(Area::Ledger, what);
    // A direction that the name tells is no cause for a warning.
    let told = format!("{} is better, as the name", ledger.direction);
    let (named, assumed): (Vec<_>, Vec<_>) = ledger.assumed.iter().partition(|said| said.starts_with(&told));
    findings.extend(named.into_iter().map(|said| Finding::ok(Area::Ledger, said.as_str())));
    findings.extend(assumed.into_iter().map(|assumed| match assumed.split_once("; ") {
        Some((what, hint)) => warn(what).hint(hint),
        None => warn(assumed),
    }));
    if !ledger.rows.is_empty() && !ledger.has_verdict && ledger.rows.iter().all(|row| row.status == RowStatus::Other) {
        findings.push(warn("no column holds outcomes, so the best is taken from all rows"));
    }
    let valued = ledger.rows.iter().filter(|row| row.value.is_some()).count();
    if valued == 0 && !ledger.rows.is_empty() {
        findings.push(warn("no row has a value").hint("`--metric NAME` names the column"));
    }
    findings.extend(unread(ledger));
    findings.extend(repeated(&ledger.rows));
    findings
}

fn what_it_is(ledger: &Ledger) -> String {
    let columns: Vec<String> = ledger.columns.iter().map(|(what, name)| format!("{what} in `{name}`")).collect();
    let columns = if columns.is_empty() { String::new() } else { format!("; {}", columns.join(", ")) };
    let metric = ledger.metric.as_deref().map(|name| format!(", {} of `{name}` is better", ledger.direction));
    let rows = count_of(ledger.rows.len(), "row");
    format!("it is {} with {rows}{}{columns}", ledger.form, metric.unwrap_or_default())
}

/// The rows and numbers that cannot be read, by why.
fn unread(ledger: &Ledger) -> impl Iterator<Item = Finding> {
    let bad = |malformed: bool| {
        let rows = ledger.rows.iter().filter(move |row| (row.status == RowStatus::Malformed) == malformed);
        rows.filter_map(|row| Some((row.line, row.problem.as_deref()?))).collect::<Vec<_>>()
    };
    [(bad(true), "row", "cannot be read"), (bad(false), "number", "cannot be read")]
        .into_iter()
        .filter(|(lines, ..)| !lines.is_empty())
        .map(|(lines, what, why)| {
            let named: Vec<String> =
                lines.iter().take(MOST_NAMED).map(|(line, problem)| format!("line {line}: {problem}")).collect();
            let more = lines.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let count = count_of(lines.len(), what);
            Finding::warning(Area::Ledger, format!("{count} {why}: {}{more}", named.join("; ")))
        })
}

/// Rows that say the same as one before, in all that stands in them.
fn repeated(rows: &[Row]) -> Option<Finding> {
    let mut seen = HashMap::new();
    let mut lines = Vec::new();
    for row in rows.iter().filter(|row| row.status != RowStatus::Malformed) {
        if let Some(first) = seen.get(&row.hash) {
            lines.push(format!("line {} repeats line {first}", row.line));
        } else {
            seen.insert(row.hash, row.line);
        }
    }
    let more = lines.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    lines.truncate(MOST_NAMED);
    (!lines.is_empty()).then(|| Finding::warning(Area::Ledger, lines.join("; ") + &more))
}
