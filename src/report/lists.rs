//! Messages, ideas and findings as tables.

use serde_json::{Value, json};

use super::grid::{Align, Grid, text};
use crate::domain::{FORMAT_VERSION, Finding, Idea, Message, Severity, Tag, count_of};

/// The words, a row each.
pub fn words_grid(words: &[Message]) -> Grid {
    Grid::of(
        words,
        &[
            ("#", Align::Right, &|word| word.id.to_string()),
            ("prompts", Align::Left, &|word| if word.standing { "each" } else { "the next" }.to_owned()),
            ("word", Align::Left, &|word| word.text.clone()),
        ],
    )
}

/// The ideas, a row each.
pub fn ideas_grid(ideas: &[Idea]) -> Grid {
    Grid::of(
        ideas,
        &[
            ("#", Align::Right, &|idea| idea.id.to_string()),
            ("kind", Align::Left, &|idea| idea.idea.kind.to_string()),
            ("state", Align::Left, &|idea| idea.state.to_string()),
            ("score", Align::Right, &|idea| text(idea.idea.score)),
            ("direction", Align::Left, &|idea| text(idea.idea.direction.as_ref())),
            ("by", Align::Left, &|idea| idea.by.clone()),
            ("idea", Align::Left, &|idea| idea.idea.text.clone()),
        ],
    )
}

/// The findings as a table, a row each.
pub fn findings_grid(findings: &[Finding]) -> Grid {
    Grid::of(
        findings,
        &[
            ("area", Align::Left, &|finding| finding.area.to_string()),
            ("session", Align::Left, &|finding| text(finding.session.as_ref())),
            ("level", Align::Left, &|finding| finding.level.to_string()),
            ("what", Align::Left, &|finding| finding.what.clone()),
            ("hint", Align::Left, &|finding| text(finding.hint.as_ref())),
        ],
    )
}

/// The findings for people: what is wrong with a hint below it, and at last how it stands.
pub fn findings_text(findings: &[Finding], repaired: &[String]) -> String {
    let mut text: String = repaired.iter().map(|deed| format!("repaired: {deed}\n")).collect();
    for finding in findings {
        let about = finding.session.as_ref().map(|tag| format!("{tag}: ")).unwrap_or_default();
        text +=
            &format!("{:<8} {:<10}  {about}{}\n", finding.level.to_string(), finding.area.to_string(), finding.what);
        if let Some(hint) = &finding.hint {
            text += &format!("{:21}hint: {hint}\n", "");
        }
    }
    text + &verdict(findings) + "\n"
}

/// Sums up the findings in one sentence.
fn verdict(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (damaged, errors, warnings) = (count(Severity::Damaged), count(Severity::Error), count(Severity::Warning));
    let parts: Vec<String> = [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| count_of(count, what))
        .collect();
    match (damaged, parts.is_empty()) {
        (0, true) => "no problems found".to_owned(),
        (0, false) => parts.join(", "),
        (_, true) => format!("{damaged} that you have to decide"),
        (_, false) => format!("{damaged} that you have to decide, {}", parts.join(", ")),
    }
}

/// The findings as a JSON document.
pub fn findings_json(sessions: &[Tag], findings: &[Finding], repaired: &[String], health: Severity) -> Value {
    json!({
        "version": FORMAT_VERSION,
        "sessions": sessions,
        "health": health,
        "repaired": repaired,
        "findings": findings,
    })
}
