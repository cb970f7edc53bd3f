//! What comes before new calls and runs on slots: pauses, the run of the incumbent after crashes, and refusals.

use std::fs;
use std::process::Stdio;

use crate::kill::soak;
use crate::recovery::{go, runs, scripted};
use crate::support::{Called, FIND_OWNER, TestRepo, ar, ar_command, ar_in_time, until};

/// The arguments of a session on slots whose agent does what `agent` says.
fn args(agent: &str, experiments: u32, more: &[&str]) -> Vec<String> {
    let count = experiments.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let args = args.into_iter().chain(["--agent", agent, "--max-experiments", &count]);
    args.chain(more.iter().copied()).map(str::to_owned).collect()
}

fn records(repo: &TestRepo) -> usize {
    repo.git(["for-each-ref", "refs/autoresearch/t/00*"]).lines().count()
}

#[test]
fn a_pause_holds_new_calls_back_and_nothing_else() {
    // The second run goes on until it is told to end.
    let repo = scripted("[ $AR_EXPERIMENT != 2 ] || touch slow");
    let args = args("echo 3.$AR_EXPERIMENT > value", 5, &["--slots", "2", "--ahead", "0", "--cadence", "2h"]);
    let mut command = ar_command(&repo, &repo.path(), &args);
    command.env_remove("AR_NO_PAUSES").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let log = || fs::read_to_string(repo.file(".autoresearch/t/logs/work.jsonl")).unwrap_or_default();
    until("the pause", || log().contains("\"event\":\"sleep\"").then_some(()));
    assert_eq!(records(&repo), 2, "the baseline and the first experiment");
    go(&repo);
    until("the record of what runs meanwhile", || (records(&repo) == 3).then_some(()));
    assert!(!log().contains("\"id\":3"), "the pause goes on");
    ar(&repo, ["idea", "add", "look at the appendix"]).ok();
    until("the next experiments", || (records(&repo) > 3).then_some(()));
    ar(&repo, ["stop", "t"]).ok();
    Called::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(repo.status(), "");
}

#[test]
fn the_incumbent_runs_again_after_crashes_and_nothing_starts_beside_it() {
    let repo = scripted(":");
    let data = repo.outside().join("data");
    fs::write(&data, "").unwrap();
    // Each run says when it begins and ends.
    let log = repo.outside().join("log");
    let script = format!(
        "echo begins $AR_EXPERIMENT >> {log}; sleep 0.2; echo ends $AR_EXPERIMENT >> {log}; cat {data} || exit 1\n\
         echo run >> {runs}; echo val_bpb: $(cat value)\n",
        log = log.display(),
        data = data.display(),
        runs = repo.outside().join("runs").display()
    );
    repo.write("train.sh", script);
    repo.commit_all("data outside of git");
    let agent = format!("[ $AR_EXPERIMENT != 1 ] || rm {}; echo 1.$AR_EXPERIMENT > value", data.display());
    let called = ar_in_time(&repo, args(&agent, 20, &["--slots", "2"])).exits(4);
    let what = "the baseline, so far the best, no longer runs: the run failed (exit 1 after ";
    assert!(called.stdout.contains(&format!("      needs you: {what}")), "{called:#?}");
    let log = fs::read_to_string(log).unwrap();
    let checked = log.lines().collect::<Vec<_>>();
    // The check is told that it is the best experiment, which has number 0; so had the baseline in both slots.
    let begins: Vec<usize> = (0..checked.len()).filter(|line| checked[*line] == "begins 0").collect();
    assert_eq!(begins.len(), 3, "{log}");
    let meanwhile = checked[begins[2] + 1..].iter().take_while(|line| **line != "ends 0");
    assert!(meanwhile.clone().all(|line| line.starts_with("ends")), "{log}");
    assert!((6..=8).contains(&records(&repo)), "{called:#?}");
    assert_eq!(repo.status(), "");
    repo.git(["fsck", "--full", "--strict"]);
    fs::write(&data, "").unwrap();
    ar_in_time(&repo, ["resume", "--max-experiments", "2"]).ok();
    assert!(runs(&repo) > 3);
}

#[test]
fn a_check_on_slots_that_is_cut_off_leaves_nothing_open() {
    let repo = scripted(&format!(
        "case $AR_RUN_DIR in */check-1) mkdir ${{AR_STATE_DIR%/repo/*}}/killed && {{ {FIND_OWNER}; \
         read -r _ _ _ owner _ < /proc/$owner/stat; kill -KILL $owner; sleep 60; }};; esac"
    ));
    let agent = "echo broken $AR_EXPERIMENT > value";
    assert_eq!(ar_in_time(&repo, args(agent, 8, &["--slots", "2"])).code, None);
    assert!(repo.outside().join("killed").exists());
    let called = ar_in_time(&repo, ["resume"]).ok();
    assert_eq!((records(&repo), repo.status().as_str()), (9, ""), "{called:#?}");
    let doctor = ar(&repo, ["doctor"]).ok().stdout;
    assert!(doctor.contains("no problems found"), "{doctor}");
}

#[test]
fn a_change_that_is_refused_just_before_its_run_is_recorded_once() {
    // Many changes are the same one, which is seen once the first of them is kept.
    let agent = "lines=$(wc -l < f1); case $((AR_EXPERIMENT % 4)) in \
                 1|2) echo own $AR_EXPERIMENT >> f$((AR_EXPERIMENT % 7 + 2));; \
                 *) sleep 0.0$((AR_EXPERIMENT % 3));; esac; echo gain $lines >> f1";
    // Which of them are, the order of calls and runs decides.
    for _ in 0..soak().unwrap_or(1) {
        let repo = scripted("");
        repo.write("train.sh", "sleep 0.1; echo val_bpb: $((3000 - $(grep -c gain f1) * 5))\n");
        (1..9).for_each(|file| repo.write(format!("f{file}"), format!("{file}\n")));
        repo.commit_all("what all seats add to");
        let called = ar_in_time(&repo, args(agent, 40, &["--slots", "3", "--ahead", "2"])).ok();
        assert!(called.stdout.contains("duplicate"), "{called:#?}");
        // Those that were refused come on top.
        assert!(records(&repo) > 41, "{called:#?}");
        assert_eq!(repo.read("results.tsv").lines().count(), records(&repo) + 1, "{called:#?}");
    }
}

#[test]
fn calls_that_end_during_a_pause_ask_for_none_of_their_own() {
    let repo = scripted("");
    // The calls of four seats end one after the other while the first pause goes on.
    let agent =
        "case $AR_EXPERIMENT in 1) ;; 2) sleep 0.5;; 3) sleep 1;; 4) sleep 1.5;; esac; echo 3.$AR_EXPERIMENT > value";
    let more = ["--slots", "2", "--ahead", "2", "--cadence", "8s", "--format", "json"];
    let mut command = ar_command(&repo, &repo.path(), args(agent, 5, &more));
    let called = Called::from(command.env_remove("AR_NO_PAUSES").output().unwrap()).ok();
    let events = called.json_lines();
    let before = events.iter().take_while(|event| event["event"] != "agent_started" || event["id"] != 5);
    assert_eq!(before.filter(|event| event["event"] == "sleep").count(), 1, "{called:#?}");
}
