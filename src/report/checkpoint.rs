//! A checkpoint of a session: open work, then the report.

use jiff::Timestamp;

use super::analysis::Report;
use super::chart::Glyphs;
use super::grid::Format;
use super::render::{fact, render_report};
use super::session_status::SessionStatus;
use crate::domain::{Clock, Idea, IdeaState, cut, exact_time, two_digits};
use crate::rules::by_rank;

/// The most ideas to list, and the most characters of each.
const IDEAS: usize = 20;
const IDEA: usize = 200;

/// A session at one moment as Markdown: what it is doing, the kept ratio, the ideas that nobody tried, and the report.
pub fn checkpoint_text(report: &Report, status: &SessionStatus, ideas: &[Idea], at: Timestamp) -> String {
    let mut text = format!("# Checkpoint of {} at {}\n\n", status.tag, exact_time(at));
    text += &fact(true, "doing", &status.doing());
    if let Some(ratio) = status.kept_ratio_sentence(report) {
        text += &fact(true, "kept ratio", &ratio);
    }
    if let Some(budget) = status.budget() {
        text += &fact(true, "budget", &budget);
    }
    for open in status.attempts.iter().filter(|open| !open.description.is_empty()) {
        text += &fact(true, &format!("experiment {}", open.id), &open.description);
    }
    let mut open: Vec<&Idea> = ideas.iter().filter(|idea| idea.state == IdeaState::Open).collect();
    open.sort_by(|one, other| by_rank(one, other));
    text += &fact(true, "ideas not tried", &open.len().to_string());
    for idea in open.iter().take(IDEAS) {
        let score = idea.idea.score.map(|score| format!(", score {}", two_digits(score))).unwrap_or_default();
        text += &fact(true, &format!("idea {}{score}", idea.id), &cut(&idea.idea.text, IDEA));
    }
    text + "\n" + &render_report(report, Format::Md, None, Glyphs::Ascii, Clock::Fixed(at))
}
