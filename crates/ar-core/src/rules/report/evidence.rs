//! Facts that you should know before believing a session's numbers, and the evidence for them.

use std::path::Path;

use serde::Serialize;

use super::summary::{Point, Summary};
use super::time_split::TimeSplit;
use super::wall_counts::WallCounts;
use crate::domain::{Direction, EnvironmentChange, ExperimentId, PartOf, ReviewVerdict};
use crate::rules::decide::Check;
use crate::rules::history::Spread;

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

/// The evidence about a session or a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The session; absent for a ledger.
    pub tag: Option<&'a str>,
    /// The file of a ledger; absent for a session.
    pub ledger: Option<&'a Path>,
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
    /// The reruns of the best experiments, in order.
    pub checks: &'a [Check],
    /// The last experiments in a row whose controls moved.
    pub moved: &'a [ExperimentId],
    /// The keeps whose controls gave no number.
    pub uncontrolled: &'a [ExperimentId],
    /// The program that the command starts, where that is known.
    pub program: Option<&'a str>,
    /// The changes of the environment.
    pub changes: &'a [EnvironmentChange],
    /// The keeps during whose runs committed files changed.
    pub changed_while_running: &'a [ExperimentId],
    /// The number of runs during which another process was on the GPU.
    pub tainted_runs: u32,
    /// The numbers by the wall around their runs, where the records have it.
    pub walls: Option<WallCounts>,
    /// The experiments before whose runs ignored files changed, with those files.
    pub ignored_changed: &'a [(ExperimentId, Vec<String>)],
    /// The keeps that a reviewer doubts, or has not reviewed.
    pub reviews: &'a [(ExperimentId, ReviewVerdict)],
    /// True if the session has a reviewer now.
    pub has_reviewer: bool,
    /// The experiments with numbers of runs that did not finish.
    pub partial: &'a [ExperimentId],
    /// Those with numbers that are not of whole runs.
    pub of_parts: &'a [(ExperimentId, PartOf)],
    /// The experiments after which the session was flagged for review.
    pub flagged: &'a [ExperimentId],
    /// The commit at the tip of the branch; absent while an experiment is open.
    pub tip: Option<&'a str>,
    /// The number of times that `ar` saved uncommitted work.
    pub saved: usize,
    /// The number of ledger rows that cannot be read.
    pub malformed: u32,
    /// The number of other rows with an unreadable value.
    pub without_number: u32,
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
        let summary = summarize(&points, Direction::Lower, Some(0), true);
        let mut evidence = Evidence {
            tag: Some("t"),
            ledger: None,
            points: &points,
            metric: "loss",
            direction: Direction::Lower,
            has_threshold: false,
            summary: &summary,
            spread: None,
            time: None,
            checks: &[],
            moved: &[],
            uncontrolled: &[],
            program: None,
            changes: &[],
            changed_while_running: &[],
            tainted_runs: 0,
            walls: None,
            ignored_changed: &[],
            reviews: &[],
            has_reviewer: false,
            partial: &[],
            of_parts: &[],
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
        let listed = |ids: &[u32]| listed(&ids.iter().copied().map(ExperimentId::from).collect::<Vec<_>>());
        assert_eq!(listed(&[3]), "3");
        assert_eq!(listed(&[3, 5]), "3 and 5");
        assert_eq!(listed(&[1, 2, 3, 4, 5, 6, 7]), "1, 2, 3, 4, 5 and 2 more");
    }
}
