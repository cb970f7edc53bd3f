//! Several sessions in one picture: each has a colour, a shape and a dash of its own, and sessions of another metric have a frame
//! of their own.

use maud::{Markup, html};

use super::axis::{Rectangle, Wish, place, ticks};
use super::{
    Frame, LABEL_FONT, LABEL_HEIGHT, Palette, RIGHT, axes, document, fitted, hover, key_picture, leader, look, margin,
    obstacles, pointer, px, radii, sheet, staircase,
};
use crate::domain::{Direction, cut};
use crate::report::{ChartStyle, Limits, Mark, Series, safe_line, text_width};
use crate::rules::CountedOutcome;

/// A session of a picture of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlaid {
    /// Its name.
    pub name: String,
    /// A line on what it found, for the legend.
    pub about: String,
    /// Its course.
    pub series: Series,
}

/// The first line of the legend, the height of a line, and the room from the last one to the first frame.
const LEGEND: f64 = 50.0;
const LINE: f64 = 20.0;
const BELOW_LEGEND: f64 = 8.0;

/// The width of a line's sample.
const SAMPLE: f64 = 34.0;

/// The height of a frame that is alone, and of one of several; then the room below each for its axis.
const ALONE: f64 = 452.0;
const FRAME: f64 = 300.0;
const BELOW: f64 = 64.0;

/// The room between two frames.
const BETWEEN: f64 = 14.0;

/// The dashes of the lines, as SVG has them.
const DASHES: [&str; 5] = ["none", "9 4", "2.5 3", "12 4 2.5 4", "5 5"];

/// The opacity of experiments that were not kept.
const FAINT: f64 = 0.55;

/// The most characters of a session's name at the end of its line.
const NAME_CHARS: usize = 30;

/// Sessions of one metric, which share a frame. Each is named by its place among all.
struct Group<'a> {
    metric: &'a str,
    direction: Direction,
    places: Vec<usize>,
}

/// Draws several sessions as a separate document.
///
/// Sessions with the same metric and direction share a frame; others have one of their own below it, with the same axis of
/// experiments, because values of different metrics cannot be compared.
pub fn overlay_svg(sessions: &[Overlaid], title: &str, style: ChartStyle) -> String {
    document(&overlay(sessions, title, style))
}

/// The `svg` element of that picture.
pub(in crate::report) fn overlay(sessions: &[Overlaid], title: &str, style: ChartStyle) -> Markup {
    let colours = style.palette();
    let title = safe_line(title);
    let groups = groups(sessions);
    let frame_height = if groups.len() == 1 { ALONE } else { FRAME };
    let top = LEGEND + LINE * sessions.len() as f64 + BELOW_LEGEND;
    let height = top + groups.len() as f64 * (frame_height + BELOW + BETWEEN) - BETWEEN;
    let limits: Vec<Limits> = groups.iter().map(|group| limits_of(sessions, group)).collect();
    let left = limits.iter().map(|limits| margin(&ticks(*limits, 8))).fold(0.0, f64::max);
    let last = sessions.iter().filter_map(|session| session.series.places()).map(|(_, last)| last).max().unwrap_or(0);
    let drawn = html! {
        (legend(sessions, left, colours))
        @for (index, (group, limits)) in groups.iter().zip(&limits).enumerate() {
            @let top = top + index as f64 * (frame_height + BELOW + BETWEEN);
            @let area = Rectangle { left, top, right: RIGHT, bottom: top + frame_height };
            (framed(sessions, group, &Frame { area, first: 0, last, limits: *limits, colours }))
        }
    };
    sheet(height, &title, (&fitted(&title, 17.0, RIGHT - left), left), &drawn, colours)
}

/// The legend of that picture as a list of a page.
pub(in crate::report) fn overlay_key(sessions: &[Overlaid]) -> Markup {
    let colours = ChartStyle::Light.palette();
    html! {
        ul.key {
            @for (place, session) in sessions.iter().enumerate() {
                li { (key_picture(SAMPLE, &sample(place, 0.0, 6.0, colours))) (words(session)) }
            }
        }
    }
}

/// The sessions by metric and direction, in the order in which they were named.
fn groups(sessions: &[Overlaid]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (place, Overlaid { series, .. }) in sessions.iter().enumerate() {
        let is_of = |group: &&mut Group<'_>| group.metric == series.metric && group.direction == series.direction;
        match groups.iter_mut().find(is_of) {
            Some(group) => group.places.push(place),
            None => groups.push(Group { metric: &series.metric, direction: series.direction, places: vec![place] }),
        }
    }
    groups
}

/// The limits within which each session of a group has its own.
fn limits_of(sessions: &[Overlaid], group: &Group<'_>) -> Limits {
    let own = group.places.iter().filter_map(|place| sessions[*place].series.limits);
    let wider = |one: Limits, other: Limits| Limits { low: one.low.min(other.low), high: one.high.max(other.high) };
    own.reduce(wider).unwrap_or(Limits { low: 0.0, high: 1.0 })
}

/// One frame with all sessions of a group, and their names at the ends of their lines.
fn framed(sessions: &[Overlaid], group: &Group<'_>, frame: &Frame) -> Markup {
    let rows = ticks(frame.limits, 8);
    let name = format!("{} ({} is better)", cut(&safe_line(group.metric), 60), group.direction);
    let drawn = || group.places.iter().map(|place| (*place, &sessions[*place]));
    let names: Vec<(String, Wish, usize)> = drawn()
        .filter_map(|(place, session)| {
            let (best, (_, last)) = (session.series.best.last()?, session.series.places()?);
            let name = cut(&safe_line(&session.name), NAME_CHARS);
            let width = text_width(&name, LABEL_FONT);
            Some((name, Wish { at: (frame.x(last), frame.y(best.value)), width }, place))
        })
        .collect();
    let taken: Vec<Rectangle> = drawn().flat_map(|(_, session)| obstacles(&session.series, frame)).collect();
    let wishes: Vec<Wish> = names.iter().map(|(_, wish, _)| *wish).collect();
    let Rectangle { left, top, right, bottom } = frame.area;
    let picture = Rectangle { left: left + 2.0, top: top + 2.0, right: right - 2.0, bottom: bottom - 2.0 };
    let placed = place(&wishes, LABEL_HEIGHT, picture, &taken, &[]);
    html! {
        (axes(frame, &rows, &name, |place| place.to_string()))
        @for (place, session) in drawn() { (marks(place, session, frame, false)) }
        @for (place, session) in drawn() { (line(place, &session.series, frame)) }
        @for (place, session) in drawn() { (marks(place, session, frame, true)) }
        @for ((name, _, place), placed) in names.iter().zip(placed) {
            @if let Some(placed) = placed {
                g class={"session session-" (place % SESSIONS)} color=(colour(*place, frame.colours)) {
                    (leader(&placed, "currentColor"))
                    text class="halo" x=(px(placed.area.left)) y=(px(placed.area.bottom)) dy="-3" fill="currentColor"
                        font-weight="600" stroke=(frame.colours.paper) stroke-width="3" stroke-linejoin="round"
                        paint-order="stroke" { (name) }
                }
            }
        }
    }
}

/// The experiments of a session: those that were kept, or all others.
fn marks(place: usize, session: &Overlaid, frame: &Frame, is_kept: bool) -> Markup {
    let chosen = session.series.marks.iter().filter(|mark| (mark.kind == CountedOutcome::Keep) == is_kept);
    let radii = radii(session.series.marks.len());
    html! {
        g class={"session session-" (place % SESSIONS)} color=(colour(place, frame.colours)) {
            @for mark in chosen { (shape(place, session, mark, frame, radii)) }
        }
    }
}

fn shape(place: usize, session: &Overlaid, mark: &Mark, frame: &Frame, radii: (f64, f64)) -> Markup {
    let (x, y) = frame.at(mark);
    let said = look(mark, radii, frame.colours).said;
    let title = format!("{}, {}", safe_line(&session.name), hover(mark, said));
    let edge = mark.value.and_then(|value| frame.limits.beyond(value));
    html! {
        @match (mark.kind, edge) {
            (CountedOutcome::Keep, Some(edge)) => path d=(pointer(edge, (x, y))) fill="currentColor" { title { (title) } },
            (CountedOutcome::Keep, None) if mark.is_numberless() => {
                circle cx=(px(x)) cy=(px(y)) r=(radii.1) fill="none" stroke="currentColor" { title { (title) } }
            },
            (CountedOutcome::Keep, None) => path class="halo" d=(outline(place, (x, y), radii.0)) fill="currentColor"
                stroke=(frame.colours.paper) { title { (title) } },
            (_, Some(edge)) => path d=(pointer(edge, (x, y))) fill="currentColor" fill-opacity=(FAINT) {
                title { (title) }
            },
            (CountedOutcome::Crash, None) => path d={"M" (px(x - 3.0)) " " (px(y - 3.0)) "l6 6m-6 0l6 -6"} stroke="currentColor"
                stroke-width="1.3" { title { (title) } },
            (CountedOutcome::Refused, None) => circle cx=(px(x)) cy=(px(y)) r="2.6" fill="none" stroke="currentColor" {
                title { (title) }
            },
            (CountedOutcome::Discard | CountedOutcome::Other, None) => circle cx=(px(x)) cy=(px(y)) r=(radii.1 - 0.6) fill="currentColor"
                fill-opacity=(FAINT) { title { (title) } },
        }
    }
}

/// The running best of a session.
fn line(place: usize, series: &Series, frame: &Frame) -> Markup {
    let path = staircase(series, frame);
    html! {
        g class={"session session-" (place % SESSIONS)} color=(colour(place, frame.colours)) {
            path class="line" d=(path) fill="none" stroke="currentColor" stroke-width="2"
                stroke-dasharray=(DASHES[place % DASHES.len()]) {}
        }
    }
}

/// The legend within the picture, a line for each session.
fn legend(sessions: &[Overlaid], left: f64, colours: &Palette) -> Markup {
    html! {
        g class="legend" {
            @for (place, session) in sessions.iter().enumerate() {
                @let y = LEGEND + LINE * place as f64;
                (sample(place, left, y, colours))
                text x=(px(left + SAMPLE + 8.0)) y=(px(y + 4.0)) font-size="12" {
                    (fitted(&words(session), 12.0, RIGHT - left - SAMPLE - 8.0))
                }
            }
        }
    }
}

/// A piece of a session's line with its mark.
fn sample(place: usize, x: f64, y: f64, colours: &Palette) -> Markup {
    html! {
        g class={"session session-" (place % SESSIONS)} color=(colour(place, colours)) {
            path d={"M" (px(x)) " " (px(y)) "h" (SAMPLE)} fill="none" stroke="currentColor" stroke-width="2"
                stroke-dasharray=(DASHES[place % DASHES.len()]) {}
            path d=(outline(place, (x + SAMPLE / 2.0, y), 5.0)) fill="currentColor" {}
        }
    }
}

/// The legend's text for a session.
fn words(session: &Overlaid) -> String {
    let (name, about) = (safe_line(&session.name), safe_line(&session.about));
    if about.is_empty() { name } else { format!("{name}: {about}") }
}

/// The number of colours.
const SESSIONS: usize = 6;

fn colour(place: usize, colours: &Palette) -> &'static str {
    colours.sessions[place % SESSIONS]
}

/// The outline of a kept experiment: a circle, a square, a diamond or a cross, by the place of its session.
fn outline(place: usize, (x, y): (f64, f64), radius: f64) -> String {
    let r = radius;
    match place % 4 {
        0 => format!("M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z", px(x - r), px(y), d = 2.0 * r),
        1 => {
            let r = r * 0.9;
            format!("M{} {}h{d:.1}v{d:.1}h-{d:.1}z", px(x - r), px(y - r), d = 2.0 * r)
        }
        2 => format!("M{} {}l{d:.1} {d:.1}l-{d:.1} {d:.1}l-{d:.1} -{d:.1}z", px(x), px(y - 1.3 * r), d = 1.3 * r),
        _ => {
            let (arm, thick) = (0.75 * r, 0.8 * r);
            let corner = format!("M{} {}", px(x - thick / 2.0), px(y - thick / 2.0 - arm));
            format!(
                "{corner}h{thick:.1}v{arm:.1}h{arm:.1}v{thick:.1}h-{arm:.1}v{arm:.1}h-{thick:.1}v-{arm:.1}h-{arm:.1}v-{thick:.1}h{arm:.1}z"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::Outcome::{Crash, Discard, Keep};
    use crate::report::chart::chart_png;
    use crate::report::chart::series::test_series;
    use crate::report::chart::svg::WIDTH;

    fn session(name: &str, direction: Direction, metric: &str, values: &[&str]) -> Overlaid {
        let mut values: Vec<_> = values.iter().map(|value| (Keep, Some(*value))).collect();
        values.extend([(Discard, Some("1.2")), (Crash, None)]);
        let series = Series { metric: metric.to_owned(), ..test_series(direction, &values) };
        Overlaid { name: name.to_owned(), about: format!("what {name} found"), series }
    }

    fn texts(svg: &str) -> Vec<String> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let texts = document.descendants().filter(|node| node.has_tag_name("text"));
        texts.filter_map(|node| node.text().map(str::to_owned)).collect()
    }

    #[test]
    fn each_session_has_a_line_a_name_and_an_entry_of_the_legend_with_its_own_colour_and_dash() {
        let sessions = [
            session("nov20", Direction::Lower, "loss", &["1.0", "0.9"]),
            session("nov21", Direction::Lower, "loss", &["1.1", "0.8", "0.7"]),
        ];
        for style in [ChartStyle::Light, ChartStyle::Dark] {
            let svg = overlay_svg(&sessions, "two nights", style);
            let document = roxmltree::Document::parse(&svg).unwrap();
            let is_line = |node: &roxmltree::Node| node.attribute("class") == Some("line");
            let lines: Vec<_> = document.descendants().filter(is_line).collect();
            let looks: Vec<_> = lines
                .iter()
                .map(|line| (line.parent().unwrap().attribute("color").unwrap(), line.attribute("stroke-dasharray")))
                .collect();
            let [one, two, ..] = style.palette().sessions;
            assert_eq!(looks, [(one, Some("none")), (two, Some("9 4"))]);
            let texts = texts(&svg);
            for text in ["two nights", "nov20: what nov20 found", "nov21: what nov21 found", "nov20", "nov21"] {
                assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
            }
            let named = texts.iter().filter(|text| *text == "loss (lower is better)").count();
            assert_eq!(named, 1, "they share a frame");
            assert!(svg.contains("nov21, experiment 2: 0.7 kept\nchange 2"), "{svg}");
        }
    }

    #[test]
    fn sessions_of_other_metrics_and_directions_have_frames_of_their_own_on_one_axis() {
        let sessions = [
            session("a", Direction::Lower, "loss", &["1.0", "0.9"]),
            session("b", Direction::Higher, "accuracy", &["0.5", "0.9", "0.95"]),
            session("c", Direction::Higher, "loss", &["1.0"]),
            session("d", Direction::Lower, "loss", &["0.99"]),
        ];
        let svg = overlay_svg(&sessions, "t", ChartStyle::Light);
        let found = texts(&svg);
        let names: Vec<&str> = found.iter().filter(|text| text.contains("is better")).map(String::as_str).collect();
        assert_eq!(names, ["loss (lower is better)", "accuracy (higher is better)", "loss (higher is better)"]);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let is_frame = |node: &roxmltree::Node| node.attribute("class") == Some("frame");
        let frames: Vec<[f64; 3]> = document
            .descendants()
            .filter(is_frame)
            .map(|node| ["x", "y", "height"].map(|name| node.attribute(name).unwrap().parse().unwrap()))
            .collect();
        assert_eq!(frames.len(), 3);
        for pair in frames.windows(2) {
            assert!(pair[0][0] == pair[1][0] && pair[0][1] + pair[0][2] < pair[1][1], "{frames:?}");
        }
        let height: f64 = document.root_element().attribute("height").unwrap().parse().unwrap();
        assert!(frames[2][1] + frames[2][2] < height);
    }

    #[test]
    fn whatever_sessions_are_called_nothing_leaves_the_picture_or_acts() {
        let hostile = "</text><script>alert(1)</script>\u{1b}]0;t\u{7}".repeat(20);
        let empty =
            Overlaid { series: test_series(Direction::Lower, &[]), ..session("none", Direction::Lower, "loss", &[]) };
        let mut sessions = vec![empty, session(&hostile, Direction::Lower, &hostile, &["1", "1e308", "-5"])];
        sessions.extend((0..9).map(|n| session(&format!("s{n}"), Direction::Lower, "loss", &["1", "2", "0.1"])));
        let svg = overlay_svg(&sessions, &hostile, ChartStyle::Dark);
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert!(!document.descendants().any(|node| node.has_tag_name("script")));
        let height: f64 = document.root_element().attribute("height").unwrap().parse().unwrap();
        for node in document.descendants() {
            for (names, most) in [(["x", "cx", "x1", "x2"], WIDTH), (["y", "cy", "y1", "y2"], height)] {
                let given = names.iter().filter_map(|name| node.attribute(*name));
                assert!(
                    given.map(|text| text.parse::<f64>().unwrap()).all(|place| (0.0..=most).contains(&place)),
                    "{node:?}"
                );
            }
        }
        assert!(overlay_svg(&[], "none", ChartStyle::Light).contains("svg"));
    }

    #[test]
    fn a_png_has_the_colours_of_the_sessions() {
        let sessions = ["a", "b"].map(|name| session(name, Direction::Lower, "loss", &["1.0", "0.9"]));
        for style in [ChartStyle::Light, ChartStyle::Dark] {
            let png = chart_png(&overlay_svg(&sessions, "t", style)).unwrap();
            let pixels = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
            let found: BTreeSet<String> = pixels
                .pixels()
                .iter()
                .map(|pixel| format!("#{:02x}{:02x}{:02x}", pixel.red(), pixel.green(), pixel.blue()))
                .collect();
            let palette = style.palette();
            for colour in [palette.paper, palette.sessions[0], palette.sessions[1]] {
                assert!(found.contains(colour), "{style:?} {colour}");
            }
        }
    }
}
