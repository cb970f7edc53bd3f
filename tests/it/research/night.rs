//! A whole night of a scripted researcher on the real scorer, in one piece and killed again and again.
//!
//! Its sixty experiments and their numbers are worked out by hand beside the assertions: from what the plan has it do, and from
//! the numbers of the records, not by the code of the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::outcome::{assert_outcome, outcome};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time};

/// The researcher.
const SCRIPT: &str = include_str!("night.sh");

/// How many rows its plan has. The session ends before it.
const ROWS: u32 = 62;

const AXES: [&str; 4] = ["claim_density", "source_diversity", "topic_coverage", "novelty"];

/// Where `kill2` ends the first part of the night, and `plateau` the second one.
const ENDS: [u32; 2] = [40, 60];

/// How a session of research begins by itself: with `kill2`.
const FIRST: [&str; 6] = ["--yes", "--tag", "t", "--cadence", "novelty", "--max-experiments"];

/// How it is continued then.
const SECOND: [&str; 6] = ["resume", "t", "--stop-rule", "plateau:16", "--cadence", "adaptive"];

/// What the researcher does in an experiment, as the script says.
struct Row {
    claims: u32,
    found: u32,
    sources: u32,
    topics: u32,
    like: u32,
    other: u32,
}

fn row(id: u32) -> Row {
    let numbers = match id {
        1 => [3, 3, 1, 3, 0, 0],
        // New claims on three of six sub-topics, first from four new sources each, then from two.
        2..=9 => [4, 4, 4, 3, 0, 0],
        10 => [4, 4, 2, 3, 0, 0],
        11..=18 => [2, 2, 2, 3, 0, 0],
        // None of its quotations is found.
        28 => [2, 0, 1, 3, id - 17, 1],
        // New, but founded on little; and then the same claims, which were not kept, well founded.
        30 => [4, 1, 4, 3, 0, 0],
        31 => [4, 4, 4, 3, 30, 0],
        // It repeats itself, each second time with one new word less, and one of two quotations is not found.
        19..=34 => [2, 1, 2, 3, id - 17, 5_u32.saturating_sub((id - 19) / 2)],
        // New claims on one sub-topic more each time, and at last all that is known of them.
        35..=43 => [4, 4, 4, (id - 31).min(6), 0, 0],
        44 => [12, 12, 12, 6, 0, 0],
        // Nothing new. Each third time both quotations are found, and once none is.
        52 => [2, 0, 1, 6, id - 34, 0],
        45..=52 => [2, if id % 3 == 2 { 2 } else { 1 }, 1, 6, id - 34, 0],
        _ => [2, if id % 3 == 2 { 2 } else { 1 }, 1, 6, id - 18, 0],
    };
    let [claims, found, sources, topics, like, other] = numbers;
    Row { claims, found, sources, topics, like, other }
}

impl Row {
    /// The sources of its claims, in their order, for experiment `id`.
    fn cited(&self, id: u32) -> Vec<String> {
        let of = if self.like == 0 { id } else { self.like };
        (0..self.claims).map(|claim| format!("s{of}-{}", claim % self.sources)).collect()
    }

    /// The sub-topics of its claims that are verified.
    fn addressed(&self) -> BTreeSet<u32> {
        (0..self.found).map(|claim| claim % self.topics).map(|claim| self.topics - claim).collect()
    }
}

/// A repository with the question, and the arguments of the call that begins the session.
fn begun() -> (TestRepo, Vec<String>) {
    let repo = TestRepo::empty();
    let topics = ["Memory", "Speed", "Cost", "Safety", "Power", "Noise"].into_iter().flat_map(|it| ["--subtopic", it]);
    ar(&repo, ["init", "--research", "How?", "--type", "equal"].into_iter().chain(topics)).ok();
    let plan: String = (1..=ROWS)
        .map(row)
        .map(|it| format!("{} {} {} {} {} {}\n", it.claims, it.found, it.sources, it.topics, it.like, it.other))
        .collect();
    let [script, path] = ["night.sh", "plan"].map(|name| repo.outside().join(name));
    fs::write(&script, SCRIPT).unwrap();
    fs::write(&path, plan).unwrap();
    let agent = format!("sh {} {}", script.display(), path.display());
    let count = ROWS.to_string();
    let args = ["run"].into_iter().chain(FIRST).chain([count.as_str(), "--agent", &agent]);
    let args = args.map(str::to_owned).collect();
    (repo, args)
}

/// What came of a night.
struct Night {
    /// The records, without that of the baseline.
    records: Vec<Value>,
    /// What each of both parts told.
    parts: [Vec<Value>; 2],
    artifact: String,
    /// The names of the stored sources.
    sources: BTreeSet<String>,
    rows: usize,
    outcome: String,
}

/// The night that nobody disturbs.
static WHOLE: LazyLock<Night> = LazyLock::new(|| {
    let (repo, first) = begun();
    let part = |args: Vec<String>| {
        let args = args.into_iter().chain(["--format".to_owned(), "json".to_owned()]);
        ar_in_time(&repo, args).ok().json_lines()
    };
    let parts = [first, SECOND.map(str::to_owned).to_vec()].map(part);
    let mut records = ar(&repo, ["log", "--tag", "t", "--format", "json"]).ok().json()["experiments"].take();
    let records = records.as_array_mut().unwrap();
    records.sort_by_key(|record| record["sequence"].as_u64());
    assert_eq!(repo.git(["fsck", "--no-dangling", "--no-progress"]), "");
    let files = repo.git(["ls-tree", "--name-only", "autoresearch/t:sources"]);
    let sources = files.lines().filter_map(|file| file.strip_suffix(".md"));
    Night {
        records: records.split_off(1),
        parts,
        artifact: repo.git(["show", "autoresearch/t:research_artifact.md"]),
        sources: sources.map(str::to_owned).collect(),
        rows: repo.read("results.tsv").lines().count(),
        outcome: outcome(&repo),
    }
});

/// An axis of a record, or its composite.
fn number(record: &Value, name: &str) -> Option<f64> {
    if name == "composite" { record["metric"]["value"].as_f64() } else { record["metrics"][name].as_f64() }
}

/// The records with this outcome, by their numbers.
fn with_outcome(outcome: &str) -> Vec<u32> {
    (1..).zip(&WHOLE.records).filter(|(_, record)| record["outcome"] == outcome).map(|(id, _)| id).collect()
}

/// The seconds of the pauses of a part of the night, each with the experiment that it follows. What is left of a pause is less
/// than all of it.
fn pauses(part: usize) -> Vec<(u64, u64)> {
    let sleeps = WHOLE.parts[part].iter().filter(|event| event["event"] == "sleep");
    let pause = |event: &Value| {
        let left = event["seconds"].as_f64().unwrap();
        let all = [60, 180, 1500, 1800, 21600].into_iter().find(|all| left <= *all as f64).unwrap();
        (event["id"].as_u64().unwrap() - 1, all)
    };
    sleeps.map(pause).collect()
}

/// How a part of the night ended.
fn stopped(part: usize) -> &'static Value {
    WHOLE.parts[part].iter().rfind(|event| event["event"] == "session_stopped").unwrap()
}

/// The slope of five numbers at 0 to 4 by the sums of the textbook: (n Σxy − Σx Σy) / (n Σx² − (Σx)²), where Σx = 10 and
/// Σx² = 30.
fn slope(numbers: &[f64]) -> f64 {
    let sum: f64 = numbers.iter().sum();
    let products: f64 = numbers.iter().enumerate().map(|(x, y)| x as f64 * y).sum();
    (5.0 * products - 10.0 * sum) / (5.0 * 30.0 - 10.0 * 10.0)
}

#[test]
fn each_axis_is_what_the_researcher_did() {
    let (mut cited, mut addressed) = (BTreeSet::new(), BTreeSet::new());
    for (id, record) in (1..).zip(&WHOLE.records) {
        let row = row(id);
        let of_claims = row.cited(id);
        cited.extend(of_claims.iter().cloned());
        let mut shares = BTreeMap::<&String, f64>::new();
        for source in &of_claims[..row.found as usize] {
            *shares.entry(source).or_default() += 1.0 / f64::from(row.found);
        }
        let entropy: f64 = shares.values().map(|share| -share * share.ln()).sum();
        let most = (cited.len() as f64).min(12.0).ln();
        let diversity = if most == 0.0 { 0.0 } else { (entropy / most).min(1.0) };
        let now: BTreeSet<u32> = addressed.union(&row.addressed()).copied().collect();
        for (axis, expected) in [
            ("claim_density", Some(f64::from(row.found) / f64::from(row.claims))),
            ("source_diversity", (row.found > 0).then_some(diversity)),
            ("topic_coverage", Some(now.len() as f64 / 6.0)),
        ] {
            let found = number(record, axis);
            let is_near = found.zip(expected).map_or(found == expected, |(one, other)| (one - other).abs() < 0.00006);
            assert!(is_near, "{axis} of {id}: {found:?} is not {expected:?}: {record}");
        }
        if record["outcome"] == "keep" {
            addressed = now;
        }
        // Of six words about as many as are new ones; the forms of words and their order count a little.
        let novelty = number(record, "novelty").unwrap();
        let (new, six) = (f64::from(row.other), 6.0);
        let expected = if row.like == 0 { 0.9..=1.0 } else { (new / six - 0.03).max(0.0)..=(new / six + 0.03) };
        assert!(expected.contains(&novelty), "novelty of {id}: {novelty} is not in {expected:?}");
        let axes = AXES.map(|axis| number(record, axis));
        let mean = axes.into_iter().sum::<Option<f64>>().map(|sum| sum / 4.0);
        let found = number(record, "composite");
        let is_near = found.zip(mean).map_or(found == mean, |(one, other)| (one - other).abs() < 0.00006);
        assert!(is_near, "composite of {id}: {found:?} is not {mean:?}");
    }
}

#[test]
fn what_reaches_the_threshold_is_kept_and_nothing_else() {
    // (0.5 + 0 + 0.5 + novelty) / 4 is 0.45 at a novelty of 0.8: with four new words of six it is discarded. So is the 30th
    // with (0.25 + 0 + 0.5 + 0.9) / 4 = 0.41, new as it is. When all sub-topics are addressed, claims that only repeat others
    // reach (0.5 + 0 + 1 + 0) / 4 = 0.375 with one of two quotations, and (1 + 0 + 1 + 0) / 4 = 0.5 with both.
    let repeats = (45..=60).filter(|id| id % 3 != 2 && *id != 52);
    let discarded: Vec<u32> = (21..=27).chain([29, 30, 32, 33, 34]).chain(repeats).collect();
    assert_eq!((with_outcome("discard"), with_outcome("crash")), (discarded, vec![28, 52]));
    for (id, record) in (1..).zip(&WHOLE.records) {
        let kept = number(record, "composite").map(|value| value >= 0.45);
        assert_eq!(kept == Some(true), record["outcome"] == "keep", "{id}: {record}");
        assert_eq!(kept.is_none(), record["failure"]["class"] == "nan", "{id}: {record}");
    }

    let keeps = with_outcome("keep");
    // 60 − 12 − 10 − 2
    assert_eq!(keeps.len(), 36);
    let mut expected: Vec<String> = keeps.iter().flat_map(|id| row(*id).cited(*id)).collect();
    let claims = WHOLE.artifact.lines().filter(|line| line.starts_with("- "));
    let mut cited: Vec<&str> = claims.map(|claim| claim.split(['@', ' ']).rev().nth(2).unwrap()).collect();
    cited.sort_unstable();
    expected.sort();
    assert_eq!(cited, expected, "the claims of what was kept, each once");
    assert_eq!(WHOLE.sources, expected.into_iter().collect::<BTreeSet<_>>());
    assert_eq!((WHOLE.records.len(), WHOLE.rows), (60, 1 + 1 + 60), "a heading, the baseline and the experiments");
}

#[test]
fn kill2_and_plateau_end_it_where_the_arithmetic_says() {
    let mut numbers: Vec<f64> = Vec::new();
    // The experiments after which the last five numbers do not rise, without and with an axis below 0.5.
    let (mut flat, mut weak) = (Vec::new(), Vec::new());
    for (id, record) in (1..=ENDS[0]).zip(&WHOLE.records) {
        let Some(value) = number(record, "composite") else { continue };
        numbers.push(value);
        if numbers.len() >= 5 && slope(&numbers[numbers.len() - 5..]) < 0.01 {
            let is_weak = AXES.iter().any(|axis| number(record, axis).unwrap() < 0.5);
            if is_weak { weak.push(id) } else { flat.push(id) }
        }
    }
    // 0.7511 0.7478 0.7478 0.7494 0.7461 from the 5th to the 9th: (−2 × 0.7511 − 0.7478 + 0.7494 + 2 × 0.7461) / 10 = −0.0008,
    // and no axis is below 0.5, but these are nine numbers. At the 10th the diversity is ln 2 / ln 12 = 0.28, and some axis is
    // below 0.5 up to the 34th, however flat the numbers are. From the 35th on none is, but they rise: after the 39th
    // 0.7928 0.8360 0.8744 0.8761 0.8744 with (−2 × 0.7928 − 0.8360 + 0.8761 + 2 × 0.8744) / 10 = 0.0203, and after the 40th
    // 0.8360 0.8744 0.8761 0.8744 0.8714 with (−2 × 0.8360 − 0.8744 + 0.8744 + 2 × 0.8714) / 10 = 0.0071, less than 0.01.
    assert_eq!(flat, [6, 7, 8, 9, ENDS[0]]);
    assert_eq!(weak, (10..=27).chain([29, 33, 34]).collect::<Vec<_>>());
    let reason = &stopped(0)["reason"];
    assert_eq!((&reason["kind"], &reason["worst"]["axis"]), (&"kill2".into(), &"source_diversity".into()));
    let changed = reason["slope"].as_f64().unwrap();
    assert!((changed - slope(&numbers[numbers.len() - 5..])).abs() < 1e-6, "{reason}");

    // The 44th has twelve sources: (1 + 1 + 1 + 0.93) / 4 = 0.98. Sixteen more bring nothing better, one of them no number.
    let best = (1..).zip(&WHOLE.records).filter_map(|(id, record)| Some((id, number(record, "composite")?)));
    let (best, _) = best.max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap();
    assert_eq!((best, best + 16), (44, ENDS[1]));
    assert_eq!(stopped(1)["reason"]["kind"], "plateau");
    assert_eq!([0, 1].map(|part| stopped(part)["experiments"].as_u64()), ENDS.map(|end| Some(u64::from(end))));
}

#[test]
fn the_pauses_follow_the_course() {
    // By novelty: 3/6 and 2/6 are not above 0.6 and not below 0.3, 1/6 and 0 are below. The 30th, which is new, is followed
    // at once, and the 40th is the last.
    let half_hours = (23..=26).map(|id| (id, 1800));
    let long = [27, 28, 29, 31, 32, 33, 34].map(|id| (id, 21600));
    assert_eq!(pauses(0), half_hours.chain(long).collect::<Vec<_>>());
    let told = |name: &str| WHOLE.parts[0].iter().filter(|event| event["event"] == name).count();
    assert_eq!(told("summary"), long.len(), "one for each long pause");

    // By the course: warm after changes that brought sources, and after a keep or the first discard; cold after the second one;
    // and after a crash that of recovery. Each third one is kept. The pause after the 40th is over: it began with the end of
    // that record, and the clock of the tests stands long ago.
    let adaptive = (41..60).map(|id| match id {
        52 => (id, 1800),
        ..=44 => (id, 180),
        _ => (id, if id % 3 == 1 { 1500 } else { 60 }),
    });
    assert_eq!(pauses(1), adaptive.collect::<Vec<_>>());
}

/// Points that each experiment passes.
const POINTS: [&str; 20] = [
    "committing.branch_advanced",
    "committing.commit_noted",
    "git.index_replaced",
    "git.ref_moved",
    "git.tag_written",
    "idle.entered",
    "job.started",
    "proposing.agent_over",
    "proposing.change_committed",
    "recording.entered",
    "recording.recorded",
    "running.entered",
    "running.over",
    "settling.branch_moved",
    "settling.put_back",
    "settling.remembered",
    "settling.row_appended",
    "sleep.noted",
    "sleep.over",
    "state.file_replaced",
];

#[test]
fn a_night_that_is_killed_again_and_again_loses_nothing() {
    let (repo, first) = begun();
    let trace = repo.outside().join("trace");
    let (mut chance, mut kills) = (11_u32, 0);
    for (call, end) in [first, SECOND.map(str::to_owned).to_vec()].into_iter().zip(ENDS) {
        loop {
            assert!(kills < 200, "it does not come to an end");
            let is_begun = repo.exists(".autoresearch/t/state/contract.json");
            let args = if is_begun && call[0] == "run" { vec!["resume".into(), "t".into()] } else { call.clone() };
            let _ = fs::remove_file(&trace);
            // The generator of Numerical Recipes.
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let kill = format!("{}:{}", POINTS[(chance >> 16) as usize % POINTS.len()], 1 + (chance >> 24) % 6);
            let mut command = ar_command(&repo, &repo.path(), args);
            command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_AT", &kill);
            let called = Called::from(command.output().unwrap());
            if called.code.is_some() {
                called.ok();
                break;
            }
            kills += 1;
        }
        assert_eq!(repo.read("results.tsv").lines().count(), 2 + end as usize);
    }
    assert!(kills >= 10, "{kills} kills");
    assert_outcome(&outcome(&repo), &WHOLE.outcome, "killed at random");
}
