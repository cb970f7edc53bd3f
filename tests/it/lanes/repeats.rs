//! The baseline's runs in other slots, which outlive a killed `ar` as the first one does.

use std::fs;
use std::process::{Child, Command, Stdio};

use super::landscape::{check, first_call, landscape};
use crate::recovery::scripted;
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, hears_hang_ups, until};

/// A repository whose runs note their slots, and wait until a file releases them. Each prints its number and writes it to a file.
fn repeating() -> TestRepo {
    let repo = scripted(
        "out=$AR_STATE_DIR/../../../..; echo $AR_SLOT >> $out/starts; until [ -e $out/go-$AR_SLOT ]; do sleep 0.02; done\n\
         [ -e $out/writes-nothing-$AR_SLOT ] || echo '{\"loss\": 2.5}' > result.json",
    );
    // The file of an earlier run does not count.
    repo.write("result.json", "{\"loss\": 1.5}\n");
    repo.commit_all("a result");
    repo
}

fn start(repo: &TestRepo, metric: &[&str]) -> Child {
    let args = ["run", "--yes", "--cmd", "sh train.sh", "--tag", "t", "--slots", "3", "--max-experiments", "0"];
    let mut command = ar_command(repo, &repo.path(), args.iter().chain(metric));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn release(repo: &TestRepo, slot: u32) {
    fs::write(repo.outside().join(format!("go-{slot}")), "").unwrap();
}

/// The slots whose runs have started, in order.
fn starts(repo: &TestRepo) -> Vec<String> {
    let starts = fs::read_to_string(repo.outside().join("starts")).unwrap_or_default();
    let mut starts: Vec<String> = starts.lines().map(str::to_owned).collect();
    starts.sort();
    starts
}

/// The runs of the baseline in the journal: the number of each, and how often it was started.
fn started(repo: &TestRepo) -> Vec<(u64, u64)> {
    let journal: serde_json::Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    let runs = journal["attempts"][0]["runs"].as_array().unwrap();
    let mut runs: Vec<(u64, u64)> = runs
        .iter()
        .inspect(|run| assert_eq!(run["role"], "baseline"))
        .map(|run| (run["number"].as_u64().unwrap(), run["starts"].as_u64().unwrap()))
        .collect();
    runs.sort();
    runs
}

/// Where a slot's run of the baseline notes how it ended.
fn exit(slot: u32) -> String {
    let further = if slot == 0 { String::new() } else { format!("baseline-{}/", slot + 1) };
    format!(".autoresearch/t/runs/00000/{further}exit.json")
}

/// Waits for the runs in all slots, lets those of the `finished` slots end, and ends `ar` by a signal.
fn killed(repo: &TestRepo, signal: &str, metric: &[&str], finished: &[u32]) {
    let mut child = start(repo, metric);
    until("all runs", || (starts(repo).len() == 3).then_some(()));
    for slot in finished {
        release(repo, *slot);
        until("the end of a run", || repo.exists(exit(*slot)).then_some(()));
    }
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
}

/// Resumes, lets all runs end once so many have started `again`, and compares the record of the baseline.
#[track_caller]
fn assert_resumed(repo: &TestRepo, value: f64, again: usize, what: &str) {
    let starts_before = starts(repo).len();
    let mut resume = ar_command(repo, &repo.path(), ["resume", "t"]);
    let resumed = resume.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the runs that start again", || (starts(repo).len() == starts_before + again).then_some(()));
    (0..3).for_each(|slot| release(repo, slot));
    let called = Called::from(resumed.wait_with_output().unwrap()).ok();
    let record = ar(repo, ["show", "0", "--format", "json"]).ok().json();
    let values: Vec<_> = record["runs"].as_array().unwrap().iter().map(|run| run["value"].as_f64()).collect();
    assert_eq!(values, [Some(value); 3], "{what}: {called:#?}");
    assert_eq!((repo.processes(), repo.status().as_str()), (Vec::<String>::new(), ""), "{what}");
}

#[test]
fn the_baseline_runs_once_in_each_slot_whenever_its_loop_is_killed() {
    for (signal, finished) in [("-KILL", &[][..]), ("-KILL", &[1]), ("-KILL", &[0]), ("-KILL", &[0, 2]), ("-HUP", &[1])]
    {
        if signal == "-HUP" && !hears_hang_ups() {
            continue;
        }
        let repo = repeating();
        killed(&repo, signal, &["--metric", "val_bpb"], finished);
        let what = format!("{signal} once {finished:?} were over");
        assert_eq!(started(&repo), [(1, 1), (2, 1), (3, 1)], "{what}");
        assert_resumed(&repo, 2.0, 0, &what);
        assert_eq!(starts(&repo), ["0", "1", "2"], "{what}");
    }
}

#[test]
fn each_run_of_the_baseline_has_its_log_where_its_command_redirects_to() {
    let repo = repeating();
    (0..3).for_each(|slot| release(&repo, slot));
    let args =
        ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh > run.log 2>&1", "--tag", "t", "--slots", "3"];
    ar(&repo, args.into_iter().chain(["--max-experiments", "0"])).ok();
    assert_resumed(&repo, 2.0, 0, "with a log of its own");
}

#[test]
fn a_metric_file_of_a_picked_up_run_is_that_of_the_run() {
    let repo = repeating();
    let metric = ["--metric", "loss", "--metric-file", "result.json:/loss"];
    killed(&repo, "-KILL", &metric, &[1]);
    assert_resumed(&repo, 2.5, 0, "with a metric file");
    assert_eq!(starts(&repo), ["0", "1", "2"]);
    let repo = repeating();
    fs::write(repo.outside().join("writes-nothing-1"), "").unwrap();
    killed(&repo, "-KILL", &metric, &[1]);
    (0..3).for_each(|slot| release(&repo, slot));
    let called = ar(&repo, ["resume", "t"]).exits(3);
    assert!(called.stderr.contains("in slot 1, "), "{called:#?}");
}

#[test]
fn a_run_whose_shim_is_gone_starts_again_and_the_others_are_picked_up() {
    let repo = repeating();
    killed(&repo, "-KILL", &["--metric", "val_bpb"], &[]);
    let started = repo.read(".autoresearch/t/runs/00000/baseline-3/started.json");
    let started: serde_json::Value = serde_json::from_str(&started).unwrap();
    Command::new("kill").args(["-KILL", &started["pid"].to_string()]).status().unwrap();
    assert_resumed(&repo, 2.0, 1, "after the end of a shim");
    assert_eq!(starts(&repo), ["0", "1", "2", "2"]);
}

#[test]
fn a_run_whose_tree_was_deleted_does_not_count_although_the_tree_was_made_again() {
    let repo = repeating();
    killed(&repo, "-KILL", &["--metric", "val_bpb"], &[1]);
    fs::remove_dir_all(repo.path().join(".autoresearch/t/trees/slot-1")).unwrap();
    let mut resume = ar_command(&repo, &repo.path(), ["resume", "t"]);
    resume.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "checkout.put_back:1");
    assert_eq!(Called::from(resume.output().unwrap()).code, None, "nobody was killed");
    assert!(!repo.exists(exit(1)));
    assert_resumed(&repo, 2.0, 1, "in a tree that was made again");
    assert_eq!(starts(&repo), ["0", "1", "1", "2"]);
}

#[test]
fn a_tree_that_is_deleted_again_and_again_is_no_loss_of_its_run() {
    let repo = landscape().without_walls();
    let memory = repo.outside().join("memory");
    fs::create_dir(&memory).unwrap();
    let mut args = first_call(&repo, ["0.05", "0.05"], "", &["--slots", "2", "--max-experiments", "1"]);
    let place = args.iter().position(|arg| arg == "--cmd").unwrap() + 1;
    let delete = format!("D={}/deleted; [ $AR_EXPERIMENT = 0 ] || [ $(cat $D | wc -l) -ge 3 ]", memory.display());
    fs::write(memory.join("deleted"), "").unwrap();
    args[place] = format!("{delete} || {{ echo >> $D; rm -rf \"$PWD\"; }}\n{}", args[place]);
    let called = ar_in_time(&repo, args).ok();
    let records = check(&repo, "three deletions");
    assert_eq!(fs::read_to_string(memory.join("deleted")).unwrap().lines().count(), 3, "{called:#?}");
    assert!(records[1]["metric"]["value"].is_number(), "{records:#?} {called:#?}");
}

#[test]
fn runs_of_a_start_that_failed_do_not_count_for_the_next_one() {
    let repo = repeating();
    let broken = repo.outside().join("broken");
    repo.write("train.sh", format!("{}[ ! -e {} ] || exit 3\n", repo.read("train.sh"), broken.display()));
    repo.commit_all("may break");
    (0..3).for_each(|slot| release(&repo, slot));
    fs::write(&broken, "").unwrap();
    let failed = Called::from(start(&repo, &["--metric", "val_bpb"]).wait_with_output().unwrap());
    assert!(failed.code != Some(0) && repo.exists(exit(1)), "{failed:#?}");
    fs::remove_file(&broken).unwrap();
    Called::from(start(&repo, &["--metric", "val_bpb"]).wait_with_output().unwrap()).ok();
    assert_eq!(starts(&repo), ["0", "0", "1", "1", "2", "2"]);
    assert_resumed(&repo, 2.0, 0, "the second start");
}

#[test]
fn a_killed_baseline_is_stopped_in_all_slots() {
    for finished in [0, 1] {
        let repo = repeating();
        killed(&repo, "-KILL", &["--metric", "val_bpb"], &[finished]);
        let doctor = ar(&repo, ["doctor", "t"]).stdout;
        assert!(doctor.contains("and its run continues without an active ar"), "{finished}: {doctor}");
        ar(&repo, ["stop", "t", "--now"]).ok();
        assert_eq!((repo.processes(), repo.status().as_str()), (Vec::<String>::new(), ""), "{finished}");
    }
}
