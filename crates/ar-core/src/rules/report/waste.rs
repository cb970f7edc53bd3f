//! Warnings about wasted time.

use super::evidence::{Evidence, Warning};
use super::summary::Point;
use crate::domain::{ExperimentId, FailureClass, duration_text, percent_text, span_text};
use crate::rules::history::Ended;

/// The share of waiting time that is worth a warning: a tenth, an hour of a night. Own judgement.
const WAITING: f64 = 0.1;

/// The share of crashes that is worth a warning, among at least [`ENOUGH`] experiments: three of ten. Own judgement:
/// bold changes fail now and then, but a loop that loses a third of its runs has a fixable cause.
const CRASHES: f64 = 0.3;

/// The fewest experiments for a meaningful share.
const ENOUGH: usize = 5;

/// Time spent in agent calls.
pub(crate) fn waiting_for_the_agent(evidence: Evidence<'_>) -> Option<Warning> {
    let time = evidence.time?;
    let share = time.agent / time.total;
    (share >= WAITING).then(|| Warning {
        kind: "waiting_for_agent",
        what: format!("{} of the time was waiting for the agent ({})", percent_text(share), span_text(time.agent)),
        hint: evidence.tag.map(|tag| match time.limit_met {
            Some(limit) => format!(
                "shorten the longest calls with `ar resume {tag} --agent-timeout {}`; a faster model helps more",
                duration_text(limit / 2)
            ),
            None => format!("use a faster model: `ar resume {tag} --agent COMMAND`"),
        }),
    })
}

/// Time in which the agent was unavailable.
pub(crate) fn outages(evidence: Evidence<'_>) -> Option<Warning> {
    let time = evidence.time?;
    let share = time.outages / time.total;
    (share >= WAITING).then(|| Warning {
        kind: "outages",
        what: format!(
            "{} of the time limits or failures kept the agent from working ({})",
            percent_text(share),
            span_text(time.outages)
        ),
        hint: evidence.tag.map(|tag| format!("continue with another agent: ar resume {tag} --agent COMMAND")),
    })
}

/// Many crashes, with their main class.
pub(crate) fn crashes(evidence: Evidence<'_>) -> Option<Warning> {
    many(evidence, Ended::Crash, "crashes", "experiments crashed", Ended::is_judged)
}

/// Many refused proposals, with their main class.
pub(crate) fn refusals(evidence: Evidence<'_>) -> Option<Warning> {
    many(evidence, Ended::Refused, "refusals", "experiments were refused without a run", |ended| ended != Ended::Other)
}

/// A large share of experiments with the `wanted` outcome, among those that `count`, with their main class.
fn many(
    evidence: Evidence<'_>,
    wanted: Ended,
    kind: &'static str,
    words: &str,
    count: impl Fn(Ended) -> bool,
) -> Option<Warning> {
    let after_baseline = || evidence.points.iter().skip(1).map(Point::ended);
    let judged = after_baseline().filter(|ended| count(*ended)).count();
    let found = after_baseline().filter(|ended| *ended == wanted).count();
    if judged < ENOUGH || (found as f64) < CRASHES * judged as f64 {
        return None;
    }
    let failures = evidence.summary.failures.iter();
    let main =
        failures.filter(|(class, _)| class.is_refusal() == (wanted == Ended::Refused)).max_by_key(|(_, count)| **count);
    let class = main.map(|(class, count)| format!(", {count} of them with {class}")).unwrap_or_default();
    let hint = main.zip(evidence.tag).map(|((class, _), tag)| {
        let example =
            evidence.summary.examples.get(class).map_or(ExperimentId::BASELINE, |index| evidence.points[*index].id);
        hint(*class, tag, example)
    });
    Some(Warning { kind, what: format!("{found} of {judged} {words}{class}"), hint })
}

/// The command that helps with most failures of a class; `example` is the newest of them.
fn hint(class: FailureClass, tag: &str, example: ExperimentId) -> String {
    match class {
        FailureClass::Timeout => format!("give each run more time with `ar resume {tag} --timeout 1h`"),
        FailureClass::Scope | FailureClass::Protected | FailureClass::TooLarge => {
            format!("say in program.md what may be changed; `ar show {example} --tag {tag}` shows the newest refusal")
        }
        FailureClass::Duplicate | FailureClass::Repeated => {
            "give the agent something untried with `ar idea add TEXT`".into()
        }
        _ => format!("see the end of the newest log with `ar show {example} --tag {tag}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::tests::warned;
    use super::super::time_split::TimeSplit;
    use super::*;
    use crate::domain::Outcome::{Crash, Discard, Keep};

    #[test]
    fn a_tenth_of_the_time_is_worth_a_word() {
        let time = |agent, outages| TimeSplit {
            total: 36_000.0,
            runs: 0.0,
            agent,
            guards: 0.0,
            outages,
            nobody: 0.0,
            rest: 0.0,
            limit_met: None,
        };
        let said = |agent, out| {
            let time = time(agent, out);
            let rule = |evidence: Evidence<'_>| {
                let evidence = Evidence { time: Some(&time), ..evidence };
                waiting_for_the_agent(evidence).into_iter().chain(outages(evidence)).collect()
            };
            warned(&[("1", Keep)], rule, |_| ()).into_iter().map(|warning| warning.what).collect::<Vec<_>>()
        };
        assert!(said(3599.0, 3599.0).is_empty());
        assert_eq!(said(4320.0, 0.0), ["12% of the time was waiting for the agent (72 min)"]);
        assert_eq!(said(0.0, 18_000.0), ["50% of the time limits or failures kept the agent from working (5 h)"]);
    }

    #[test]
    fn many_crashes_are_named_with_their_main_class() {
        let what = |points: &[_]| {
            warned(points, |evidence| crashes(evidence).into_iter().collect(), |_| ()).pop().map(|warning| warning.what)
        };
        let points = [("2", Keep), ("-", Crash), ("-", Crash), ("3", Discard), ("3", Discard), ("3", Discard)];
        assert_eq!(what(&points).as_deref(), Some("2 of 5 experiments crashed, 2 of them with oom"));
        assert_eq!(what(&points[..5]), None, "of four");
        assert_eq!(what(&[&points[..2], &points[3..], &points[4..]].concat()), None, "one of six");
    }
}
