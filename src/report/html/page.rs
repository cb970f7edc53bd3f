//! The page as a whole.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::experiments::{Detail, details, table, timeline};
use crate::domain::{Clock, ExperimentId};
use crate::report::Report;
use crate::report::chart::{ChartStyle, key, overlay, overlay_key, picture};
use crate::report::render::facts;
use crate::report::sections::{Section, sections};
use crate::report::sessions::{columns, overlaid, overlay_title, remarks};
use crate::report::text::safe_line;

pub(super) const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Renders a report as a page of its own. `found` are the details of the experiments that there is room for; `clock` says
/// how times are written.
pub fn html_report(report: &Report, found: &[Detail], clock: Clock) -> String {
    let (title, about) = (safe_line(&report.headline()), safe_line(&report.about()));
    let with_detail: HashSet<ExperimentId> = found.iter().map(|detail| detail.id).collect();
    let full = if about.is_empty() { title.clone() } else { format!("{about}: {title}") };
    let series = report.series();
    page(
        &full,
        &html! {
            h1 { (title) }
            @if !about.is_empty() { p.about { (about) } }
            (course(&picture(&series, &report.chart_title(), ChartStyle::Light), &key(&series)))
            dl {
                @for (name, value) in facts(report, true, clock) { dt { (name) } dd { (safe_line(&value)) } }
            }
            @if let Some(picture) = timeline(&report.lanes()) { (picture) }
            @for part in sections(report) { (section(&part)) }
            (table(report, |id| with_detail.contains(&id)))
            (details(report, found))
        },
    )
}

/// Renders several sessions as a page: their picture, their facts side by side, and what their best values say of one another.
pub fn html_sessions(reports: &[&Report]) -> String {
    let title = safe_line(&overlay_title(reports));
    page(&title, &html! { h1 { (title) } (common_course(reports)) (side_by_side(reports)) })
}

/// The picture of several sessions with its key.
pub(super) fn common_course(reports: &[&Report]) -> Markup {
    let sessions = overlaid(reports);
    course(&overlay(&sessions, &overlay_title(reports), ChartStyle::Light), &overlay_key(&sessions))
}

/// The facts of several sessions, and what their best values say of one another.
pub(super) fn side_by_side(reports: &[&Report]) -> Markup {
    let said = Section { grid: Some(columns(reports)), lines: remarks(reports), title: "side by side".to_owned() };
    html! { div.sides { (section(&said)) } }
}

/// The chart with its key; a narrow screen shows it first.
pub(super) fn course(picture: &Markup, key: &Markup) -> Markup {
    html! {
        section.course {
            h2 { "course" }
            div.wide tabindex="0" role="region" aria-label="chart" { (picture) }
            (key)
        }
    }
}

/// A page with this content.
fn page(title: &str, content: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(STYLE, SCRIPT));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (content) }
                footer { p { "ar " (env!("CARGO_PKG_VERSION")) } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// The content security policy: a browser runs only a page's own style and script, by their hashes, and loads
/// nothing from elsewhere.
pub(super) fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(style),
        hash(script)
    )
}

/// One part of the report: its table, and its lines with what is below each.
pub(super) fn section(part: &Section) -> Markup {
    html! {
        section {
            h2 { (safe_line(&part.title)) }
            @if let Some(grid) = &part.grid {
                div.wide.part tabindex="0" role="region" aria-label=(safe_line(&part.title)) { (grid.to_html()) }
            }
            @if !part.lines.is_empty() {
                ul {
                    @for (line, below) in &part.lines {
                        li { (safe_line(line)) @if let Some(below) = below { div.below { (safe_line(below)) } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::Direction;
    use crate::report::chart::session_colours;
    use crate::rules::SessionFacts;

    #[test]
    fn a_dark_page_has_the_colours_of_dark_pictures_for_its_sessions() {
        let (_, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let (dark, _) = dark.split_once("\n}\n").unwrap();
        for (place, colour) in session_colours(ChartStyle::Dark).iter().enumerate() {
            assert!(dark.contains(&format!(".session-{place} {{ color: {colour}; }}")), "{place} {colour}");
        }
    }

    #[test]
    fn the_chart_comes_before_the_facts_and_its_key_is_below_it() {
        let report = Report::of_session("t", ("loss", Direction::Lower), None, Arc::default(), SessionFacts::default());
        let page = html_report(&report, &[], Clock::default());
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(place("<section class=\"course\">") < place("<ul class=\"key\">"));
        assert!(place("<ul class=\"key\">") < place("<dl>"));
        let (_, narrow) = STYLE.split_once("@media (max-width: 36rem)").unwrap();
        assert!(narrow.contains(".course { order: -1; }") && narrow.contains(".key { display: flex;"), "{narrow}");
    }
}
