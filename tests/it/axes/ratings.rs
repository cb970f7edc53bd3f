//! Ratings of sessions, and the weights that they speak for.

use std::fs;

use serde_json::{Value, json};

use super::harness::repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// The axes of sessions, in the order of the presets.
const AXES: [[f64; 4]; 10] = [
    [0.9, 0.2, 0.5, 0.4],
    [0.1, 0.8, 0.3, 0.7],
    [0.5, 0.5, 0.9, 0.1],
    [0.3, 0.9, 0.7, 0.9],
    [0.7, 0.1, 0.1, 0.6],
    [0.2, 0.4, 0.8, 0.3],
    [0.8, 0.7, 0.2, 0.8],
    [0.4, 0.3, 0.6, 0.2],
    [0.6, 0.6, 0.4, 0.5],
    [0.5, 0.9, 0.1, 0.9],
];

/// Makes a session of one measurement with these axes.
fn session(repo: &TestRepo, tag: &str, axes: &str) {
    repo.git(["switch", "--quiet", "main"]);
    repo.write("axes", format!("{axes}\n"));
    repo.commit_all(tag);
    ar(repo, ["run", "--yes", "--tag", tag]).ok();
}

/// Makes sessions `s0`, `s1` and so on.
fn sessions(repo: &TestRepo, count: usize) {
    for (n, axes) in AXES.iter().take(count).enumerate() {
        session(repo, &format!("s{n}"), &axes.map(|axis| axis.to_string()).join(" "));
    }
}

/// Rates a session as one would to whom 0.4, 0.1, 0.2 and 0.3 of the axes matter.
fn rate(repo: &TestRepo, n: usize) {
    let rating: f64 = AXES[n].iter().zip([0.4, 0.1, 0.2, 0.3]).map(|(axis, weight)| axis * weight).sum();
    ar(repo, ["rate", &format!("s{n}"), &format!("{rating:.4}")]).ok();
}

fn weights(repo: &TestRepo) -> Value {
    ar(repo, ["report", "s0", "--weights", "--format", "json"]).ok().json()
}

#[test]
fn a_rating_is_the_users_and_stands_in_the_state_folder() {
    let repo = repo();
    sessions(&repo, 2);
    ar(&repo, ["run", "--yes", "--tag", "twin"]).ok();
    repo.git(["switch", "--quiet", "main"]);
    assert_eq!(ar(&repo, ["rate", "s1", "0.80"]).ok().stdout, "rated session s1: 0.8\n");
    assert_eq!(ar(&repo, ["rate", "--tag", "twin", "0.25"]).ok().stdout, "rated session twin: 0.25\n");
    assert_eq!(ar(&repo, ["rate", "s1", "0.6"]).ok().stdout, "rated session s1: 0.6, before 0.8\n");
    assert_eq!(repo.git(["for-each-ref", "refs/notes"]), "", "the repository keeps no opinion");
    let listed = ar(&repo, ["rate", "--format", "json"]).ok().json();
    assert_eq!(listed["version"], 1);
    assert_eq!(
        listed["sessions"],
        json!([
            {"tag": "s0", "rating": null},
            {"tag": "s1", "rating": {"value": 0.6, "at": "2026-11-20T22:00:00.000Z", "by": "Test"}},
            {"tag": "twin", "rating": {"value": 0.25, "at": "2026-11-20T22:00:00.000Z", "by": "Test"}},
        ])
    );
    let csv = ar(&repo, ["rate", "twin", "--format", "csv"]).ok().stdout;
    assert_eq!(csv, "session,rating,by,when\ntwin,0.25,Test,2026-11-20T22:00:00.000Z\n");
    assert!(ar(&repo, ["rate"]).ok().stdout.contains("\ns0"));
    repo.git(["gc", "--quiet", "--prune=now"]);
    repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]);
    ar(&repo, ["doctor", "s1"]).ok();

    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let called = ar(&repo, [&["rate"], args].concat()).exits(code);
        for words in words {
            assert!(called.stderr.contains(words), "{words}: {called:#?}");
        }
    };
    for wrong in ["8", "-0.1", "nan", "80%", "good"] {
        refused(&["s1", wrong], 2, &["must be a number from 0 to 1, such as 0.8"]);
    }
    refused(&["0.8"], 2, &["a rating without a session", "hint: write `ar rate SESSION 0.8`"]);
    refused(&["--tag", "s1", "8"], 2, &["`8` must be a number from 0 to 1", "hint: write `ar rate s1 0.8`"]);
    refused(&["twim", "0.8"], 1, &["no session `twim` found", "hint: did you mean twin?"]);
    refused(&["twim"], 1, &["hint: did you mean twin?"]);
    refused(&["S1", "0.8"], 2, &["`S1` is not a tag", "hint: "]);
    assert_eq!(ar(&repo, ["rate", "--format", "json"]).ok().json(), listed, "nothing was written");
}

#[test]
fn weights_are_learned_from_eight_ratings_on() {
    let repo = repo();
    sessions(&repo, 9);
    (0..7).for_each(|n| rate(&repo, n));
    let early = weights(&repo);
    assert_eq!((&early["ratings"], &early["missing"], &early["composite"]), (&7.into(), &1.into(), &Value::Null));
    assert_eq!(early["unrated"], json!(["s7", "s8"]));
    let text = ar(&repo, ["report", "--weights"]).ok().stdout;
    for words in ["7 ratings of sessions", "too early: 1 more rating is needed, 8 in all", "without a rating: s7, s8;"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("[composite]"), "{text}");

    (7..9).for_each(|n| rate(&repo, n));
    let fitted = weights(&repo);
    for (axis, known) in [("claim_density", 0.4), ("source_diversity", 0.1), ("topic_coverage", 0.2), ("novelty", 0.3)]
    {
        let weight = fitted["composite"]["axes"][axis]["weight"].as_f64().unwrap();
        assert!((weight - known).abs() < 0.002, "{axis}: {fitted:#}");
    }
    assert_eq!((&fitted["ratings"], &fitted["missing"], &fitted["why_none"]), (&9.into(), &0.into(), &Value::Null));
    assert!(fitted["error"].as_f64().unwrap() < 0.001 && fitted["error_of_mean"].as_f64().unwrap() > 0.1, "{fitted:#}");
    let text = ar(&repo, ["report", "s0", "--weights"]).ok().stdout;
    assert!(text.contains("9 ratings of sessions") && text.contains("is predicted within 0.00"), "{text}");
    // What is to be pasted can be pasted.
    let (_, composite) = text.split_once("paste this in place of [composite]:\n\n").unwrap();
    repo.git(["switch", "--quiet", "main"]);
    repo.write("ar.toml", format!("metric = \"composite\"\ncmd = \"sh score.sh\"\n{composite}"));
    repo.commit_all("weights that were learned");
    let called = ar(&repo, ["run", "--yes", "--tag", "pasted"]).ok();
    assert!(!called.stderr.contains("scaled"), "{called:#?}");
    let csv = ar(&repo, ["report", "--weights", "--format", "csv"]).ok().stdout;
    assert_eq!(csv.lines().next(), Some("axis,weight,fitted"), "{csv}");

    let html = ar(&repo, ["report", "--weights", "--format", "html"]).exits(2);
    assert!(html.stderr.contains("hint: omit --format html"), "{html:#?}");
    ar(&repo, ["report", "--weights", "--chart", "chart.svg"]).exits(2);
    ar(&repo, ["report", "--weights", "--ledger", "results.tsv"]).exits(2);
}

#[test]
fn sessions_that_say_nothing_are_left_out_and_named() {
    let repo = repo();
    sessions(&repo, 8);
    session(&repo, "empty", "nan nan nan nan");
    repo.write("research.toml", "question = \"why\"\ntype = \"technical\"\n");
    session(&repo, "technical", "0.5 0.5 0.5 0.5");
    repo.git(["switch", "--quiet", "main"]);
    repo.write("ar.toml", "metric = \"novelty\"\nhigher = true\ncmd = \"sh score.sh\"\n");
    repo.rm("results.tsv");
    session(&repo, "plain", "0.5 0.5 0.5 0.5");
    (0..8).for_each(|n| rate(&repo, n));
    for tag in ["empty", "technical", "plain"] {
        ar(&repo, ["rate", tag, "0.1"]).ok();
    }
    let found = weights(&repo);
    assert_eq!(found["left_out"], json!([{"name": "empty", "why": "no axis has a number"}]));
    assert_eq!((&found["others"], &found["ratings"]), (&json!(["plain", "technical"]), &8.into()), "{found:#}");
    assert!(found["composite"].is_object() && found["type"].is_null(), "{found:#}");
    let other = ar(&repo, ["report", "technical", "--weights"]).ok().stdout;
    assert!(other.contains("1 rating of sessions with the same axes and type technical\n"), "{other}");
    assert!(other.contains("too early: 7 more ratings are needed"), "{other}");
    let refused = ar(&repo, ["report", "plain", "--weights"]).exits(1);
    assert!(refused.stderr.contains("session plain has no axes to weigh\nhint: "), "{refused:#?}");
}

#[test]
fn ratings_of_all_repositories_speak_for_the_same_axes() {
    let mine = repo();
    sessions(&mine, 1);
    // Each question has a repository of its own; the user's folder is the same.
    let state = mine.outside().join("state");
    let rated = |repo: &TestRepo, n: usize| {
        let mut command = ar_command(repo, &repo.path(), ["rate", "q", &format!("0.{n}")]);
        Called::from(command.env("XDG_STATE_HOME", &state).output().unwrap()).ok();
    };
    let weights = || {
        let mut command = ar_command(&mine, &mine.path(), ["report", "s0", "--weights", "--format", "json"]);
        Called::from(command.env("XDG_STATE_HOME", &state).output().unwrap()).ok().json()
    };
    for (n, axes) in AXES.iter().enumerate().skip(1).take(2) {
        let other = repo();
        session(&other, "q", &axes.map(|axis| axis.to_string()).join(" "));
        rated(&other, n);
        drop(other);
    }
    let found = weights();
    assert_eq!((&found["ratings"], &found["missing"], &found["unrated"]), (&json!(2), &json!(6), &json!(["s0"])));
    // Ratings of questions of another type, or of other axes, are not mixed with these.
    let file = state.join("autoresearch/ratings.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    let second = lines.lines().nth(1).unwrap();
    let of_research =
        second.replace("\"type\":null", "\"type\":\"business\"").replace("\"tag\":\"q\"", "\"tag\":\"r\"");
    assert_ne!(of_research, second);
    fs::write(&file, format!("{lines}no rating\n{of_research}\n")).unwrap();
    let found = weights();
    assert_eq!((&found["ratings"], found["others"].as_array().unwrap().len()), (&json!(2), 1), "{found:#}");
}
