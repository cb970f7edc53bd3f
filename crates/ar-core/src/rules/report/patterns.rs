//! The results of experiments by what they have in common: file, direction, expectation.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::domain::{Direction, ExperimentId, Layout, Number, Record};
use crate::rules::{
    CountedOutcome, HiddenBook, HiddenVerdict, KeptStep, RunOf, direction_key, distinct_runs, gpu_hours, run_seconds,
};

/// The results of the experiments that changed a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FileResult {
    /// Its path in the repository.
    pub file: String,
    /// Its results. An experiment that changed several files counts whole for each of them: nothing says which change helped.
    #[serde(flatten)]
    pub tally: Tally,
}

/// An agent's expectation of an experiment, and the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// The experiment.
    pub id: ExperimentId,
    /// Why it should work, in the agent's words.
    pub hypothesis: Option<String>,
    /// The expectation, in the agent's words.
    pub expected: Option<String>,
    /// Its outcome.
    #[serde(serialize_with = "as_word")]
    pub outcome: CountedOutcome,
    /// The value; absent without a valid one.
    pub value: Option<f64>,
    /// Its gain over the experiment that it had to beat; positive is better.
    pub gain: Option<f64>,
    /// Its gain over the expected value; positive is better. Absent unless a number was expected and nothing else.
    pub over_expected: Option<f64>,
}

fn as_word<S: serde::Serializer>(ended: &CountedOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(<&str>::from(ended))
}

/// Patterns in a session's experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Patterns {
    /// The results by changed file, the largest gain first.
    pub files: Vec<FileResult>,
    /// The results by direction, the largest gain first; empty if no experiment names one.
    pub directions: Vec<DirectionResult>,
    /// The expectations, in the order of recording.
    pub hypotheses: Vec<Expectation>,
    /// The results of the second looks; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_looks: Option<Tally>,
    /// The verdicts of the hidden split; absent without any, and for agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenTally>,
}

/// The verdicts of a hidden split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HiddenTally {
    /// All verdicts, in their order.
    pub verdicts: Vec<HiddenVerdict>,
    /// The number of verdicts on kept changes.
    pub kept: usize,
    /// The sum of their visible gains, in the metric's unit.
    pub visible: f64,
    /// The sum of their hidden gains.
    pub hidden: f64,
    /// The doubts about the split, a sentence each.
    pub doubts: Vec<String>,
    /// True if agents could read the split, as the user accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unsealed: bool,
}

impl HiddenTally {
    /// Sums up the verdicts of a session; `None` without any.
    pub fn of(book: &HiddenBook, records: &[Record], is_unsealed: bool) -> Option<HiddenTally> {
        let (verdicts, kept) = (book.verdicts().to_vec(), book.of_kept(records));
        let sum = |gain: fn(&HiddenVerdict) -> Option<f64>| kept.iter().filter_map(|(_, it)| gain(it)).sum::<f64>();
        let (visible, hidden) = (sum(|verdict| verdict.visible), sum(|verdict| verdict.hidden));
        let (kept, doubts) = (kept.len(), book.doubts());
        (!verdicts.is_empty()).then_some(HiddenTally { verdicts, kept, visible, hidden, doubts, is_unsealed })
    }
}

/// Sums up the second looks, of which `kept` are the steps of the summary.
pub fn of_second_looks(records: &[Record], kept: &[KeptStep], layout: Option<&Layout>) -> Option<Tally> {
    let groups: Vec<Vec<usize>> = records.iter().map(|record| vec![0; usize::from(record.is_second_look())]).collect();
    tally(records, &groups, 1, kept, layout).pop().filter(|found| found.tried > 0)
}

/// Sums up experiments by the files that they changed, the largest gain first. `files` are those of each record, and `kept` the
/// steps of the summary, by the places of `records`. A file that only refused changes touched is none of them: they never ran.
pub fn by_file(
    records: &[Record],
    files: &[Vec<String>],
    kept: &[KeptStep],
    layout: Option<&Layout>,
) -> Vec<FileResult> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for files in files {
        let of_record = files.iter().map(|file| {
            let next = places.len();
            *places.entry(file).or_insert(next)
        });
        groups.push(of_record.collect());
    }
    let tallies = tally(records, &groups, places.len(), kept, layout);
    let mut found: Vec<FileResult> = places
        .iter()
        .map(|(file, place)| FileResult { file: (*file).to_owned(), tally: tallies[*place].clone() })
        .collect();
    found.retain(|file| file.tally.tried > 0);
    let gain = |file: &FileResult| file.tally.gain.unwrap_or(0.0);
    // Stable, so that files of equal rank stay in the order of their names.
    found.sort_by(|one, other| gain(other).total_cmp(&gain(one)).then(other.tally.tried.cmp(&one.tally.tried)));
    found
}

/// Compares what the agents expected with what came, of each experiment that ran and for which they said something. `rivals` are
/// the places of the experiments that each had to beat.
pub fn expectations(records: &[Record], rivals: &[Option<usize>], direction: Direction) -> Vec<Expectation> {
    let found = records.iter().enumerate().filter_map(|(place, record)| {
        let (hypothesis, expected) = (record.hypothesis(), record.expected());
        let outcome = CountedOutcome::of_record(record);
        if !outcome.is_judged() || record.id.is_baseline() || hypothesis.is_none() && expected.is_none() {
            return None;
        }
        let value = record.metric.value.filter(|_| outcome != CountedOutcome::Crash);
        let gain_over = |other: Option<f64>| Some(direction.gain(value?, other?));
        let rival = rivals.get(place).copied().flatten().and_then(|rival| records[rival].metric.value);
        let named = expected.as_deref().map(str::trim).and_then(Number::value_of);
        Some(Expectation {
            id: record.id,
            outcome,
            value,
            gain: gain_over(rival),
            over_expected: gain_over(named),
            hypothesis,
            expected,
        })
    });
    found.collect()
}

/// The results of the experiments in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DirectionResult {
    /// The name, as it was last written; absent for experiments without a direction.
    pub direction: Option<String>,
    /// Its results.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Sums up experiments by direction, the largest gain first. `kept` are the steps of their summary, by the places of
/// `records`; the baseline belongs to no direction. Empty where no experiment that ran names one.
pub fn by_direction(records: &[Record], kept: &[KeptStep], layout: Option<&Layout>) -> Vec<DirectionResult> {
    let mut names: Vec<Option<String>> = Vec::new();
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for record in records {
        if record.id.is_baseline() {
            groups.push(Vec::new());
            continue;
        }
        let place = *places.entry(record.direction.as_deref().map(direction_key)).or_insert_with(|| {
            names.push(record.direction.clone());
            names.len() - 1
        });
        if CountedOutcome::of_record(record).is_judged() {
            names[place].clone_from(&record.direction);
        }
        groups.push(vec![place]);
    }
    let tallies = tally(records, &groups, names.len(), kept, layout);
    let found = names.into_iter().zip(tallies).map(|(direction, tally)| DirectionResult { direction, tally });
    // A change that never ran says nothing of its direction.
    let mut found: Vec<DirectionResult> = found.filter(|found| found.tally.tried > 0).collect();
    if found.iter().all(|found| found.direction.is_none()) {
        return Vec::new();
    }
    let gain = |found: &DirectionResult| found.tally.gain.unwrap_or(0.0);
    found.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    found
}

/// Attempts without a keep after which something counts as never helping. Own judgement: one or two failures are chance.
const TRIED_ENOUGH: u32 = 3;

/// The results of some experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tally {
    /// The number of changes that ran; crashes are among them, refused ones are not.
    pub tried: u32,
    /// The number of keeps.
    pub kept: u32,
    /// The number of changes that were refused and never run.
    pub refused: u32,
    /// The total gain of the keeps, in the metric's unit; absent if no gain is known. Each change of a train has an
    /// equal share of the train's gain.
    pub gain: Option<f64>,
    /// The GPU-hours of the runs, those of crashes among them: the seconds of each run times its GPUs, divided by 3600. Hours of
    /// runs where there is no GPU. A train's run counts once, with its last change.
    pub gpu_hours: f64,
    /// The gain divided by these hours; absent if either is unknown, or the hours are 0.
    pub gain_per_gpu_hour: Option<f64>,
    /// True if it was tried at least three times, and never kept.
    pub never_helped: bool,
}

/// Sums up experiments by group: `groups` names those of each record, of which there are `count`. `kept` are the steps of the
/// summary, by the places of `records`. The baseline belongs to no group. An experiment of several groups counts whole in each.
fn tally(
    records: &[Record],
    groups: &[Vec<usize>],
    count: usize,
    kept: &[KeptStep],
    layout: Option<&Layout>,
) -> Vec<Tally> {
    let mut found = vec![Tally::default(); count];
    let of = |place: usize| {
        let is_counted = !records[place].id.is_baseline();
        groups.get(place).filter(|_| is_counted).map(Vec::as_slice).unwrap_or_default()
    };
    for (place, record) in records.iter().enumerate() {
        let ended = CountedOutcome::of_record(record);
        for group in of(place) {
            let tally = &mut found[*group];
            tally.tried += u32::from(ended.is_judged());
            tally.kept += u32::from(ended == CountedOutcome::Keep);
            tally.refused += u32::from(ended == CountedOutcome::Refused);
        }
    }
    for (at, step) in kept.iter().enumerate() {
        let Some(gain) = step.gain_of_each() else { continue };
        let members = usize::try_from(step.keeps).unwrap_or(1);
        for member in &kept[(at + 1).saturating_sub(members)..=at] {
            for group in of(member.index) {
                *found[*group].gain.get_or_insert(0.0) += gain;
            }
        }
    }
    let place_of: BTreeMap<ExperimentId, usize> =
        records.iter().enumerate().map(|(place, record)| (record.id, place)).collect();
    let runs = distinct_runs(records);
    let has_gpu = gpu_hours(&runs, layout).is_some();
    let mut own: Vec<Vec<RunOf<'_>>> = vec![Vec::new(); count];
    for run in runs {
        for group in place_of.get(&run.record.id).map(|place| of(*place)).unwrap_or_default() {
            own[*group].push(run);
        }
    }
    for (tally, own) in found.iter_mut().zip(own) {
        let seconds = run_seconds(&own);
        tally.gpu_hours = if has_gpu { gpu_hours(&own, layout).unwrap_or(0.0) } else { seconds / 3600.0 };
        let hours = Some(tally.gpu_hours).filter(|hours| *hours > 0.0);
        tally.gain_per_gpu_hour = tally.gain.zip(hours).map(|(gain, hours)| gain / hours);
        tally.never_helped = tally.tried >= TRIED_ENOUGH && tally.kept == 0;
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::sample::{record, run};

    fn made(id: u32, outcome: &str, seconds: f64, more: Value) -> Record {
        let mut fields =
            json!({"id": id, "commit": format!("c{id}"), "outcome": outcome, "runs": [run(seconds, None)]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record(fields)
    }

    fn refused(id: u32) -> Record {
        record(json!({"id": id, "outcome": "crash", "runs": [], "failure": {"class": "scope", "excerpt": ""}}))
    }

    fn step(index: usize, gain: Option<f64>, keeps: u32) -> KeptStep {
        KeptStep { index, over: None, gain, keeps, relative_gain: None, share: None }
    }

    /// A night of half hours, and what each experiment changed: a keep of 0.25 in both files, a keep of 0.5 in the model, three
    /// discards and crashes of the data alone, a refusal of a file that nothing else touched, and one of the data.
    fn night() -> (Vec<Record>, Vec<Vec<String>>, Vec<KeptStep>) {
        let records = vec![
            made(0, "keep", 3600.0, json!({})),
            made(1, "keep", 1800.0, json!({})),
            made(2, "keep", 3600.0, json!({})),
            made(3, "discard", 1800.0, json!({})),
            made(4, "discard", 1800.0, json!({})),
            made(5, "crash", 360.0, json!({"failure": {"class": "oom", "excerpt": ""}})),
            refused(6),
            refused(7),
        ];
        let files = [
            &[][..],
            &["model.py", "opt.py"],
            &["model.py"],
            &["data.py"],
            &["data.py"],
            &["data.py"],
            &["eval.py"],
            &["data.py"],
        ];
        let files = files.iter().map(|files| files.iter().map(|file| (*file).to_owned()).collect()).collect();
        (records, files, vec![step(0, None, 1), step(1, Some(0.25), 1), step(2, Some(0.5), 1)])
    }

    #[test]
    fn files_are_summed_up_with_their_gains_and_hours_and_what_never_helped() {
        let (records, files, kept) = night();
        let found = by_file(&records, &files, &kept, None);
        let tally = |tried, kept, refused, gain: Option<f64>, gpu_hours: f64, never_helped| Tally {
            tried,
            kept,
            refused,
            gain,
            gpu_hours,
            gain_per_gpu_hour: gain.map(|gain| gain / gpu_hours),
            never_helped,
        };
        let by_hand = [
            // 0.25 + 0.5 in half an hour and an hour.
            ("model.py", tally(2, 2, 0, Some(0.75), 1.5, false)),
            ("opt.py", tally(1, 1, 0, Some(0.25), 0.5, false)),
            // Two half hours and six minutes; what was refused counts neither as tried nor in the hours.
            ("data.py", tally(3, 0, 1, None, 1.1, true)),
        ];
        let named: Vec<(&str, Tally)> = found.iter().map(|found| (found.file.as_str(), found.tally.clone())).collect();
        assert_eq!(named, by_hand);
        assert_eq!(named[0].1.gain_per_gpu_hour, Some(0.5));
        // With one discard less the data was not tried often enough to say so.
        let less = by_file(&records[..5], &files[..5], &kept, None);
        assert!(less.iter().all(|found| !found.tally.never_helped), "{less:?}");
    }

    #[test]
    fn gpu_hours_count_the_gpus_of_each_run_and_a_train_is_shared_out() {
        let environment = json!({"host": "box", "gpu": "H100", "gpus": 2, "driver": null, "lockfile": null});
        let of = |id: u32| made(id, "keep", 1800.0, json!({"environment": environment}));
        let records = [of(0), of(1), of(2)];
        let files = vec![Vec::new(), vec!["a".to_owned()], vec!["b".to_owned()]];
        let train = [step(0, None, 1), step(1, None, 1), step(2, Some(0.5), 2)];
        let found = by_file(&records, &files, &train, None);
        let shown: Vec<_> = found.iter().map(|of| (of.file.as_str(), of.tally.gain, of.tally.gpu_hours)).collect();
        assert_eq!(shown, [("a", Some(0.25), 1.0), ("b", Some(0.25), 1.0)]);
        assert_eq!(by_file(&records, &[], &train, None), []);
    }

    #[test]
    fn what_was_expected_stands_beside_what_came() {
        let proposal =
            |hypothesis: Option<&str>, expected: Option<&str>| json!({"hypothesis": hypothesis, "expected": expected});
        let of = |id: u32, outcome: &str, value: &str, proposal: Value| {
            made(id, outcome, 60.0, json!({"value": value, "proposal": proposal}))
        };
        let mut unrun = refused(5);
        unrun.origin.proposal = of(9, "discard", "1", proposal(Some("never ran"), None)).origin.proposal;
        let records = [
            of(0, "keep", "2.0", proposal(Some("a baseline expects nothing"), None)),
            of(1, "keep", "1.5", proposal(Some("less noise"), Some("1.75"))),
            of(2, "discard", "1.625", proposal(None, Some("0.1 lower"))),
            made(3, "crash", 60.0, json!({"proposal": proposal(Some("more heads"), Some("1.25")), "value": "1.0"})),
            of(4, "discard", "1.0", json!({"lesson": "none"})),
            unrun,
        ];
        let rivals = [None, Some(0), Some(1), Some(1), Some(1), None];
        let found = expectations(&records, &rivals, Direction::Lower);
        let ids: Vec<u32> = found.iter().map(|found| found.id.number()).collect();
        assert_eq!(ids, [1, 2, 3]);
        let numbers: Vec<_> = found.iter().map(|found| (found.value, found.gain, found.over_expected)).collect();
        assert_eq!(
            numbers,
            [(Some(1.5), Some(0.5), Some(0.25)), (Some(1.625), Some(-0.125), None), (None, None, None)]
        );
        assert_eq!(json!(found[0])["outcome"], "keep");
        assert_eq!((found[1].hypothesis.clone(), found[1].expected.as_deref()), (None, Some("0.1 lower")));
    }

    #[test]
    fn directions_are_summed_up_by_name_with_their_gains_and_hours() {
        let made = |id: u32, direction: Option<&str>, outcome: &str, seconds: f64| {
            let commit = format!("c{id}");
            record(
                json!({"id": id, "commit": commit, "direction": direction, "outcome": outcome, "runs": [run(seconds, None)]}),
            )
        };
        let records = [
            made(0, None, "keep", 3600.0),
            made(1, Some("schedule"), "keep", 1800.0),
            made(2, Some("Schedule"), "discard", 1800.0),
            made(3, Some("width"), "keep", 900.0),
            made(4, None, "discard", 900.0),
            record(
                json!({"id": 5, "direction": "width", "outcome": "crash", "runs": [], "failure": {"class": "scope", "excerpt": ""}}),
            ),
        ];
        let step = |index, gain, keeps| KeptStep { index, over: None, gain, keeps, relative_gain: None, share: None };
        let steps = [step(0, None, 1), step(1, Some(0.25), 1), step(3, Some(0.5), 1)];
        let found = by_direction(&records, &steps, None);
        let expected = |direction: Option<&str>, tried, kept, gain: Option<f64>, gpu_hours: f64| DirectionResult {
            direction: direction.map(str::to_owned),
            tally: Tally {
                tried,
                kept,
                refused: u32::from(direction == Some("width")),
                gain,
                gpu_hours,
                gain_per_gpu_hour: gain.map(|gain| gain / gpu_hours),
                never_helped: false,
            },
        };
        assert_eq!(
            found,
            [
                expected(Some("width"), 1, 1, Some(0.5), 0.25),
                expected(Some("Schedule"), 2, 1, Some(0.25), 1.0),
                expected(None, 1, 0, None, 0.25),
            ]
        );
        // A train's gain is that of all its changes.
        let train = [step(0, None, 1), step(1, None, 1), step(3, Some(0.5), 2)];
        let gains: Vec<_> = by_direction(&records, &train, None).iter().map(|found| found.tally.gain).collect();
        assert_eq!(gains, [Some(0.25), Some(0.25), None]);
        assert_eq!(by_direction(&records[4..5], &[], None), [], "nobody names one");
    }
}
