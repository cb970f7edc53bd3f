//! The axes of a composite below a chart: a small picture for each, all with the same limits and experiments.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::{Rectangle, whole_ticks};
use super::{Frame, LABEL_FONT, LANE, Palette, fitted, level_line, px, shape};
use crate::report::{Limits, Panel, Series, safe_line, text_width};
use crate::rules::CountedOutcome;

/// The most panels in a row; five or six panels form rows of three.
const MOST_BESIDE: usize = 4;

/// Heights: above the first row, above each frame, of a frame, and below it.
const HEADING: f64 = 40.0;
const TITLE: f64 = 26.0;
const FRAME: f64 = 126.0;
const BELOW: f64 = LANE + 34.0;

/// The room between the top of a frame and 1, so that marks there are whole.
const HEAD: f64 = 8.0;

/// The room between two that stand side by side.
const GAP: f64 = 26.0;

/// The size of the names' font.
const NAME_FONT: f64 = 12.0;

/// From how many experiments on marks are drawn smaller.
const MANY: usize = 40;

/// Returns the number of panels in a row.
fn beside(count: usize) -> usize {
    if matches!(count, 5 | 6) { 3 } else { count.clamp(1, MOST_BESIDE) }
}

/// The height of all; 0 without any.
pub(super) fn panels_height(series: &Series) -> f64 {
    match series.panels.len() {
        0 => 0.0,
        count => HEADING + count.div_ceil(beside(count)) as f64 * (TITLE + FRAME + BELOW),
    }
}

/// Draws the panels of a chart from `top` down, between `left` and `right`.
pub(super) fn panels(series: &Series, top: f64, left: f64, right: f64, colours: &'static Palette) -> Markup {
    let columns = beside(series.panels.len());
    let width = (right - left - GAP * (columns - 1) as f64) / columns as f64;
    let (first, last) = series.places().unwrap_or_default();
    let heading = "axes from 0 to 1, the worst mean first; below its dashed floor an axis is weak";
    html! {
        @if !series.panels.is_empty() {
            text class="about" x=(px(left)) y=(px(top + 20.0)) font-size="12" fill=(colours.soft) { (heading) }
            @for (index, panel) in series.panels.iter().enumerate() {
                @let left = left + (index % columns) as f64 * (width + GAP);
                @let top = top + HEADING + TITLE + (index / columns) as f64 * (TITLE + FRAME + BELOW);
                @let area = Rectangle { left, top: top + HEAD, right: left + width, bottom: top + FRAME };
                @let frame = Frame { area, first, last, limits: Limits { low: 0.0, high: 1.0 }, colours };
                (small(panel, &frame, series, index % columns == 0))
            }
        }
    }
}

/// One of them; the first of a row has the numbers of its axis beside it.
fn small(panel: &Panel, frame: &Frame, series: &Series, is_first: bool) -> Markup {
    let Rectangle { left, right, bottom, .. } = frame.area;
    let top = frame.area.top - HEAD;
    let mean = panel.figure.map_or_else(|| "no numbers".to_owned(), |(name, value)| format!("{name} {value:.2}"));
    let room = right - left - text_width(&mean, LABEL_FONT) - 12.0;
    let radii = if panel.marks.len() > MANY { (2.6, 1.6) } else { (3.8, 2.6) };
    let kept = |kind| kind == CountedOutcome::Keep;
    let colours = frame.colours;
    html! {
        g class="panel" {
            text x=(px(left)) y=(px(top - 9.0)) font-size=(NAME_FONT) font-weight="600" { (name(panel, room)) }
            text class="about" x=(px(right)) y=(px(top - 9.0)) text-anchor="end" fill=(colours.soft) { (mean) }
            @for value in [0.0, 0.5, 1.0] {
                @let y = px(frame.y(value));
                line class="grid" x1=(px(left)) x2=(px(right)) y1=(y) y2=(y) stroke=(colours.grid) {}
                @if is_first { text x=(px(left - 8.0)) y=(y) dy="4" text-anchor="end" { (value) } }
            }
            @if is_first && panel.marks.iter().any(|mark| mark.value.is_none()) {
                text class="about" x=(px(left - 8.0)) y=(px(bottom + LANE / 2.0)) dy="8" text-anchor="end" fill=(colours.soft) { "none" }
            }
            @for tick in whole_ticks(frame.first, frame.last, 6) {
                @let x = px(frame.x(tick.value as u32));
                line class="grid" x1=(x) x2=(x) y1=(px(bottom + LANE)) y2=(px(bottom + LANE + 4.0)) stroke=(colours.frame) {}
                text x=(x) y=(px(bottom + LANE + 16.0)) text-anchor="middle" { (series.number_at(tick.value as u32)) }
            }
            @if let Some(floor) = panel.floor {
                @let y = frame.y(floor);
                rect x=(px(left)) y=(px(y)) width=(px(right - left)) height=(px(bottom - y)) fill=(colours.level)
                    fill-opacity="0.06" {}
                (level_line(frame, floor))
            }
            rect class="frame" x=(px(left)) y=(px(top)) width=(px(right - left)) height=(px(bottom + LANE - top))
                fill="none" stroke=(colours.frame) {}
            path class="course" d=(course(panel, frame)) fill="none" stroke=(colours.frame) stroke-opacity="0.6" {}
            @for mark in panel.marks.iter().filter(|mark| !kept(mark.kind)) { (shape(mark, frame, radii)) }
            @for mark in panel.marks.iter().filter(|mark| kept(mark.kind)) { (shape(mark, frame, radii)) }
        }
    }
}

/// The name as far as there is room for it.
fn name(panel: &Panel, room: f64) -> String {
    fitted(&safe_line(&panel.name), NAME_FONT, room)
}

/// A line through the numbers, with a gap where an experiment has none.
fn course(panel: &Panel, frame: &Frame) -> String {
    let mut path = String::new();
    let mut is_open = false;
    for mark in &panel.marks {
        let (x, y) = frame.at(mark);
        let is_number = mark.value.is_some();
        if is_number {
            let _ = write!(path, "{}{} {}", if is_open { 'L' } else { 'M' }, px(x), px(y));
        }
        is_open = is_number;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::palette::ChartStyle;
    use super::super::series::{Mark, test_series};
    use super::super::svg::chart_svg;
    use super::*;
    use crate::domain::{Direction, Outcome};

    /// A chart of so many experiments with so many axes; the last experiment has no number on any.
    fn with_panels(axes: usize, experiments: usize) -> Series {
        let values = vec![(Outcome::Keep, Some("0.7")); experiments];
        let mut series = test_series(Direction::Higher, &values).with_threshold(Some(0.45));
        let marks = |axis: usize| -> Vec<Mark> {
            let value = |place: usize| (place + 1 < experiments).then_some(((place * 7 + axis) % 11) as f64 / 10.0);
            series.marks.iter().enumerate().map(|(place, mark)| Mark { value: value(place), ..mark.clone() }).collect()
        };
        let panel = |axis| Panel {
            name: format!("<an axis with a long name> {axis}"),
            figure: (axis > 0).then_some(("mean", 0.5)),
            floor: Some(0.5),
            marks: marks(axis),
        };
        series.panels = (0..axes).map(panel).collect();
        series
    }

    #[test]
    fn each_axis_has_a_panel_with_all_experiments_and_nothing_leaves_the_picture() {
        for (axes, experiments) in [(1, 1), (3, 8), (4, 8), (6, 100), (9, 100)] {
            let series = with_panels(axes, experiments);
            let svg = chart_svg(&series, "a title", ChartStyle::Light);
            let document = roxmltree::Document::parse(&svg).unwrap();
            let height: f64 = document.root_element().attribute("height").unwrap().parse().unwrap();
            assert_eq!(height, 600.0 + panels_height(&series));
            let has_class = |node: &roxmltree::Node, name| node.attribute("class") == Some(name);
            let panels: Vec<_> = document.descendants().filter(|node| has_class(node, "panel")).collect();
            assert_eq!(panels.len(), axes);
            for panel in panels {
                assert_eq!(panel.descendants().filter(|node| node.has_tag_name("title")).count(), experiments);
                assert_eq!(panel.descendants().filter(|node| has_class(node, "level")).count(), 1);
                let numbers = |names: [&str; 4]| -> Vec<f64> {
                    let given = panel.descendants().flat_map(|node| names.map(|name| node.attribute(name)));
                    given.flatten().map(|text| text.parse().unwrap()).collect()
                };
                assert!(numbers(["x", "cx", "x1", "x2"]).iter().all(|x| (0.0..=1200.0).contains(x)), "{axes}");
                assert!(numbers(["y", "cy", "y1", "y2"]).iter().all(|y| (600.0..=height).contains(y)), "{axes}");
            }
        }
    }

    #[test]
    fn names_are_as_long_as_there_is_room_and_without_panels_nothing_is_added() {
        let series = with_panels(4, 8);
        assert_eq!(name(&series.panels[1], 1000.0), "<an axis with a long name> 1");
        let short = name(&series.panels[1], 100.0);
        assert!(short.starts_with("<an axis") && text_width(&short, NAME_FONT) <= 100.0, "{short}");
        let plain = Series { panels: Vec::new(), threshold: None, ..series };
        assert!(!chart_svg(&plain, "a title", ChartStyle::Light).contains("panel") && panels_height(&plain) == 0.0);
    }
}
