//! Agents, training scripts and people that delete or change what the session stands on, while it goes on.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::outcome::results;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// A repository whose number is in a tracked file, with a file of the user's that is not tracked.
fn repo() -> TestRepo {
    let repo = training_repo().without_walls();
    repo.write("train.sh", "echo run >> ../runs\necho val_bpb: $(cat value)\n");
    repo.write("value", "1.9\n");
    repo.write("docs/kept.txt", "kept\n");
    repo.commit_all("a number in a file");
    repo.write("notes.txt", "mine\n");
    repo
}

/// A session of four experiments: two that are kept and two that are not, one of which adds a file. `before` is what the
/// agent does first, `after` what the command does last, but for the baseline.
fn session(repo: &TestRepo, before: &str, after: &str) -> Called {
    let agent = format!(
        "cat > /dev/null; {before}\ncase $AR_EXPERIMENT in 1) v=1.8;; 2) v=2.5; echo x > new.txt;; 3) v=1.7;; *) v=3;; esac\n\
         echo $v > value; echo \"number $AR_EXPERIMENT\""
    );
    // What is put back at the same moment can make the deletion fail, which is no failure of the run.
    let command = format!("sh train.sh; [ $AR_EXPERIMENT = 0 ] || {{ {after}\n}} 2>/dev/null; true");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "4"];
    ar(repo, args.into_iter().chain(["--cmd", &command, "--agent", &agent]))
}

const DELETIONS: [&str; 15] = [
    "git clean -ffdxq",
    "rm -rf .autoresearch results.tsv run.log",
    "rm -rf .autoresearch",
    "rm -rf .autoresearch/t/state .autoresearch/t/lock",
    "rm -rf .autoresearch/t/state",
    "rm -rf .autoresearch/t/logs",
    "rm -rf .autoresearch/t/runs",
    "rm -f .autoresearch/t/lock",
    "rm -f .autoresearch/t/state/contract.json",
    "git update-ref -d refs/autoresearch/t/00000",
    "rm -f results.tsv",
    "git reset -q --hard",
    "git checkout -q -- . && rm -f docs/kept.txt && git checkout -q -- docs",
    "git stash -q --all",
    "git checkout -q main",
];

#[test]
fn whatever_an_agent_deletes_the_session_goes_on_as_if_nothing_had_been() {
    let whole = repo();
    session(&whole, "true", "true").ok();
    let expected = results(&whole);
    assert_eq!(whole.read("results.tsv").lines().count(), 6);
    for deletion in DELETIONS {
        let repo = repo();
        let called = session(&repo, deletion, "true").ok();
        assert_eq!(results(&repo), expected, "{deletion}: {called:#?}");
        assert_eq!(repo.read("notes.txt"), "mine\n", "{deletion}");
        let is_gone = |words: &str| called.stderr.contains(words);
        assert_eq!(
            is_gone("results.tsv was deleted"),
            deletion_hits(deletion, "results.tsv"),
            "{deletion}: {called:#?}"
        );
        let hits_folder = deletion_hits(deletion, ".autoresearch") && !deletion.ends_with("/runs");
        assert_eq!(is_gone(".autoresearch/t was deleted"), hits_folder, "{deletion}");
        assert_eq!(
            is_gone("restored ar's refs deleted while the agent was active: refs/autoresearch/t/00000"),
            deletion.contains("update-ref"),
            "{deletion}"
        );
        let iterations = repo.read(".autoresearch/t/state/iteration_log.jsonl");
        assert_eq!(iterations.lines().count(), 4, "{deletion}: {iterations}");
        assert_eq!(fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 5, "{deletion}");
    }
}

#[test]
fn whatever_a_run_deletes_its_log_is_kept_and_its_number_unless_tracked_files_changed() {
    let whole = repo();
    whole.rm("notes.txt");
    session(&whole, "true", "true").ok();
    let expected = results(&whole);
    for deletion in DELETIONS {
        let repo = repo();
        // What a user's own command deletes beside it is the user's affair.
        repo.rm("notes.txt");
        let called = session(&repo, "true", deletion).ok();
        // What a run checks out instead may be what it measured.
        let is_disturbed = deletion.contains("git checkout");
        if is_disturbed {
            assert_eq!(results(&repo).matches("\"changed\"").count(), 4, "{deletion}: {called:#?}");
            assert_eq!(repo.status(), "", "{deletion}");
        } else {
            assert_eq!(results(&repo), expected, "{deletion}: {called:#?}");
        }
        assert_eq!(repo.read(".autoresearch/t/runs/00004/run.log"), "val_bpb: 3\n", "{deletion}");
        let runs = if is_disturbed { 13 } else { 5 };
        assert_eq!(fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), runs, "{deletion}");
    }
}

#[test]
fn what_a_person_makes_after_the_agent_ended_is_no_part_of_what_it_left() {
    let repo = repo();
    let agent = "echo half > half.txt; touch ../there; sleep 600";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", "sh train.sh"];
    let child = ar_command(&repo, &repo.path(), args)
        .args(["--agent", agent, "--grace", "1s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the agent", || repo.outside().join("there").exists().then_some(()));
    kill(child);
    let changed = |path: &str| fs::metadata(repo.file(path)).and_then(|meta| meta.modified()).ok();
    let end = until("the end of the agent", || changed(".autoresearch/t/runs/00001/agent.exit.json"));
    until("a later time", || {
        repo.write("morning.txt", "mine\n");
        (changed("morning.txt") > Some(end)).then_some(())
    });
    let called = ar(&repo, ["resume", "--agent", "echo 1.5 > value"]).ok();
    assert_eq!(repo.read("morning.txt"), "mine\n", "{called:?}");
    assert!(!repo.exists("half.txt"));
    assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:half.txt"]), "half");
    assert_eq!(repo.git(["show", "--name-only", "--format=", "refs/autoresearch/t/00001^{commit}"]), "value");
}

#[test]
fn a_run_log_of_the_users_stays_in_the_users_hands() {
    let repo = repo();
    repo.write("run.log", "of another night\n");
    let called = session(&repo, "true", "true").ok();
    assert!(called.stderr.contains("moved the existing run.log to "), "{called:?}");
    assert_eq!(repo.read("run.log.before"), "of another night\n");
    assert_eq!(repo.status(), "?? notes.txt");
}

#[test]
fn a_row_that_was_cut_short_is_whole_again_before_another_one_is_written() {
    let repo = repo();
    session(&repo, "true", "true").ok();
    let rows = repo.read("results.tsv");
    repo.write("results.tsv", &rows[..rows.len() - 5]);
    let called = ar(&repo, ["resume", "t"]).ok();
    assert!(called.stderr.contains("repaired 1 row of results.tsv from the records; the old file is "), "{called:?}");
    assert_eq!(repo.read("results.tsv"), rows);
    assert_eq!(repo.read("results.tsv.before-repair"), &rows[..rows.len() - 5]);
}

/// A loop whose experiment 1 runs for as long as `wait` takes; gives it with the process of that run.
fn loop_in_a_long_run(repo: &TestRepo, wait: &str) -> (Child, String) {
    let command = format!("echo $$ > ../pid; [ $AR_EXPERIMENT = 0 ] || {{ {wait}; }}; sh train.sh");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", &command];
    let child = ar_command(repo, &repo.path(), args)
        .args(["--agent", "echo 1.5 > value"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = until("the run", || {
        repo.exists(".autoresearch/t/runs/00001/started.json").then_some(())?;
        Some(fs::read_to_string(repo.outside().join("pid")).ok()?.trim().to_owned())
    });
    (child, pid)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn deletion_hits(deletion: &str, path: &str) -> bool {
    deletion.contains(path) || ["git clean", "git stash"].iter().any(|all| deletion.starts_with(all))
}

#[test]
fn a_session_whose_files_were_deleted_overnight_goes_on_from_its_refs() {
    let repo = repo();
    session(&repo, "true", "true").ok();
    let expected = results(&repo);
    repo.git(["clean", "-ffdxq", "--exclude", "notes.txt"]);
    let called = ar(&repo, ["resume"]).ok();
    assert!(called.stderr.contains("the journal in "), "{called:?}");
    assert!(called.stderr.contains("results.tsv was deleted; restored 5 rows from the records"), "{called:?}");
    assert_eq!(results(&repo), expected);
    let journal: serde_json::Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["iteration"], &journal["stale_count"]), (&4.into(), &1.into()), "{journal}");
}

#[test]
fn a_run_whose_files_were_deleted_and_whose_loop_was_killed_is_picked_up_and_measured_once() {
    let repo = repo();
    let (child, pid) = loop_in_a_long_run(&repo, "until [ -e ../go ]; do sleep 0.02; done");
    // What is put back meanwhile may keep a folder from going.
    repo.try_git(["clean", "-ffdxq"]);
    // The loop and the one who watches over the run have both noticed.
    until("the files", || {
        let folder = ".autoresearch/t/runs/00001";
        let files = ["lock", "job.json", "started.json"].map(|name| format!("{folder}/{name}"));
        let journal = ".autoresearch/t/state/progress.json".to_owned();
        files.iter().chain([&journal]).all(|file| repo.exists(file)).then_some(())
    });
    kill(child);
    let resumed = ar_command(&repo, &repo.path(), ["resume", "t"]).stdout(Stdio::piped()).spawn().unwrap();
    fs::write(repo.outside().join("go"), "").unwrap();
    let called = Called::from(resumed.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  keep "), "{called:?}");
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
    assert_eq!(fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 2, "the run {pid} only");
}

#[test]
fn an_experiment_that_was_recorded_is_settled_also_without_its_journal() {
    for (experiments, outcome) in [("3", "keep"), ("4", "discard")] {
        let repo = repo();
        session(&repo, "true", "true").ok();
        let whole = repo.read("results.tsv");
        let last = format!("refs/autoresearch/t/0000{experiments}");
        if outcome == "keep" {
            repo.git(["update-ref", "-d", "refs/autoresearch/t/00004"]);
        }
        // As it is after a kill between the record and its row.
        repo.git(["reset", "-q", "--hard", &format!("{last}^{{commit}}")]);
        repo.git(["clean", "-ffdxq"]);
        let rows: Vec<_> = whole.lines().take(1 + experiments.parse::<usize>().unwrap()).collect();
        repo.write("results.tsv", rows.join("\n") + "\n");
        let called = ar(&repo, ["resume", "t", "--max-experiments", "0"]).ok();
        let rows: Vec<_> = whole.lines().take(2 + experiments.parse::<usize>().unwrap()).collect();
        assert_eq!(repo.read("results.tsv"), rows.join("\n") + "\n", "{called:?}");
        assert_eq!(repo.head(), repo.git(["rev-parse", "refs/autoresearch/t/00003^{commit}"]), "{called:?}");
        assert_eq!(repo.status(), "");
    }
}

#[test]
fn a_session_that_lost_a_record_is_not_continued_as_if_it_never_was() {
    let repo = repo();
    session(&repo, "true", "true").ok();
    repo.git(["update-ref", "-d", "refs/autoresearch/t/00002"]);
    let called = ar(&repo, ["resume", "t", "--max-experiments", "9"]).exits(6);
    assert!(called.stderr.contains("has no record of experiment 2, but has later ones"), "{called:?}");
    assert!(called.stderr.contains("ar doctor"), "{called:?}");
}

#[test]
fn a_run_that_went_on_without_its_files_is_ended_before_another_one() {
    let repo = repo();
    let (child, pid) = loop_in_a_long_run(&repo, "sleep 600");
    kill(child);
    // Nothing is left by which it can be found but its processes, and its shim cannot put it back.
    let shim: serde_json::Value = serde_json::from_str(&repo.read(".autoresearch/t/runs/00001/started.json")).unwrap();
    let shim = shim["pid"].to_string();
    assert!(Command::new("kill").args(["-STOP", &shim]).status().unwrap().success());
    repo.git(["clean", "-ffdxq"]);
    let called = ar(&repo, ["resume"]).exits(1);
    assert!(called.stderr.contains("which is not an experiment"), "{called:?}");
    repo.git(["reset", "-q", "--keep", "main"]);
    ar(&repo, ["resume", "--max-experiments", "0"]).ok();
    // Of a process that has ended this cannot be read, even if nobody reaped it.
    assert!(fs::read_link(format!("/proc/{pid}/cwd")).is_err(), "the run {pid} is still there");
}

#[test]
fn what_a_person_edits_while_the_training_runs_is_saved_and_the_run_repeated() {
    let repo = repo();
    let command = "sh train.sh; [ $AR_EXPERIMENT = 0 ] || { touch ../there; until [ -e ../go ]; do sleep 0.02; done; }";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", command];
    let child = ar_command(&repo, &repo.path(), args)
        .args(["--agent", "echo 2.5 > value"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the run", || repo.outside().join("there").exists().then_some(()));
    repo.write("docs/kept.txt", "kept, and an edit of a person's\n");
    repo.write("value", "2.5\nand a remark\n");
    repo.write("todo.txt", "a new file\n");
    let mut shell = Command::new("sh");
    repo.environment(&mut shell);
    shell.args(["-c", "git rm -q --cached tool.sh"]).current_dir(repo.path()).status().unwrap();
    fs::write(repo.outside().join("go"), "").unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    let saved = "refs/autoresearch/t/saved/00000";
    assert!(called.stderr.contains(saved) && called.stderr.contains("docs/kept.txt"), "{called:#?}");
    assert_eq!(repo.git(["show", &format!("{saved}:docs/kept.txt")]), "kept, and an edit of a person's");
    assert_eq!(repo.git(["show", &format!("{saved}:value")]), "2.5\nand a remark");
    // The first number may not have been that of the commit.
    let record: serde_json::Value =
        serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]))
            .unwrap();
    assert_eq!((&record["outcome"], &record["metric"]["raw"]), (&"discard".into(), &"2.5".into()), "{called:#?}");
    assert_eq!(record["changed_while_running"], serde_json::Value::Null);
    let repeated = "repeating the run of experiment 1: docs/kept.txt, tool.sh, value changed while it ran";
    assert!(called.stderr.contains(repeated), "{called:?}");
    assert_eq!(fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 3);
    assert_eq!(repo.read("todo.txt"), "a new file\n");
    assert_eq!(repo.read("docs/kept.txt"), "kept\n");
    assert_eq!(repo.status(), "?? notes.txt\n?? todo.txt");
}

#[test]
fn a_person_may_edit_a_protected_file_during_two_runs_and_the_change_is_measured_in_the_third() {
    let repo = repo();
    let command = "sh train.sh; n=$(wc -l < ../runs); touch ../there-$n; [ $AR_EXPERIMENT = 0 ] || \
                   until [ -e ../go-$n ]; do sleep 0.02; done";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", command];
    let args = args.into_iter().chain(["--protect", "docs/kept.txt", "--agent", "echo 1.5 > value"]);
    let mut command = ar_command(&repo, &repo.path(), args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let outside = |name: &str, n: u32| repo.outside().join(format!("{name}-{n}"));
    for n in 2..=4 {
        until("the run", || outside("there", n).exists().then_some(()));
        if n < 4 {
            repo.write("docs/kept.txt", format!("edit {n}\n"));
        }
        fs::write(outside("go", n), "").unwrap();
    }
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    let record = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]);
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!((&record["outcome"], &record["metric"]["raw"]), (&"keep".into(), &"1.5".into()), "{called:#?}");
    assert_eq!(called.stderr.matches("repeating the run of experiment 1").count(), 2, "{called:#?}");
    for (saved, edit) in [("00000", "edit 2"), ("00001", "edit 3")] {
        assert_eq!(repo.git(["show", &format!("refs/autoresearch/t/saved/{saved}:docs/kept.txt")]), edit);
    }
    assert_eq!(repo.read("docs/kept.txt"), "kept\n");
}
