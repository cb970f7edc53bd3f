//! Warnings about values: the same digits, controls that moved, chance, large jumps, walls and wasted time.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Evidence, KeptStep, Point, SessionFacts, Summary, Warning, listed, next_tag, summarize};
use crate::domain::{
    Contract, Direction, ExperimentId, FailureClass, Outcome, Record, WallKind, count_of, duration_text, percent_text,
    span_text, two_digits,
};
use crate::rules::decide::{
    Sample, fresh_runs, kept_uncontrolled, mean, moved_in_a_row, samples, session_noise, verified,
};
use crate::rules::history::{CountedOutcome, History, RunningMedian};

/// The measured experiments in a row with the digits of the baseline from which it is doubtful that the code is run. A coarse
/// metric often gives the same number, but seldom so many times.
const SAME: usize = 6;

/// The controls in a row that moved from which it is doubtful that the metric can be compared at all.
const MOVED: usize = 3;

/// The distance of the baseline's runs, relative to their mean, from which the gains of single changes drown in the noise.
const NOISY: f64 = 0.1;

/// The doubts about the numbers of session `tag`: those of `points` are the baseline's, though the command starts its program; the
/// last gains did not stand, as their controls moved; the controls of keeps gave no number; or all are too noisy.
pub fn doubted_numbers(tag: &str, points: &[Point], records: &[Record], facts: &SessionFacts) -> Vec<Warning> {
    let doubts = [
        too_noisy(tag, records),
        controls_moved(tag, &moved_in_a_row(records)),
        controls_failed(tag, facts.verify_command(), &kept_uncontrolled(records)),
        same_digits(tag, points, facts.program.as_deref()),
    ];
    doubts.into_iter().flatten().collect()
}

/// Warns of a metric whose runs of the baseline lie far apart.
pub fn too_noisy(tag: &str, records: &[Record]) -> Option<Warning> {
    let baseline = records.first().filter(|record| record.id.is_baseline())?;
    let values: Vec<f64> = fresh_runs(baseline).iter().map(|run| run.value).collect();
    let [low, high] = [f64::min, f64::max].map(|of| values.iter().copied().reduce(of));
    let apart = (high? - low?) / mean(values.iter().copied())?.abs();
    (apart.is_finite() && apart > NOISY).then(|| Warning {
        kind: "too_noisy",
        what: format!(
            "{} is too noisy: the baseline's {} differ by {}",
            baseline.metric.name,
            count_of(values.len() as u32, "run"),
            percent_text(apart)
        ),
        hint: Some(format!(
            "let the command average over more data or several trainings, then run `ar run --tag {}` with its other terms",
            next_tag(tag)
        )),
    })
}

/// Warns of recorded values that fresh runs of the same commits do not reproduce.
pub fn unreproduced(tag: &str, history: &History) -> Option<Warning> {
    let mut fresh: BTreeMap<ExperimentId, Vec<Sample>> = BTreeMap::new();
    for pair in history.verified() {
        for (id, values) in [(&pair.a, &pair.values_a), (&pair.b, &pair.values_b)] {
            if let Some(id) = id.own() {
                fresh.entry(id).or_default().extend(samples(values));
            }
        }
    }
    let noise = session_noise(history)?;
    let differs = |(id, fresh): (&ExperimentId, &Vec<Sample>)| {
        let record = history.get(*id)?;
        let (recorded, direction) = (record.metric.number()?, record.metric.direction);
        let found = verified(direction, &fresh_runs(record), fresh, Some(&noise))?;
        let mean = mean(fresh.iter().map(|run| run.value))?;
        let decimals = recorded.decimals().clamp(1, 12);
        let runs = count_of(fresh.len() as u32, "fresh run");
        let text = format!("experiment {id} was recorded with {recorded:#}, and {runs} gave {mean:.decimals$}");
        (found.low > 0.0 || found.high < 0.0).then_some((*id, text))
    };
    let (ids, texts): (Vec<ExperimentId>, Vec<String>) = fresh.iter().filter_map(differs).unzip();
    Some(Warning {
        kind: "unreproduced",
        what: format!("fresh runs do not reproduce what was recorded: {}", texts.join("; ")),
        hint: Some(format!("trust the fresh runs; `ar repro {} --tag {tag}` repeats the recorded one", ids.first()?)),
    })
}

fn controls_failed(tag: &str, verify: &str, uncontrolled: &[ExperimentId]) -> Option<Warning> {
    let last = uncontrolled.last()?;
    Some(Warning {
        kind: "controls_failed",
        what: format!("kept although the control gave no number: {}", listed(uncontrolled)),
        hint: Some(format!("run `{verify} {last} --tag {tag}` to compare it by fresh runs")),
    })
}

fn controls_moved(tag: &str, moved: &[ExperimentId]) -> Option<Warning> {
    let last = moved.last().filter(|_| moved.len() >= MOVED)?;
    Some(Warning {
        kind: "controls_moved",
        what: format!(
            "{} gains in a row did not stand, because what they had beaten gave another number when it ran again: {}",
            moved.len(),
            listed(moved)
        ),
        hint: Some(format!(
            "run `ar show {last} --tag {tag}` for the numbers; look for state that runs leave behind, and for other load"
        )),
    })
}

fn same_digits(tag: &str, points: &[Point], program: Option<&str>) -> Option<Warning> {
    let (baseline, others) = points.split_first().filter(|(first, _)| first.id.is_baseline())?;
    let digits = &baseline.value.as_ref()?.raw;
    let measured = others.iter().rev().filter(|point| point.value.is_some() || point.outcome != Some(Outcome::Crash));
    let same = measured.take_while(|point| point.value.as_ref().is_some_and(|number| number.raw == *digits));
    let count = same.count();
    let last = others.iter().rfind(|point| point.value.is_some()).filter(|_| count >= SAME)?;
    let starts = program.map(|program| format!(" The command starts {program}.")).unwrap_or_default();
    Some(Warning {
        kind: "same_digits",
        what: format!(
            "the last {count} measured changes gave the digits of the baseline, {digits}: is your code run?{starts}"
        ),
        hint: Some(format!(
            "run `ar show {} --tag {tag}` for the last change, and check that the command runs this code, no installed copy \
             and no other tree",
            last.id
        )),
    })
}

/// The total run time, in seconds, from which a missing repeat is worth a warning: an hour. In a shorter session it is
/// obvious, and short runs are often exact.
const WORTH_REPEATING: f64 = 3600.0;

/// Keeps of one run whose gain is within the spread of the same code.
pub(crate) fn within_spread(evidence: Evidence<'_>) -> Option<Warning> {
    let limit = evidence.spread?.limit;
    let gains = gains(evidence);
    let is_confirmed = |id: ExperimentId| evidence.points.iter().any(|point| point.id == id && point.is_confirmed);
    let is_small = |(id, gain): &&(ExperimentId, f64)| *gain <= limit && !is_confirmed(*id);
    let small: Vec<ExperimentId> = gains.iter().filter(is_small).map(|(id, _)| *id).collect();
    if small.is_empty() || limit == 0.0 {
        return None;
    }
    let by = two_digits(limit);
    let all = gains.len() as u32;
    Some(Warning {
        kind: "within_spread",
        what: format!(
            "{} of {} gained no more than the spread of {by}: {}",
            small.len(),
            count_of(all, "keep"),
            listed(&small)
        ),
        hint: evidence.tag.map(|tag| {
            format!(
                "`ar run --tag {} --min-delta {by}`, with its other terms, keeps only what gains more",
                next_tag(tag)
            )
        }),
    })
}

/// A session without any repeated measurement to judge chance.
pub(crate) fn never_repeated(evidence: Evidence<'_>) -> Option<Warning> {
    let tag = evidence.tag?;
    let is_long = evidence.time.is_some_and(|time| time.runs >= WORTH_REPEATING);
    if evidence.spread.is_some() || !is_long || gains(evidence).is_empty() {
        return None;
    }
    Some(Warning {
        kind: "never_repeated",
        what: "no experiment was measured twice, so chance cannot be ruled out".into(),
        hint: evidence.summary.kept.last().map(|newest| how_to_repeat(tag, evidence.points[newest.index].id)),
    })
}

/// The commands that measure an experiment again: at once, and to learn the spread of session `tag`.
pub fn how_to_repeat(tag: &str, id: ExperimentId) -> String {
    format!(
        "rerun it with `ar repro {id} --tag {tag}` to see how far apart the numbers are; to tell the report, \
         measure the newest keep again with `ar run --tag {} --max-experiments 0` and the session's other settings",
        next_tag(tag)
    )
}

/// The gain of each keep over the one before, with its experiment number.
fn gains(evidence: Evidence<'_>) -> Vec<(ExperimentId, f64)> {
    let steps = evidence.summary.kept.iter();
    steps.filter_map(|KeptStep { index, gain, .. }| Some((evidence.points[*index].id, (*gain)?))).collect()
}

/// The ratio to the median gain of earlier keeps from which a gain is suspicious. Own judgement: the first steps are
/// often the largest, later ones differ by small factors, and a cheated metric changes by an order of magnitude.
const JUMP: f64 = 10.0;

/// The number of earlier gains that a meaningful median needs.
const USUAL: usize = 2;

/// The share of the value to beat from which a gain is suspicious where lower is better. Own judgement: a loss falls by
/// percents, and one that is cheated falls to nothing.
const SHARE: f64 = 0.5;

/// The keeps whose gain is doubtful, each with a clause that says why.
fn doubtful(points: &[Point], summary: &Summary, direction: Direction) -> Vec<(ExperimentId, String)> {
    let mut before = RunningMedian::default();
    let mut found = Vec::new();
    for step in &summary.kept {
        let Some(gain) = step.gain_of_each().filter(|gain| *gain > 0.0) else { continue };
        let usual = before.get().filter(|_| before.count() >= USUAL);
        let times = usual.map(|usual| gain / usual).filter(|times| *times > JUMP);
        let why = match times {
            Some(times) => Some(format!("{} times the median of the keeps before it", two_digits(times))),
            None => falls_by_half(points, step, direction),
        };
        found.extend(why.map(|why| (points[step.index].id, why)));
        before.add(gain);
    }
    found
}

/// Returns the reason to doubt a step that takes more than half of the value to beat, where lower is better.
fn falls_by_half(points: &[Point], step: &KeptStep, direction: Direction) -> Option<String> {
    let beaten = points[step.over?].value.as_ref()?;
    let is_half = step.gain? > SHARE * beaten.value.abs() && beaten.value != 0.0;
    (direction == Direction::Lower && is_half).then(|| format!("more than half of {beaten}, the value to beat"))
}

/// Warns of keeps with doubtful gains.
pub(crate) fn jumps(evidence: Evidence<'_>) -> Vec<Warning> {
    let warning = |(id, why): (ExperimentId, String)| Warning {
        kind: "jump",
        what: format!("experiment {id} gained {why}"),
        hint: Some(match evidence.tag {
            Some(tag) => {
                format!("read its diff with `ar show {id} --tag {tag}`: does it still measure the same thing?")
            }
            None => "read its diff: does it still measure the same thing?".into(),
        }),
    };
    // With a threshold, there is no value to beat.
    let found = match evidence.has_threshold {
        true => Vec::new(),
        false => doubtful(evidence.points, evidence.summary, evidence.direction),
    };
    found.into_iter().map(warning).collect()
}

/// The reason to doubt the gain of a recorded experiment, as a clause. `None` if there is no doubt, if there was no
/// value to beat, or if a threshold decides.
pub fn doubtful_gain(contract: &Contract, history: &History, id: ExperimentId) -> Option<String> {
    let direction = contract.metric.direction;
    if contract.keep_above.is_some() || history.get(id).is_none_or(|record| record.outcome != Outcome::Keep) {
        return None;
    }
    let points: Vec<Point> = history
        .records()
        .iter()
        .map(|record| Point {
            id: record.id,
            value: history.number_to_beat(record),
            outcome: record.verdict(),
            ..Point::default()
        })
        .collect();
    let baseline = points.iter().position(|point| point.id.is_baseline());
    let summary = summarize(&points, direction, baseline, true);
    let found = doubtful(&points, &summary, direction).into_iter().find(|(doubted, _)| *doubted == id);
    found.map(|(_, why)| format!("gained {why}"))
}

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
    many(evidence, CountedOutcome::Crash, "crashes", "experiments crashed", CountedOutcome::is_judged)
}

/// Many refused proposals, with their main class.
pub(crate) fn refusals(evidence: Evidence<'_>) -> Option<Warning> {
    many(evidence, CountedOutcome::Refused, "refusals", "experiments were refused without a run", |ended| {
        ended != CountedOutcome::Other
    })
}

/// A large share of experiments with the `wanted` outcome, among those that `count`, with their main class.
fn many(
    evidence: Evidence<'_>,
    wanted: CountedOutcome,
    kind: &'static str,
    words: &str,
    count: impl Fn(CountedOutcome) -> bool,
) -> Option<Warning> {
    let after_baseline = || evidence.points.iter().skip(1).map(Point::ended);
    let judged = after_baseline().filter(|ended| count(*ended)).count();
    let found = after_baseline().filter(|ended| *ended == wanted).count();
    if judged < ENOUGH || (found as f64) < CRASHES * judged as f64 {
        return None;
    }
    let failures = evidence.summary.failures.iter();
    let main = failures
        .filter(|(class, _)| class.is_refusal() == (wanted == CountedOutcome::Refused))
        .max_by_key(|(_, count)| **count);
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

/// The numbers of a session by the wall around their runs, as far as the records have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WallCounts {
    /// Those measured behind bubblewrap.
    pub bwrap: u32,
    /// Those measured without a wall.
    pub none: u32,
}

impl WallCounts {
    /// Counts them; `None` where no record of a number has its wall.
    pub fn of(records: &[Record]) -> Option<WallCounts> {
        let mut counts = WallCounts::default();
        for wall in
            records.iter().filter(|record| record.metric.value.is_some()).filter_map(|record| record.proof.sandbox)
        {
            match wall {
                WallKind::Bwrap => counts.bwrap += 1,
                WallKind::None => counts.none += 1,
            }
        }
        (counts != WallCounts::default()).then_some(counts)
    }
}

/// Numbers that were measured without a wall in a session that has others. Where all of them were, that is how the user has it.
pub(crate) fn without_wall(evidence: Evidence<'_>) -> Option<Warning> {
    let WallCounts { bwrap, none } =
        WallCounts::of(evidence.records).filter(|walls| walls.none > 0 && walls.bwrap > 0)?;
    let were = if none == 1 { "was" } else { "were" };
    Some(Warning {
        kind: "without_wall",
        what: format!(
            "{none} of {} {were} measured without a wall: nothing kept the run from writing to the evaluator or to \
             other runs' files",
            count_of(bwrap + none, "number")
        ),
        hint: evidence.tag.map(|tag| format!("run `ar resume {tag} --sandbox require` to measure behind a wall only")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::summary::{Point, TimeSplit};
    use super::super::warnings::evidence_tests::warned;
    use super::*;
    use crate::domain::Outcome;
    use crate::domain::Outcome::{Crash, Discard, Keep};
    use crate::rules::history::Spread;
    use crate::rules::report::summary::tests::point;
    use crate::rules::sample::record;

    fn said(values: &[&str], program: Option<&str>) -> Option<Warning> {
        let point = |(id, value): (u32, &&str)| match *value {
            "-" => point(id, None, Crash),
            value => point(id, Some(value), if id == 0 { Keep } else { Discard }),
        };
        let points: Vec<Point> = (0..).zip(values).map(point).collect();
        let program = program.map(str::to_owned);
        doubted_numbers("t", &points, &[], &SessionFacts { program, ..SessionFacts::default() }).pop()
    }

    #[test]
    fn six_changes_with_the_digits_of_the_baseline_are_a_doubt_until_another_number_comes() {
        let six = ["1.50"; 7];
        let warning = said(&six, Some("/usr/bin/bench")).unwrap();
        assert_eq!(
            warning.what,
            "the last 6 measured changes gave the digits of the baseline, 1.50: is your code run? The command starts \
             /usr/bin/bench."
        );
        assert!(warning.hint.unwrap().starts_with("run `ar show 6 --tag t` for the last change"));
        assert_eq!(said(&six[..6], None), None, "five");
        let with_crash = ["1.50", "1.50", "-", "1.50", "1.50", "1.50", "1.50", "1.50", "-"];
        assert!(said(&with_crash, None).unwrap().hint.unwrap().contains("ar show 7 "), "a crash tells nothing");
        assert_eq!(said(&[&six[..], &["1.5"]].concat(), None), None, "other digits");
    }

    #[test]
    fn three_controls_in_a_row_that_moved_are_a_doubt() {
        let doubts = |moved: &[u32]| {
            let moved: Vec<ExperimentId> = moved.iter().copied().map(ExperimentId::from).collect();
            controls_moved("t", &moved).map(|warning| warning.what)
        };
        assert_eq!(doubts(&[1, 4]), None);
        assert_eq!(
            doubts(&[1, 4, 5]).as_deref(),
            Some(
                "3 gains in a row did not stand, because what they had beaten gave another number when it ran again: 1, 4 and 5"
            )
        );
    }

    #[test]
    fn a_keep_whose_control_gave_no_number_is_a_doubt() {
        let doubt = controls_failed("t", "ar verify", &[4.into()]).unwrap();
        assert_eq!(doubt.what, "kept although the control gave no number: 4");
        assert!(doubt.hint.unwrap().starts_with("run `ar verify 4 --tag t`"));
    }

    const KEEPS: [(&str, Outcome); 6] =
        [("9.0", Keep), ("8.5", Keep), ("8.0", Keep), ("7.5", Keep), ("7.0", Keep), ("0.5", Keep)];

    #[test]
    fn keeps_within_the_spread_are_counted() {
        let spread = |limit| Spread { repeated: Vec::new(), deviation: limit / 2.8, limit };
        let said = |limit| {
            let rule = |evidence: Evidence<'_>| within_spread(Evidence { spread: Some(&spread(limit)), ..evidence });
            warned(&KEEPS, |evidence| rule(evidence).into_iter().collect(), |_| ()).pop().map(|warning| warning.what)
        };
        assert_eq!(said(0.25), None);
        assert_eq!(said(0.0), None, "exact");
        assert_eq!(said(0.5).as_deref(), Some("4 of 5 keeps gained no more than the spread of 0.50: 1, 2, 3 and 4"));
    }

    #[test]
    fn what_fresh_runs_confirmed_is_no_chance() {
        let spread = Spread { repeated: Vec::new(), deviation: 1.0, limit: 2.8 };
        let warned = |is_confirmed: bool| {
            let confirm =
                |points: &mut Vec<Point>| points.iter_mut().for_each(|point| point.is_confirmed = is_confirmed);
            let rule = |evidence: Evidence<'_>| {
                let mut points = evidence.points.to_vec();
                confirm(&mut points);
                within_spread(Evidence { spread: Some(&spread), points: &points, ..evidence }).into_iter().collect()
            };
            warned(&KEEPS, rule, |_| ()).len()
        };
        assert_eq!([warned(false), warned(true)], [1, 0]);
    }

    #[test]
    fn a_long_session_should_measure_something_twice() {
        let time = |runs| TimeSplit {
            total: runs,
            runs,
            agent: 0.0,
            guards: 0.0,
            outages: 0.0,
            nobody: 0.0,
            rest: 0.0,
            limit_met: None,
        };
        let kinds = |runs, points: &[_]| {
            let rule = |evidence: Evidence<'_>| never_repeated(Evidence { time: Some(&time(runs)), ..evidence });
            warned(points, |evidence| rule(evidence).into_iter().collect(), |_| ()).len()
        };
        assert_eq!([kinds(3600.0, &KEEPS), kinds(3599.0, &KEEPS), kinds(3600.0, &KEEPS[..1])], [1, 0, 0]);
    }

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

    #[test]
    fn numbers_count_by_their_wall_and_those_of_earlier_versions_do_not() {
        let number = |wall| record(json!({"value": "1.0", "sandbox": wall}));
        let crash = record(json!({"outcome": "crash", "sandbox": "none"}));
        let former = record(json!({"value": "1.0"}));
        assert_eq!(WallCounts::of(&[former.clone(), crash.clone()]), None);
        let records = [number("bwrap"), former, number("none"), crash, number("bwrap")];
        assert_eq!(WallCounts::of(&records), Some(WallCounts { bwrap: 2, none: 1 }));
    }

    #[test]
    fn numbers_without_a_wall_are_counted_in_a_warning() {
        let counts = |bwrap, none| {
            let number = |wall| record(json!({"value": "1.0", "sandbox": wall}));
            let records = [vec![number("bwrap"); bwrap], vec![number("none"); none]].concat();
            let rule = |it: Evidence<'_>| without_wall(Evidence { records: &records, ..it }).into_iter().collect();
            warned(&[("2", Keep)], rule, |_| ()).pop()
        };
        assert_eq!(counts(0, 0), None);
        assert_eq!(counts(3, 0), None);
        let found = counts(7, 3).unwrap();
        let why = "nothing kept the run from writing to the evaluator or to other runs' files";
        assert_eq!(found.what, format!("3 of 10 numbers were measured without a wall: {why}"));
        assert_eq!(found.hint.as_deref(), Some("run `ar resume t --sandbox require` to measure behind a wall only"));
        assert!(counts(1, 1).unwrap().what.starts_with("1 of 2 numbers was measured"));
        assert_eq!(counts(0, 3), None);
    }
}

#[cfg(test)]
mod jumps_tests {
    use super::super::warnings::evidence_tests::warned;
    use super::*;
    use crate::domain::Outcome::{Discard, Keep};

    fn said(points: &[(&str, Outcome)], direction: Direction) -> Vec<String> {
        let rule = |evidence: Evidence<'_>| {
            let summary = summarize(evidence.points, direction, Some(0), true);
            jumps(Evidence { summary: &summary, direction, ..evidence })
        };
        warned(points, rule, |_| ()).into_iter().map(|warning| warning.what).collect()
    }

    #[test]
    fn the_third_keep_is_the_first_that_is_compared_with_the_others() {
        let third = [("90", Keep), ("89", Keep), ("88", Keep), ("77", Keep), ("76.5", Keep)];
        assert_eq!(said(&third, Direction::Lower), ["experiment 3 gained 11 times the median of the keeps before it"]);
        assert!(said(&[("90", Keep), ("89", Keep), ("77", Keep)], Direction::Lower).is_empty(), "the second");
        let ten = [("90", Keep), ("89", Keep), ("95", Discard), ("88", Keep), ("78", Keep)];
        assert!(said(&ten, Direction::Lower).is_empty(), "not more than ten times");
        let higher = [("1", Keep), ("2", Keep), ("3", Keep), ("40", Keep)];
        assert_eq!(
            said(&higher, Direction::Higher),
            ["experiment 3 gained 37 times the median of the keeps before it"]
        );
        let train = [("1", Keep), ("2", Keep), ("3", Keep), ("-", Keep), ("22", Keep)];
        assert!(said(&train, Direction::Higher).is_empty(), "a train of two gains more than one");
    }

    #[test]
    fn a_loss_that_falls_by_more_than_half_is_doubtful_at_once() {
        let said = |points: &[(&str, Outcome)]| said(points, Direction::Lower);
        let half = "experiment 1 gained more than half of 2.000, the value to beat";
        assert_eq!(said(&[("2.000", Keep), ("0.001", Keep)]), [half]);
        assert!(said(&[("2.000", Keep), ("1.000", Keep)]).is_empty());
        assert_eq!(said(&[("-2.0", Keep), ("-3.5", Keep)]).len(), 1, "a logarithm");
        assert!(said(&[("0.0", Keep), ("-3.5", Keep)]).is_empty());
        assert!(jumps_tests::said(&[("1.0", Keep), ("2.0", Keep)], Direction::Higher).is_empty());
    }
}
