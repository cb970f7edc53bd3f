//! The colours of pictures, and their legend: within a picture, and beside one on a page that is too narrow for that.

use clap::ValueEnum;
use maud::{Markup, html};

use super::{LABEL_FONT, Series, px, text_width};
use crate::rules::CountedOutcome;

/// The look of a picture: the colour of its ink, and that of its paper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ChartStyle {
    /// Light on dark paper
    Dark,
    /// Dark on white paper
    #[default]
    Light,
}

/// The colours of a picture. Text has a contrast of at least 4.5 to the paper, and marks and lines of at least 3, as WCAG 2.2
/// asks. Outcomes also differ in shape, and sessions in their dashes.
#[derive(Debug)]
pub(super) struct Palette {
    pub(super) paper: &'static str,
    /// Titles, names and numbers.
    pub(super) ink: &'static str,
    /// Text of less weight.
    pub(super) soft: &'static str,
    /// The lines behind everything, which are faint on purpose.
    pub(super) grid: &'static str,
    /// Frames, ticks and leaders.
    pub(super) frame: &'static str,
    /// The fill of kept experiments, and the edge around it.
    pub(super) kept: &'static str,
    pub(super) kept_edge: &'static str,
    /// The running best.
    pub(super) best: &'static str,
    /// The labels of kept experiments.
    pub(super) label: &'static str,
    /// Experiments that were not kept; drawn with [`OTHER_OPACITY`] to show where many lie.
    pub(super) other: &'static str,
    pub(super) crash: &'static str,
    /// A line that numbers should be above.
    pub(super) level: &'static str,
    /// The sessions of a picture of several.
    pub(super) sessions: [&'static str; 6],
}

/// The opacity of experiments that were not kept.
pub(super) const OTHER_OPACITY: f64 = 0.8;

static LIGHT: Palette = Palette {
    paper: "#ffffff",
    ink: "#24292f",
    soft: "#59636e",
    grid: "#e4e7eb",
    frame: "#8c959f",
    kept: "#2fbf71",
    kept_edge: "#0b2e1a",
    best: "#1f9d57",
    label: "#19653a",
    other: "#6e7781",
    crash: "#cf222e",
    level: "#bc4c00",
    sessions: ["#423cf3", "#d56a07", "#271d3b", "#079c6c", "#9e4eb2", "#6a2306"],
};

static DARK: Palette = Palette {
    paper: "#0d1117",
    ink: "#e6edf3",
    soft: "#9aa5b1",
    grid: "#2b323a",
    frame: "#77818c",
    kept: "#4cc38a",
    kept_edge: "#dcfff0",
    best: "#3fb97f",
    label: "#8be8b8",
    other: "#8b949e",
    crash: "#ff6b6b",
    level: "#ff9e64",
    sessions: ["#7c7aff", "#d36317", "#ffd920", "#30d28b", "#ad63a4", "#d3ecff"],
};

impl ChartStyle {
    pub(super) fn palette(self) -> &'static Palette {
        match self {
            ChartStyle::Light => &LIGHT,
            ChartStyle::Dark => &DARK,
        }
    }
}

/// The label of a keep without a number.
pub(super) const NUMBERLESS: &str = "kept, without a number";

/// An entry of the legend.
#[derive(Clone, Copy, PartialEq)]
enum LegendEntry {
    Of(CountedOutcome),
    Numberless,
    Beyond,
}

/// Each kind of mark, with its count.
fn entries(series: &Series) -> Vec<(LegendEntry, String)> {
    let outside = |value| series.limits.is_some_and(|limits| limits.beyond(value).is_some());
    let beyond = series.marks.iter().filter(|mark| mark.value.is_some_and(outside)).count();
    let (kept, numberless) = series.kept();
    let entries = [
        (LegendEntry::Of(CountedOutcome::Keep), kept, "kept, and the best so far"),
        (LegendEntry::Numberless, numberless, NUMBERLESS),
        (LegendEntry::Of(CountedOutcome::Discard), series.count(CountedOutcome::Discard), "not kept"),
        (LegendEntry::Of(CountedOutcome::Crash), series.count(CountedOutcome::Crash), "crashed"),
        (LegendEntry::Of(CountedOutcome::Refused), series.count(CountedOutcome::Refused), "refused"),
        (LegendEntry::Beyond, beyond, "beyond the edge"),
    ];
    let found = entries.into_iter().filter(|(_, count, _)| *count > 0);
    found
        .map(|(entry, count, words)| match entry {
            // The title says how many were kept, which the baseline is not.
            LegendEntry::Of(CountedOutcome::Keep) => (entry, words.to_owned()),
            _ => (entry, format!("{count} {words}")),
        })
        .collect()
}

/// The mark of an entry, ten units wide from `x`, with its middle at `y`.
fn symbol(entry: LegendEntry, x: f64, y: f64, colours: &Palette) -> Markup {
    let middle = px(x + 5.0);
    html! {
        @match entry {
            LegendEntry::Of(CountedOutcome::Keep) => circle class="keep" cx=(middle) cy=(y) r="5" fill=(colours.kept)
                stroke=(colours.kept_edge) {},
            LegendEntry::Numberless => circle class="keep" cx=(middle) cy=(y) r="3.2" fill="none" stroke=(colours.best) {},
            LegendEntry::Of(CountedOutcome::Discard | CountedOutcome::Other) => circle class="discard" cx=(middle) cy=(y) r="3.2" fill=(colours.other)
                fill-opacity=(OTHER_OPACITY) {},
            LegendEntry::Of(CountedOutcome::Crash) => path class="crash" d={"M" (px(x + 2.0)) " " (y - 3.0) "l6 6m-6 0l6 -6"}
                stroke=(colours.crash) stroke-width="1.5" {},
            LegendEntry::Of(CountedOutcome::Refused) => circle cx=(middle) cy=(y) r="2.8" fill="none" stroke=(colours.frame) {},
            LegendEntry::Beyond => path d={"M" (px(x)) " " (y + 4.0) "h10l-5 -8z"} fill=(colours.frame) {},
        }
    }
}

/// The legend within the picture, on a line whose middle is at `y`.
pub(super) fn legend(series: &Series, left: f64, y: f64, colours: &Palette) -> Markup {
    let mut x = left;
    let placed: Vec<_> = entries(series)
        .into_iter()
        .map(|(entry, words)| {
            let from = x;
            x += 24.0 + text_width(&words, LABEL_FONT);
            (from, entry, words)
        })
        .collect();
    html! {
        g class="legend" {
            @for (x, entry, words) in placed {
                (symbol(entry, x, y, colours))
                text x=(px(x + 14.0)) y=(y + 4.0) { (words) }
            }
        }
    }
}

/// The legend as a list of a page, which a narrow screen shows instead of the one in the picture.
pub(in crate::report) fn key(series: &Series) -> Markup {
    let colours = ChartStyle::Light.palette();
    html! {
        ul.key {
            @for (entry, words) in entries(series) {
                li { (key_picture(12.0, &symbol(entry, 1.0, 6.0, colours))) (words) }
            }
        }
    }
}

/// A mark of a key, so many units wide.
pub(super) fn key_picture(width: f64, drawn: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox={"0 0 " (width) " 12"} width=(width) height="12"
            aria-hidden="true" { (drawn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linear red, green and blue.
    type Rgb = [f64; 3];

    fn linear(colour: &str) -> Rgb {
        let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        let linear = |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        [1, 3, 5].map(|at| linear(part(at)))
    }

    /// A colour over paper, as sRGB blends it.
    fn blended(colour: &str, paper: &str, opacity: f64) -> String {
        let part = |text: &str, at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap());
        let mixed = [1, 3, 5].map(|at| part(colour, at) * opacity + part(paper, at) * (1.0 - opacity));
        format!("#{:02x}{:02x}{:02x}", mixed[0] as u8, mixed[1] as u8, mixed[2] as u8)
    }

    /// The contrast of two colours by WCAG 2.2.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |[red, green, blue]: Rgb| 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        let (one, other) = (luminance(linear(one)), luminance(linear(other)));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Colour vision: normal, or without red, green or blue cones (Machado, Oliveira and Fernandes 2009, full severity).
    const SIGHTS: [[Rgb; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// CIE L*a*b*, whose distances are about those that eyes see.
    fn lab(rgb: Rgb) -> Rgb {
        let [red, green, blue] = rgb.map(|part| part.clamp(0.0, 1.0));
        let curve = |share: f64| if share > 0.008856 { share.cbrt() } else { 7.787 * share + 16.0 / 116.0 };
        let x = curve((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047);
        let y = curve(0.2126 * red + 0.7152 * green + 0.0722 * blue);
        let z = curve((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The distance of two colours to whom they look most alike.
    fn distance(one: &str, other: &str) -> f64 {
        let seen = |colour: &str, sight: &[Rgb; 3]| {
            let rgb = linear(colour);
            lab(sight.map(|row| row.iter().zip(rgb).map(|(share, part)| share * part).sum()))
        };
        let apart = |sight: &[Rgb; 3]| {
            let (one, other) = (seen(one, sight), seen(other, sight));
            one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        SIGHTS.iter().map(apart).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn contrast_and_distance_are_those_of_the_standards() {
        assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-9);
        assert!((contrast("#777777", "#ffffff") - 4.48).abs() < 0.01);
        // Pure red and this green are nearly the same to eyes without green cones.
        assert!(distance("#a0522d", "#556b2f") < 25.0 && distance("#000000", "#ffffff") > 99.0);
    }

    #[test]
    fn in_both_styles_everybody_can_read_text_and_tell_marks_apart() {
        for style in [ChartStyle::Light, ChartStyle::Dark] {
            let colours = style.palette();
            let paper = colours.paper;
            for text in [colours.ink, colours.soft, colours.label, colours.level] {
                assert!(contrast(text, paper) >= 4.5, "{style:?} text {text}: {}", contrast(text, paper));
            }
            let other = blended(colours.other, paper, OTHER_OPACITY);
            let kept = if contrast(colours.kept, paper) < 3.0 { colours.kept_edge } else { colours.kept };
            let marks = [colours.frame, colours.best, colours.crash, kept, &other].into_iter().chain(colours.sessions);
            for mark in marks {
                assert!(contrast(mark, paper) >= 3.0, "{style:?} mark {mark}: {}", contrast(mark, paper));
            }
            for (one, other) in [(colours.kept, colours.crash), (colours.best, colours.crash)] {
                assert!(distance(one, other) >= 15.0, "{style:?} {one} {other}: {}", distance(one, other));
            }
            for (place, one) in colours.sessions.iter().enumerate() {
                for other in &colours.sessions[place + 1..] {
                    assert!(distance(one, other) >= 30.0, "{style:?} {one} {other}: {}", distance(one, other));
                }
            }
        }
    }
}
