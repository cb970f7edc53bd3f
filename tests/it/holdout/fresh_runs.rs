//! Fresh runs of recorded experiments with the hidden evaluator behind each: `ar verify --holdout` and `ar ablate --holdout`.

use super::*;
use crate::support::MovableClock;

/// The values that `ar verify --holdout` has noted, as programs print them, with which of the two, the seed and the split.
fn compared(repo: &TestRepo) -> Vec<(String, u64, &'static str, f64)> {
    let Some(pair) = entries(repo, "verified").pop() else { return Vec::new() };
    let of = |side: &str, split: &'static str| {
        let values = pair[split][format!("values_{side}")].as_array().unwrap().clone();
        let side = side.to_owned();
        values.into_iter().map(move |run| (side.clone(), run[0].as_u64().unwrap(), split, run[1].as_f64().unwrap()))
    };
    ["visible", "hidden"]
        .into_iter()
        .flat_map(|split| ["a", "b"].into_iter().flat_map(move |side| of(side, split)))
        .collect()
}

const VERIFY: [&str; 8] = ["verify", "1", "--holdout", "--runs", "2", "--tag", "t", "--format"];

fn verify(repo: &TestRepo) -> Value {
    ar_in_time(repo, VERIFY.iter().chain(&["json"])).ok().json()
}

/// The evaluations of fresh runs, in no order.
fn evaluated(repo: &TestRepo) -> Vec<String> {
    let mut all: Vec<String> = repo.read("../evaluated").lines().map(str::to_owned).collect();
    all.retain(|run| run.split_once(' ').unwrap().1.parse::<u64>().unwrap() > 5);
    all.sort();
    all
}

const FRESH: [&str; 4] = ["0 6", "0 7", "1 6", "1 7"];

#[test]
fn fresh_runs_compare_two_experiments_on_both_splits() {
    let Some(repo) = split() else { return };
    night(&repo, &[]).ok();
    let report = ar(&repo, ["report"]).ok().stdout;
    assert!(report.contains("`ar verify --holdout` compares the best experiment with the baseline"), "{report}");
    let refused = ar(&repo, ["verify", "--tag", "t"]).exits(1);
    assert!(refused.stderr.contains("run `ar verify --holdout --tag t`"), "{refused:#?}");
    let mut call = ar_command(&repo, &repo.path(), VERIFY.iter().chain(&["json"]));
    call.env("AR_EXPERIMENT", "5").env("AR_STATE_DIR", repo.file(".autoresearch/t/state")).env("AR_TAG", "t");
    let refused = Called::from(call.output().unwrap());
    assert!(refused.code == Some(1) && refused.stderr.contains("`ar verify` inside experiment 5"), "{refused:#?}");
    let (refs, records) = (repo.git(["for-each-ref"]), ar(&repo, ["export", "--to", "jsonl", "t"]).ok().stdout);
    let said = verify(&repo);
    for (side, seed, split, found) in compared(&repo) {
        let value = match (side.as_str(), split) {
            ("a", _) => 2.0,
            (_, "visible") => 1.4,
            _ => 2.5,
        };
        let noise = (seed as f64 * 37.0 + value * 1100.0) % 17.0 / 100.0;
        let digits = if split == "visible" { 0.00413 } else { 0.00277 };
        assert!((found - value - noise - digits).abs() < 1e-4, "{side} {seed} {split}: {found}");
    }
    let gains = [&said, &said["hidden"]].map(|it| (it["runs"].as_u64().unwrap(), it["difference"].as_f64().unwrap()));
    assert!(gains[0].0 == 2 && (gains[0].1 - 0.6).abs() < 0.2, "{said:#}");
    assert!(gains[1].0 == 2 && (gains[1].1 + 0.5).abs() < 0.2, "{said:#}");
    assert_eq!((repo.git(["for-each-ref"]), ar(&repo, ["export", "--to", "jsonl", "t"]).ok().stdout), (refs, records));
    assert_eq!((compared(&repo).len(), evaluated(&repo)), (8, FRESH.map(str::to_owned).to_vec()));
    // A broken evaluator can be mended, and no run is repeated for it.
    repo.write("../fails", "");
    let failed = ar(&repo, VERIFY.iter().chain(&["json"])).exits(1);
    assert!(
        failed.stderr.contains("the run of the evaluator of the baseline with seed 8 gave no number"),
        "{failed:#?}"
    );
    let log = failed.stderr.split("; see ").nth(1).unwrap().lines().next().unwrap();
    assert!(fs::read_to_string(log).unwrap().contains("boom"), "{failed:#?}");
    assert!(failed.stderr.contains("hint: fix the evaluator, then repeat the command"), "{failed:#?}");
    fs::remove_file(repo.outside().join("fails")).unwrap();
    let text = ar_in_time(&repo, VERIFY.iter().chain(&["table"])).ok().stdout;
    let gains = "experiment 1 against the baseline: visible better by 0.";
    assert!(text.contains(gains) && text.contains(", hidden worse by 0.") && text.contains(" on 4 pairs"), "{text}");
    let mut once = made(&repo);
    once.dedup();
    assert_eq!(once, made(&repo));
    let report = ar(&repo, ["report"]).ok().stdout;
    assert!(report.contains(gains) && report.contains("  not verified: experiments 2 and 4\n"), "{report}");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert!(!repo.exists(".autoresearch/t/runs/verify"));
    ar(&repo, ["doctor", "t"]).ok();
    let other = crate::confirm::noisy();
    crate::confirm::night(&other, &[]).ok();
    let refused = ar(&other, ["verify", "--holdout", "--tag", "t"]).exits(1);
    assert!(
        refused.stderr.contains("session t has no hidden split") && refused.stderr.contains("hint: "),
        "{refused:#?}"
    );
}

#[test]
fn an_ablation_goes_by_the_hidden_values_and_no_agent_can_read_them() {
    let Some(repo) = split() else { return };
    night(&repo, &[]).ok();
    let refused = ar(&repo, ["ablate", "t"]).exits(1);
    assert!(refused.stderr.contains("hint: run `ar ablate --holdout --tag t`"), "{refused:#?}");
    let (refs, records) = (repo.git(["for-each-ref"]), ar(&repo, ["export", "--to", "jsonl", "t"]).ok().stdout);
    const ABLATE: [&str; 7] = ["ablate", "--holdout", "--tag", "t", "--runs", "2", "--format"];
    let ablate = |format| ar_in_time(&repo, ABLATE.iter().chain(&[format])).ok();
    // The evaluator that was cut off is made again, and its run is not.
    killed_in_evaluator(&repo, &ABLATE);
    // Without experiment 4, the truth is 1.5 instead of 1.0.
    let said = ablate("json").json();
    let last = &said["kept"][1];
    assert!(last["experiment"] == 4 && (last["contribution"].as_f64().unwrap() - 0.5).abs() < 0.2, "{said:#}");
    assert!(said["kept"][0]["why"].as_str().unwrap().contains("touch the same lines"), "{said:#}");
    let noted = entries(&repo, "ablated").pop().unwrap();
    let values = noted["hidden"]["values"].as_array().unwrap();
    for run in values {
        let truth = if run["without"] == json!([4]) { 1.5 } else { 1.0 };
        let noise = (run["seed"].as_f64().unwrap() * 37.0 + truth * 1100.0) % 17.0 / 100.0;
        assert!((run["value"].as_f64().unwrap() - truth - noise - 0.00277).abs() < 1e-4, "{run}");
    }
    assert_eq!((values.len(), evaluated(&repo).len()), (4, 5));
    assert_eq!((repo.git(["for-each-ref"]), ar(&repo, ["export", "--to", "jsonl", "t"]).ok().stdout), (refs, records));
    let failing = repo.outside().join("fails");
    fs::write(&failing, "").unwrap();
    let failed = ar(&repo, ["ablate", "--holdout", "--tag", "t", "--runs", "3"]).exits(1);
    assert!(failed.stderr.contains("the run of the evaluator of "), "{failed:#?}");
    assert!(failed.stderr.contains("hint: fix the evaluator, then repeat the command"), "{failed:#?}");
    fs::remove_file(&failing).unwrap();
    let said = ar_in_time(&repo, ["ablate", "--holdout", "--tag", "t", "--runs", "3", "--format", "json"]).ok().json();
    assert!((said["kept"][1]["contribution"].as_f64().unwrap() - 0.5).abs() < 0.2, "{said:#}");
    // Both trees with each of three seeds.
    assert_eq!(made(&repo).iter().filter(|run| ["4 6", "4 7", "4 8"].contains(&run.as_str())).count(), 6);
    // What was made counts, and nothing is left.
    let text = ablate("table").stdout;
    assert!(text.contains("by the hidden values of 3 fresh runs of each"), "{text}");
    assert_eq!((evaluated(&repo).len(), repo.git(["worktree", "list"]).lines().count()), (8, 1));
    assert!(!repo.exists(".autoresearch/t/runs/verify"));
    // A comparison has other seeds.
    verify(&repo);
    assert!(compared(&repo).iter().all(|(_, seed, ..)| *seed > 8), "{:?}", compared(&repo));
    ar(&repo, ["ablate", "--holdout", "--drop", "--tag", "t"]).exits(2);
}

/// Starts fresh runs with the hidden split and kills that command while its first evaluator is under way.
fn killed_in_evaluator(repo: &TestRepo, command: &[&str]) {
    let hold = repo.outside().join("hold-evaluator");
    fs::write(&hold, "").unwrap();
    let mut command = ar_command(repo, &repo.path(), command.iter().chain(&["json"]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("an evaluator", || (!evaluated(repo).is_empty()).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("it to end", || repo.processes().is_empty().then_some(()));
    fs::remove_file(&hold).unwrap();
}

/// A night whose best experiment is verified until the evaluator has followed a run with the third fresh seed.
fn verifying_night(repo: &TestRepo, layout: &[&str]) -> std::process::Command {
    let (clock, later) = (MovableClock::new(repo), repo.outside().join("later"));
    fs::write(&later, "2026-11-20T23:00:00Z").unwrap();
    let evaluate = repo.read("../evaluate.sh");
    let moved = format!("[ $AR_SEED != 8 ] || mv {} {}", later.display(), repo.outside().join("clock").display());
    repo.write("../evaluate.sh", format!("{moved}\n{evaluate}"));
    let more = ["--decide", "confirmed", "--max-experiments", "4", "--verify-for", "1h"];
    let mut command = ar_command(repo, &repo.path(), args(repo, AGENT, &[&more, layout].concat()));
    clock.show_to(&mut command);
    command
}

#[test]
fn a_night_verifies_its_best_experiment_on_both_splits_where_its_runs_are_made() {
    for layout in [&[][..], &["--slots", "2", "--calls", "1", "--ahead", "0"]] {
        let Some(repo) = split() else { return };
        let outside = write_looks(&repo);
        let ended = Called::from(verifying_night(&repo, layout).output().unwrap()).ok();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains("experiment 4 with seed 6: measured on both splits"), "{said}");
        assert!(said.contains("; `ar report` shows the gains") && !said.contains("better by"), "{said}");
        let noted = compared(&repo);
        for (side, seed, split, found) in &noted {
            let value = if side == "a" { 2.0 } else { 1.0 };
            let noise = (*seed as f64 * 37.0 + value * 1100.0) % 17.0 / 100.0;
            let digits = if *split == "visible" { 0.00413 } else { 0.00277 };
            assert!((found - value - noise - digits).abs() < 1e-4, "{side} {seed} {split}: {found}");
        }
        let of = |split: &str| noted.iter().filter(|it| it.2 == split).map(|it| (&it.0, it.1)).collect::<Vec<_>>();
        assert!(of("visible") == of("hidden") && of("visible").len() >= 4, "{layout:?} {noted:?}");
        assert_eq!(evaluated(&repo).len(), of("visible").len(), "each once: {:?}", evaluated(&repo));
        assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/verified"]), "");
        let report = ar(&repo, ["report"]).ok().stdout;
        assert!(report.lines().next().unwrap().contains("fresh runs of each on the hidden split: +1.0"), "{report}");
        let gains = "experiment 4 against the baseline: visible better by 1.0";
        assert!(report.contains(gains) && report.contains(", hidden better by 1.0"), "{report}");
        let best = shown(&repo, 4)["commit"].as_str().unwrap().to_owned();
        let tracked = repo.git(["status", "--porcelain", "--untracked-files=no"]);
        assert_eq!((repo.git(["rev-parse", "autoresearch/t"]), tracked), (best, String::new()));
        ar(&repo, ["doctor", "t"]).ok();
        // The next night's calls find none of it, as those runs found none of the others. It verifies nothing.
        repo.write("../fails", "");
        let agent = format!("sh {outside}/look.sh >> {outside}/seen.agent 2>&1; echo 0.9 > value; echo change");
        ar_in_time(&repo, ["resume", "t", "--agent", &agent, "--max-experiments", "1"]).ok();
        let values: Vec<String> = noted.iter().map(|(.., value)| value.to_string()).collect();
        for who in ["../seen.agent", "../seen.run"] {
            let secrets = if who.ends_with("agent") { &values[..] } else { &[] };
            assert!(seen_of(&repo, who, secrets).contains("looks/10"), "{who}");
        }
    }
}

#[test]
fn a_night_that_is_killed_while_it_verifies_on_both_splits_goes_on_and_a_broken_evaluator_ends_it() {
    let Some(repo) = split() else { return };
    let hold = repo.outside().join("hold-evaluator");
    let mut command = verifying_night(&repo, &[]);
    let evaluate = repo.read("../evaluate.sh");
    // From the first fresh seed on, it waits.
    repo.write("../evaluate.sh", format!("[ $AR_SEED -lt 6 ] || touch {}\n{evaluate}", hold.display()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("an evaluator", || (repo.exists("../evaluated") && !evaluated(&repo).is_empty()).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("it to end", || repo.processes().is_empty().then_some(()));
    fs::remove_file(&hold).unwrap();
    repo.write("../evaluate.sh", &evaluate);
    assert!(compared(&repo).is_empty());
    repo.write("../fails", "");
    let ended = ar_in_time(&repo, ["resume", "t"]).ok();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let failed = "with seed 6 gave no number (the command of --holdout failed: ";
    assert!(said.contains(failed) && said.contains("so the night ends without more runs to verify it"), "{said}");
    assert!(compared(&repo).is_empty());
    fs::remove_file(repo.outside().join("fails")).unwrap();
    let mut command = ar_command(&repo, &repo.path(), ["resume", "t"]);
    MovableClock::new(&repo).show_to(&mut command);
    Called::from(command.output().unwrap()).ok();
    assert!(compared(&repo).len() >= 8, "{:?}", compared(&repo));
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn calls_and_runs_find_nothing_of_a_comparison_on_the_hidden_split() {
    let Some(repo) = split() else { return };
    let outside = write_looks(&repo);
    let more = ["--decide", "confirmed", "--max-experiments", "1"];
    ar_in_time(&repo, args(&repo, AGENT, &more)).ok();
    killed_in_evaluator(&repo, &VERIFY);
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("repeat `ar verify t:0 t:1 --holdout`, which goes on"), "{found}");
    // What somebody else wrote in its place is no command to type.
    let entries = fs::read_dir(repo.path().join(".git/worktrees")).unwrap();
    let mut marks = entries.map(|entry| entry.unwrap().path().join("autoresearch-repro/unfinished"));
    let mark = marks.find(|mark| mark.exists()).unwrap();
    let pair = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, "t:0; rm -r ~; ar verify t:1").unwrap();
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("for the same pair, which goes on") && !found.contains("rm -r"), "{found}");
    fs::write(&mark, pair).unwrap();
    // What it left waits, while agents look.
    let agent = format!("sh {outside}/look.sh >> {outside}/seen.agent 2>&1; {AGENT}");
    ar_in_time(&repo, ["resume", "t", "--agent", &agent, "--max-experiments", "1"]).ok();
    ar_in_time(&repo, ["verify", "t:0", "t:1", "--holdout"]).ok();
    ar_in_time(&repo, ["resume", "t", "--agent", &agent, "--max-experiments", "1"]).ok();
    let mut values: Vec<String> = compared(&repo).into_iter().map(|(.., value)| value.to_string()).collect();
    // The values of first runs are public.
    let public: Vec<String> =
        (0..=3).map(|id| shown(&repo, id)["metric"]["raw"].as_str().unwrap().to_owned()).collect();
    values.retain(|value| !public.contains(value));
    assert!(values.len() > 5, "{values:?}");
    for who in ["../seen.agent", "../seen.run"] {
        assert!(seen_of(&repo, who, &values).matches("looks/10").count() > 1);
    }
    let mut once = made(&repo);
    once.dedup();
    assert_eq!(once, made(&repo), "the run before the kill is not made again");
}

#[cfg(debug_assertions)]
#[test]
fn a_comparison_on_the_hidden_split_that_is_killed_counts_no_pair_twice_and_repeats_no_run() {
    let starts: Vec<(u32, &[&str])> =
        (0..=4).flat_map(|time| [(time, &[][..]), (time, &["--slots", "2"][..])]).collect();
    crate::crash::in_parallel(&starts, |(time, layout)| {
        let Some(repo) = split() else { return };
        let more = ["--decide", "confirmed", "--max-experiments", "1"];
        ar_in_time(&repo, args(&repo, AGENT, &more)).ok();
        if *time == 0 {
            killed_in_evaluator(&repo, &VERIFY);
        } else {
            let mut command = ar_command(&repo, &repo.path(), VERIFY.iter().chain(&["json"]).chain(*layout));
            command.env("AR_CRASH_TRACE", repo.outside().join("trace"));
            command.env("AR_CRASH_AT", format!("verifying.noted:{time}"));
            assert_eq!(Called::from(command.output().unwrap()).code, None, "nobody was killed at {time} {layout:?}");
            until("it to end", || repo.processes().is_empty().then_some(()));
        }
        let noted = compared(&repo);
        let ended: Vec<String> = noted
            .iter()
            .filter(|(_, _, split, _)| *split == "visible")
            .map(|(side, seed, ..)| format!("{} {seed}", if side == "a" { 0 } else { 1 }))
            .collect();
        let args = VERIFY.iter().chain(&["json"]).chain(*layout);
        assert_eq!(ar_in_time(&repo, args).ok().json()["hidden"]["runs"], 2, "{time} {layout:?}");
        let mut runs: Vec<String> =
            compared(&repo).iter().map(|(side, seed, split, _)| format!("{side} {seed} {split}")).collect();
        runs.sort();
        runs.dedup();
        assert_eq!(runs.len(), 8, "{time} {layout:?}: {runs:?}");
        for run in &ended {
            let count = made(&repo).iter().filter(|made| *made == run).count();
            assert_eq!(count, 1, "{time} {layout:?}: {run} was made again: {:?}", made(&repo));
        }
        assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1, "{time} {layout:?}");
        assert!(!repo.exists(".autoresearch/t/runs/verify"), "{time} {layout:?}");
        ar(&repo, ["doctor", "t"]).ok();
    });
}
