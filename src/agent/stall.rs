//! The prompt's text about a call without progress.

use std::time::Duration;

use crate::domain::{LastCall, count_of, cut, duration_text};

/// The most characters of a question shown.
const QUESTION: usize = 160;

/// The last calls in words, if they stalled or were cut short. `idle_calls` is how many in a row changed no file.
pub(super) fn last_call_text(idle_calls: u32, last: &LastCall) -> String {
    let if_changed = |words: &'static str| if idle_calls == 0 { words } else { "" };
    let mut text = String::new();
    if let Some(seconds) = last.ended_after {
        let cap = duration_text(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        text += &format!("\nThe last call was terminated after {cap}, the time limit for a call. ");
        text += if_changed("What it had changed by then was measured. ");
        text += "Make a change that you can finish in time.\n";
    }
    if let Some(why) = &last.ended_for {
        text += &format!("\nThe last call was terminated: {why}. ");
        text += if_changed("What it had changed by then was measured. ");
        text += "Make a smaller change, and start nothing that waits.\n";
    }
    if let Some(question) = &last.question {
        text += &format!("\nThe last call asked: \"{}\" ", cut(question, QUESTION));
        text += if_changed("Its change was measured all the same. ");
        text += "Nobody will answer: decide yourself and log why.\n";
    }
    if last.commits > 0 {
        let commits = count_of(last.commits, "commit");
        text += &format!(
            "\nThe last call made {commits}. They counted as one change: make one change, and do not commit.\n"
        );
    }
    if last.reset {
        text += "\nThe last call committed its change and reset it. The change was measured all the same: edit only, \
            and leave \
                 both to `ar`.\n";
    }
    if last.unnamed {
        text += "\nThe last change named no direction although a new one was required. Name the direction of this one: one \
                 or two words for the strategy, as \"direction\" in your proposal or with `ar try --direction NAME`.\n";
    }
    if last.rows > 0 {
        let rows = count_of(last.rows, "row");
        text += &format!("\nThe last call wrote into the ledger. `ar` removed {rows}: it writes every row itself.\n");
    }
    if let Some(error) = &last.proposal_error {
        text += &format!(
            "\nThe proposal of the last call was ignored: {}. Write one JSON object to the file named by \
                `$AR_PROPOSAL`; \
             escape quotes and line breaks within its texts.\n",
            cut(error, QUESTION)
        );
    }
    if idle_calls > 0 {
        let calls = if idle_calls == 1 { "call".into() } else { count_of(idle_calls, "call") };
        text +=
            &format!("\nThe last {calls} changed no file. Nobody will answer a question: decide yourself and edit.\n");
    }
    text
}
