//! All experiments of a page: the table, the runs by slot and time, and the details of each with the limits of their size.

use std::collections::HashMap;

use maud::{Markup, html};
use strum::VariantArray;

use crate::domain::{Composite, ExperimentId, Note, Record, bytes_text, clock_time, span_text};
use crate::measure::plain_text;
use crate::report::{Details, Report, commit, record_grid, safe_code, safe_line, text_width, value};
use crate::rules::{CountedOutcome, Point, RunOf};

/// Something that a row says of an experiment.
struct RowCell {
    text: String,
    /// The number that it is sorted by, where its text is none.
    sorted_by: Option<f64>,
}

/// A column: its name, how its cells look, and what it says of each experiment.
struct HtmlColumn {
    name: String,
    class: &'static str,
    cells: Vec<RowCell>,
}

/// All experiments as a table, with what chooses among them where scripts run, and links to those that have details.
pub(super) fn table(report: &Report, has_detail: impl Fn(ExperimentId) -> bool) -> Markup {
    let columns = columns(report);
    let there = |ended: &CountedOutcome| report.points.iter().any(|point| point.ended() == *ended);
    html! {
        section {
            h2 { "all experiments" }
            form #filter hidden {
                label { "Find " input type="search" name="text" autocomplete="off" placeholder="words of a row"; }
                fieldset {
                    @for name in CountedOutcome::VARIANTS.iter().filter(|ended| there(ended)).map(<&str>::from) {
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
fn columns(report: &Report) -> Vec<HtmlColumn> {
    let points = &report.points;
    let column = |name: &str, class, cell: &dyn Fn(usize) -> RowCell| HtmlColumn {
        name: safe_line(name),
        class,
        cells: (0..points.len()).map(cell).collect(),
    };
    let text = |name: &str, class, say: &dyn Fn(usize) -> String| {
        column(name, class, &|place| RowCell { text: safe_line(&say(place)), sorted_by: None })
    };
    let field = |name: &str, field: fn(&Details) -> Option<f64>| {
        column(name, "number", &|place| {
            let number = report.details.get(place).and_then(field);
            RowCell { text: number.map(|number| format!("{number:.1}")).unwrap_or_default(), sorted_by: number }
        })
    };
    let mut columns = vec![
        column(report.metric_name(), "number", &|place| RowCell {
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

/// The details of an experiment.
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

/// The picture, in pixels: its width, and the height of a slot and of its bars.
const WIDTH: f64 = 900.0;

const ROW: f64 = 28.0;

const BAR: f64 = 20.0;

/// The sizes of its font: on a page, and on a narrow screen, where the style enlarges it.
const FONT: f64 = 11.0;

const NARROW_FONT: f64 = 22.0;

/// The room between a label and the bars.
const GAP: f64 = 8.0;

/// The most runs to draw for a slot, the newest ones. More would be too close to tell apart.
const MOST: usize = 1000;

/// A row for each slot and a bar for each run; nothing *in place*.
pub(super) fn timeline(lanes: &[Vec<RunOf<'_>>]) -> Option<Markup> {
    let runs = || lanes.iter().flat_map(|lane| newest(lane));
    let first = runs().map(|run| run.run.started).min()?;
    let since = |run: &RunOf<'_>| run.run.started.duration_since(first).as_secs_f64();
    let span = runs().map(|run| since(run) + run.run.seconds).fold(1.0, f64::max);
    // The bars begin where the longest label ends, in the larger font.
    let label = |slot: usize| format!("slot {slot}");
    let widest = (0..lanes.len()).map(|slot| text_width(&label(slot), NARROW_FONT)).fold(0.0, f64::max);
    let left = (widest + GAP).ceil();
    let px = |seconds: f64| seconds / span * (WIDTH - left);
    let height = ROW * (lanes.len() as f64 + 1.0);
    Some(html! {
        h2 { "runs by slot" }
        div.wide tabindex="0" role="region" aria-label="runs by slot" {
            svg xmlns="http://www.w3.org/2000/svg" class="chart lanes" viewBox={"0 0 " (WIDTH) " " (height)} width=(WIDTH)
                height=(height) role="img" aria-label="runs by slot" font-size=(FONT) fill="#24292f" {
                rect class="paper" width=(WIDTH) height=(height) fill="#ffffff" {}
                @for (slot, lane) in lanes.iter().enumerate() {
                    @let y = ROW * slot as f64;
                    text x=(left - GAP) y=(y + ROW / 2.0) dy=".35em" text-anchor="end" { (label(slot)) }
                    @for run in newest(lane) {
                        rect x=(format!("{:.1}", left + px(since(run)))) y=(y + (ROW - BAR) / 2.0) height=(BAR)
                            width=(format!("{:.1}", px(run.run.seconds).max(0.5))) fill=(fill(CountedOutcome::of_record(run.record))) stroke="#ffffff"
                            stroke-width="0.5" {
                            title { "experiment " (run.record.id) ": " (CountedOutcome::of_record(run.record)) ", " (clock_time(run.run.seconds)) }
                        }
                    }
                }
                text x=(left) y=(height - 6.0) { "start" }
                text x=(WIDTH - 4.0) y=(height - 6.0) text-anchor="end" { (span_text(span)) }
            }
        }
    })
}

fn newest<'a>(runs: &'a [RunOf<'a>]) -> &'a [RunOf<'a>] {
    &runs[runs.len().saturating_sub(MOST)..]
}

fn fill(ended: CountedOutcome) -> &'static str {
    match ended {
        CountedOutcome::Keep => "#2fbf71",
        CountedOutcome::Crash => "#cf222e",
        CountedOutcome::Discard | CountedOutcome::Refused | CountedOutcome::Other => "#8c959f",
    }
}

/// The most lines of a change to show, from its start.
const DIFF_LINES: usize = 400;

/// The most lines of a log to show, from its end.
const LOG_LINES: usize = 50;

/// The most characters of a line to show.
const LINE_CHARS: usize = 400;

/// The most bytes of changes and logs on a page, so that telephones open it and mail accepts it. With 300 experiments,
/// each has 10 kB.
const PAGE_BYTES: usize = 3 << 20;

/// The room that a page still has for text.
#[derive(Debug)]
pub struct PageRoom {
    left: usize,
}

impl Default for PageRoom {
    fn default() -> Self {
        PageRoom { left: PAGE_BYTES }
    }
}

impl PageRoom {
    /// Returns whether no room is left.
    pub fn is_used_up(&self) -> bool {
        self.left == 0
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// Some lines of a longer text, fit for a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines, without what ends them.
    pub lines: Vec<String>,
    /// The missing part, as a sentence; empty if nothing is missing.
    pub missing: String,
}

impl Excerpt {
    /// The first lines of a change.
    pub fn of_diff(diff: &[u8], room: &mut PageRoom) -> Excerpt {
        let text = String::from_utf8_lossy(diff);
        let count = text.lines().count();
        let lines: Vec<String> = text.lines().take(DIFF_LINES).map(shown).collect();
        let left_out = count.saturating_sub(DIFF_LINES);
        let missing = match left_out {
            0 => String::new(),
            _ => format!("{left_out} more lines of {} are omitted", bytes_text(diff.len() as u64)),
        };
        Excerpt { lines, missing }.within(room)
    }

    /// The last lines of the end of a log.
    pub fn of_log(tail: &[u8], room: &mut PageRoom) -> Excerpt {
        let text = plain_text(tail);
        let lines: Vec<&str> = text.lines().collect();
        let lines = lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| shown(line)).collect();
        Excerpt { lines, missing: String::new() }.within(room)
    }

    /// A sentence in the place of a text that is not there.
    pub fn absent(why: impl Into<String>) -> Excerpt {
        Excerpt { lines: Vec::new(), missing: why.into() }
    }

    /// The lines that a page still has room for.
    fn within(mut self, room: &mut PageRoom) -> Excerpt {
        let mut bytes = 0;
        let fits = self.lines.iter().take_while(|line| {
            bytes += line.len() + 1;
            bytes <= room.left
        });
        let fitting = fits.count();
        if fitting < self.lines.len() {
            self.lines.truncate(fitting);
            self.missing = "the rest is omitted to keep the page short".to_owned();
        }
        room.take(bytes);
        self
    }
}

/// A line as it is shown, cut where it is too long.
pub(super) fn shown(line: &str) -> String {
    let line = safe_code(line);
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The details of one experiment on a page, beside its row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detail {
    /// The experiment's number.
    pub id: ExperimentId,
    /// The facts of its record: their names, and what they are.
    pub facts: Vec<(String, String)>,
    /// Its change as a unified diff.
    pub diff: Excerpt,
    /// The end of its log.
    pub log: Excerpt,
}

impl Detail {
    /// Collects the details of an experiment: its record with the axes of `composite`, what changed since the experiment
    /// `had_to_beat`, its change, the end of its log and the user's notes.
    pub fn new(
        record: &Record,
        composite: Option<&Composite>,
        had_to_beat: Option<&Record>,
        diff: Excerpt,
        log: Excerpt,
        notes: &[Note],
    ) -> Detail {
        let grid = record_grid(record, composite, had_to_beat, None, notes, None);
        let facts = grid.rows().iter().filter_map(|row| match row.as_slice() {
            [name, value] => Some((name.clone(), value.clone())),
            _ => None,
        });
        Detail { id: record.id, facts: facts.collect(), diff, log }
    }

    /// The records in the order in which their details are let onto a page: the kept ones, then the newest.
    pub fn order(records: &[Record]) -> Vec<&Record> {
        use crate::domain::Outcome::Keep;
        let kept = records.iter().filter(|record| record.outcome == Keep);
        let others = records.iter().rev().filter(|record| record.outcome != Keep);
        kept.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Record;
    use crate::report::html::page::STYLE;
    use crate::rules::lanes;
    use crate::rules::sample::record;

    #[test]
    fn labels_of_slots_touch_neither_one_another_nor_the_bars_also_on_a_narrow_screen() {
        assert!(STYLE.contains(&format!(".lanes text {{ font-size: {NARROW_FONT}px; }}")));
        let at = |slot: u32| {
            let run = json!({"command": "c", "seed": null, "started": format!("2026-11-20T22:00:{slot:02}Z"),
                "seconds": 60.0, "exit": 0, "signal": null, "value": 1.0});
            record(json!({"id": slot, "slot": slot, "commit": format!("c{slot}"), "runs": [run]}))
        };
        let records: Vec<Record> = (0..12).map(at).collect();
        let page = timeline(&lanes(&records, 12)).unwrap().into_string();
        let svg = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap() + "</svg>".len()];
        let document = roxmltree::Document::parse(svg).unwrap();
        let place = |node: &roxmltree::Node, name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let is_bar = |node: &roxmltree::Node| node.has_tag_name("rect") && node.attribute("class").is_none();
        let bars = document.descendants().filter(is_bar).map(|node| place(&node, "x")).fold(f64::INFINITY, f64::min);
        let is_label = |node: &roxmltree::Node| node.text().is_some_and(|text| text.starts_with("slot "));
        let labels: Vec<_> =
            document.descendants().filter(|node| node.has_tag_name("text") && is_label(node)).collect();
        assert_eq!(labels.len(), 12);
        for label in &labels {
            let (end, width) = (place(label, "x"), text_width(label.text().unwrap(), NARROW_FONT));
            assert!(end - width >= 0.0 && end < bars, "{label:?}");
        }
        for pair in labels.windows(2) {
            assert!(place(&pair[1], "y") - place(&pair[0], "y") >= 1.2 * NARROW_FONT, "{pair:?}");
        }
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let diff: String = (0..500).map(|line| format!("+line {line}\n")).collect();
        let shown = Excerpt::of_diff(diff.as_bytes(), &mut PageRoom::default());
        assert_eq!((shown.lines.len(), shown.lines[399].as_str()), (400, "+line 399"));
        assert_eq!(shown.missing, "100 more lines of 4.9 kB are omitted");
        let long = Excerpt::of_diff("+é".repeat(5000).as_bytes(), &mut PageRoom::default());
        assert_eq!(long.lines[0].chars().count(), LINE_CHARS + 1);
    }

    #[test]
    fn of_a_log_the_end_is_shown_without_escapes() {
        let log: String = (0..60).map(|line| format!("\u{1b}[31mstep {line}\u{7}\n")).collect();
        let shown = Excerpt::of_log(log.as_bytes(), &mut PageRoom::default());
        assert_eq!((shown.lines.len(), shown.lines[49].as_str()), (50, "step 59"));
    }

    #[test]
    fn a_page_that_is_full_takes_no_more() {
        let mut room = PageRoom { left: 10 };
        let first = Excerpt::of_diff(b"+123\n+456\n+789\n", &mut room);
        assert_eq!((first.lines.len(), room.is_used_up()), (2, true));
        assert!(first.missing.contains("the rest is omitted"), "{first:?}");
    }
}
