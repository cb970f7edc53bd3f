//! The page of `ar serve`, which stays open: a document, and the parts that its script fetches again and again.
//!
//! A part names its place in the document by `data-part`.

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::experiments::{Detail, inside, shown, table, timeline};
use super::page::{common_course, course as course_picture, policy, section, side_by_side};
use crate::domain::{Clock, Finding, Severity};
use crate::report::activity::lanes_grid;
use crate::report::chart::{ChartStyle, key, picture};
use crate::report::render::facts;
use crate::report::sections::sections;
use crate::report::text::safe_line;
use crate::report::{Report, SessionStatus};

const STYLE: &str = concat!(include_str!("page.css"), include_str!("live.css"));
const SCRIPT: &str = concat!(include_str!("page.js"), include_str!("live.js"));

/// The places of the document that parts fill, in order.
const PLACES: [&str; 8] = ["alarm", "pick", "chart", "facts", "lanes", "log", "guardians", "rest"];

/// The most lines of a log, from its end, and of a report of an escalation, from its start.
const LOG_LINES: usize = 30;
const REPORT_LINES: usize = 60;

/// A session as the page shows it.
#[derive(Debug, Clone, Copy)]
pub struct LiveSession<'a> {
    /// Its tag, or what else it is known by.
    pub name: &'a str,
    /// What is known of it.
    pub found: LivePart<'a>,
}

/// What is known of a session at a moment.
#[derive(Debug, Clone, Copy)]
pub enum LivePart<'a> {
    /// Nothing yet, or nothing any more: the reason.
    Waiting(&'a str),
    /// Its status.
    Seen {
        /// The status.
        status: &'a SessionStatus,
        /// The last lines of the log that the status names.
        log: &'a [String],
        /// The report of what the session cannot solve, if there is one.
        escalation: Option<&'a str>,
    },
}

/// The document: it holds nothing of any session, and its script fetches everything.
pub fn live_page() -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                link rel="icon" href="data:,";
                title { "ar" }
                style { (PreEscaped(STYLE)) }
            }
            body.live {
                main {
                    p #link role="status" { "connecting" }
                    div #doing aria-live="polite" {}
                    @for place in PLACES { div id=(place) {} }
                    noscript { p.missing { "This page needs JavaScript. " code { "ar report --format html" } " writes one that does not." } }
                }
                dialog #experiment aria-label="experiment" {
                    form method="dialog" { button { "close" } }
                    div {}
                }
                footer { p { "ar " (env!("CARGO_PKG_VERSION")) ", read only" } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// The policy of the document and its parts: only its own script and style run, and it talks to nobody but its own server.
pub fn live_policy() -> String {
    policy(STYLE, SCRIPT) + "; connect-src 'self'; img-src data:; frame-ancestors 'none'"
}

/// What happens now. `course` is a number that changes whenever [`live_course`] would say something else.
pub fn live_now(sessions: &[LiveSession], guardians: &[Finding], course: u64) -> String {
    let seen: Vec<(&str, &SessionStatus, &[String], Option<&str>)> = sessions
        .iter()
        .filter_map(|session| match session.found {
            LivePart::Seen { status, log, escalation } => Some((session.name, status, log, escalation)),
            LivePart::Waiting(_) => None,
        })
        .collect();
    let is_alone = sessions.len() == 1;
    let heading =
        |name: &str, what: &str| if is_alone { what.to_owned() } else { format!("{what} of {}", safe_line(name)) };
    html! {
        div data-course=(course) data-title=(title(sessions)) {
            div data-part="alarm" {
                @for (name, status, _, report) in &seen { (alarm(name, status, *report)) }
            }
            div data-part="doing" {
                @for session in sessions {
                    p {
                        b { (safe_line(session.name)) } " "
                        @match session.found {
                            LivePart::Waiting(why) => span.missing { (safe_line(why)) },
                            LivePart::Seen { status, .. } => span { (safe_line(&status.doing())) },
                        }
                    }
                }
            }
            div data-part="facts" {
                @for (name, status, ..) in &seen {
                    h2 { (heading(name, "now")) }
                    dl { @for (name, value) in now(status) { dt { (name) } dd { (safe_line(&value)) } } }
                }
            }
            div data-part="lanes" {
                @for (name, status, ..) in seen.iter().filter(|(_, status, ..)| status.lanes.is_concurrent) {
                    h2 { (heading(name, "slots and seats")) }
                    div.wide.part tabindex="0" role="region" aria-label="slots and seats" { (lanes_grid(status).to_html()) }
                }
            }
            div data-part="log" {
                @for (name, status, log, _) in seen.iter().filter(|(_, _, log, _)| !log.is_empty()) {
                    h2 { (heading(name, &log_title(status.log.as_deref()))) }
                    pre.tail tabindex="0" { (last_lines(log)) }
                }
            }
            div data-part="guardians" {
                h2 { "guardians" }
                ul { @for finding in guardians { li class=[is_bad(finding).then_some("bad")] { (safe_line(&finding.what)) } } }
            }
        }
    }
    .into_string()
}

/// What sessions found so far: chart and report of one, or several side by side. Of several `names`, the page offers to show one.
pub fn live_course(reports: &[&Report], names: &[String], clock: Clock) -> String {
    html! {
        div data-part="pick" {
            @if names.len() > 1 {
                nav aria-label="sessions" {
                    button type="button" data-session="" { "together" }
                    @for name in names { button type="button" data-session=(name) { (safe_line(name)) } }
                }
            }
        }
        @match reports {
            [] => { div data-part="chart" {} div data-part="rest" {} },
            [report] => (course(report, clock)),
            reports => (beside(reports)),
        }
    }
    .into_string()
}

/// The details of one experiment.
pub fn live_experiment(name: &str, detail: &Detail) -> String {
    html! { h2 { "experiment " (detail.id) " of session " (safe_line(name)) } div.inside { (inside(detail)) } }
        .into_string()
}

fn title(sessions: &[LiveSession]) -> String {
    let doing = |session: &LiveSession| match session.found {
        LivePart::Waiting(_) => format!("{}: waiting", session.name),
        LivePart::Seen { status, .. } => {
            let best = status.history.best_kept().map(|best| format!(" {best},")).unwrap_or_default();
            format!("{}:{best} {}", session.name, if status.owner.is_some() { "active" } else { "idle" })
        }
    };
    safe_line(&sessions.iter().map(doing).collect::<Vec<_>>().join("; "))
}

/// The facts of the status that the page does not show elsewhere, without the age of an idle session: a page of which nothing
/// changes is not sent again.
fn now(status: &SessionStatus) -> Vec<(&'static str, String)> {
    const ELSEWHERE: [&str; 5] = ["session", "doing", "metric", "baseline", "damaged"];
    let is_shown = |name: &str| !ELSEWHERE.contains(&name) && (name != "active" || status.owner.is_some());
    status.facts(&status.report()).into_iter().filter(|(name, _)| is_shown(name)).collect()
}

/// What the session cannot solve, in the words of its report.
fn alarm(name: &str, status: &SessionStatus, report: Option<&str>) -> Markup {
    html! {
        @if status.escalation.is_some() || report.is_some() {
            section.alarm role="alert" {
                h2 { "session " (safe_line(name)) " needs you" }
                @if let Some(open) = &status.escalation { p { (safe_line(&open.what)) } }
                @if let Some(report) = report {
                    details {
                        summary { "what happened, and what to type" }
                        pre tabindex="0" { (lines(report.lines().take(REPORT_LINES))) }
                    }
                }
            }
        }
        @if !status.damage.is_empty() {
            section.alarm role="alert" {
                h2 { "session " (safe_line(name)) " is damaged" }
                @for sentence in &status.damage { p { (safe_line(sentence)) } }
            }
        }
    }
}

/// The heading of a log: the folder of the run and the file.
fn log_title(log: Option<&Path>) -> String {
    let Some(log) = log else { return "log".to_owned() };
    let names: Vec<_> = log.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
    safe_line(&names.into_iter().rev().collect::<Vec<_>>().join("/"))
}

fn last_lines(log: &[String]) -> String {
    lines(log[log.len().saturating_sub(LOG_LINES)..].iter().map(String::as_str))
}

fn lines<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| shown(line) + "\n").collect()
}

fn is_bad(finding: &Finding) -> bool {
    finding.level != Severity::Ok
}

fn course(report: &Report, clock: Clock) -> Markup {
    let (about, series) = (safe_line(&report.about()), report.series());
    html! {
        div data-part="chart" {
            (course_picture(&picture(&series, &report.chart_title(), ChartStyle::Light), &key(&series)))
        }
        div data-part="rest" {
            h2 { "report" }
            p { (safe_line(&report.headline())) }
            @if !about.is_empty() { p.missing { (about) } }
            @if let Some(picture) = timeline(&report.lanes()) { (picture) }
            dl { @for (name, value) in facts(report, true, clock) { dt { (name) } dd { (safe_line(&value)) } } }
            @for part in sections(report) { (section(&part)) }
            (table(report, |_| true))
        }
    }
}

fn beside(reports: &[&Report]) -> Markup {
    html! {
        div data-part="chart" { (common_course(reports)) }
        div data-part="rest" { (side_by_side(reports)) }
    }
}
