//! The text of a nudge.

use crate::domain::{Tag, exact_time};
use crate::rules::Driver;
use crate::state::Journal;

/// What an agent is told that is to go on with a session: why, what to do, the task, and how far it came.
pub(super) fn nudge_text(tag: &Tag, why: &str, driver: Driver, task: &str, journal: &Journal) -> String {
    let what = match driver {
        Driver::Hand => format!(
            "You drive session {tag} of `ar` ({why}). Nobody will answer a question: decide yourself, and log why.\n\n\
             Continue now. `ar brief {tag}` prints what to know for the next experiment. Change the files, then measure the \
             change with `ar try --tag {tag} -m \"what it changes\" --direction NAME`; `ar try --continue` waits for a run \
             that is still going. Continue until the task is done or a limit is reached, then run `ar stop {tag}`. Update the \
             state as you go: name the direction of each change, and report findings with `--proposal`."
        ),
        Driver::Loop => format!(
            "The loop of session {tag} of `ar` is active ({why}). Nobody will answer a question.\n\n\
             Find and remove what blocks it: run `ar status {tag}`, `ar log {tag}` and `ar doctor {tag}`, and read the logs in \
             $AR_STATE_DIR/../logs. Start no second loop and no experiment: the loop continues and updates its state. Pass on what \
             you find with `ar idea add`."
        ),
    };
    let progress = [
        ("iterations", journal.calls.iteration().to_string()),
        ("findings", journal.results.findings().to_string()),
        ("iterations since the last keep", journal.ladder.stale_count().to_string()),
        ("last progress", journal.results.progressed().map_or("none".into(), exact_time)),
        ("last seen", exact_time(journal.presence.last_seen())),
    ];
    let progress: String = progress.iter().map(|(name, value)| format!("- {name}: {value}\n")).collect();
    format!("{what}\n\n## Task\n\n{}\n\n## Progress\n\n{progress}", task.trim())
}
