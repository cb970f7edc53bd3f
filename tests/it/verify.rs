//! Fresh runs of recorded experiments: `ar verify`, and the end of a night with `--verify-for`.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::confirm::{AGENT, ARGS, made, night, noisy, runs, shown};
use crate::support::{Called, MovableClock, TestRepo, ar, ar_command, ar_in_time, in_time, until};

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
fn a_stop_ends_the_fresh_runs_of_a_command_which_go_on_when_it_is_repeated() {
    let repo = noisy();
    night(&repo, &[]).ok();
    for (command, seed, stop) in [("verify", 7, &["stop", "t"][..]), ("ablate", 9, &["stop", "--now", "t"][..])] {
        let hold = repo.outside().join(format!("hold-{seed}"));
        fs::write(&hold, "").unwrap();
        let words = [command, "--runs", "2", "--tag", "t"];
        let mut call = ar_command(&repo, &repo.path(), words);
        let child = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let held = format!(" {seed}");
        until("the run that is held", || made(&repo).iter().any(|run| run.ends_with(&held)).then_some(()));
        let stopped = ar(&repo, stop).ok().stdout;
        assert!(stopped.starts_with("session t has stopped"), "{stopped}");
        let ended = Called::from(child.wait_with_output().unwrap()).exits(130);
        assert!(ended.stderr.contains("the same command goes on"), "{ended:#?}");
        assert!(!repo.exists(".autoresearch/t/stop.json"), "the request is gone");
        fs::remove_file(&hold).unwrap();
        ar_in_time(&repo, words).ok();
    }
    ar(&repo, ["doctor", "t"]).ok();
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

/// The working tree of a verification that is there.
fn tree_of_run(repo: &TestRepo) -> Option<PathBuf> {
    repo.git(["worktree", "list"]).lines().nth(1).map(|line| PathBuf::from(line.split(' ').next().unwrap()))
}

const VERIFY: [&str; 7] = ["verify", "--runs", "2", "--tag", "t", "--format", "json"];

/// A verification that is killed once something `is_there`.
fn verify_killed(repo: &TestRepo, what: &str, is_there: impl Fn() -> bool) {
    let mut command = ar_command(repo, &repo.path(), VERIFY);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(what, || is_there().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("its run to end with it", || repo.processes().is_empty().then_some(()));
}

#[test]
fn what_a_killed_verification_left_goes_with_a_repair() {
    let repo = noisy();
    night(&repo, &[]).ok();
    fs::write(repo.outside().join("hold-6"), "").unwrap();
    verify_killed(&repo, "a run with seed 6", || made(&repo).iter().any(|run| run.ends_with(" 6")));
    let left = tree_of_run(&repo).unwrap();
    let found = ar(&repo, ["doctor"]).stdout;
    assert!(found.contains("left the working tree") && found.contains("ar doctor --repair"), "{found}");
    let repaired = ar(&repo, ["doctor", "--repair"]).ok().stdout;
    assert!(repaired.contains(&format!("removed the working tree {}", left.display())), "{repaired}");
    assert!(!left.exists() && !left.parent().unwrap().exists() && tree_of_run(&repo).is_none());
}

#[test]
fn a_tree_that_the_user_named_is_left_to_the_user_whatever_its_name() {
    let repo = noisy();
    night(&repo, &[]).ok();
    let home = tempfile::Builder::new().prefix("ar-named-").tempdir_in("/tmp").unwrap();
    let tree = home.path().join("tree");
    (1..6).for_each(|seed| fs::write(repo.outside().join(format!("hold-{seed}")), "").unwrap());
    let before = made(&repo).len();
    let args = ["repro", "4", "--tag", "t", "--worktree", tree.to_str().unwrap()];
    let mut command = ar_command(&repo, &repo.path(), args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("its run", || (made(&repo).len() > before).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let found = ar(&repo, ["doctor"]).stdout;
    assert!(found.contains(&format!("git worktree remove --force {}", tree.display())), "{found}");
    ar(&repo, ["doctor", "--repair"]);
    assert!(tree.join("train.sh").exists());
    repo.git(["worktree", "remove", "--force", tree.to_str().unwrap()]);
}

#[test]
fn a_verifying_run_that_ended_is_not_made_again_after_a_kill_while_its_tree_goes() {
    let repo = noisy();
    let outside = repo.outside().to_owned();
    // A run that leaves many files, and others that begin once the gate is open.
    let many = "[ ! -e $outside/gate ] || { while [ -s $outside/ended ]; do sleep 0.02; done; mkdir many; \
                (cd many; seq 5000 | xargs touch); echo >$outside/ended; }";
    let many = many.replace("$outside", &outside.display().to_string());
    repo.write("train.sh", format!("{many}\n{}", repo.read("train.sh")));
    repo.commit_all("a script that leaves many files");
    night(&repo, &[]).ok();
    fs::remove_file(outside.join("runs")).unwrap();
    fs::write(outside.join("gate"), "").unwrap();
    verify_killed(&repo, "the tree of a run goes", || {
        let Some(many) = tree_of_run(&repo).map(|tree| tree.join("many")) else { return false };
        outside.join("ended").exists() && fs::read_dir(many).map_or(0, Iterator::count) < 5000
    });
    fs::remove_file(outside.join("gate")).unwrap();
    assert_eq!(ar(&repo, VERIFY).ok().json()["runs"], 2);
    let (mut runs, count) = (made(&repo), made(&repo).len());
    runs.dedup();
    assert_eq!(runs.len(), count, "{runs:?}");
    assert!(tree_of_run(&repo).is_none());
}

#[test]
fn a_recorded_value_that_fresh_runs_do_not_reproduce_is_a_warning_of_the_report() {
    let repo = noisy();
    ar_in_time(&repo, ARGS.iter().chain(&["once", "--max-experiments", "2"])).ok();
    let warned = |repo: &TestRepo| {
        let report = ar(repo, ["report", "t"]).ok().stdout;
        report.lines().filter(|line| line.contains("do not reproduce")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(warned(&repo).is_empty());
    ar(&repo, ["verify", "--runs", "3", "--tag", "t"]).ok();
    let found = warned(&repo);
    assert!(matches!(&found[..], [one] if one.contains("experiment 2")), "{found:?}");
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

/// What the end of the night recorded of the best experiment against the baseline.
fn verified(repo: &TestRepo) -> Value {
    let message = repo.git(["for-each-ref", "--format=%(contents)", "refs/autoresearch/t/verified"]);
    serde_json::from_str(message.trim()).unwrap_or_default()
}

#[test]
fn a_night_keeps_time_to_verify_its_best_experiment_where_its_runs_are_made() {
    for more in [&["--verify-for", "1h"][..], &["--verify-for", "1h", "--slots", "2"]] {
        let repo = noisy();
        let clock = MovableClock::new(&repo);
        // The hour is over once a run with the third fresh seed has begun.
        fs::write(repo.outside().join("clock-8"), "2026-11-20T23:00:00Z").unwrap();
        let args = ["confirmed", "--max-experiments", "4"];
        let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&args).chain(more));
        clock.show_to(&mut command);
        let told = in_time(command).ok();
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(
            said.contains("verifying experiment 4 against the baseline by fresh runs, for 60 min at most"),
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
    let clock = MovableClock::new(repo);
    let hold = repo.outside().join("hold-3");
    // The runs before with that seed have ended when it is called.
    let agent = AGENT.replace("echo 0.9 > luck", &format!(": > {}; echo 1.0 > value", hold.display()));
    let args = ARGS.map(|arg| if arg == AGENT { &agent } else { arg });
    let more = ["confirmed", "--for", "16h", "--verify-for", "8h"];
    let mut command = ar_command(repo, &repo.path(), args.iter().chain(&more));
    clock.show_to(&mut command);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a run that confirms the second", || made(repo).contains(&"2 3".to_owned()).then_some(()));
    clock.move_to("2026-11-21T06:00:00Z");
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
    goes_on_with_open_change(&repo, &["resume", "t"], "2026-11-21T14:00:00Z");
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
    let clock = MovableClock::new(&repo);
    let args = ["confirmed", "--max-experiments", "4", "--verify-for", "1h"];
    let mut command = ar_command(&repo, &repo.path(), ARGS.iter().chain(&args));
    clock.show_to(&mut command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the baseline's run with seed 6", || made(&repo).iter().any(|run| run.ends_with(" 6")).then_some(()));
    let best = shown(&repo, 4)["commit"].as_str().unwrap().to_owned();
    assert_ne!(repo.git(["rev-parse", "HEAD"]).trim(), best, "the baseline is checked out");
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(&hold).unwrap();
    ar(&repo, ["stop", "t", "--now"]).ok();
    assert_eq!(repo.git(["rev-parse", "HEAD", "autoresearch/t"]), format!("{best}\n{best}"));
    fs::write(repo.outside().join("clock-7"), "2026-11-20T23:00:00Z").unwrap();
    let mut command = ar_command(&repo, &repo.path(), ["resume", "t"]);
    clock.show_to(&mut command);
    in_time(command).ok();
    assert_eq!(repo.git(["rev-parse", "HEAD", "autoresearch/t"]), format!("{best}\n{best}"));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let pair = verified(&repo);
    assert!(pair["runs"].as_u64().unwrap() > 0, "{pair}");
    ar(&repo, ["doctor", "t"]).ok();
}
