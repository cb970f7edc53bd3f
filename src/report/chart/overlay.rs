//! Several sessions in one picture: the running best of each, over common axes.

use maud::{Markup, html};

use super::axis::{ticks, whole_ticks};
use super::labels::Area;
use super::series::{Limits, MarkKind, Series};
use super::svg::{BOTTOM, FONT, Frame, HEIGHT, LABEL_FONT, LANE, RIGHT, TOP, WIDTH, px, staircase, text_width};
use crate::domain::cut;
use crate::report::safe::safe_line;

/// The colours of the lines, readable on light and dark paper; a seventh session has the first one again.
pub(in crate::report) const LINES: [&str; 6] = ["#1f9d57", "#2f81f7", "#d4731c", "#a371f7", "#e0559b", "#8c959f"];

/// Draws the running best of each session with its keeps; absent unless all have the same metric and some value. `names` are
/// those of the sessions.
pub(in crate::report) fn overlay(names: &[String], series: &[Series]) -> Option<Markup> {
    let (first, others) = series.split_first()?;
    if others.iter().any(|other| (&other.metric, other.direction) != (&first.metric, first.direction)) {
        return None;
    }
    let limits = series
        .iter()
        .filter_map(|series| series.limits)
        .reduce(|one, other| Limits { low: one.low.min(other.low), high: one.high.max(other.high) })?;
    let rows = ticks(limits, 8);
    let widest = rows.iter().map(|tick| text_width(&tick.label, LABEL_FONT)).fold(0.0, f64::max);
    let left = 48.0 + widest;
    let last = series.iter().filter_map(|series| Some(series.places()?.1)).max().unwrap_or_default();
    let frame = Frame { area: Area { left, top: TOP, right: RIGHT, bottom: BOTTOM }, first: 0, last, limits };
    let title =
        format!("{} ({} is better) in {} sessions", cut(&safe_line(&first.metric), 60), first.direction, series.len());
    Some(html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox={"0 0 " (WIDTH) " " (HEIGHT)} width=(WIDTH)
            height=(HEIGHT) role="img" aria-label=(title) font-family=(FONT) font-size=(LABEL_FONT) fill="#24292f" {
            rect class="paper" width=(WIDTH) height=(HEIGHT) fill="#ffffff" {}
            text x=(px(left)) y="26" font-size="17" font-weight="bold" { (title) }
            @for tick in &rows {
                @let y = px(frame.y(tick.value));
                line class="grid" x1=(px(left)) x2=(RIGHT) y1=(y) y2=(y) stroke="#e4e7eb" {}
                text x=(px(left - 8.0)) y=(y) dy="4" text-anchor="end" { (tick.label) }
            }
            @for tick in whole_ticks(0, last, 12) {
                text x=(px(frame.x(tick.value as u32))) y=(BOTTOM + LANE + 18.0) text-anchor="middle" { (tick.label) }
            }
            rect class="frame" x=(px(left)) y=(TOP) width=(px(RIGHT - left)) height=(BOTTOM + LANE - TOP) fill="none"
                stroke="#8c959f" {}
            text x=(px((left + RIGHT) / 2.0)) y=(HEIGHT - 12.0) text-anchor="middle" font-size="12" { "experiment" }
            @for (place, (name, series)) in names.iter().zip(series).enumerate() {
                g stroke=(colour(place)) fill="none" {
                    title { (safe_line(name)) }
                    path d=(staircase(series, &frame, series.places().map_or(0, |(_, last)| last))) stroke-width="2.5" {}
                    @for mark in series.marks.iter().filter(|mark| mark.kind == MarkKind::Keep && mark.value.is_some()) {
                        @let (x, y) = frame.at(mark);
                        circle cx=(px(x)) cy=(px(y)) r="4" fill=(colour(place)) {}
                    }
                }
            }
        }
    })
}

/// The colour of the session at a place.
pub(in crate::report) fn colour(place: usize) -> &'static str {
    LINES[place % LINES.len()]
}

#[cfg(test)]
mod tests {
    use super::super::series::test_series;
    use super::*;
    use crate::domain::{Direction, Outcome::Keep};

    #[test]
    fn sessions_of_one_metric_share_the_axes_and_others_have_no_common_picture() {
        let one = test_series(Direction::Lower, &[(Keep, Some("4")), (Keep, Some("3"))]);
        let other = test_series(Direction::Lower, &[(Keep, Some("2")), (Keep, Some("1")), (Keep, Some("0.5"))]);
        let names = ["<one>".to_owned(), "other".to_owned()];
        let svg = overlay(&names, &[one.clone(), other.clone()]).unwrap().into_string();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let lines: Vec<_> = document.descendants().filter(|node| node.has_tag_name("g")).collect();
        assert_eq!(lines.len(), 2);
        // What has less is drawn further down, also across sessions.
        let lowest = |node: &roxmltree::Node| -> f64 {
            let ys = node.descendants().filter_map(|node| node.attribute("cy")?.parse::<f64>().ok());
            ys.fold(0.0, f64::max)
        };
        assert!(lowest(&lines[0]) < lowest(&lines[1]));
        let unlike = test_series(Direction::Higher, &[(Keep, Some("4"))]);
        assert!(overlay(&names, &[one, unlike]).is_none());
    }
}
