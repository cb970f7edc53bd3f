//! The runs of a session by slot and time.

use maud::{Markup, html};

use crate::domain::{clock_time, span_text};
use crate::report::Report;
use crate::report::chart::text_width;
use crate::report::found::LaneRun;
use crate::rules::Ended;

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
pub(super) fn timeline(report: &Report) -> Option<Markup> {
    let runs = || report.lanes.iter().flat_map(|lane| newest(&lane.runs));
    let first = runs().map(|run| run.started).min()?;
    let since = |run: &LaneRun| run.started.duration_since(first).as_secs_f64();
    let span = runs().map(|run| since(run) + run.seconds).fold(1.0, f64::max);
    // The bars begin where the longest label ends, in the larger font.
    let label = |slot: usize| format!("slot {slot}");
    let widest = (0..report.lanes.len()).map(|slot| text_width(&label(slot), NARROW_FONT)).fold(0.0, f64::max);
    let left = (widest + GAP).ceil();
    let px = |seconds: f64| seconds / span * (WIDTH - left);
    let height = ROW * (report.lanes.len() as f64 + 1.0);
    Some(html! {
        h2 { "runs by slot" }
        div.wide tabindex="0" role="region" aria-label="runs by slot" {
            svg xmlns="http://www.w3.org/2000/svg" class="chart lanes" viewBox={"0 0 " (WIDTH) " " (height)} width=(WIDTH)
                height=(height) role="img" aria-label="runs by slot" font-size=(FONT) fill="#24292f" {
                rect class="paper" width=(WIDTH) height=(height) fill="#ffffff" {}
                @for (slot, lane) in report.lanes.iter().enumerate() {
                    @let y = ROW * slot as f64;
                    text x=(left - GAP) y=(y + ROW / 2.0) dy=".35em" text-anchor="end" { (label(slot)) }
                    @for run in newest(&lane.runs) {
                        rect x=(format!("{:.1}", left + px(since(run)))) y=(y + (ROW - BAR) / 2.0) height=(BAR)
                            width=(format!("{:.1}", px(run.seconds).max(0.5))) fill=(fill(run.ended)) stroke="#ffffff"
                            stroke-width="0.5" {
                            title { "experiment " (run.id) ": " (run.ended) ", " (clock_time(run.seconds)) }
                        }
                    }
                }
                text x=(left) y=(height - 6.0) { "start" }
                text x=(WIDTH - 4.0) y=(height - 6.0) text-anchor="end" { (span_text(span)) }
            }
        }
    })
}

fn newest(runs: &[LaneRun]) -> &[LaneRun] {
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
    use jiff::Timestamp;

    use super::*;
    use crate::report::found::Lane;
    use crate::report::html::page::STYLE;

    #[test]
    fn labels_of_slots_touch_neither_one_another_nor_the_bars_also_on_a_narrow_screen() {
        assert!(STYLE.contains(&format!(".lanes text {{ font-size: {NARROW_FONT}px; }}")));
        let run = |second: i64| LaneRun {
            id: 1.into(),
            ended: Ended::Keep,
            started: Timestamp::from_second(second).unwrap(),
            seconds: 60.0,
        };
        let report =
            Report { lanes: (0..12).map(|slot| Lane { runs: vec![run(slot)] }).collect(), ..Report::default() };
        let page = timeline(&report).unwrap().into_string();
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
