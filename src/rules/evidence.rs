//! What a person should know before believing a session's numbers, and what that is judged by.

use std::path::Path;

use serde::Serialize;

use super::{Point, Spread, Summary, TimeSplit};
use crate::domain::{Direction, EnvironmentChange};

/// Something in a session or a ledger that a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Its name, for programs.
    pub kind: &'static str,
    /// What there is, a sentence with its numbers.
    pub what: String,
    /// What to type, and what that does; absent where nothing is to be typed.
    pub hint: Option<String>,
}

/// What there is to judge a session or a ledger by.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The session; absent for a ledger.
    pub tag: Option<&'a str>,
    /// The file of a ledger; absent for a session.
    pub ledger: Option<&'a Path>,
    /// The experiments.
    pub points: &'a [Point],
    /// Which way is better.
    pub direction: Direction,
    /// What they came to.
    pub summary: &'a Summary,
    /// The spread of what was measured more than once.
    pub spread: Option<&'a Spread>,
    /// What the time went into.
    pub time: Option<&'a TimeSplit>,
    /// What changed on the machine.
    pub changes: &'a [EnvironmentChange],
    /// The kept experiments during whose runs files changed that belong to their commits.
    pub changed_while_running: &'a [u32],
    /// The experiments before whose runs ignored files changed, with those files.
    pub ignored_changed: &'a [(u32, Vec<String>)],
    /// The experiments after which the session was flagged for review.
    pub flagged: &'a [u32],
    /// The commit at the tip of the branch; absent while an experiment is open.
    pub tip: Option<&'a str>,
    /// How often uncommitted work was put away.
    pub saved: usize,
    /// How many rows of a ledger cannot be read.
    pub malformed: u32,
    /// How many of the other rows have a number that cannot be read.
    pub without_number: u32,
}

/// Experiments as a sentence lists them: `3, 5 and 8`, of many the first five.
pub fn listed(ids: &[u32]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> = ids.iter().take(MOST).map(u32::to_string).collect();
    if let Some(more) = ids.len().checked_sub(MOST).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

/// The name of a session that measures again, or from now on, what `tag` measured.
pub(super) fn next_tag(tag: &str) -> String {
    format!("{tag}-again")
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::summarize;
    use super::super::summary::tests::point;
    use super::*;
    use crate::domain::Outcome;

    /// The warnings of kept and other experiments with these numbers, after `change` was made to the evidence.
    pub(in crate::rules) fn warned(
        points: &[(&str, Outcome)],
        rule: impl Fn(Evidence<'_>) -> Vec<Warning>,
        change: impl Fn(&mut Evidence<'_>),
    ) -> Vec<Warning> {
        let points: Vec<Point> = (0..)
            .zip(points)
            .map(|(id, (value, outcome))| point(id, (*value != "-").then_some(*value), *outcome))
            .collect();
        let summary = summarize(&points, Direction::Lower, Some(0), true);
        let mut evidence = Evidence {
            tag: Some("t"),
            ledger: None,
            points: &points,
            direction: Direction::Lower,
            summary: &summary,
            spread: None,
            time: None,
            changes: &[],
            changed_while_running: &[],
            ignored_changed: &[],
            flagged: &[],
            tip: None,
            saved: 0,
            malformed: 0,
            without_number: 0,
        };
        change(&mut evidence);
        rule(evidence)
    }

    #[test]
    fn many_experiments_are_counted_and_not_listed() {
        assert_eq!(listed(&[3]), "3");
        assert_eq!(listed(&[3, 5]), "3 and 5");
        assert_eq!(listed(&[1, 2, 3, 4, 5, 6, 7]), "1, 2, 3, 4, 5 and 2 more");
    }
}
