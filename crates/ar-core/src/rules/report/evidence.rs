//! Facts that you should know before believing a session's numbers, and the evidence for them.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::summary::{Point, Summary};
use super::time_split::TimeSplit;
use crate::domain::{CommitId, Direction, ExperimentId, Layout, Record, Spent};
use crate::rules::decide::Check;
use crate::rules::history::{Elsewhere, Spread};

/// A warning about a session or a ledger on which the user can act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Its name, for programs.
    pub kind: &'static str,
    /// The problem, in a sentence with values.
    pub what: String,
    /// The command to type and its effect, if there is one.
    pub hint: Option<String>,
}

/// Facts about a session that are not in its records.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    /// The name of the repository's folder.
    pub repository: Option<String>,
    /// The experiments after which it was flagged for review.
    pub flagged: Vec<ExperimentId>,
    /// The reason why its last loop ended.
    pub ended: Option<String>,
    /// The time limit of a call of its agent.
    pub agent_timeout: Option<Duration>,
    /// The files that each of its experiments changed, in the order of the records.
    pub changed: Vec<Vec<String>>,
    /// Measurements of its commits by other sessions.
    pub elsewhere: Vec<Elsewhere>,
    /// The reruns of its best experiments, in order.
    pub checks: Vec<Check>,
    /// The program that its command starts, where that is known.
    pub program: Option<String>,
    /// The commit at the tip of its branch; absent while an experiment is open.
    pub tip: Option<CommitId>,
    /// The usage of all agent calls, if known.
    pub spent: Spent,
    /// The current layout of slots and seats; absent *in place*.
    pub layout: Option<Layout>,
    /// True if it has a reviewer now.
    pub has_reviewer: bool,
    /// The number of times that `ar` saved uncommitted or unfinished work.
    pub saved: usize,
}

/// The evidence about a session or a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The session; absent for a ledger.
    pub tag: Option<&'a str>,
    /// The file of a ledger; absent for a session.
    pub ledger: Option<&'a Path>,
    /// The records of a session; empty for a ledger.
    pub records: &'a [Record],
    /// What else is known of a session.
    pub facts: &'a SessionFacts,
    /// The experiments.
    pub points: &'a [Point],
    /// The metric's name.
    pub metric: &'a str,
    /// The metric's direction.
    pub direction: Direction,
    /// True if a threshold decides what to keep, whatever the best value is.
    pub has_threshold: bool,
    /// Their summary.
    pub summary: &'a Summary,
    /// The spread of repeated measurements.
    pub spread: Option<&'a Spread>,
    /// The use of the time.
    pub time: Option<&'a TimeSplit>,
    /// The number of ledger rows that cannot be read.
    pub malformed: u32,
    /// The number of other rows with an unreadable value.
    pub without_number: u32,
}

impl Evidence<'_> {
    /// The experiments of which a rule holds.
    pub(crate) fn ids(&self, rule: impl Fn(&Record) -> bool) -> Vec<ExperimentId> {
        self.records.iter().filter(|record| rule(record)).map(|record| record.id).collect()
    }
}

/// Lists experiments in a sentence: `3, 5 and 8`, at most five of them.
pub fn listed(ids: &[ExperimentId]) -> String {
    listed_names(ids.iter().map(ToString::to_string).collect())
}

/// Does the same with their names.
pub(crate) fn listed_names(mut names: Vec<String>) -> String {
    const MOST: usize = 5;
    if let Some(more) = names.len().checked_sub(MOST).filter(|more| *more > 0) {
        names.truncate(MOST);
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

/// The name of a session that repeats or continues the measurements of `tag`.
pub(crate) fn next_tag(tag: &str) -> String {
    format!("{tag}-again")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::summary::summarize;
    use super::super::summary::tests::point;
    use super::*;
    use crate::domain::Outcome;

    /// The warnings of a rule for experiments with these values, after `change` modified the evidence.
    pub(in crate::rules) fn warned(
        points: &[(&str, Outcome)],
        rule: impl Fn(Evidence<'_>) -> Vec<Warning>,
        change: impl Fn(&mut Evidence<'_>),
    ) -> Vec<Warning> {
        let points: Vec<Point> = (0..)
            .zip(points)
            .map(|(id, (value, outcome))| point(id, (*value != "-").then_some(*value), *outcome))
            .collect();
        let facts = SessionFacts::default();
        let summary = summarize(&points, Direction::Lower, Some(0), true);
        let mut evidence = Evidence {
            tag: Some("t"),
            ledger: None,
            records: &[],
            facts: &facts,
            points: &points,
            metric: "loss",
            direction: Direction::Lower,
            has_threshold: false,
            summary: &summary,
            spread: None,
            time: None,
            malformed: 0,
            without_number: 0,
        };
        change(&mut evidence);
        rule(evidence)
    }

    #[test]
    fn many_experiments_are_counted_and_not_listed() {
        let listed = |ids: &[u32]| listed(&ids.iter().copied().map(ExperimentId::from).collect::<Vec<_>>());
        assert_eq!(listed(&[3]), "3");
        assert_eq!(listed(&[3, 5]), "3 and 5");
        assert_eq!(listed(&[1, 2, 3, 4, 5, 6, 7]), "1, 2, 3, 4, 5 and 2 more");
    }
}
