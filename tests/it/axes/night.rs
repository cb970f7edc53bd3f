//! A whole night of a scripted researcher, in one piece and killed again and again.

use std::sync::LazyLock;

use serde_json::Value;

use super::harness::{course, first_call, records, repo, status};
use crate::support::{TestRepo, ar_command, ar_in_time};

const RULES: [&str; 6] = ["--keep-above", "0.45", "--stop-rule", "plateau:30", "--cadence", "novelty"];

/// Sixty iterations: the novelty falls by 0.015 each time from 0.885, as the researcher repeats itself. Its claims get better
/// up to the twentieth, and its topics are all addressed at the 27th. Each fifth iteration comes to little.
///
/// The sum of the axes, but for each fifth, grows by 0.01 + 0.03 − 0.015 up to the 20th, by 0.03 − 0.015 up to the 26th, and
/// by 0.02 − 0.015 to the 27th; from there on it falls by 0.015.
fn script() -> Vec<String> {
    let line = |iteration: u32| {
        let (at, is_little) = (f64::from(iteration), iteration.is_multiple_of(5));
        let (claims, sources) = if is_little { (0.1, 0.05) } else { (0.6 + 0.01 * at.min(20.0), 0.7) };
        let topics = (0.2 + 0.03 * at).min(1.0);
        // What comes to little is weak in all.
        let topics = if is_little { topics.min(0.3) } else { topics };
        format!("{claims:.4} {sources:.4} {topics:.4} {:.4}", 0.9 - 0.015 * at)
    };
    (1..=60).map(line).collect()
}

fn begin(repo: &TestRepo) -> Vec<String> {
    let script = script();
    let lines: Vec<&str> = script.iter().map(String::as_str).collect();
    first_call(repo, &lines, &RULES)
}

fn check(repo: &TestRepo) {
    let records = records(repo);
    // 27 and thirty more.
    assert_eq!(records.len(), 1 + 57);
    let best = records.iter().max_by(|one, other| {
        let value = |record: &Value| record["metric"]["value"].as_f64().unwrap_or(-1.0);
        value(one).total_cmp(&value(other))
    });
    // (0.80 + 0.70 + 1.00 + 0.495) / 4
    assert_eq!((&best.unwrap()["id"], &best.unwrap()["metric"]["raw"]), (&27.into(), &"0.7488".into()));
    let discarded: Vec<u64> = records
        .iter()
        .filter(|record| record["outcome"] == "discard")
        .filter_map(|record| record["id"].as_u64())
        .collect();
    assert_eq!(discarded, (1..=11).map(|fifth| 5 * fifth).collect::<Vec<_>>());
    assert_eq!(
        status(repo)["ended"],
        "plateau: no new best in 30 experiments; the best composite is 0.7488 of experiment 27"
    );
}

/// What a night in one piece told, and what it came to.
static WHOLE: LazyLock<(Vec<Value>, Vec<String>)> = LazyLock::new(|| {
    let repo = repo();
    let mut args = begin(&repo);
    args.extend(["--format", "json"].map(str::to_owned));
    let events = ar_in_time(&repo, args).ok().json_lines();
    check(&repo);
    (events, course(&repo))
});

#[test]
fn a_night_ends_where_the_arithmetic_says_and_slows_down_on_the_way() {
    let (events, _) = &*WHOLE;
    // In minutes: on a busy machine a pause is found a second later.
    let pauses: Vec<u64> = events
        .iter()
        .filter(|event| event["event"] == "sleep")
        .map(|event| (event["seconds"].as_f64().unwrap() / 60.0).round() as u64)
        .collect();
    // At the 20th the novelty is 0.6, which is not above it, and at the 40th 0.3, which is not below it. The 57th is the last.
    assert_eq!(pauses, [vec![30; 21], vec![6 * 60; 16]].concat());
}

#[cfg(debug_assertions)]
#[test]
fn a_night_that_is_killed_again_and_again_comes_to_the_same() {
    const POINTS: [&str; 8] = [
        "sleep.noted",
        "committing.commit_noted",
        "running.entered",
        "recording.entered",
        "recording.recorded",
        "settling.row_appended",
        "settling.remembered",
        "sleep.over",
    ];
    let repo = repo();
    let (trace, first) = (repo.outside().join("trace"), begin(&repo));
    let (mut chance, mut kills) = (7_u32, 0);
    loop {
        let has_begun = repo.exists(".autoresearch/t/state/contract.json");
        let args = if has_begun { vec!["resume".to_owned()] } else { first.clone() };
        let _ = std::fs::remove_file(&trace);
        // The generator of Numerical Recipes.
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let point = POINTS[(chance >> 16) as usize % POINTS.len()];
        let kill = format!("{point}:{}", 2 + (chance >> 24) % 7);
        let mut command = ar_command(&repo, &repo.path(), args);
        let output = command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_AT", &kill).output().unwrap();
        match output.status.code() {
            None => kills += 1,
            Some(code) => {
                assert_eq!(code, 0, "{kill}: {output:?}");
                break;
            }
        }
    }
    assert!(kills >= 5, "{kills} kills");
    check(&repo);
    assert_eq!(course(&repo), WHOLE.1);
    assert_eq!(repo.read("results.tsv").lines().count(), 1 + 58);
}
