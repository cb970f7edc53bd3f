//! The chart as a picture: SVG, and PNG made from it.

use std::fmt::Write;
use std::io::Read;
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use maud::{Markup, html};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::axis::{PlacedLabel, Rectangle, Tick, Wish, place, ticks, whole_ticks};
use super::{NUMBERLESS, OTHER_OPACITY, Palette, legend, panels, panels_height};
use crate::domain::{ErrorKind, UserError, cut, refuse};
use crate::report::{ChartStyle, Edge, Limits, Mark, Series, Step, columns, safe_line};
use crate::rules::CountedOutcome;

/// The size of the picture: the shape of the notebook's `progress.png`, which is 16 by 8 inches.
pub(super) const WIDTH: f64 = 1200.0;

const HEIGHT: f64 = 600.0;

/// The frame of the picture: what is above it, below it and to its right. To its left are the labels of its axis.
const TOP: f64 = 84.0;

const BOTTOM: f64 = HEIGHT - 64.0;

pub(super) const RIGHT: f64 = WIDTH - 24.0;

/// The room within the frame that no experiment's middle is in.
const INSET: f64 = 12.0;

/// The height of the lane below the frame for what has no value.
pub(super) const LANE: f64 = 16.0;

const FONT: &str = "'DejaVu Sans', Verdana, 'Noto Sans', sans-serif";

/// The size of the labels' font, and the height of a line of it.
pub(super) const LABEL_FONT: f64 = 11.0;

pub(super) const LABEL_HEIGHT: f64 = 14.0;

/// The most characters of a description in a label; the notebook cuts at 45.
const LABEL_CHARS: usize = 44;

/// The most characters of a description shown when the pointer is on a mark.
const HOVER_CHARS: usize = 300;

/// The most labels to find a place for.
const MOST_LABELS: usize = 80;

/// From how many marks on they are drawn smaller, and from how many on smaller still, below the line.
const MANY: usize = 120;

const CROWD: usize = 1000;

/// The places of a picture.
pub(super) struct Frame {
    pub(super) area: Rectangle,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) limits: Limits,
    pub(super) colours: &'static Palette,
}

impl Frame {
    pub(super) fn x(&self, place: u32) -> f64 {
        let share = f64::from(place - self.first) / f64::from((self.last - self.first).max(1));
        self.area.left + INSET + share * (self.area.right - self.area.left - 2.0 * INSET)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.area.bottom - self.limits.share(value) * (self.area.bottom - self.area.top)
    }

    pub(super) fn at(&self, mark: &Mark) -> (f64, f64) {
        (self.x(mark.place), mark.value.map_or(self.area.bottom + LANE / 2.0, |value| self.y(value)))
    }
}

/// Draws a chart as a separate document. The first line of `title` is larger than the others. Shows the experiments as
/// marks with details under the pointer, the running best, and labels on the keeps.
pub fn chart_svg(series: &Series, title: &str, style: ChartStyle) -> String {
    document(&picture(series, title, style))
}

/// A picture as a separate document.
pub(super) fn document(picture: &Markup) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", picture.0)
}

/// The `svg` element of the chart. On a page, what is to change with its colours has a class.
pub(in crate::report) fn picture(series: &Series, title: &str, style: ChartStyle) -> Markup {
    let colours = style.palette();
    let (title, about) = title.split_once('\n').unwrap_or((title, ""));
    let (title, about) = (safe_line(title), safe_line(about));
    let spoken = if about.is_empty() { title.clone() } else { format!("{title}; {about}") };
    let is_crowd = series.marks.len() > CROWD;
    let metric = safe_line(&series.metric);
    let rows = series.limits.map(|limits| ticks(limits, 8)).unwrap_or_default();
    let (first, last) = series.places().unwrap_or_default();
    let limits = series.limits.unwrap_or(Limits { low: 0.0, high: 1.0 });
    let left = margin(&rows);
    let frame =
        Frame { area: Rectangle { left, top: TOP, right: RIGHT, bottom: BOTTOM }, first, last, limits, colours };
    let radii = radii(series.marks.len());
    let height = HEIGHT + panels_height(series);
    let drawn = html! {
        text class="about" x=(px(left)) y="46" font-size="12" fill=(colours.soft) { (about) }
        (legend(series, left, 64.0, colours))
        (axes(&frame, &rows, &format!("{} ({} is better)", cut(&metric, 60), series.direction), |place| series.number_at(place)))
        @if let Some(threshold) = series.threshold {
            (level_line(&frame, threshold))
            text class="level" x=(px(RIGHT - 6.0)) y=(px(frame.y(threshold) - 5.0)) text-anchor="end" fill=(colours.level) {
                "threshold " (threshold)
            }
        }
        @if series.kept().1 > 0 {
            text class="about" x=(px(left - 8.0)) y=(px(BOTTOM + LANE / 2.0)) dy="4" text-anchor="end" fill=(colours.soft) { "none" }
        }
        // The kept ones come last, so that nothing hides them.
        @for mark in series.marks.iter().filter(|mark| mark.kind != CountedOutcome::Keep) { (shape(mark, &frame, radii)) }
        @if !is_crowd { (line(series, &frame, false)) (labels(series, &frame)) }
        @for mark in series.marks.iter().filter(|mark| mark.kind == CountedOutcome::Keep) { (shape(mark, &frame, radii)) }
        @if is_crowd { (line(series, &frame, true)) (labels(series, &frame)) }
        (panels(series, HEIGHT, left, RIGHT, colours))
    };
    sheet(height, &spoken, (&title, left), &drawn, colours)
}

/// The `svg` element of a picture so high: what is spoken of it, its title from `left` on, and what is drawn below.
pub(super) fn sheet(
    height: f64,
    spoken: &str,
    (title, left): (&str, f64),
    drawn: &Markup,
    colours: &'static Palette,
) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox={"0 0 " (WIDTH) " " (height)} width=(WIDTH)
            height=(height) role="img" aria-label=(spoken) font-family=(FONT) font-size=(LABEL_FONT) fill=(colours.ink) {
            rect class="paper" width=(WIDTH) height=(height) fill=(colours.paper) {}
            text x=(px(left)) y="26" font-size="17" font-weight="bold" { (title) }
            (drawn)
        }
    }
}

/// The frame of a picture with its two axes: the ticks of its values, and the numbers of the experiments.
pub(super) fn axes(frame: &Frame, rows: &[Tick], name: &str, number_at: impl Fn(u32) -> String) -> Markup {
    let Rectangle { left, right, top, bottom } = frame.area;
    let colours = frame.colours;
    html! {
        @for tick in rows {
            @let y = px(frame.y(tick.value));
            line class="grid" x1=(px(left)) x2=(right) y1=(y) y2=(y) stroke=(colours.grid) {}
            text x=(px(left - 8.0)) y=(y) dy="4" text-anchor="end" { (tick.label) }
        }
        @for tick in whole_ticks(frame.first, frame.last, 12) {
            @let x = px(frame.x(tick.value as u32));
            line class="grid" x1=(x) x2=(x) y1=(bottom + LANE) y2=(bottom + LANE + 5.0) stroke=(colours.frame) {}
            text class="tick" x=(x) y=(bottom + LANE + 18.0) text-anchor="middle" { (number_at(tick.value as u32)) }
        }
        rect class="frame" x=(px(left)) y=(top) width=(px(right - left)) height=(bottom + LANE - top)
            fill="none" stroke=(colours.frame) {}
        text class="axis" x=(px((left + right) / 2.0)) y=(bottom + 52.0) text-anchor="middle" font-size="12" { "experiment" }
        text class="name" transform={"translate(20 " (px((top + bottom) / 2.0)) ") rotate(-90)"} text-anchor="middle"
            font-size="12" { (name) }
    }
}

/// The room to the left of a frame for the labels of its axis.
pub(super) fn margin(rows: &[Tick]) -> f64 {
    48.0 + rows.iter().map(|tick| text_width(&tick.label, LABEL_FONT)).fold(0.0, f64::max)
}

/// A dashed line at a value, where it lies within the limits.
pub(super) fn level_line(frame: &Frame, value: f64) -> Markup {
    let y = px(frame.y(value));
    html! {
        line class="level" x1=(px(frame.area.left)) x2=(px(frame.area.right)) y1=(y) y2=(y) stroke=(frame.colours.level)
            stroke-dasharray="6 4" {}
    }
}

/// A coordinate with as many digits as can be seen.
pub(super) fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// The greatest width of a text, estimated from the width classes of the letters of DejaVu Sans.
pub(in crate::report) fn text_width(text: &str, size: f64) -> f64 {
    let share = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | 'I' => 0.34,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.45,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.0,
        _ if !c.is_ascii() && columns(c.encode_utf8(&mut [0; 4])) > 1 => 1.05,
        _ if c.is_ascii_uppercase() => 0.76,
        _ => 0.64,
    };
    text.chars().map(share).sum::<f64>() * size
}

/// A text of this size, cut to the room that there is.
pub(super) fn fitted(text: &str, size: f64, room: f64) -> String {
    let fits = |chars: &usize| text_width(&cut(text, *chars), size) <= room;
    cut(text, (1..=text.chars().count()).rev().find(fits).unwrap_or(1))
}

/// The running best; with an edge of paper where it lies on marks.
fn line(series: &Series, frame: &Frame, on_marks: bool) -> Markup {
    let path = staircase(series, frame);
    html! {
        @if on_marks { path class="edge" d=(path) fill="none" stroke=(frame.colours.paper) stroke-width="5" {} }
        path class="best" d=(path) fill="none" stroke=(frame.colours.best) stroke-width="2" {}
        @if let Some(last) = series.hidden.last() {
            path class="hidden" d=(steps_path(&series.hidden, series, frame)) fill="none" stroke=(frame.colours.level)
                stroke-width="2" stroke-dasharray="5 3" { title { "the same gains on the hidden split" } }
            text x=(px(frame.area.right - 4.0)) y=(px(frame.y(last.value) - 5.0)) text-anchor="end" fill=(frame.colours.level) {
                "hidden"
            }
        }
    }
}

/// The running best as the path of a line.
pub(super) fn staircase(series: &Series, frame: &Frame) -> String {
    steps_path(&series.best, series, frame)
}

/// The steps of a line as its path, up to the last experiment.
fn steps_path(steps: &[Step], series: &Series, frame: &Frame) -> String {
    let mut path = String::new();
    for step in steps {
        let (x, y) = (px(frame.x(step.place)), px(frame.y(step.value)));
        let _ = if path.is_empty() { write!(path, "M{x} {y}") } else { write!(path, "H{x}V{y}") };
    }
    if let (false, Some((_, last))) = (path.is_empty(), series.places()) {
        let _ = write!(path, "H{}", px(frame.x(last)));
    }
    path
}

/// The radius of the mark of something kept, and of something else.
pub(super) fn radii(count: usize) -> (f64, f64) {
    match count {
        count if count > CROWD => (3.0, 1.5),
        count if count > MANY => (4.2, 2.4),
        _ => (5.2, 3.2),
    }
}

/// The look of an experiment's mark, and the words for its outcome.
pub(super) struct MarkLook {
    name: &'static str,
    radius: f64,
    fill: &'static str,
    stroke: &'static str,
    pub(super) said: &'static str,
}

pub(super) fn look(mark: &Mark, (kept, other): (f64, f64), colours: &Palette) -> MarkLook {
    let (name, radius, fill, stroke, said) = match mark.kind {
        CountedOutcome::Keep if mark.is_numberless() => ("keep", other, "none", colours.best, NUMBERLESS),
        CountedOutcome::Keep => ("keep", kept, colours.kept, colours.kept_edge, "kept"),
        CountedOutcome::Discard | CountedOutcome::Other => ("discard", other, colours.other, "none", "not kept"),
        CountedOutcome::Crash => ("crash", 3.4, colours.other, colours.crash, "crashed"),
        CountedOutcome::Refused => ("refused", 2.8, "none", colours.frame, "refused, and never run"),
    };
    MarkLook { name, radius, fill, stroke, said }
}

/// The mark of an experiment; one beyond the edge points outwards. `radii` are those of keeps, and of other
/// experiments.
pub(super) fn shape(mark: &Mark, frame: &Frame, radii: (f64, f64)) -> Markup {
    let (x, y) = frame.at(mark);
    let MarkLook { name, radius, fill, stroke, said } = look(mark, radii, frame.colours);
    let edge = mark.value.and_then(|value| frame.limits.beyond(value));
    let outline = match edge {
        Some(edge) => Some(pointer(edge, (x, y))),
        None if mark.kind == CountedOutcome::Crash => {
            let side = 2.0 * radius;
            Some(format!("M{} {}l{side} {side}m-{side} 0l{side} -{side}", px(x - radius), px(y - radius)))
        }
        None => None,
    };
    html! {
        g class=(name) fill=(fill)
            stroke=(stroke)
            fill-opacity=[(mark.kind == CountedOutcome::Discard).then_some(OTHER_OPACITY)]
            stroke-width=[(mark.kind == CountedOutcome::Crash).then_some("1.5")] {
            title { (hover(mark, said)) }
            @match outline {
                Some(outline) => path d=(outline) {},
                None => circle cx=(px(x)) cy=(px(y)) r=(radius) {},
            }
        }
    }
}

/// The outline of a mark beyond an edge, which points outwards.
pub(super) fn pointer(edge: Edge, (x, y): (f64, f64)) -> String {
    match edge {
        Edge::Above => format!("M{} {}h10l-5 -8z", px(x - 5.0), px(y + 9.0)),
        Edge::Below => format!("M{} {}h10l-5 8z", px(x - 5.0), px(y - 9.0)),
    }
}

/// The text shown when the pointer is on the mark of an experiment.
pub(super) fn hover(mark: &Mark, said: &str) -> String {
    let value = if mark.raw.is_empty() { String::new() } else { format!(" {}", safe_line(&mark.raw)) };
    format!("experiment {}:{value} {said}\n{}", mark.number, cut(&safe_line(&mark.description), HOVER_CHARS))
}

/// Labels kept experiments with their descriptions, as far as there is space: the best first, then by gain.
fn labels(series: &Series, frame: &Frame) -> Markup {
    let mut kept: Vec<(f64, &Mark)> = Vec::new();
    let mut previous: Option<f64> = None;
    let best = series.best.last().map(|step| step.place);
    for mark in series.marks.iter().filter(|mark| mark.kind == CountedOutcome::Keep) {
        let Some(value) = mark.value else { continue };
        let gain = previous.map_or(0.0, |previous| series.direction.gain(value, previous));
        kept.push((if best == Some(mark.place) { f64::INFINITY } else { gain }, mark));
        previous = Some(value);
    }
    kept.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    kept.truncate(MOST_LABELS);
    let texts: Vec<String> = kept.iter().map(|(_, mark)| cut(&safe_line(&mark.description), LABEL_CHARS)).collect();
    let wishes: Vec<Wish> = kept
        .iter()
        .zip(&texts)
        .map(|((_, mark), text)| Wish { at: frame.at(mark), width: text_width(text, LABEL_FONT) })
        .collect();
    let picture = Rectangle { left: frame.area.left + 2.0, top: TOP + 2.0, right: RIGHT - 2.0, bottom: BOTTOM - 2.0 };
    let discards = series.marks.iter().filter(|mark| mark.kind == CountedOutcome::Discard);
    let spared: Vec<Rectangle> =
        discards.map(|mark| Rectangle::around(frame.at(mark), 2.0 * radii(series.marks.len()).1)).collect();
    let found = place(&wishes, LABEL_HEIGHT, picture, &obstacles(series, frame), &spared);
    html! {
        @for (placed, text) in found.into_iter().zip(&texts) {
            @if let Some(placed) = placed {
                (leader(&placed, frame.colours.frame))
                text class="label" x=(px(placed.area.left)) y=(px(placed.area.bottom)) dy="-3" fill=(frame.colours.label)
                    stroke=(frame.colours.paper) stroke-width="3" stroke-linejoin="round" paint-order="stroke" { (text) }
            }
        }
    }
}

/// The line from a point to its label, where they are far apart.
pub(super) fn leader(placed: &PlacedLabel, stroke: &str) -> Markup {
    html! {
        @if let Some([from, to]) = placed.leader {
            line class="leader" x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) stroke=(stroke)
                stroke-width="0.7" {}
        }
    }
}

/// Areas that no label may hide: the marks of keeps, and the staircase.
pub(super) fn obstacles(series: &Series, frame: &Frame) -> Vec<Rectangle> {
    let side = 2.0 * radii(series.marks.len()).0 + 2.0;
    let kept = series.marks.iter().filter(|mark| mark.kind == CountedOutcome::Keep && mark.value.is_some());
    let mut areas: Vec<Rectangle> = kept.map(|mark| Rectangle::around(frame.at(mark), side)).collect();
    for (index, step) in series.best.iter().enumerate() {
        let (x, y) = (frame.x(step.place), frame.y(step.value));
        let next = series.best.get(index + 1);
        let end = series.places().map_or(frame.last, |(_, last)| last);
        let right = frame.x(next.map_or(end, |next| next.place));
        areas.push(Rectangle { left: x, top: y - 1.0, right, bottom: y + 1.0 });
        if let Some(next) = next {
            let to = frame.y(next.value);
            areas.push(Rectangle { left: right - 1.0, top: y.min(to), right: right + 1.0, bottom: y.max(to) });
        }
    }
    areas
}

/// Pixels along each side of a unit of the drawing; text stays sharp on high-density screens.
const SCALE: f32 = 2.0;

/// DejaVu Sans, which `build.rs` halves.
static FONT_FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/font.zlib"));

fn no_picture(why: &str) -> UserError {
    refuse(ErrorKind::CannotStart, why).hint("write the chart as .svg")
}

/// Turns the drawing of a chart into a PNG picture.
///
/// Its letters are those of DejaVu Sans, which is in the program; where the text has characters beyond ASCII, fonts of
/// the system are taken for those that it lacks.
pub fn chart_png(svg: &str) -> Result<Vec<u8>, UserError> {
    let mut font = Vec::new();
    let unpacked = ZlibDecoder::new(FONT_FILE).read_to_end(&mut font);
    unpacked.map_err(|error| no_picture("cannot unpack the font").caused_by(error))?;
    let mut fonts = fontdb::Database::new();
    // A bold one would make the program larger by 0.7 MB for the sake of a title.
    fonts.load_font_source(fontdb::Source::Binary(Arc::new(font)));
    fonts.set_sans_serif_family("DejaVu Sans");
    if !svg.is_ascii() {
        fonts.load_system_fonts();
    }
    let tree = Tree::from_str(svg, &Options { fontdb: Arc::new(fonts), ..Options::default() });
    let tree = tree.map_err(|error| no_picture("cannot read the drawing").caused_by(error))?;
    let too_large = || no_picture("not enough memory for the picture");
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(too_large)?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(too_large)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| no_picture(&format!("cannot encode the picture: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{chart_svg, *};
    use crate::domain::{Direction, Outcome};
    use crate::report::chart::palette::ChartStyle;
    use crate::report::chart::series::test_series;

    fn described(mut series: Series, description: &str) -> Series {
        for mark in &mut series.marks {
            mark.description = description.to_owned();
        }
        series
    }

    #[test]
    fn whatever_descriptions_say_the_picture_is_well_formed_and_has_nothing_of_theirs_but_text() {
        let values = [(Outcome::Keep, Some("1")), (Outcome::Crash, None), (Outcome::Discard, Some("9"))];
        for hostile in
            ["</text><script>alert(1)</script>", "\"><image href='x'/>", "\u{1b}]0;t\u{7}&\u{0}\u{fffe}\u{202e}]]>"]
        {
            let mut series = described(test_series(Direction::Lower, &values), hostile);
            series.metric = hostile.to_owned();
            let svg = chart_svg(&series, hostile, ChartStyle::Light);
            let document = roxmltree::Document::parse(&svg).unwrap();
            let names = ["svg", "rect", "text", "line", "path", "g", "title", "circle"];
            for node in document.descendants().filter(roxmltree::Node::is_element) {
                assert!(names.contains(&node.tag_name().name()), "{node:?}");
                assert!(node.attributes().all(|attribute| !attribute.name().starts_with("on")), "{node:?}");
            }
            assert!(!svg.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{svg}");
        }
    }

    #[test]
    fn each_experiment_is_a_mark_that_says_what_it_is() {
        let values = [(Outcome::Keep, Some("1.50")), (Outcome::Crash, None), (Outcome::Discard, Some("9"))];
        let svg = chart_svg(&test_series(Direction::Lower, &values), "two experiments", ChartStyle::Light);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let titles: Vec<_> = document.descendants().filter(|node| node.has_tag_name("title")).collect();
        let texts: Vec<_> = titles.iter().filter_map(roxmltree::Node::text).collect();
        assert_eq!(
            texts,
            [
                "experiment 1: crashed\nchange 1",
                "experiment 2: 9 not kept\nchange 2",
                "experiment 0: 1.50 kept\nchange 0"
            ]
        );
    }

    #[test]
    fn what_was_kept_without_a_number_is_a_ring_below_the_picture() {
        let values = [(Outcome::Keep, None), (Outcome::Keep, Some("0.5")), (Outcome::Crash, None)];
        let svg = chart_svg(
            &test_series(Direction::Higher, &values).with_threshold(Some(0.45)),
            "an empty baseline",
            ChartStyle::Light,
        );
        let document = roxmltree::Document::parse(&svg).unwrap();
        let of = |number: u32| {
            let is_it = |node: &roxmltree::Node| {
                node.text().is_some_and(|text| text.starts_with(&format!("experiment {number}: ")))
            };
            document.descendants().find(|node| node.has_tag_name("title") && is_it(node)).unwrap()
        };
        let (ring, dot) = (of(0).parent().unwrap(), of(1).parent().unwrap());
        assert_eq!(of(0).text(), Some("experiment 0: kept, without a number\nchange 0"));
        assert_eq!(
            (ring.attribute("fill"), dot.attribute("fill")),
            (Some("none"), Some(ChartStyle::Light.palette().kept))
        );
        let y = ring.descendants().find_map(|node| node.attribute("cy")).unwrap();
        assert!(y.parse::<f64>().unwrap() > BOTTOM, "{y}");
        let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"1 kept, without a number") && texts.contains(&"none"), "{texts:?}");
    }

    #[test]
    fn every_shape_is_within_the_picture_whatever_the_values_are() {
        let cases: [&[&str]; 5] = [&[], &["1"], &["5", "5"], &["1e308", "-1e308", "0"], &["1", "2", "1e300", "-7"]];
        for values in cases {
            let values: Vec<_> = values.iter().map(|value| (Outcome::Keep, Some(*value))).collect();
            let long = "m".repeat(200);
            let svg = chart_svg(&described(test_series(Direction::Higher, &values), &long), &long, ChartStyle::Light);
            let document = roxmltree::Document::parse(&svg).unwrap();
            for node in document.descendants() {
                for (names, most) in [(["x", "cx", "x1", "x2"], WIDTH), (["y", "cy", "y1", "y2"], HEIGHT)] {
                    let given = names.iter().filter_map(|name| node.attribute(*name));
                    let places: Vec<f64> = given.map(|text| text.parse().unwrap()).collect();
                    assert!(places.iter().all(|place| (0.0..=most).contains(place)), "{node:?}");
                }
            }
        }
    }

    #[test]
    fn a_picture_is_a_png_with_letters_whatever_language_its_text_is_in() {
        let series = test_series(Direction::Lower, &[(Outcome::Keep, Some("1.5"))]);
        let picture = |title: &str| chart_png(&chart_svg(&series, title, ChartStyle::Light)).unwrap();
        for title in ["学習率 \u{5d0}\u{5d1} \u{1f600} \u{e000} a\u{301}", ""] {
            let png = picture(title);
            assert_eq!(
                (&png[..8], &png[16..24]),
                (b"\x89PNG\r\n\x1a\n".as_slice(), [0, 0, 9, 96, 0, 0, 4, 176].as_slice())
            );
        }
        assert_ne!(picture("a"), picture("b"));
        assert!(chart_png("no drawing").is_err());
    }
}
