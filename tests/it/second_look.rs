//! Second looks: the discard that came closest is measured again, `--second-look`.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::confirm::{artifacts, made, made_twice, noisy, runs, shown};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// Its first change is good and unlucky with the seed of its first run; all others follow it and harm, each more than the one before.
const UNLUCKY: &str = "[ $AR_EXPERIMENT = 1 ] || until grep -qs 'change 1$' $REPO/results.tsv; do sleep 0.02; done; \
                       case $AR_EXPERIMENT in \
                       1) echo 1.54 > value; echo -0.9 > luck;; *) echo $((AR_EXPERIMENT + 1)) > value;; esac; \
                       echo change $AR_EXPERIMENT";

fn args<'a>(agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let terms = ["--artifact", "out", "--decide", "confirmed", "--second-look", "3"];
    run.iter().chain(&terms).chain(more).copied().collect()
}

fn in_repo(repo: &TestRepo, agent: &str) -> String {
    agent.replace("$REPO", &repo.path().display().to_string())
}

fn night(repo: &TestRepo, agent: &str, more: &[&str]) -> Called {
    ar_in_time(repo, args(&in_repo(repo, agent), more))
}

/// The records that measured a discard again.
fn looks(repo: &TestRepo) -> Vec<Value> {
    let all = ar(repo, ["log", "--format", "json"]).ok().json();
    let ids = all["experiments"].as_array().unwrap().iter().map(|record| record["id"].as_u64().unwrap() as u32);
    ids.map(|id| shown(repo, id)).filter(|record| record["second_look"]["of"].is_u64()).collect()
}

#[test]
fn the_discard_that_came_closest_gets_fresh_runs_and_is_kept() {
    for layout in [&[][..], &["--slots", "2"]] {
        let repo = noisy();
        night(&repo, UNLUCKY, &[&["--max-experiments", "5"], layout].concat()).ok();
        let looks = looks(&repo);
        let [look] = looks.as_slice() else { panic!("{layout:?}: {looks:#?}") };
        let found = &look["second_look"];
        assert_eq!((&found["of"], &found["stall"], &look["outcome"]), (&json!(1), &json!(3), &json!("keep")));
        assert!(found["score"].as_f64().unwrap() < 0.0 && look["agent"].is_null(), "{look:#}");
        assert_eq!(runs(look), ["confirm 2", "confirm 3", "confirm 4", "confirm 5"], "{layout:?}");
        assert_eq!(shown(&repo, 1)["outcome"], "discard", "{layout:?}");
        artifacts(&repo, look);

        // It is no experiment of the budget, and the agent hears of it.
        let all = ar(&repo, ["log", "--format", "json"]).ok().json();
        assert_eq!(all["experiments"].as_array().unwrap().len(), 1 + 5 + 1, "{layout:?}");
        let id = look["id"].as_u64().unwrap();
        let told = ar(&repo, ["brief", "t"]).ok().stdout;
        assert!(told.contains("experiment 1 was measured again and kept"), "{told}");
        let shown = ar(&repo, ["show", "1"]).ok().stdout;
        assert!(shown.lines().any(|line| line.starts_with("second look") && line.contains(&format!("{id}: keep"))));
        let report = ar(&repo, ["report"]).ok().stdout;
        assert!(report.contains("second looks\n  1 discard, 1 kept, 0.00"), "{report}");
        assert_eq!(repo.git(["show", "autoresearch/t:value"]), "1.54");
        ar(&repo, ["doctor", "t"]).ok();
    }
}

#[test]
fn a_second_look_that_does_not_hold_counts_in_no_stall_and_is_the_last_one_at_its_discard() {
    let repo = noisy();
    let agent = "echo $((AR_EXPERIMENT + 2)) > value; echo change $AR_EXPERIMENT";
    let said = night(&repo, agent, &["--max-experiments", "7"]).ok().stdout;
    assert!(!said.contains("your change"), "{said}");
    let found: Vec<(u64, u64, u64)> = looks(&repo)
        .iter()
        .map(|look| {
            assert_eq!((&look["outcome"], runs(look).len()), (&json!("discard"), 2), "{look:#}");
            let of = |field: &str| look["second_look"][field].as_u64().unwrap();
            (look["id"].as_u64().unwrap(), of("of"), of("stall"))
        })
        .collect();
    assert_eq!(found, [(4, 1, 3), (8, 2, 6)]);
    let told = ar(&repo, ["brief", "t"]).ok().stdout;
    assert!(told.contains("- experiment 2 was measured again and did not hold\n"), "{told}");
    assert!(told.contains("- the discards that came closest: 3 ("), "{told}");
    let status = ar(&repo, ["status", "t", "--format", "json"]).ok().json();
    assert_eq!(status["sessions"][0]["since_keep"], 7);
    let log = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    assert_eq!(log.lines().count(), 7, "a look is no iteration: {log}");
    // One that nothing but the end of a night kept from beginning begins with the next one.
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "2"]).ok();
    assert_eq!(looks(&repo).len(), 2, "it is due at nine, and the night is over then");
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert_eq!(looks(&repo)[2]["second_look"]["stall"], 9);
}

#[test]
fn a_discard_that_conflicts_with_the_incumbent_is_marked_and_gets_no_runs() {
    let repo = noisy();
    let agent = UNLUCKY.replace(" *)", " 2) echo 0.5 > value;; *)");
    night(&repo, &agent, &["--max-experiments", "6"]).ok();
    assert_eq!(shown(&repo, 2)["outcome"], "keep");
    let looks = looks(&repo);
    let [marked] = looks.as_slice() else { panic!("{looks:#?}") };
    assert_eq!((&marked["id"], &marked["second_look"]["of"], runs(marked).len()), (&json!(1), &json!(1), 1));
    let all = ar(&repo, ["log", "--format", "json"]).ok().json();
    assert_eq!(all["experiments"].as_array().unwrap().len(), 1 + 6, "it has no record of its own");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn a_second_look_that_ends_while_another_run_is_active_accuses_nobody() {
    let repo = noisy();
    let holds = ["hold-3-1", "hold-4-1"].map(|name| repo.outside().join(name));
    holds.iter().for_each(|hold| fs::write(hold, "").unwrap());
    let agent = "echo $((AR_EXPERIMENT + 2)) > value; printf '{\"direction\": \"n%s\"}' $AR_EXPERIMENT > $AR_PROPOSAL; \
                 echo change $AR_EXPERIMENT";
    let mut command =
        ar_command(&repo, &repo.path(), args(agent, &["--max-experiments", "4", "--slots", "2", "--ahead", "1"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the run of the fourth", || made(&repo).contains(&"4 1".to_owned()).then_some(()));
    fs::remove_file(&holds[0]).unwrap();
    let is_recorded = || repo.try_git(["rev-parse", "-q", "--verify", "refs/autoresearch/t/00005"]).status.success();
    until("the record of the second look", || is_recorded().then_some(()));
    fs::remove_file(&holds[1]).unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(!format!("{}{}", called.stdout, called.stderr).contains("restored"), "{called:#?}");
    assert!(!repo.exists(".autoresearch/t/state/directions_tried.json.rewritten"), "{called:#?}");
    assert_eq!(looks(&repo).len(), 1, "{called:#?}");
}

/// Where a session with a second look is killed.
#[cfg(debug_assertions)]
const POINTS: [&str; 10] = [
    "confirming.entered",
    "confirming.run_entered",
    "confirming.run_over",
    "confirming.run_taken",
    "ready.entered",
    "ready.ref_made",
    "recording.entered",
    "recording.recorded",
    "running.over",
    "second_look.opened",
];

#[cfg(debug_assertions)]
#[test]
fn killed_at_any_point_a_second_look_is_made_once() {
    let whole = noisy();
    night(&whole, UNLUCKY, &["--max-experiments", "4"]).ok();
    let layouts = [&[][..], &["--slots", "2"]];
    crate::crash::in_parallel(&crate::kill::in_turn(&POINTS, &layouts), |(point, layout)| {
        let repo = noisy();
        let agent = in_repo(&repo, UNLUCKY);
        let all = args(&agent, &["--max-experiments", "4"]);
        let mut command = ar_command(&repo, &repo.path(), all.iter().chain(*layout));
        // In its fourth run it is at the second look at the latest.
        let time = if matches!(*point, "recording.entered" | "recording.recorded" | "running.over") { 5 } else { 1 };
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:{time}"));
        let killed = Called::from(command.output().unwrap());
        assert_eq!(killed.code, None, "{point} {layout:?} killed nobody: {killed:#?}");
        ar_in_time(&repo, ["resume", "t"]).ok();
        let looks = looks(&repo);
        let [look] = looks.as_slice() else { panic!("{point} {layout:?}: {looks:#?}") };
        assert_eq!((&look["outcome"], runs(look).len()), (&json!("keep"), 4), "{point} {layout:?}");
        assert!(made_twice(&repo).is_empty(), "{point} {layout:?}: {:?} were made twice", made_twice(&repo));
        if layout.is_empty() {
            assert_eq!(made(&repo), made(&whole), "{point}");
        }
        ar(&repo, ["doctor", "t"]).ok();
    });
}
