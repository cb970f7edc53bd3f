//! The runs of a session by slot and time.

use maud::{Markup, html};

use crate::domain::{clock_time, span_text};
use crate::report::Report;
use crate::report::found::LaneRun;
use crate::rules::Ended;

/// The picture, in pixels: its width, where the bars begin, and the height of a slot and of its bars.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const ROW: f64 = 22.0;
const BAR: f64 = 16.0;

/// The most runs to draw for a slot, the newest ones. More would be too close to tell apart.
const MOST: usize = 1000;

/// A row for each slot and a bar for each run; nothing *in place*.
pub(super) fn timeline(report: &Report) -> Option<Markup> {
    let runs = || report.lanes.iter().flat_map(|lane| newest(&lane.runs));
    let first = runs().map(|run| run.started).min()?;
    let since = |run: &LaneRun| run.started.duration_since(first).as_secs_f64();
    let span = runs().map(|run| since(run) + run.seconds).fold(1.0, f64::max);
    let px = |seconds: f64| seconds / span * (WIDTH - LEFT);
    let height = ROW * (report.lanes.len() as f64 + 1.0);
    Some(html! {
        h2 { "runs by slot" }
        div.wide tabindex="0" role="region" aria-label="runs by slot" {
            svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox={"0 0 " (WIDTH) " " (height)} width=(WIDTH)
                height=(height) role="img" aria-label="runs by slot" font-size="11" fill="#24292f" {
                rect class="paper" width=(WIDTH) height=(height) fill="#ffffff" {}
                @for (slot, lane) in report.lanes.iter().enumerate() {
                    @let y = ROW * slot as f64;
                    text x="4" y=(y + BAR - 3.0) { "slot " (slot) }
                    @for run in newest(&lane.runs) {
                        rect x=(format!("{:.1}", LEFT + px(since(run)))) y=(y + 2.0) height=(BAR)
                            width=(format!("{:.1}", px(run.seconds).max(0.5))) fill=(fill(run.ended)) stroke="#ffffff"
                            stroke-width="0.5" {
                            title { "experiment " (run.id) ": " (run.ended) ", " (clock_time(run.seconds)) }
                        }
                    }
                }
                text x=(LEFT) y=(height - 6.0) { "start" }
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
