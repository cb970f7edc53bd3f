//! The warnings of a report, each with a command to type; the evidence for them; those about everything beside the values.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::domain::{
    CommitId, Direction, EnvironmentChange, ExperimentId, Layout, Outcome, Record, ReviewVerdict, Spent, count_of, cut,
    experiment_name, shell_word,
};
use crate::rules::{
    DriftCheck, HiddenBook, OtherBaseline, Point, Spread, Summary, TimeSplit, crashes, doubted_numbers,
    environment_changes, ignored_changes, jumps, never_repeated, outages, refusals, waiting_for_the_agent,
    within_spread, without_wall,
};

/// All warnings, those about values first.
pub fn warnings(evidence: Evidence<'_>) -> Vec<Warning> {
    let mut found: Vec<Warning> = direction_doubted(evidence).into_iter().collect();
    let numbers = |tag| doubted_numbers(tag, evidence.points, evidence.records, evidence.facts);
    found.extend(evidence.tag.map(numbers).unwrap_or_default());
    found.extend(within_spread(evidence));
    found.extend(never_repeated(evidence));
    found.extend(jumps(evidence));
    found.extend(drifted(evidence));
    found.extend(environment_changed(evidence));
    found.extend(changed_while_running(evidence));
    found.extend(tainted(evidence));
    found.extend(partial(evidence));
    found.extend(of_parts(evidence));
    found.extend(without_wall(evidence));
    found.extend(ignored_changed(evidence));
    found.extend(doubted_by_the_reviewer(evidence));
    found.extend(unreviewed(evidence));
    found.extend(crashes(evidence));
    found.extend(refusals(evidence));
    found.extend(waiting_for_the_agent(evidence));
    found.extend(outages(evidence));
    found.extend(flagged(evidence));
    found.extend(best_is_not_the_tip(evidence));
    found.extend(saved(evidence));
    found.extend(unreadable(evidence));
    found
}

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
    pub elsewhere: Vec<OtherBaseline>,
    /// The reruns of its best experiments, in order.
    pub checks: Vec<DriftCheck>,
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
    /// The runs and verdicts of its hidden split, for a person.
    pub hidden: Arc<HiddenBook>,
    /// True if the values of its fresh runs are kept from agents.
    pub seals_runs: bool,
}

impl SessionFacts {
    /// The command that compares its experiments by fresh runs.
    pub fn verify_command(&self) -> &'static str {
        if self.seals_runs { "ar verify --holdout" } else { "ar verify" }
    }
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
    /// Further facts of a session.
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

/// The most changes of the environment named.
const CHANGES: usize = 3;

/// Numbers of the same code that shifted within the session, by the last rerun that showed it.
pub(crate) fn drifted(evidence: Evidence<'_>) -> Option<Warning> {
    let (last, drift) = evidence.facts.checks.iter().rev().find_map(|check| Some((check, check.drift?)))?;
    Some(Warning {
        kind: "drift",
        what: format!("{}: numbers before and after are not comparable", drift.sentence(last.id, evidence.metric)),
        hint: evidence.tag.map(|tag| {
            let verify = evidence.facts.verify_command();
            format!("run `{verify} --tag {tag}` to compare by fresh runs, one beside the other")
        }),
    })
}

/// A change of machine, GPU, driver, tool or lock file within the session.
pub(crate) fn environment_changed(evidence: Evidence<'_>) -> Option<Warning> {
    let changes = environment_changes(evidence.records);
    let name = |change: &EnvironmentChange| format!("{change} from experiment {} on", change.experiment);
    let mut named: Vec<String> = changes.iter().take(CHANGES).map(name).collect();
    if let Some(more) = changes.len().checked_sub(CHANGES).filter(|more| *more > 0) {
        named.push(format!("{more} more"));
    }
    (!named.is_empty()).then(|| Warning {
        kind: "environment_changed",
        what: format!("{}: numbers before and after are not comparable", named.join(", ")),
        hint: evidence
            .tag
            .map(|tag| format!("`ar run --tag {}`, with its other terms, measures a new baseline here", next_tag(tag))),
    })
}

/// Keeps whose values may come from other code than their commits.
pub(crate) fn changed_while_running(evidence: Evidence<'_>) -> Option<Warning> {
    let ids = evidence.ids(|it| it.outcome == Outcome::Keep && !it.conditions.changed_while_running.is_empty());
    let last = ids.last()?;
    Some(Warning {
        kind: "changed_while_running",
        what: format!(
            "files changed while kept experiments ran, so their numbers may belong to other code: {}",
            listed(&ids)
        ),
        hint: evidence.tag.map(|tag| format!("run `ar show {last} --tag {tag}` to see which files")),
    })
}

/// Runs that do not count because another process was on the GPU.
pub(crate) fn tainted(evidence: Evidence<'_>) -> Option<Warning> {
    let runs: u32 = evidence.records.iter().map(Record::tainted_runs).sum();
    let were = if runs == 1 { "was" } else { "were" };
    (runs > 0).then(|| Warning {
        kind: "tainted_runs",
        what: format!(
            "{} {were} repeated or given up because another process was on the GPU",
            count_of(u64::from(runs), "run")
        ),
        hint: Some("run `nvidia-smi` to see who is there; `--gpus` gives a session GPUs of its own".into()),
    })
}

/// Values of runs that reached their deadline or crashed.
pub(crate) fn partial(evidence: Evidence<'_>) -> Option<Warning> {
    let ids = evidence.ids(Record::is_partial);
    let last = ids.last()?;
    Some(Warning {
        kind: "partial",
        what: format!("partial numbers, of runs that did not finish: {}", listed(&ids)),
        hint: evidence.tag.map(|tag| format!("run `ar show {last} --tag {tag}` to see how its run ended")),
    })
}

/// Values of one part or process of a run, where the log has none of all of them.
pub(crate) fn of_parts(evidence: Evidence<'_>) -> Option<Warning> {
    let part = evidence.records.iter().rev().find_map(Record::part)?;
    let ids = evidence.ids(|record| record.part() == Some(part));
    Some(Warning {
        kind: "of_parts",
        what: format!("a number may be that of a part ({}): {}", part.text(), listed(&ids)),
        hint: Some(format!("print one for the whole run as `mean {}: …`, or pass --metric-regex", evidence.metric)),
    })
}

/// Values that files outside the commits may have changed.
pub(crate) fn ignored_changed(evidence: Evidence<'_>) -> Option<Warning> {
    let changes = ignored_changes(evidence.records);
    let (last, files) = changes.last()?;
    let ids: Vec<ExperimentId> = changes.iter().map(|(id, _)| *id).collect();
    Some(Warning {
        kind: "ignored_files_changed",
        what: format!(
            "ignored files changed before the runs of {}, and no commit has them: {} (experiment {last})",
            listed(&ids),
            cut(&files.join(", "), 200)
        ),
        hint: Some("pass --protect FILE to pin an input, or track it with git".into()),
    })
}

/// Keeps whose number an independent reviewer doubts.
pub(crate) fn doubted_by_the_reviewer(evidence: Evidence<'_>) -> Option<Warning> {
    let reviews = evidence.records.iter().filter_map(|record| Some((record.id, record.open_review()?.verdict)));
    let doubted: Vec<_> = reviews.filter(|(_, verdict)| *verdict != ReviewVerdict::Unreviewed).collect();
    let (first, _) = doubted.first()?;
    let name =
        |(id, verdict): &(ExperimentId, ReviewVerdict)| format!("{id} ({})", verdict.to_string().replace('_', " "));
    let names: Vec<String> = doubted.iter().map(name).collect();
    Some(Warning {
        kind: "doubted_by_the_reviewer",
        what: format!("the reviewer doubts what was kept: {}", listed_names(names)),
        hint: evidence.tag.map(|tag| format!("run `ar show {first} --tag {tag}` to see why")),
    })
}

/// Keeps that no reviewer has judged, in a session that has one, or had.
pub(crate) fn unreviewed(evidence: Evidence<'_>) -> Option<Warning> {
    let ids = evidence.ids(|record| record.open_review().is_some() && record.is_unreviewed());
    let have = if ids.len() == 1 { "has" } else { "have" };
    (!ids.is_empty()).then(|| Warning {
        kind: "unreviewed",
        what: format!("{} {have} no review: {}", count_of(ids.len(), "keep"), listed(&ids)),
        hint: evidence.tag.map(|tag| match evidence.facts.has_reviewer {
            true => format!("run `ar review --tag {tag}` to have them reviewed"),
            false => format!("run `ar resume {tag} --reviewer COMMAND` to have them reviewed"),
        }),
    })
}

/// A session flagged for review.
pub(crate) fn flagged(evidence: Evidence<'_>) -> Option<Warning> {
    let last = evidence.facts.flagged.last()?;
    let times = match evidence.facts.flagged.len() {
        1 => String::new(),
        times => format!("{}, last ", count_of(times, "time")),
    };
    Some(Warning {
        kind: "flagged",
        what: format!("flagged for review {times}after {}: no recent keeps", experiment_name(*last)),
        hint: Some("give the agent something new to try with `ar idea add TEXT`".into()),
    })
}

/// A branch whose tip is not the last keep, or not the best experiment where a comparison decides.
pub(crate) fn best_is_not_the_tip(evidence: Evidence<'_>) -> Option<Warning> {
    let (tag, tip) = (evidence.tag?, evidence.facts.tip.as_ref()?.as_str());
    let (best, last) =
        (&evidence.points[evidence.summary.best?], &evidence.points[evidence.summary.kept.last()?.index]);
    let is_at = |point: &Point| point.commit.as_deref() == Some(tip);
    let kind = "best_is_not_the_tip";
    if !is_at(last) {
        return Some(Warning {
            kind,
            what: format!("the branch is at {}, which is not {}", cut(tip, 8), experiment_name(last.id)),
            hint: Some(format!("run `ar doctor {tag}` for the fix")),
        });
    }
    (!evidence.has_threshold && !is_at(best)).then(|| Warning {
        kind,
        what: format!(
            "the branch is at {}, which was kept without being better; the best is {}",
            experiment_name(last.id),
            experiment_name(best.id)
        ),
        hint: Some(format!("run `ar show {} --tag {tag}` for the commit and diff of the best one", best.id)),
    })
}

/// Work that `ar` saved.
pub(crate) fn saved(evidence: Evidence<'_>) -> Option<Warning> {
    let tag = evidence.tag?;
    (evidence.facts.saved > 0).then(|| Warning {
        kind: "saved",
        what: format!("saved unfinished or uncommitted work {}", count_of(evidence.facts.saved, "time")),
        hint: Some(format!("list it with `git for-each-ref refs/autoresearch/{tag}/saved`")),
    })
}

/// A ledger whose keeps get worse over time, or whose best keep is worse than its first row: the assumed direction may
/// be wrong.
pub(crate) fn direction_doubted(evidence: Evidence<'_>) -> Option<Warning> {
    let gains: Vec<f64> = evidence.summary.kept.iter().filter_map(|step| step.gain).collect();
    let worse = gains.iter().filter(|gain| **gain < 0.0).count();
    let better = gains.iter().filter(|gain| **gain > 0.0).count();
    let (said, other) = match evidence.direction {
        Direction::Lower => ("less", "--higher"),
        Direction::Higher => ("more", "--lower"),
    };
    let what = if worse > better {
        let (of, are) = if gains.len() == 1 {
            ("the one keep".to_owned(), "is")
        } else {
            (format!("{worse} of {}", count_of(gains.len(), "keep")), if worse == 1 { "is" } else { "are" })
        };
        format!("{of} {are} worse than the one before, if {said} is better")
    } else if evidence.summary.gain.is_some_and(|gain| gain < 0.0) {
        format!("the best keep is worse than the first row, if {said} is better")
    } else {
        return None;
    };
    evidence.tag.is_none().then(|| Warning {
        kind: "direction_doubted",
        what,
        hint: Some(format!("`{other}` added to the command reads it the other way")),
    })
}

/// Ledger rows or values that cannot be read.
pub(crate) fn unreadable(evidence: Evidence<'_>) -> Option<Warning> {
    let parts = [
        (evidence.malformed, "row", "is left out", "are left out"),
        (evidence.without_number, "number", "counts as none", "count as none"),
    ];
    let told: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, one, more)| {
            format!("{} cannot be read and {}", count_of(*count, what), if *count == 1 { one } else { more })
        })
        .collect();
    let name = |file| format!("run `ar report --ledger {} -v` to see the lines and their problems", shell_word(file));
    (!told.is_empty()).then(|| Warning { kind: "malformed", what: told.join("; "), hint: evidence.ledger.map(name) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::evidence_tests::warned;
    use super::{warnings, *};
    use crate::domain::Outcome::{Discard, Keep};
    use crate::domain::{CommitId, Outcome};
    use crate::rules::report::SessionFacts;
    use crate::rules::sample::{record, run};

    #[test]
    fn a_short_and_even_session_gives_no_warning() {
        let points = [("2.0", Keep), ("1.9", Keep), ("-", Outcome::Crash), ("2.5", Discard)];
        assert_eq!(warned(&points, warnings, |_| ()), []);
    }

    #[test]
    fn what_stands_beside_the_numbers_is_said_once_each() {
        let environment = |gpu: &str| json!({"host": "box", "gpu": gpu, "driver": null, "lockfile": null});
        let run = |fields: Value| {
            let mut run = run(1.0, Some(1.0));
            run.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            [run]
        };
        let review = |verdict: &str| json!({"verdict": verdict, "why": "", "seconds": 1.0});
        let records = [
            json!({"value": "1", "environment": environment("A100"), "runs": run(json!({"part": "split"}))}),
            json!({"id": 1, "environment": environment("A100"), "changed_while_running": ["a"], "review": review("unclear")}),
            json!({"id": 2, "value": "1", "environment": environment("H100"), "review": review("unreviewed"),
                "runs": run(json!({"part": "split", "tainted": 3}))}),
            json!({"id": 3, "environment": environment("H100"), "review": review("not_earned")}),
            json!({"id": 4, "value": "1", "environment": environment("H100"), "runs": run(json!({"partial": true}))}),
        ]
        .map(record);
        let facts = SessionFacts {
            flagged: [5, 9].map(ExperimentId::from).into(),
            saved: 2,
            tip: Some(CommitId::new("0123456789")),
            ..SessionFacts::default()
        };
        let evidence = |evidence: Evidence<'_>| {
            warnings(Evidence { records: &records, facts: &facts, malformed: 1, without_number: 2, ..evidence })
        };
        let said: Vec<_> = warned(&[("2", Keep), ("1", Keep)], evidence, |_| ());
        let said: Vec<_> = said.iter().map(|warning| warning.what.as_str()).collect();
        assert_eq!(
            said,
            [
                "gpu A100 → H100 from experiment 2 on: numbers before and after are not comparable",
                "files changed while kept experiments ran, so their numbers may belong to other code: 1",
                "3 runs were repeated or given up because another process was on the GPU",
                "partial numbers, of runs that did not finish: 4",
                "a number may be that of a part (the last of several folds, seeds, classes or tasks, of which the log has no \
                 mean): 0 and 2",
                "the reviewer doubts what was kept: 1 (unclear) and 3 (not earned)",
                "1 keep has no review: 2",
                "flagged for review 2 times, last after experiment 9: no recent keeps",
                "the branch is at 01234567…, which is not experiment 1",
                "saved unfinished or uncommitted work 2 times",
                "1 row cannot be read and is left out; 2 numbers cannot be read and count as none",
            ]
        );
    }

    #[test]
    fn keeps_that_get_worse_cast_doubt_on_the_direction_of_a_ledger() {
        let doubts = |tag: Option<&'static str>, points: &[_]| {
            let rule = |evidence: Evidence<'_>| direction_doubted(Evidence { tag, ..evidence }).into_iter().collect();
            warned(points, rule, |_| ()).pop().map(|warning| warning.what)
        };
        let worse = [("1", Keep), ("2", Keep), ("5", Discard), ("3", Keep), ("2.5", Keep)];
        assert_eq!(
            doubts(None, &worse).as_deref(),
            Some("2 of 3 keeps are worse than the one before, if less is better")
        );
        assert_eq!(doubts(Some("t"), &worse), None, "simplifications; a session knows its direction");
        assert_eq!(doubts(None, &worse[1..]), None, "as many are better");
        let said = |points: &[_]| doubts(None, points).unwrap_or_default();
        assert_eq!(said(&worse[..2]), "the one keep is worse than the one before, if less is better");
        let first = [("1", Discard), ("2", Keep)];
        assert_eq!(said(&first), "the best keep is worse than the first row, if less is better");
    }
}

#[cfg(test)]
pub(crate) mod evidence_tests {
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
