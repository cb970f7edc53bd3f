//! A whole night of a scripted researcher on the real scorer, in one piece and killed again and again.
//!
//! Its sixty experiments and their numbers are worked out by hand beside the assertions: from what the plan has it do, and from
//! the numbers of the records, not by the code of the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::kill::soak;
use crate::outcome::{assert_outcome, outcome};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time};

/// The researcher.
const SCRIPT: &str = include_str!("night.sh");

/// How many rows its plan has. The session ends before it.
const ROWS: u32 = 62;

const AXES: [&str; 4] = ["claim_density", "source_diversity", "topic_coverage", "novelty"];

/// Where `kill2` ends the first part of the night, and `plateau` the second one.
const ENDS: [u32; 2] = [26, 60];

/// How a session of research begins by itself: with `kill2` and `plateau:30`.
const FIRST: [&str; 6] = ["--yes", "--tag", "t", "--cadence", "novelty", "--max-experiments"];

/// How it is continued then.
const SECOND: [&str; 6] = ["resume", "t", "--stop-rule", "plateau:21", "--cadence", "adaptive"];

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
        11..=17 => [2, 2, 2, 3, 0, 0],
        // One sub-topic more: the artifact is at its best so far.
        18 => [4, 4, 4, 4, 0, 0],
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
        _ => [2, if id % 3 == 2 { 2 } else { 1 }, 1, 6, 35 + (id - 53) % 9, 0],
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

    /// Whether its claims are like kept ones: at most one word of six is a new one. Those of the 30th were not kept.
    fn is_repeat(&self) -> bool {
        self.like > 0 && self.like != 30 && self.other <= 1
    }

    /// How many of its claims are verified.
    fn verified(&self) -> u32 {
        if self.is_repeat() { 0 } else { self.found }
    }

    /// The sub-topics of its claims that are verified.
    fn addressed(&self) -> BTreeSet<u32> {
        (0..self.verified()).map(|claim| claim % self.topics).map(|claim| self.topics - claim).collect()
    }
}

/// A repository with the question, and the arguments of the call that begins the session.
fn begun() -> (TestRepo, Vec<String>) {
    let repo = TestRepo::empty();
    let topics = ["Memory", "Speed", "Cost", "Safety", "Power", "Noise"].into_iter().flat_map(|it| ["--subtopic", it]);
    // One of its changes stores twelve sources.
    ar(&repo, ["init", "--research", "How?", "--type", "equal", "--max-files", "13"].into_iter().chain(topics)).ok();
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
    /// What each of both parts came to.
    outcomes: [String; 2],
}

/// The night that nobody disturbs.
static WHOLE: LazyLock<Night> = LazyLock::new(|| {
    let (repo, first) = begun();
    let part = |args: Vec<String>| {
        let args = args.into_iter().chain(["--format".to_owned(), "json".to_owned()]);
        (ar_in_time(&repo, args).ok().json_lines(), outcome(&repo))
    };
    let [first, second] = [first, SECOND.map(str::to_owned).to_vec()].map(part);
    let mut records = ar(&repo, ["log", "--tag", "t", "--format", "json"]).ok().json()["experiments"].take();
    let records = records.as_array_mut().unwrap();
    records.sort_by_key(|record| record["sequence"].as_u64());
    assert_eq!(repo.git(["fsck", "--no-dangling", "--no-progress"]), "");
    let files = repo.git(["ls-tree", "--name-only", "autoresearch/t:sources"]);
    let sources = files.lines().filter_map(|file| file.strip_suffix(".md"));
    Night {
        records: records.split_off(1),
        parts: [first.0, second.0],
        artifact: repo.git(["show", "autoresearch/t:research_artifact.md"]),
        sources: sources.map(str::to_owned).collect(),
        rows: repo.read("results.tsv").lines().count(),
        outcomes: [first.1, second.1],
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

/// The entropy of citations over the logarithm of how many sources there are, of which 12 count; at most 1.
fn diversity(citations: &[String], sources: usize) -> f64 {
    let mut shares = BTreeMap::<&String, f64>::new();
    for source in citations {
        *shares.entry(source).or_default() += 1.0 / citations.len() as f64;
    }
    let entropy: f64 = shares.values().map(|share| -share * share.ln()).sum();
    let most = (sources as f64).min(12.0).ln();
    if most == 0.0 { 0.0 } else { (entropy / most).min(1.0) }
}

/// What the artifact is after each experiment with a number, worked out from the plan and the outcomes: the experiment, the
/// four axes and their mean.
fn artifact() -> Vec<(u32, [f64; 4], f64)> {
    let (mut claims, mut verified) = (0, 0);
    let (mut citations, mut topics, mut novelties) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut course = Vec::new();
    for (id, record) in (1..).zip(&WHOLE.records) {
        let row = row(id);
        if record["outcome"] == "keep" {
            claims += row.claims;
            verified += row.verified();
            citations.extend(row.cited(id).into_iter().take(row.found as usize));
            topics.extend(row.addressed());
        }
        novelties.push(number(record, "novelty").unwrap());
        let newest = &novelties[novelties.len().saturating_sub(5)..];
        let sources: BTreeSet<&String> = citations.iter().collect();
        let axes = [
            f64::from(verified) / f64::from(claims),
            diversity(&citations, sources.len()),
            topics.len() as f64 / 6.0,
            newest.iter().sum::<f64>() / newest.len() as f64,
        ];
        course.push((id, axes, axes.iter().sum::<f64>() / 4.0));
    }
    course
}

#[test]
fn the_artifact_is_what_was_kept() {
    let course = artifact();
    for (id, axes, composite) in &course {
        let record = &WHOLE.records[*id as usize - 1];
        let names = AXES.into_iter().chain(["composite"]).map(|name| format!("artifact_{name}"));
        for (name, expected) in names.zip(axes.iter().chain([composite])) {
            let found = record["metrics"][&name].as_f64().unwrap();
            assert!((found - expected).abs() < 0.00011, "{name} of {id}: {found} is not {expected}");
        }
    }
    // It rises to the end of the findings: all sub-topics, and nothing but verified claims from many sources.
    let (id, axes, _) = course.iter().max_by(|one, other| one.2.total_cmp(&other.2)).unwrap();
    assert!((39..=44).contains(id) && axes[..3] == [1.0; 3], "{id}: {axes:?}");
}

#[test]
fn each_axis_is_what_the_researcher_did() {
    let mut cited = BTreeSet::new();
    for (id, record) in (1..).zip(&WHOLE.records) {
        let row = row(id);
        let of_claims = row.cited(id);
        cited.extend(of_claims.iter().cloned());
        let diversity = diversity(&of_claims[..row.found as usize], cited.len());
        for (axis, expected) in [
            ("claim_density", f64::from(row.verified()) / f64::from(row.claims)),
            ("source_diversity", if row.found > 0 { diversity } else { 0.0 }),
            ("topic_coverage", row.addressed().len() as f64 / 6.0),
        ] {
            let found = number(record, axis);
            assert!(
                found.is_some_and(|found| (found - expected).abs() < 0.00006),
                "{axis} of {id}: {found:?} is not {expected:?}: {record}"
            );
        }
        // Of six words about as many as are new ones; the forms of words and their order count a little. What no source
        // supports is not new.
        let novelty = number(record, "novelty").unwrap();
        let (new, six) = (f64::from(row.other), 6.0);
        let expected = if row.found == 0 {
            0.0..=0.0
        } else if row.like == 0 {
            0.9..=1.0
        } else {
            (new / six - 0.03).max(0.0)..=(new / six + 0.03)
        };
        assert!(expected.contains(&novelty), "novelty of {id}: {novelty} is not in {expected:?}");
        let axes = AXES.map(|axis| number(record, axis));
        let mean = axes.into_iter().sum::<Option<f64>>().unwrap() / 4.0;
        let found = number(record, "composite");
        assert!(
            found.is_some_and(|found| (found - mean).abs() < 0.00006),
            "composite of {id}: {found:?} is not {mean:?}"
        );
    }
}

#[test]
fn what_reaches_the_threshold_is_kept_and_nothing_else() {
    // From the 19th on one of two quotations is found: (0.5 + 0 + 0.1667 + novelty) / 4 is at most 0.42. The 30th has (0.25 + 0
    // + 0.1667 + 0.9) / 4 = 0.33, new as it is. What repeats kept claims has nothing but its diversity, which is 0 here.
    // What invents all of its quotations, as the 28th and the 52nd, has nothing at all.
    let discarded: Vec<u32> = (19..=30).chain([32, 33, 34]).chain(45..=ENDS[1]).collect();
    assert_eq!((with_outcome("discard"), with_outcome("crash")), (discarded, vec![]));
    assert_eq!([28, 52].map(|id| number(&WHOLE.records[id - 1], "composite")), [Some(0.0); 2]);
    for (id, record) in (1..).zip(&WHOLE.records) {
        let value = number(record, "composite").unwrap();
        assert_eq!(value >= 0.45, record["outcome"] == "keep", "{id}: {record}");
    }

    let keeps = with_outcome("keep");
    // 1 to 18, 31, and 35 to 44.
    assert_eq!(keeps.len(), 29);
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
    let course = artifact();
    let numbers: Vec<f64> = course.iter().map(|(.., composite)| *composite).collect();
    // The first experiment from the tenth number on after which the last five do not rise, no axis but novelty is below 0.5, and
    // novelty is. To the 18th all is new. Then 5/6 twice, 4/6 twice and so on, about: the mean of five is 16/30 = 0.53 after the
    // 25th and 14/30 = 0.47 after the 26th.
    let is_over = |place: &usize| {
        let (_, axes, _) = course[*place];
        slope(&numbers[place - 4..=*place]) < 0.01 && axes[3] < 0.5 && axes[..3].iter().all(|axis| *axis >= 0.5)
    };
    let first = (9..course.len()).find(is_over).map(|place| course[place].0);
    assert_eq!(first, Some(ENDS[0]));
    let reason = &stopped(0)["reason"];
    assert_eq!(reason["kind"], "kill2");
    let end = ENDS[0] as usize;
    assert!((reason["slope"].as_f64().unwrap() - slope(&numbers[end - 5..end])).abs() < 0.0001, "{reason}");
    assert!((reason["novelty"].as_f64().unwrap() - course[end - 1].1[3]).abs() < 0.0001, "{reason}");

    // From the 39th on five iterations in a row are new, and all sub-topics are covered. 21 more bring nothing better.
    let rounded = course.iter().map(|(id, _, composite)| (*id, (composite * 1e4).round()));
    let best = rounded.reduce(|best, other| if other.1 > best.1 { other } else { best }).unwrap();
    assert_eq!(best.0 + 21, ENDS[1]);
    assert_eq!(stopped(1)["reason"]["kind"], "plateau");
    assert_eq!([0, 1].map(|part| stopped(part)["experiments"].as_u64()), ENDS.map(|end| Some(u64::from(end))));
}

#[test]
fn the_pauses_follow_the_course() {
    // By novelty: 3/6 and 2/6 are not above 0.6 and not below 0.3. The 26th is the last.
    assert_eq!(pauses(0), (23..=25).map(|id| (id, 1800)).collect::<Vec<_>>());

    // By the course: cold while nothing is kept and the numbers do not rise, also where all is invented; warm after changes
    // that brought sources, and shorter after the first discard, which brought none. The pause after the 26th is over: it began
    // with the end of that record, and the clock of the tests stands long ago.
    let value = |id: &u32| number(&WHOLE.records[*id as usize - 1], "composite");
    // Of three numbers the last one is better than the first; what repeats itself differs by the order of its words alone.
    let rises = |id: u32| {
        let newest: Vec<f64> = (1..=id).rev().filter_map(|id| value(&id)).take(3).collect();
        newest[0] > newest[2]
    };
    let adaptive = (27..ENDS[1]).map(|id| match id {
        30 | 31 | 35..=44 => (u64::from(id), 180),
        32 | 45 => (u64::from(id), 60),
        _ => (u64::from(id), if id > 45 && rises(id) { 60 } else { 1500 }),
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
    // In a suite that is called often, the first part only.
    let parts = if soak().is_some() { 2 } else { 1 };
    for (part, call) in [first, SECOND.map(str::to_owned).to_vec()].into_iter().enumerate().take(parts) {
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
        assert_eq!(repo.read("results.tsv").lines().count(), 2 + ENDS[part] as usize);
        assert_outcome(&outcome(&repo), &WHOLE.outcomes[part], "killed at random");
    }
    assert!(kills >= 5 * parts, "{kills} kills");
}
