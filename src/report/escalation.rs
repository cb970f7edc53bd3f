//! The report of what a session cannot solve, `state/escalation.md`.

use std::path::Path;

use crate::domain::{Escalation, Tag, Trouble, count_of, exact_time, experiment_name, one_line, shell_word};

/// Writes the report: what happened, what was tried, what is needed, and the commands. `worktree` is where they are typed.
pub fn escalation_text(tag: &Tag, worktree: &Path, escalation: &Escalation) -> String {
    let Escalation { kind, what, needed, since, after, times, waits } = escalation;
    let meanwhile = match waits {
        true => "the session waits, looks again by itself, and continues when the cause is gone or you say something",
        false => "the session has stopped; nothing is lost",
    };
    let mut text = format!(
        "# Session {tag} needs you\n\n\
         - since: {}, after {}\n\
         - what happened: {}\n\
         - what was tried: {}{}\n\
         - what is needed: {}\n\
         - meanwhile: {meanwhile}\n\n\
         ## Commands\n\n```sh\n",
        exact_time(*since),
        experiment_name(*after),
        one_line(what),
        kind.tried(),
        if *times > 1 { format!("; tried again {}", count_of(times - 1, "time")) } else { String::new() },
        one_line(needed),
    );
    let resume = if *waits { format!("ar tell --tag {tag} \"it is solved\"") } else { format!("ar resume {tag}") };
    let look = match kind {
        Trouble::Disk => "df -h .".to_owned(),
        Trouble::Contradiction => format!("ar doctor {tag}"),
        _ => format!("ar status {tag}"),
    };
    for command in [format!("cd {}", shell_word(worktree)), look, resume] {
        text += &format!("{command}\n");
    }
    if *waits {
        text += &format!("ar stop {tag}    # stops waiting\n");
    }
    text + "```\n"
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
