//! Reports to the user: `state/escalation.md`, of what a session cannot solve; `state/flagged.md`; checkpoints.

use std::path::Path;

use jiff::Timestamp;

use super::{Format, Glyphs, Report, SessionStatus, fact, render_report};
use crate::domain::{
    Clock, Escalation, ExperimentId, Idea, IdeaState, Tag, ToldStep, TriedDirection, Trouble, count_of, cut,
    exact_time, experiment_name, one_line, shell_word, two_digits,
};
use crate::rules::{History, by_rank, directions_tried};

/// The most directions that the report of a flag lists.
const TRIED: usize = 30;

/// Writes the report: what happened, what was tried, what is needed, and the commands. `worktree` is where they are typed.
pub fn escalation_text(tag: &Tag, worktree: &Path, escalation: &Escalation) -> String {
    let Escalation { kind, what, needed, since, after, times, waits } = escalation;
    let meanwhile = match waits {
        true => "the session waits, looks again by itself, and continues when the cause is gone or you say something",
        false => "the session has stopped; nothing is lost",
    };
    let look = match kind {
        Trouble::Disk => "df -h .".to_owned(),
        Trouble::Contradiction => format!("ar doctor {tag}"),
        _ => format!("ar status {tag}"),
    };
    let on = match waits {
        true => format!("ar tell --tag {tag} \"it is solved\"\nar stop {tag}    # stops waiting"),
        false => format!("ar resume {tag}"),
    };
    format!(
        include_str!("escalation.md"),
        tag = tag,
        since = exact_time(*since),
        after = experiment_name(*after),
        what = one_line(what),
        tried = kind.tried(),
        again = if *times > 1 { format!("; tried again {}", count_of(times - 1, "time")) } else { String::new() },
        needed = one_line(needed),
        meanwhile = meanwhile,
        worktree = shell_word(worktree),
        look = look,
        on = on
    )
}

/// Writes the report of a flag: how far the session came, what was tried, and the commands. `tried` are the directions, newest
/// first, and `told` the instructions to the agent since the last keep.
pub fn flag_text(
    tag: &Tag,
    worktree: &Path,
    (why, now): (&str, Timestamp),
    history: &History,
    told: &[ToldStep],
) -> String {
    let best = history
        .best()
        .map_or_else(|| "no number".to_owned(), |(id, number)| format!("{number:#}, {}", experiment_name(id)));
    let mut text = format!(
        "# Session {tag} is flagged for review\n\n\
         - since: {}, after {}\n\
         - what happened: {why}\n\
         - experiments since the last keep: {}\n\
         - best: {best}\n\
         - what is needed: look at what was tried, and name another direction, or stop the session\n\
         - meanwhile: the session continues in another direction, or stops with --stop-when-flagged\n",
        exact_time(now),
        experiment_name(history.records().last().map_or(ExperimentId::BASELINE, |record| record.id)),
        history.since_keep(),
    );
    let tried = directions_tried(history.records());
    if !tried.is_empty() {
        text += "\n## Directions tried, newest first\n\n";
    }
    for TriedDirection { direction, experiments, kept, best, .. } in tried.iter().take(TRIED) {
        let best = best.as_ref().map_or_else(|| "no number".to_owned(), |best| format!("best {best:#}"));
        text += &format!("- {}: {}, {kept} kept, {best}\n", one_line(direction), count_of(*experiments, "experiment"));
    }
    if !told.is_empty() {
        text += "\n## Instructions to the agent since the last keep\n\n";
    }
    for ToldStep { after, directive } in told {
        text += &format!("- after {}: {directive}\n", experiment_name(*after));
    }
    text + &format!(
        "\n## Commands\n\n```sh\ncd {}\nar report {tag}\nar idea add \"try this\"\nar tell --tag {tag} \"look elsewhere\"\nar stop {tag}\n```\n",
        shell_word(worktree)
    )
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_happened_what_was_tried_what_is_needed_and_what_to_type() {
        let escalation = Escalation {
            kind: Trouble::Disk,
            what: "the disk is too full\nfor an experiment".into(),
            needed: "free disk space".into(),
            since: "2026-11-20T22:00:00Z".parse().unwrap(),
            after: 3.into(),
            times: 2,
            waits: true,
        };
        let text = |escalation: &Escalation| escalation_text(&"t".parse().unwrap(), Path::new("/w"), escalation);
        insta::assert_snapshot!(text(&escalation), @r#"
        # Session t needs you

        - since: 2026-11-20T22:00:00.000Z, after experiment 3
        - what happened: the disk is too full for an experiment
        - what was tried: logs of runs were compressed and dropped as far as --keep-logs allows; tried again 1 time
        - what is needed: free disk space
        - meanwhile: the session waits, looks again by itself, and continues when the cause is gone or you say something

        ## Commands

        ```sh
        cd /w
        df -h .
        ar tell --tag t "it is solved"
        ar stop t    # stops waiting
        ```
        "#);
        assert!(text(&Escalation { waits: false, ..escalation }).contains("\nar resume t\n```\n"));
    }
}
