//! Agents that delete and change, from their seats, what the experiments of others stand on.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::landscape::{check, first_call, landscape};
use crate::crash::in_parallel;
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// How many experiments an attacked session makes.
const EXPERIMENTS: usize = 8;

/// A session on four slots, in which agents do `attack` before their own work, and runs do `before`.
fn attacked(attack: &str, before: &str) -> (TestRepo, Called, Vec<Value>) {
    attacked_with(attack, before, None, EXPERIMENTS)
}

/// Does the same with a guard that does `guard` in experiments, and with so many of these.
fn attacked_with(
    attack: &str,
    before: &str,
    guard: Option<&str>,
    experiments: usize,
) -> (TestRepo, Called, Vec<Value>) {
    let repo = landscape().without_walls();
    fs::create_dir(repo.outside().join("memory")).unwrap();
    let count = experiments.to_string();
    let more = ["--slots", "4", "--calls", "4", "--guard", "sh guard.sh", "--max-experiments", &count];
    let mut args = first_call(&repo, ["0.15", "0.05"], "taken", &more);
    let guard = guard.map_or("true".to_owned(), |guard| format!("[ $AR_EXPERIMENT = 0 ] || {{ {guard}; }}"));
    for (name, first) in [("--agent", attack), ("--cmd", before), ("--guard", &guard)] {
        let place = args.iter().position(|arg| arg == name).unwrap() + 1;
        let memory = repo.outside().join("memory");
        args[place] = format!("M={}; {first} || exit\n{}", memory.display(), args[place]);
    }
    let called = ar_in_time(&repo, args).ok();
    let records = check(&repo, attack);
    assert_eq!(records.len(), experiments + 1, "{attack}: {called:#?}");
    for record in &records {
        assert_ne!(record["outcome"], "crash", "{attack}: {record} {called:#?}");
        assert_eq!(record["runs"].as_array().map(Vec::is_empty), Some(false), "{attack}: {record}");
        let told = format!("\n{:>4}  {:<7}", record["id"].as_u64().unwrap(), record["outcome"].as_str().unwrap());
        let is_told_once = record["id"] == 0 || called.stdout.matches(&told).count() == 1;
        assert!(is_told_once, "{attack}: {told} {called:#?}");
    }
    (repo, called, records)
}

/// Gives a call its number, in the order in which they begin.
const CALL: &str = "N=1; until mkdir $M/call-$N 2>/dev/null; do N=$((N + 1)); done";

/// What an agent does in some of its calls.
fn in_some(attack: &str) -> String {
    format!("{CALL}; case $N in 3|6) ({attack}) >$M/said-$N 2>&1;; esac")
}

#[test]
fn what_agents_do_in_their_own_trees_and_with_git_changes_no_other_experiment() {
    let one_each = "case $N in \
        1) git gc --prune=now --quiet;; \
        2) git worktree prune --expire=now;; \
        3) git clean -ffdxq;; \
        4) git switch -q -c mine;; \
        5) for k in 1 2 3; do echo $k > ideas/own-$k; git add .; git commit -qm $k; done; rm ideas/own-*;; \
        6) git checkout -q autoresearch/t;; \
        7) git stash -q --all;; \
        8) git worktree lock ../seat-1; git worktree unlock .;; \
        9) git worktree remove -f -f ../seat-0;; \
        10) git repack -adq;; \
        11) git worktree unlock . ; git worktree prune --expire=now;; \
        esac >$M/said-$N 2>&1";
    attacked_with(&format!("{CALL}; {one_each}"), "true", None, 12);
}

#[test]
fn what_agents_delete_and_change_of_others_is_put_right() {
    let attacks = [
        "cd ../../../.. && git clean -fdxq",
        "rm -rf \"$(git rev-parse --git-common-dir)/worktrees\"",
        "git update-ref -d refs/heads/autoresearch/t",
        "git branch -f autoresearch/t main",
        "git checkout -q --ignore-other-worktrees autoresearch/t && git commit -q --allow-empty -m mine",
        "git for-each-ref --format='delete %(refname)' refs/autoresearch/t | git update-ref --stdin",
        "git for-each-ref --format='delete %(refname)' refs/autoresearch/t/open | git update-ref --stdin; git gc --prune=now -q",
        "echo \"$(git rev-parse --short=8 HEAD)\t1\t0\tkeep\tmine\" >> ../../../../results.tsv; echo >> results.tsv",
        "sed -i 's/keep/discard/' ../../../../results.tsv",
        "echo '{}' > $AR_STATE_DIR/progress.json",
        "rm -f ../../../../results.tsv $AR_STATE_DIR/progress.json",
    ];
    in_parallel(&attacks, |attack| drop(attacked(&in_some(attack), "true")));
}

#[test]
fn a_state_folder_with_all_trees_that_goes_stops_no_session() {
    let attacks = ["rm -rf ../../../../.autoresearch", "cd ../../../.. && git clean -ffdxq"];
    in_parallel(&attacks, |attack| drop(attacked(&in_some(attack), "true")));
}

/// Waits until somebody has attacked.
const WAIT: &str = "mkdir -p $M/waits; until [ -e $M/attacked ]; do sleep 0.02; done";

/// Attacks once, as soon as somebody waits for it. A call that is cut off in its attack leaves it to another one.
fn when_waited_for(attack: &str) -> String {
    let attack = format!("trap 'rmdir $M/attacks; exit 1' TERM; {attack}; mkdir $M/attacked; trap - TERM");
    format!("if [ -e $M/waits ] && mkdir $M/attacks; then {attack}; fi 2>/dev/null")
}

#[test]
fn a_run_whose_tree_is_deleted_is_repeated() {
    let wait =
        format!("echo $AR_EXPERIMENT >> $M/runs; [ $AR_EXPERIMENT != 1 ] || [ -e $M/attacked ] || {{ {WAIT}; }}");
    let (repo, called, records) = attacked(&when_waited_for("rm -rf ../slot-*"), &wait);
    let runs = fs::read_to_string(repo.outside().join("memory/runs")).unwrap();
    assert!(runs.lines().filter(|run| *run == "1").count() > 1, "{runs} {called:#?}");
    let first = records.iter().find(|record| record["id"] == 1).unwrap();
    // In a train, the number is that of another one.
    assert!(first["runs"][0]["value"].is_number(), "{first}");
}

#[test]
fn a_guard_whose_tree_is_deleted_is_repeated() {
    // Its first guard waits in the tree of whatever slot it is in.
    let guard = format!("mkdir $M/guards 2>/dev/null && {{ {WAIT}; }}; cat ideas/0 > /dev/null");
    let (_, called, records) = attacked_with(&when_waited_for("rm -rf ../slot-*"), "true", Some(&guard), EXPERIMENTS);
    let guards = records.iter().flat_map(|record| record["guards"].as_array().into_iter().flatten());
    assert!(guards.map(|guard| &guard["passed"]).all(|passed| passed == true), "{called:#?}");
}

#[test]
fn a_call_whose_tree_is_deleted_is_repeated() {
    let wait = format!(
        "case $PWD in */seat-1) [ -e $M/attacked ] || {{ {WAIT}; echo $AR_EXPERIMENT > $M/cut; }};; *) {};; esac",
        when_waited_for("rm -rf ../seat-1")
    );
    let (repo, called, records) = attacked(&wait, "true");
    let cut: u64 = fs::read_to_string(repo.outside().join("memory/cut")).unwrap().trim().parse().unwrap();
    assert!(called.stderr.contains("seat-1"), "{called:#?}");
    assert!(records.iter().all(|record| record["id"] != cut), "{cut} {records:#?}");
}

#[test]
fn what_waits_outlasts_a_prune_between_two_invocations() {
    let repo = landscape();
    let more = ["--slots", "4", "--calls", "4", "--max-experiments", "16"];
    let args = first_call(&repo, ["0.15", "0.05"], "taken", &more);
    let rows = || fs::read_to_string(repo.file("results.tsv")).map_or(0, |rows| rows.lines().count());
    for wanted in [5, 8, 11] {
        let resume = ["resume".to_owned(), "t".to_owned()];
        let args = if wanted == 5 { args.clone() } else { resume.to_vec() };
        let mut child =
            ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("some experiments", || (rows() >= wanted).then_some(()));
        match wanted {
            8 => drop(ar(&repo, ["stop", "t"]).ok()),
            _ => child.kill().unwrap(),
        }
        child.wait().unwrap();
        // A process that was killed leaves them, and git asks for them to be removed.
        for lock in [".git/packed-refs.lock", ".git/refs/heads/autoresearch/t.lock"] {
            let _ = fs::remove_file(repo.file(lock));
        }
        repo.git(["gc", "--prune=now", "--quiet"]);
    }
    ar_in_time(&repo, ["resume", "t"]).ok();
    check(&repo, "after three prunes");
}
