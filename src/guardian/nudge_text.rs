//! The text of a nudge.

use crate::domain::{Tag, exact_time};
use crate::rules::Driver;
use crate::state::Journal;

/// Writes the prompt for an agent that is to continue a session: reason, instructions, task and progress.
pub(super) fn nudge_text(tag: &Tag, why: &str, driver: Driver, task: &str, journal: &Journal) -> String {
    let what = match driver {
        Driver::Hand => format!(include_str!("nudge_hand.md"), tag = tag, why = why),
        Driver::Loop => format!(include_str!("nudge_loop.md"), tag = tag, why = why),
    };
    let progress = [
        ("iterations", journal.calls.iteration().to_string()),
        ("findings", journal.results.findings().to_string()),
        ("iterations since the last keep", journal.ladder.stale_count().to_string()),
        ("last progress", journal.results.progressed().map_or("none".into(), exact_time)),
        ("last seen", exact_time(journal.presence.last_seen())),
    ];
    let progress: String = progress.iter().map(|(name, value)| format!("- {name}: {value}\n")).collect();
    format!("{what}\n## Task\n\n{}\n\n## Progress\n\n{progress}", task.trim())
}
