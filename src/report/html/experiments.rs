//! All experiments of a page: the table, and what is known of each.

use std::collections::HashMap;

use maud::{Markup, html};
use strum::VariantArray;

use super::detail::{Detail, Excerpt};
use crate::domain::ExperimentId;
use crate::report::Report;
use crate::report::analysis::Details;
use crate::report::point::{commit, value};
use crate::report::safe::safe_line;
use crate::rules::{Ended, Point};

/// Something that a row says of an experiment.
struct Cell {
    text: String,
    /// The number that it is sorted by, where its text is none.
    sorted_by: Option<f64>,
}

/// A column: its name, how its cells look, and what it says of each experiment.
struct Column {
    name: String,
    class: &'static str,
    cells: Vec<Cell>,
}

/// All experiments as a table, with what chooses among them where scripts run, and links to those that have details.
pub(super) fn table(report: &Report, has_detail: impl Fn(ExperimentId) -> bool) -> Markup {
    let columns = columns(report);
    let there = |ended: &Ended| report.points.iter().any(|point| point.ended() == *ended);
    html! {
        section {
            h2 { "all experiments" }
            form #filter hidden {
                label { "Find " input type="search" name="text" autocomplete="off" placeholder="words of a row"; }
                fieldset {
                    @for name in Ended::VARIANTS.iter().filter(|ended| there(ended)).map(<&str>::from) {
                        label { input type="checkbox" name="outcome" value=(name) checked; " " (name) }
                    }
                }
                output name="shown" aria-live="polite" {}
            }
            nav #pages hidden aria-label="pages of experiments" {
                button type="button" { "previous" }
                output aria-live="polite" {}
                button type="button" { "next" }
            }
            div.wide tabindex="0" role="region" aria-label="all experiments" {
                table #all {
                    thead { tr {
                        th.number scope="col" { "#" }
                        th scope="col" { "outcome" }
                        @for column in &columns { th class=(column.class) scope="col" { (column.name) } }
                    } }
                    tbody {
                        @for (place, point) in report.points.iter().enumerate() {
                            tr class=(name_of(point)) data-id=(point.id) data-outcome=(name_of(point)) {
                                td.number {
                                    @if has_detail(point.id) { a href={"#e" (point.id)} { (point.id) } }
                                    @else { (point.id) }
                                }
                                td.outcome { (name_of(point)) }
                                @for column in &columns {
                                    @let cell = &column.cells[place];
                                    td class=(column.class) data-value=[cell.sorted_by] { (cell.text) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn name_of(point: &Point) -> &'static str {
    point.ended().into()
}

/// The columns that say something of at least one experiment.
fn columns(report: &Report) -> Vec<Column> {
    let points = &report.points;
    let column = |name: &str, class, cell: &dyn Fn(usize) -> Cell| Column {
        name: safe_line(name),
        class,
        cells: (0..points.len()).map(cell).collect(),
    };
    let text = |name: &str, class, say: &dyn Fn(usize) -> String| {
        column(name, class, &|place| Cell { text: safe_line(&say(place)), sorted_by: None })
    };
    let field = |name: &str, field: fn(&Details) -> Option<f64>| {
        column(name, "number", &|place| {
            let number = report.details.get(place).and_then(field);
            Cell { text: number.map(|number| format!("{number:.1}")).unwrap_or_default(), sorted_by: number }
        })
    };
    let mut columns = vec![
        column(report.metric_name(), "number", &|place| Cell {
            text: safe_line(&report.number_at(place)),
            sorted_by: points[place].value.as_ref().map(|number| number.value),
        }),
        // On a narrow screen it is to be seen without a move.
        text("description", "what", &|place| report.described_at(place)),
        text("failure", "fact", &|place| points[place].failure.map(|class| class.to_string()).unwrap_or_default()),
        field("seconds", |details| Some(details.seconds)),
        field("GiB", |details| details.memory_gb),
        text("commit", "fact", &|place| commit(&points[place])),
    ];
    columns.retain(|column| column.cells.iter().any(|cell| !cell.text.is_empty()));
    columns
}

/// The details of each experiment, folded.
pub(super) fn details(report: &Report, found: &[Detail]) -> Markup {
    let mut found: Vec<&Detail> = found.iter().collect();
    found.sort_by_key(|detail| detail.id);
    let left_out = report.points.len().saturating_sub(found.len());
    let points: HashMap<ExperimentId, &Point> = report.points.iter().map(|point| (point.id, point)).collect();
    let rows = found.iter().filter_map(|detail| Some((*detail, *points.get(&detail.id)?)));
    html! {
        @if !found.is_empty() {
            section.each {
                h2 { "each experiment" }
                @for (detail, point) in rows {
                    details #{"d" (detail.id)} class=(name_of(point)) {
                        summary {
                            b { (detail.id) } " "
                            span.outcome { (name_of(point)) } " "
                            (safe_line(&value(point))) " " (safe_line(&point.description))
                        }
                        div.inside #{"e" (detail.id)} { (inside(detail)) }
                    }
                }
                @if left_out > 0 {
                    p.missing { (left_out) " more are omitted to keep the page short: " code { "ar show" } " has each" }
                }
            }
        }
    }
}

/// What is known of an experiment.
pub(super) fn inside(detail: &Detail) -> Markup {
    html! {
        dl { @for (name, value) in &detail.facts { dt { (safe_line(name)) } dd { (safe_line(value)) } } }
        (excerpt("change", &detail.diff, line_class))
        (excerpt("end of the log", &detail.log, |_| None))
    }
}

/// Some lines of a text, those of a kind together, and what is missing.
fn excerpt(title: &str, excerpt: &Excerpt, class_of: impl Fn(&str) -> Option<&'static str>) -> Markup {
    let runs = excerpt.lines.chunk_by(|one, other| class_of(one) == class_of(other));
    html! {
        @if !excerpt.lines.is_empty() || !excerpt.missing.is_empty() {
            h3 { (title) }
            @if !excerpt.lines.is_empty() {
                pre tabindex="0" {
                    @for run in runs {
                        @let text = run.join("\n");
                        span class=[class_of(&run[0])] { (text) "\n" }
                    }
                }
            }
            @if !excerpt.missing.is_empty() { p.missing { (excerpt.missing) } }
        }
    }
}

/// The class of a line of a unified diff, for its style.
fn line_class(line: &str) -> Option<&'static str> {
    match line {
        _ if line.starts_with("+++ ") || line.starts_with("--- ") => Some("place"),
        _ if line.starts_with('+') => Some("put"),
        _ if line.starts_with('-') => Some("taken"),
        _ if line.starts_with("@@") || line.starts_with("diff ") || line.starts_with("index ") => Some("place"),
        _ => None,
    }
}
