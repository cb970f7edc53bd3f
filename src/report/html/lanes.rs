//! The runs of a session by slot and time.

use maud::{Markup, html};

use crate::domain::{clock_time, span_text};
use crate::report::chart::text_width;
use crate::rules::{Ended, RunOf};

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
                            width=(format!("{:.1}", px(run.run.seconds).max(0.5))) fill=(fill(Ended::of_record(run.record))) stroke="#ffffff"
                            stroke-width="0.5" {
                            title { "experiment " (run.record.id) ": " (Ended::of_record(run.record)) ", " (clock_time(run.run.seconds)) }
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

fn fill(ended: Ended) -> &'static str {
    match ended {
        Ended::Keep => "#2fbf71",
        Ended::Crash => "#cf222e",
        Ended::Discard | Ended::Refused | Ended::Other => "#8c959f",
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
}
