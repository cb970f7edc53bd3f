//! The pages: a report as a document of its own, and the page of `ar serve`, which stays open and whose script fetches its parts
//! again and again.
//!
//! A part names its place in the open page by `data-part`.

use std::collections::HashSet;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use super::{details, inside, shown, table, timeline};
use crate::domain::{Clock, ExperimentId, Finding, Severity};
use crate::report::{
    ChartStyle, Detail, Report, Section, SessionStatus, facts, key, lanes_grid, overlaid, overlay, overlay_key,
    overlay_title, picture, remarks, safe_line, sections, sides_grid,
};

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
fn common_course(reports: &[&Report]) -> Markup {
    let sessions = overlaid(reports);
    course(&overlay(&sessions, &overlay_title(reports), ChartStyle::Light), &overlay_key(&sessions))
}

/// The facts of several sessions, and what their best values say of one another.
fn side_by_side(reports: &[&Report]) -> Markup {
    let said = Section { grid: Some(sides_grid(reports)), lines: remarks(reports), title: "side by side".to_owned() };
    html! { div.sides { (section(&said)) } }
}

/// The chart with its key; a narrow screen shows it first.
fn course(picture: &Markup, key: &Markup) -> Markup {
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
    let page = document(include_str!("page.html"), STYLE, SCRIPT).replace("{policy}", &policy(STYLE, SCRIPT));
    let (head, rest) = page.split_once("{title}").unwrap_or_default();
    let (between, foot) = rest.split_once("{content}").unwrap_or_default();
    format!("{head}{}{between}{}{foot}", html! { (title) }.0, content.0)
}

/// A document with this style and this script, in which the ends of lines and the blanks before them are left out.
fn document(page: &str, style: &str, script: &str) -> String {
    let page: String = page.lines().map(str::trim_start).collect();
    page.replace("{version}", env!("CARGO_PKG_VERSION")).replace("{style}", style).replace("{script}", script)
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

const LIVE_STYLE: &str = concat!(include_str!("page.css"), include_str!("live.css"));

const LIVE_SCRIPT: &str = concat!(include_str!("page.js"), include_str!("live.js"));

/// The most lines of a log, from its end, and of a report of an escalation, from its start.
const LOG_LINES: usize = 30;

const REPORT_LINES: usize = 60;

/// A session as the page shows it.
#[derive(Debug, Clone, Copy)]
pub struct LiveSession<'a> {
    /// Its tag, or what else it is known by.
    pub name: &'a str,
    /// Its state, or the reason why it is unknown.
    pub found: Result<&'a SessionSnapshot, &'a str>,
}

/// The state of a session at a moment.
#[derive(Debug)]
pub struct SessionSnapshot {
    /// The status.
    pub status: SessionStatus,
    /// The last lines of the log that the status names.
    pub log: Vec<String>,
    /// The report of what the session cannot solve, if there is one.
    pub escalation: Option<String>,
}

/// The document: it holds nothing of any session, and its script fetches everything.
pub fn live_page() -> String {
    document(include_str!("live.html"), LIVE_STYLE, LIVE_SCRIPT)
}

/// The policy of the document and its parts: only its own script and style run, and it talks to nobody but its own server.
pub fn live_policy() -> String {
    policy(LIVE_STYLE, LIVE_SCRIPT) + "; connect-src 'self'; img-src data:; frame-ancestors 'none'"
}

/// The current activity. `course` changes whenever the text of [`live_course`] would change.
pub fn live_now(sessions: &[LiveSession], guardians: &[Finding], course: u64) -> String {
    let seen = || sessions.iter().filter_map(|session| Some((session.name, session.found.ok()?)));
    let is_alone = sessions.len() == 1;
    let heading =
        |name: &str, what: &str| if is_alone { what.to_owned() } else { format!("{what} of {}", safe_line(name)) };
    html! {
        div data-course=(course) data-title=(title(sessions)) {
            div data-part="alarm" {
                @for (name, it) in seen() { (alarm(name, &it.status, it.escalation.as_deref())) }
            }
            div data-part="doing" {
                @for session in sessions {
                    p {
                        b { (safe_line(session.name)) } " "
                        @match session.found {
                            Err(why) => span.missing { (safe_line(why)) },
                            Ok(snapshot) => span { (safe_line(&snapshot.status.doing())) },
                        }
                    }
                }
            }
            div data-part="facts" {
                @for (name, it) in seen() {
                    h2 { (heading(name, "now")) }
                    dl { @for (name, value) in now(&it.status) { dt { (name) } dd { (safe_line(&value)) } } }
                }
            }
            div data-part="lanes" {
                @for (name, it) in seen().filter(|(_, it)| it.status.lanes.is_concurrent) {
                    h2 { (heading(name, "slots and seats")) }
                    div.wide.part tabindex="0" role="region" aria-label="slots and seats" { (lanes_grid(&it.status).to_html()) }
                }
            }
            div data-part="log" {
                @for (name, it) in seen().filter(|(_, it)| !it.log.is_empty()) {
                    h2 { (heading(name, &log_title(it.status.log.as_deref()))) }
                    pre.tail tabindex="0" { (last_lines(&it.log)) }
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

/// Findings so far: chart and report of one session, or several side by side. Of several `names`, the page offers to show one.
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
            [report] => (one_session(report, clock)),
            reports => (several_sessions(reports)),
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
        Err(_) => format!("{}: waiting", session.name),
        Ok(SessionSnapshot { status, .. }) => {
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

/// The session's unsolved problem, in the words of its report.
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

fn one_session(report: &Report, clock: Clock) -> Markup {
    let (about, series) = (safe_line(&report.about()), report.series());
    html! {
        div data-part="chart" {
            (course(&picture(&series, &report.chart_title(), ChartStyle::Light), &key(&series)))
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

fn several_sessions(reports: &[&Report]) -> Markup {
    html! {
        div data-part="chart" { (common_course(reports)) }
        div data-part="rest" { (side_by_side(reports)) }
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
