//! The page as a whole.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::detail::Detail;
use super::experiments::{details, table};
use super::lanes::timeline;
use crate::domain::{Clock, ExperimentId};
use crate::report::Report;
use crate::report::chart::picture;
use crate::report::render::facts;
use crate::report::safe::safe_line;
use crate::report::sections::{Section, sections};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Renders a report as a page of its own. `found` are the details of the experiments that there is room for; `clock` says
/// how times are written.
pub fn html_report(report: &Report, found: &[Detail], clock: Clock) -> String {
    let (title, about) = (safe_line(&report.headline()), safe_line(&report.about()));
    let with_detail: HashSet<ExperimentId> = found.iter().map(|detail| detail.id).collect();
    let full = if about.is_empty() { title.clone() } else { format!("{about}: {title}") };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(STYLE, SCRIPT));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (full) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    @if !about.is_empty() { p.about { (about) } }
                    dl {
                        @for (name, value) in facts(report, true, clock) { dt { (name) } dd { (safe_line(&value)) } }
                    }
                    h2 { "course" }
                    div.wide tabindex="0" role="region" aria-label="chart" {
                        (picture(&report.series(), &report.chart_title()))
                    }
                    @if let Some(picture) = timeline(report) { (picture) }
                    @for part in sections(report) { (section(&part)) }
                    (table(report, |id| with_detail.contains(&id)))
                    (details(report, found))
                }
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
