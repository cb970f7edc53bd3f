//! The legend of a chart: within its picture, and beside it on a page that is too narrow for that.

use maud::{Markup, html};

use super::palette::{ChartStyle, OTHER_OPACITY, Palette};
use super::series::{MarkKind, Series};
use super::svg::{LABEL_FONT, px, text_width};

/// What is said of something kept without a number.
pub(super) const NUMBERLESS: &str = "kept, without a number";

/// An entry of the legend.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    Of(MarkKind),
    Numberless,
    Beyond,
}

/// Each kind of mark, with its count.
fn entries(series: &Series) -> Vec<(Entry, String)> {
    let outside = |value| series.limits.is_some_and(|limits| limits.beyond(value).is_some());
    let beyond = series.marks.iter().filter(|mark| mark.value.is_some_and(outside)).count();
    let (kept, numberless) = series.kept();
    let entries = [
        (Entry::Of(MarkKind::Keep), kept, "kept, and the best so far"),
        (Entry::Numberless, numberless, NUMBERLESS),
        (Entry::Of(MarkKind::Discard), series.count(MarkKind::Discard), "not kept"),
        (Entry::Of(MarkKind::Crash), series.count(MarkKind::Crash), "crashed"),
        (Entry::Of(MarkKind::Refused), series.count(MarkKind::Refused), "refused"),
        (Entry::Beyond, beyond, "beyond the edge"),
    ];
    let found = entries.into_iter().filter(|(_, count, _)| *count > 0);
    found
        .map(|(entry, count, words)| match entry {
            // The title says how many were kept, which the baseline is not.
            Entry::Of(MarkKind::Keep) => (entry, words.to_owned()),
            _ => (entry, format!("{count} {words}")),
        })
        .collect()
}

/// The mark of an entry, ten units wide from `x`, with its middle at `y`.
fn symbol(entry: Entry, x: f64, y: f64, colours: &Palette) -> Markup {
    let middle = px(x + 5.0);
    html! {
        @match entry {
            Entry::Of(MarkKind::Keep) => circle class="keep" cx=(middle) cy=(y) r="5" fill=(colours.kept)
                stroke=(colours.kept_edge) {},
            Entry::Numberless => circle class="keep" cx=(middle) cy=(y) r="3.2" fill="none" stroke=(colours.best) {},
            Entry::Of(MarkKind::Discard) => circle class="discard" cx=(middle) cy=(y) r="3.2" fill=(colours.other)
                fill-opacity=(OTHER_OPACITY) {},
            Entry::Of(MarkKind::Crash) => path class="crash" d={"M" (px(x + 2.0)) " " (y - 3.0) "l6 6m-6 0l6 -6"}
                stroke=(colours.crash) stroke-width="1.5" {},
            Entry::Of(MarkKind::Refused) => circle cx=(middle) cy=(y) r="2.8" fill="none" stroke=(colours.frame) {},
            Entry::Beyond => path d={"M" (px(x)) " " (y + 4.0) "h10l-5 -8z"} fill=(colours.frame) {},
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
