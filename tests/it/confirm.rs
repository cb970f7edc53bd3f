//! Decisions by fresh runs, `--decide confirmed`.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::artifacts::left;
use crate::kill::soak;
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// A repository whose command prints the number in `value`, with noise by seed; `luck` makes it better for seed 1 alone. Each run
/// notes its experiment and its seed.
fn noisy() -> TestRepo {
    let repo = TestRepo::empty();
    let script = format!(
        "echo \"$AR_EXPERIMENT $AR_SEED\" >> {0}/runs\n\
         while [ -e {0}/hold-$AR_SEED ]; do sleep 0.02; done\n\
         [ ! -e {0}/fails-$AR_EXPERIMENT-$AR_SEED ] || {{ echo boom; exit 3; }}\n\
         mkdir -p out; echo weights of seed $AR_SEED > out/model\n\
         awk -v s=$AR_SEED -v v=$(cat value) -v l=$(cat luck) 'BEGIN {{\n\
         n = ((s * 37 + v * 1100) % 17) / 100; print \"val_bpb: \" v + n - (s == 1 ? l : 0) }}'\n\
         echo peak_vram_mb: $((1024 * AR_SEED))\n",
        repo.outside().display()
    );
    repo.write("train.sh", script);
    repo.write("value", "2.0\n");
    repo.write("luck", "0\n");
    repo.write(".gitignore", "out/\n");
    repo.commit_all("a noisy script");
    repo
}

/// Its changes: one that helps, one that is only lucky, one that harms, and one more that helps.
const AGENT: &str = "case $AR_EXPERIMENT in 1) echo 1.4 > value;; 2) echo 0.9 > luck;; 3) echo 3 > value;; \
                     *) echo 1.0 > value;; esac; echo change $AR_EXPERIMENT";

const ARGS: [&str; 13] = [
    "run",
    "--yes",
    "--metric",
    "val_bpb",
    "--cmd",
    "sh train.sh",
    "--tag",
    "t",
    "--agent",
    AGENT,
    "--artifact",
    "out",
    "--decide",
];

fn night(repo: &TestRepo, more: &[&str]) -> Called {
    ar_in_time(repo, ARGS.iter().chain(&["confirmed", "--max-experiments", "4"]).chain(more))
}

/// The runs that were made: their experiments and seeds, in no order.
fn made(repo: &TestRepo) -> Vec<String> {
    let text = fs::read_to_string(repo.outside().join("runs")).unwrap_or_default();
    let mut made: Vec<String> = text.lines().map(str::to_owned).collect();
    made.sort();
    made
}

fn shown(repo: &TestRepo, id: u32) -> Value {
    ar(repo, ["show", &id.to_string(), "--tag", "t", "--format", "json"]).ok().json()
}

/// The role and the seed of each run of a record.
fn runs(record: &Value) -> Vec<String> {
    let run = |run: &Value| format!("{} {}", run["role"].as_str().unwrap(), run["seed"]);
    record["runs"].as_array().unwrap().iter().map(run).collect()
}

/// The mean of the runs of a role.
fn mean(record: &Value, role: &str) -> f64 {
    let runs = record["runs"].as_array().unwrap().iter().filter(|run| run["role"] == role);
    let values: Vec<f64> = runs.map(|run| run["value"].as_f64().unwrap()).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Checks that an experiment has the artifacts of the best run that decided on it, and of no other one; gives them.
fn artifacts(repo: &TestRepo, record: &Value) -> BTreeMap<String, String> {
    let files = left(repo, record["id"].as_u64().unwrap().try_into().unwrap());
    if record["outcome"] != "keep" {
        assert!(files.is_empty() && record.get("artifacts_run").is_none(), "{record:#} {files:?}");
        return files;
    }
    let role = record["artifacts_run"]["role"].as_str().unwrap();
    let runs = record["runs"].as_array().unwrap().iter().filter(|run| run["role"] == role);
    let mut values: Vec<_> = runs.map(|run| (run["value"].as_f64().unwrap(), run["seed"].as_u64().unwrap())).collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap());
    // Further runs of the baseline leave none.
    let seed = if record["id"] == 0 { 1 } else { values[0].1 };
    assert!(record["id"] == 0 || ["confirm", "trial"].contains(&role), "{record:#}");
    assert_eq!(record["artifacts_run"], json!({"role": role, "seed": seed}), "{record:#}");
    let expected = BTreeMap::from([("artifacts/out/model".to_owned(), format!("weights of seed {seed}\n"))]);
    assert_eq!(files, expected, "{record:#}");
    files
}

/// What came of each experiment: outcome, number, roles and seeds, artifacts; and the rows.
fn outcome(repo: &TestRepo) -> (Vec<Value>, String) {
    let of = |id| {
        let record = shown(repo, id);
        let mut seeds = runs(&record);
        seeds.sort();
        json!([id, record["outcome"], record["metric"]["raw"], seeds, artifacts(repo, &record)])
    };
    let rows = repo.read("results.tsv");
    let rows = rows.lines().map(|row| row.split_once('\t').map_or(row, |(_, rest)| rest)).collect::<Vec<_>>();
    ((0..=4).map(of).collect(), rows.join("\n"))
}

#[test]
fn in_place_fresh_runs_decide_and_the_run_that_selected_a_change_does_not_count() {
    let repo = noisy();
    let said = night(&repo, &[]).ok();
    let records: Vec<Value> = (0..=4).map(|id| shown(&repo, id)).collect();
    let outcomes: Vec<_> = records.iter().map(|record| record["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["keep", "keep", "discard", "discard", "keep"], "{said:#?}");
    assert_eq!(runs(&records[0]), ["baseline 1", "baseline 2", "baseline 3", "baseline 4"]);
    assert_eq!(runs(&records[1]), ["screen 1", "confirm 2", "confirm 3", "confirm 4", "confirm 5"]);
    assert_eq!(runs(&records[2])[..3], ["screen 1", "confirm 2", "confirm 3"], "{:#}", records[2]);
    assert_eq!(runs(&records[3]), ["screen 1"], "the screen has refused it");
    for (record, role) in [(0, "baseline"), (1, "confirm"), (2, "confirm"), (4, "confirm")] {
        let record = &records[record];
        let value = record["metric"]["value"].as_f64().unwrap();
        assert!((value - mean(record, role)).abs() < 1e-9, "{record:#}");
        assert_eq!(record["metric"]["raw"], format!("{value:.3}"), "one decimal more than the runs print");
    }
    assert_eq!(records[1]["memory_gb"], 5.0, "the most of the deciding runs");
    assert_eq!(records[1]["metrics"]["peak_vram_mb"], 3584.0, "their mean");
    let reason = records[1]["reason"].as_str().unwrap();
    assert!(reason.contains("on 4 fresh runs (") && reason.contains("; its first run had said "), "{reason}");
    let reason = records[2]["reason"].as_str().unwrap();
    assert!(reason.starts_with("not confirmed: "), "{reason}");
    let rows = repo.read("results.tsv");
    let baseline = rows.lines().nth(1).unwrap();
    assert!(baseline.contains(records[0]["metric"]["raw"].as_str().unwrap()), "{rows}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    records.iter().for_each(|record| _ = artifacts(&repo, record));
    let text = ar(&repo, ["show", "1"]).ok().stdout;
    let seed = &records[1]["artifacts_run"]["seed"];
    assert!(text.contains(&format!("/00001/artifacts (confirm run, seed {seed})\n")), "{text}");
    ar(&repo, ["doctor", "t"]).ok();
    let exported = ar(&repo, ["log", "--tag", "t", "--format", "json"]).ok().json();
    assert!(exported.to_string().contains("\"confirm\""), "{exported}");
}

#[test]
fn on_slots_fresh_runs_decide_and_each_seed_is_used_once() {
    let repo = noisy();
    // The fourth is better than the first, and is not to be kept before it.
    let wait = "until git rev-parse -q --verify refs/autoresearch/t/00001 >/dev/null; do sleep 0.1; done; echo 1.0";
    let agent = AGENT.replace("echo 1.0", wait);
    let args = ARGS.map(|arg| if arg == AGENT { &agent } else { arg });
    let said = ar_in_time(&repo, args.iter().chain(&["confirmed", "--max-experiments", "4", "--slots", "2"])).ok();
    let baseline = shown(&repo, 0);
    assert_eq!(runs(&baseline)[..4], ["baseline 1", "baseline 2", "baseline 3", "baseline 4"], "{said:#?}");
    assert!((baseline["metric"]["value"].as_f64().unwrap() - mean(&baseline, "baseline")).abs() < 0.05);
    assert_eq!(shown(&repo, 1)["outcome"], "keep");
    assert_eq!(shown(&repo, 2)["outcome"], "discard");
    (0..=4).for_each(|id| _ = artifacts(&repo, &shown(&repo, id)));
    let mut once = made(&repo);
    once.dedup();
    assert_eq!(once, made(&repo), "{said:#?}");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn a_command_that_gives_one_number_for_every_seed_is_decided_by_one_run() {
    let repo = noisy();
    repo.write(
        "train.sh",
        format!("echo \"$AR_EXPERIMENT $AR_SEED\" >> {}/runs; echo val_bpb: $(cat value)\n", repo.outside().display()),
    );
    repo.commit_all("exact");
    night(&repo, &[]).ok();
    assert_eq!(made(&repo), ["0 1", "0 2", "0 3", "0 4", "1 1", "2 1", "3 1", "4 1"]);
    // There is nothing to verify.
    assert!(!ar(&repo, ["report", "t"]).ok().stdout.contains("verified"));
    assert_eq!(
        (shown(&repo, 1)["outcome"].as_str(), shown(&repo, 1)["metric"]["raw"].as_str()),
        (Some("keep"), Some("1.4"))
    );
}

#[test]
fn a_stop_finishes_one_fresh_run_and_the_change_waits_for_the_others() {
    let repo = noisy();
    let hold = repo.outside().join("hold-3");
    fs::write(&hold, "").unwrap();
    let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&["confirmed", "--max-experiments", "4"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a run with seed 3", || made(&repo).contains(&"0 3".to_owned()).then_some(()));
    let status = ar(&repo, ["status", "t"]).ok();
    assert!(status.stdout.contains("confirming"), "{status:#?}");
    ar(&repo, ["stop", "t"]).ok();
    fs::remove_file(&hold).unwrap();
    let stopped = Called::from(child.wait_with_output().unwrap());
    assert!(stopped.stderr.contains("experiment 1 stays open with 0 of up to 4 fresh runs"), "{stopped:#?}");
    ar(&repo, ["finalize", "t"]).exits(1);
    let resumed = ar_in_time(&repo, ["resume", "t"]).ok();
    let whole = noisy();
    night(&whole, &[]).ok();
    assert_eq!((outcome(&repo), made(&repo)), (outcome(&whole), made(&whole)), "{resumed:#?}");
}

#[test]
fn a_stop_during_the_first_run_of_the_baseline_lets_all_its_runs_end() {
    let repo = noisy();
    let hold = repo.outside().join("hold-1");
    fs::write(&hold, "").unwrap();
    let more = ["confirmed", "--max-experiments", "4", "--baseline-runs", "2"];
    let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&more));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a run with seed 1", || made(&repo).contains(&"0 1".to_owned()).then_some(()));
    ar(&repo, ["stop", "t"]).ok();
    fs::remove_file(&hold).unwrap();
    Called::from(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(made(&repo), ["0 1", "0 2"]);
    ar_in_time(&repo, ["resume", "t"]).ok();
    let whole = noisy();
    ar_in_time(&whole, ARGS.iter().chain(&more)).ok();
    assert_eq!((outcome(&repo), made(&repo)), (outcome(&whole), made(&whole)));
}

#[test]
fn a_change_whose_fresh_runs_never_came_is_no_keep() {
    let repo = noisy();
    let hold = repo.outside().join("hold-4");
    fs::write(&hold, "").unwrap();
    let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&["confirmed", "--max-experiments", "4"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a run with seed 4", || made(&repo).contains(&"0 4".to_owned()).then_some(()));
    ar(&repo, ["stop", "t"]).ok();
    fs::remove_file(&hold).unwrap();
    child.wait_with_output().unwrap();
    ar_in_time(&repo, ["finalize", "t", "--drop-winners"]).exits(1);
    let record = shown(&repo, 1);
    assert_eq!(record["outcome"], "discard");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.starts_with("not confirmed: ") && reason.contains("0 of 4 fresh runs"), "{reason}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn a_fresh_run_that_fails_gives_the_experiment_its_class() {
    let repo = noisy();
    fs::write(repo.outside().join("fails-1-3"), "").unwrap();
    night(&repo, &[]).ok();
    let record = shown(&repo, 1);
    assert_eq!((record["outcome"].as_str(), record["failure"]["class"].as_str()), (Some("crash"), Some("crash")));
    assert_eq!(runs(&record), ["screen 1", "confirm 2", "confirm 3"]);
    assert!(record["reason"].as_str().unwrap().contains("its fresh run with seed 3"), "{record:#}");
}

#[test]
fn a_limit_holds_in_every_fresh_run() {
    let repo = noisy();
    night(&repo, &["--limit", "memory_gb<=2"]).ok();
    let record = shown(&repo, 1);
    assert_eq!((record["outcome"].as_str(), runs(&record).len()), (Some("discard"), 3), "{record:#}");
}

#[test]
fn a_threshold_and_fresh_runs_exclude_each_other_and_init_chooses_fresh_runs() {
    let repo = noisy();
    let refused = night(&repo, &["--keep-above", "1.0"]).exits(2);
    assert!(refused.stderr.contains("--decide confirmed") && refused.stderr.contains("hint:"), "{refused:#?}");
    ar(&repo, ["init", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    assert!(repo.read("ar.toml").contains("\ndecide = \"confirmed\"\n"), "{}", repo.read("ar.toml"));
}

/// Where a session with fresh runs is killed.
#[cfg(debug_assertions)]
const POINTS: [&str; 15] = [
    "artifacts.renamed",
    "artifacts.set_aside",
    "artifacts.settled",
    "artifacts.taken",
    "artifacts.worse_removed",
    "confirming.baseline_amended",
    "confirming.entered",
    "confirming.row_replaced",
    "confirming.run_entered",
    "confirming.run_over",
    "confirming.run_taken",
    "recover.step_done",
    "recording.entered",
    "running.entered",
    "running.over",
];

/// Each point with each of these times; in a suite that is called often, with one of them in turn.
#[cfg(debug_assertions)]
fn starts(times: &[u32]) -> Vec<(&'static str, u32)> {
    let at = |(index, point)| {
        let time = times[index % times.len()];
        let times = if soak().is_some() { times.to_vec() } else { vec![time] };
        times.into_iter().map(move |time| (point, time))
    };
    POINTS.into_iter().enumerate().flat_map(at).collect()
}

#[cfg(debug_assertions)]
fn is_killed_and_resumed(point: &str, time: u32, more: &[&str], whole: &(Vec<Value>, String), all: &[String]) {
    let repo = noisy();
    let trace = repo.outside().join("trace");
    let mut command =
        ar_command(&repo, &repo.path(), ARGS.iter().chain(&["confirmed", "--max-experiments", "4"]).chain(more));
    command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_AT", format!("{point}:{time}"));
    let killed = Called::from(command.output().unwrap());
    let is_passed = time > 1 || !point.starts_with("confirming.") || point.ends_with("ed") && !more.is_empty();
    assert!(killed.code.is_none() || is_passed && killed.code == Some(0), "{point}:{time} killed nobody: {killed:#?}");
    let resumed = ar_in_time(&repo, ["resume", "t"]);
    assert!(matches!(resumed.code, Some(0 | 1)), "{resumed:#?}");
    let mut once = made(&repo);
    once.dedup();
    if more.is_empty() {
        assert_eq!(&outcome(&repo), whole, "killed at {point}:{time}: {resumed:#?}");
        assert_eq!(once, all, "killed at {point}:{time}");
    } else {
        let records = repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/autoresearch/t/0*"]);
        records.lines().for_each(|id| _ = artifacts(&repo, &shown(&repo, id.parse().unwrap())));
    }
    assert_eq!(once, made(&repo), "a seed was used twice; killed at {point}:{time}");
    ar(&repo, ["doctor", "t"]).ok();
    let fsck = Command::new("git").args(["fsck", "--strict"]).current_dir(repo.path()).output().unwrap();
    assert!(fsck.status.success(), "{fsck:?}");
}

#[cfg(debug_assertions)]
#[test]
fn killed_at_any_point_in_place_no_run_is_counted_twice() {
    let whole = noisy();
    night(&whole, &[]).ok();
    let (outcome, made) = (outcome(&whole), made(&whole));
    crate::crash::in_parallel(&starts(&[1, 2, 3, 5]), |(point, time)| {
        is_killed_and_resumed(point, *time, &[], &outcome, &made)
    });
}

#[cfg(debug_assertions)]
#[test]
fn killed_at_any_point_on_slots_no_seed_is_used_twice() {
    let none = (Vec::new(), String::new());
    let mut starts = starts(&[1, 3]);
    // Sessions on slots are killed at those of artifacts in the tests of these.
    let is_of_artifacts = |point: &str| point.starts_with("artifacts.") && point != "artifacts.worse_removed";
    starts.retain(|(point, _)| soak().is_some() || !is_of_artifacts(point));
    crate::crash::in_parallel(&starts, |(point, time)| {
        is_killed_and_resumed(point, *time, &["--slots", "2"], &none, &[])
    });
}

#[test]
fn two_experiments_are_compared_by_fresh_runs_of_both_which_are_pooled() {
    let repo = noisy();
    night(&repo, &[]).ok();
    let unverified = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(unverified.lines().next().unwrap().contains(", not verified"), "{unverified}");
    assert!(unverified.contains("\nverified by fresh runs\n  nothing yet\n"), "{unverified}");
    let first = ar(&repo, ["verify", "--runs", "2", "--tag", "t", "--format", "json"]).ok().json();
    assert_eq!(
        (&first["version"], &first["a"], &first["b"], &first["runs"]),
        (&1.into(), &0.into(), &4.into(), &2.into())
    );
    let both = ar(&repo, ["verify", "--runs", "3", "--tag", "t", "--format", "json"]).ok().json();
    assert_eq!((&both["runs"], &both["level"], &both["better"]), (&5.into(), &json!(0.95), &json!(true)));
    let [low, difference, high] = ["low", "difference", "high"].map(|name| both[name].as_f64().unwrap());
    assert!(low < difference && difference < high && (difference - 1.0).abs() < 0.2, "{both}");
    let seeds = made(&repo);
    let of = |id: &str| {
        seeds.iter().filter(|run| run.starts_with(id)).filter(|run| run[2..].parse::<u32>().unwrap() > 5).count()
    };
    assert_eq!((of("0 "), of("4 ")), (5, 5), "fresh seeds, the same for both: {seeds:?}");
    let listed =
        repo.git(["for-each-ref", "--format=%(objecttype) %(contents:subject)", "refs/autoresearch/t/verified"]);
    let (kind, message) = listed.trim().split_once(' ').unwrap();
    let recorded: Value = serde_json::from_str(message).unwrap();
    assert_eq!((kind, &recorded["difference"]), ("tag", &both["difference"]));
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let kept = report["kept"].as_array().unwrap();
    let verified: Vec<&Value> = kept.iter().map(|kept| &kept["verified"]).collect();
    assert_eq!((verified[0], verified[1], &verified[2]["low"]), (&Value::Null, &Value::Null, &both["low"]), "{kept:?}");
    let report = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(report.lines().next().unwrap().contains("verified on 5 fresh runs of each: +"), "{report}");
    let section = report.split("\nverified by fresh runs, positive is better\n").nth(1).unwrap();
    assert!(section.starts_with("  experiment 4 against the baseline: +"), "{section}");
    assert_eq!(section.lines().nth(1), Some("  not verified: experiment 1"), "{section}");
    let page = ar(&repo, ["report", "t", "--format", "html"]).ok().stdout;
    assert!(
        page.contains("verified on 5 fresh runs of each: +") && page.contains("not verified: experiment 1"),
        "{page}"
    );
    let picture = ar(&repo, ["report", "t", "--chart", "../night.svg"]).ok();
    let drawn = fs::read_to_string(repo.outside().join("night.svg")).unwrap();
    assert!(drawn.contains("verified on 5 fresh runs of each: +"), "{picture:#?}");
    let said = ar(&repo, ["verify", "1", "--runs", "2", "--tag", "t"]).ok();
    let sentence = "experiment 1 is better than the baseline by 0.";
    assert!(said.stdout.contains(sentence), "{said:#?}");
    let text = ar(&repo, ["show", "1", "--tag", "t"]).ok().stdout;
    assert!(text.contains(&format!("verified      {sentence}")), "{text}");
    assert_eq!(shown(&repo, 4)["verified"][0]["difference"], both["difference"]);
    ar(&repo, ["verify", "1", "1", "--tag", "t"]).exits(2);
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    ar(&repo, ["doctor", "t"]).ok();
    // Both were confirmed.
    assert!(!ar(&repo, ["finalize", "t"]).ok().stderr.contains("did not confirm"));
}

#[test]
fn a_verification_that_a_run_ends_keeps_the_runs_before_it_and_goes_on() {
    let repo = noisy();
    night(&repo, &[]).ok();
    fs::write(repo.outside().join("fails-4-7"), "").unwrap();
    let failed = ar(&repo, ["verify", "--runs", "3", "--tag", "t"]).exits(1);
    assert!(failed.stderr.contains("with seed 7") && failed.stderr.contains("hint:"), "{failed:#?}");
    fs::remove_file(repo.outside().join("fails-4-7")).unwrap();
    let whole = ar(&repo, ["verify", "--runs", "3", "--tag", "t", "--format", "json"]).ok().json();
    assert_eq!(whole["runs"], 3);
    let made = made(&repo);
    assert_eq!(made.iter().filter(|run| *run == "0 6").count(), 1, "{made:?}");
}

#[test]
fn a_verification_that_is_killed_on_slots_or_between_sessions_counts_no_run_twice() {
    for has_two in [false, true] {
        let repo = noisy();
        night(&repo, &[]).ok();
        let mut args = vec!["verify", "--runs", "3", "--slots", "2", "--format", "json"];
        if has_two {
            repo.git(["switch", "--quiet", "main"]);
            let other = ARGS.map(|arg| if arg == "t" { "u" } else { arg });
            ar_in_time(&repo, other.iter().chain(&["once", "--max-experiments", "1"])).ok();
            args.extend(["t:best", "u:best"]);
        } else {
            args.extend(["--tag", "t"]);
        }
        let hold = repo.outside().join("hold-7");
        fs::write(&hold, "").unwrap();
        let mut command = ar_command(&repo, &repo.path(), &args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let of_seed = |seed: &str| made(&repo).iter().filter(|run| run.ends_with(seed)).count();
        until("two runs with seed 7", || (of_seed(" 7") == 2).then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        until("them to end with it", || repo.processes().is_empty().then_some(()));
        fs::remove_file(&hold).unwrap();
        assert_eq!(ar(&repo, &args).ok().json()["runs"], 3);
        let tag = repo.git(["for-each-ref", "--format=%(contents)", "refs/autoresearch/*/verified/*"]);
        let pair: Value = serde_json::from_str(tag.trim()).unwrap();
        for values in ["values_a", "values_b"] {
            let mut seeds: Vec<_> = pair[values].as_array().unwrap().iter().map(|it| it[0].as_u64().unwrap()).collect();
            seeds.sort_unstable();
            assert_eq!(seeds, [6, 7, 8], "{pair}");
        }
        assert_eq!(of_seed(" 6"), 2, "those that had ended are not made again: {:?}", made(&repo));
    }
}

#[test]
fn a_session_at_work_is_not_verified() {
    let repo = noisy();
    ar_in_time(&repo, ARGS.iter().chain(&["confirmed", "--max-experiments", "1"])).ok();
    let hold = repo.outside().join("hold-1");
    fs::write(&hold, "").unwrap();
    let mut command = ar_command(&repo, &repo.path(), ["resume", "t", "--max-experiments", "2"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run of experiment 2", || made(&repo).contains(&"2 1".to_owned()).then_some(()));
    ar(&repo, ["verify", "--tag", "t"]).exits(5);
    fs::remove_file(&hold).unwrap();
    child.wait_with_output().unwrap();
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/verified"]), "");
}

#[test]
fn a_script_that_takes_no_seed_is_named_before_fresh_runs_decide() {
    let repo = noisy();
    let warned = |args: &[&str]| ar(&repo, args).stdout.contains("no tracked file names AR_SEED");
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\ndecide = \"confirmed\"\n");
    repo.commit_all("settings");
    assert!(!warned(&["doctor"]));
    repo.write("train.sh", "echo val_bpb: 1\n");
    repo.write("program.md", "It takes AR_SEED.\n");
    repo.commit_all("a script without a seed");
    assert!(warned(&["doctor"]));
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\n");
    repo.commit_all("one run decides");
    assert!(!warned(&["doctor"]));
    repo.rm("ar.toml");
    let init = ar(&repo, ["init", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    assert!(init.stdout.contains("AR_SEED"), "{init:#?}");
}

/// What the end of the night recorded of the best experiment against the baseline.
fn verified(repo: &TestRepo) -> Value {
    let message = repo.git(["for-each-ref", "--format=%(contents)", "refs/autoresearch/t/verified"]);
    serde_json::from_str(message.trim()).unwrap_or_default()
}

#[test]
fn a_night_keeps_time_to_verify_its_best_experiment_where_its_runs_are_made() {
    for more in [&["--verify-for", "2s"][..], &["--verify-for", "2s", "--slots", "2"]] {
        let repo = noisy();
        let told = night(&repo, more).ok();
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(
            said.contains("verifying experiment 4 against the baseline by fresh runs, for 2 s at most"),
            "{told:#?}"
        );
        let pair = verified(&repo);
        assert!(pair["better"] == true && pair["runs"].as_u64().unwrap() > 1, "{pair}");
        let mut seeds: Vec<u64> =
            pair["values_b"].as_array().unwrap().iter().map(|it| it[0].as_u64().unwrap()).collect();
        assert!(seeds.iter().all(|seed| *seed > 5), "fresh: {seeds:?}");
        seeds.sort_unstable();
        let count = seeds.len();
        seeds.dedup();
        assert_eq!(seeds.len(), count, "each once");
        let best = shown(&repo, 4)["commit"].as_str().unwrap().to_owned();
        assert_eq!(repo.git(["rev-parse", "autoresearch/t"]).trim(), best);
        assert_eq!(repo.git(["status", "--porcelain"]), "");
        ar(&repo, ["doctor", "t"]).ok();
    }
    let repo = noisy();
    night(&repo, &[]).ok();
    assert_eq!(verified(&repo), Value::Null, "not without being asked");
}

/// A night that ends while its second change is being confirmed, and then verifies the first one until `fails` says that a
/// run fails. The loop has half of `--for`.
fn night_that_ends_while_confirming(repo: &TestRepo, fails: &str) -> Child {
    fs::write(repo.outside().join(fails), "").unwrap();
    let begun = Instant::now();
    let hold = repo.outside().join("hold-3");
    // The runs before with that seed have ended when it is called.
    let agent = AGENT.replace("echo 0.9 > luck", &format!(": > {}; echo 1.0 > value", hold.display()));
    let args = ARGS.map(|arg| if arg == AGENT { &agent } else { arg });
    let more = ["confirmed", "--for", "16s", "--verify-for", "8s"];
    let mut command = ar_command(repo, &repo.path(), args.iter().chain(&more));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a run that confirms the second", || made(repo).contains(&"2 3".to_owned()).then_some(()));
    thread::sleep(Duration::from_millis(8200).saturating_sub(begun.elapsed()));
    fs::remove_file(&hold).unwrap();
    child
}

/// Checks that nothing was taken for somebody's work, and that the change that stayed open is confirmed by the next loop.
fn goes_on_with_open_change(repo: &TestRepo, by: &[&str], at: &str) {
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/saved"]), "");
    ar(repo, ["doctor", "t"]).ok();
    let mut command = ar_command(repo, &repo.path(), by);
    let resumed = Called::from(command.env("AR_CLOCK", at).output().unwrap()).ok();
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/saved"]), "", "{resumed:#?}");
    assert_eq!(runs(&shown(repo, 2))[..3], ["screen 1", "confirm 2", "confirm 3"], "{resumed:#?}");
    // One by a fresh seed that was killed gave no number, and is made again.
    let mut made = made(repo);
    made.retain(|run| run[2..].parse::<u32>().unwrap() <= 5);
    let mut once = made.clone();
    once.dedup();
    assert_eq!(once, made, "{resumed:#?}");
}

#[test]
fn a_night_that_ends_while_a_change_is_confirmed_is_verified_beside_it() {
    let repo = noisy();
    let child = night_that_ends_while_confirming(&repo, "fails-0-8");
    let ended = Called::from(child.wait_with_output().unwrap());
    assert!(ended.stderr.contains("experiment 2 stays open with 2 of up to 4 fresh runs"), "{ended:#?}");
    assert!(ended.stderr.contains("experiment 1 is better than the baseline by 0."), "{ended:#?}");
    assert!(!ended.stderr.contains("saved"), "{ended:#?}");
    assert_eq!(verified(&repo)["runs"], 2, "{ended:#?}");
    let head = repo.git(["log", "--format=%s", "-1", "autoresearch/t"]);
    assert!(head.starts_with("change 2"), "the open change is on the branch: {head}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // The night is over, and nothing else begins.
    goes_on_with_open_change(&repo, &["resume", "t"], "2026-11-21T06:00:00Z");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/0*"]).lines().count(), 3);
}

#[test]
fn a_night_that_is_killed_while_it_is_verified_beside_an_open_change_loses_nothing() {
    let repo = noisy();
    let hold = repo.outside().join("hold-6");
    fs::write(&hold, "").unwrap();
    let mut child = night_that_ends_while_confirming(&repo, "fails-0-8");
    until("the baseline's run with seed 6", || made(&repo).contains(&"0 6".to_owned()).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    ar(&repo, ["stop", "t", "--now"]).ok();
    fs::remove_file(&hold).unwrap();
    let again = ["run", "--yes", "--for", "1h", "--max-experiments", "1"];
    goes_on_with_open_change(&repo, &again, "2026-11-21T22:00:00Z");
}

#[test]
fn a_stop_while_the_night_is_verified_keeps_the_runs_that_ended() {
    for more in [&[][..], &["--slots", "2"]] {
        let repo = noisy();
        let hold = repo.outside().join("hold-7");
        fs::write(&hold, "").unwrap();
        let args = ["confirmed", "--max-experiments", "4", "--verify-for", "1h"];
        let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&args).chain(more));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("a run with seed 7", || made(&repo).iter().any(|run| run.ends_with(" 7")).then_some(()));
        let status = ar(&repo, ["status", "t"]).ok().stdout;
        assert!(status.contains(" once again, as the end of the night verifies it"), "{status}");
        ar(&repo, ["stop", "t"]).ok();
        fs::remove_file(&hold).unwrap();
        let stopped = Called::from(child.wait_with_output().unwrap()).exits(0);
        assert!(stopped.stdout.contains("stopped: on request"), "{stopped:#?}");
        let pair = verified(&repo);
        let recorded = ["values_a", "values_b"].map(|values| pair[values].as_array().unwrap().len());
        let fresh = made(&repo).iter().filter(|run| run[2..].parse::<u32>().unwrap() > 5).count();
        assert_eq!(recorded.iter().sum::<usize>(), fresh, "{pair} {stopped:#?}");
        assert!(fresh > 2, "{stopped:#?}");
    }
}

#[test]
fn a_night_that_is_killed_while_the_baseline_is_verified_brings_the_tree_back_and_goes_on() {
    let repo = noisy();
    let hold = repo.outside().join("hold-6");
    fs::write(&hold, "").unwrap();
    let args = ["confirmed", "--max-experiments", "4", "--verify-for", "1s"];
    let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&args));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the baseline's run with seed 6", || made(&repo).iter().any(|run| run.ends_with(" 6")).then_some(()));
    let best = shown(&repo, 4)["commit"].as_str().unwrap().to_owned();
    assert_ne!(repo.git(["rev-parse", "HEAD"]).trim(), best, "the baseline is checked out");
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(&hold).unwrap();
    ar(&repo, ["stop", "t", "--now"]).ok();
    assert_eq!(repo.git(["rev-parse", "HEAD", "autoresearch/t"]), format!("{best}\n{best}"));
    ar_in_time(&repo, ["resume", "t"]).ok();
    assert_eq!(repo.git(["rev-parse", "HEAD", "autoresearch/t"]), format!("{best}\n{best}"));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let pair = verified(&repo);
    assert!(pair["runs"].as_u64().unwrap() > 0, "{pair}");
    ar(&repo, ["doctor", "t"]).ok();
}
