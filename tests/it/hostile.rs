//! Agents, training scripts and people that delete or change what the session stands on, while it goes on.

use std::fs;
use std::process::{Command, Stdio};

use crate::outcome::results;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// A repository whose number is in a tracked file, with a file of the user's that is not tracked.
fn repo() -> TestRepo {
    let repo = training_repo();
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
    let command = format!("sh train.sh; [ $AR_EXPERIMENT = 0 ] || {{ {after}\n}}; true");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "4"];
    ar(repo, args.into_iter().chain(["--cmd", &command, "--agent", &agent]))
}

const DELETIONS: [&str; 9] = [
    "git clean -ffdxq",
    "rm -rf .autoresearch results.tsv run.log",
    "rm -rf .autoresearch",
    "rm -rf .autoresearch/t/state .autoresearch/t/lock",
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
        assert_eq!(is_gone(".autoresearch/t was deleted"), deletion_hits(deletion, ".autoresearch"), "{deletion}");
        let iterations = repo.read(".autoresearch/t/state/iteration_log.jsonl");
        assert_eq!(iterations.lines().count(), 4, "{deletion}: {iterations}");
        assert_eq!(fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 5, "{deletion}");
    }
}

#[test]
fn whatever_a_run_deletes_its_number_and_its_log_are_kept() {
    let whole = repo();
    whole.rm("notes.txt");
    session(&whole, "true", "true").ok();
    let expected = results(&whole);
    for deletion in DELETIONS {
        let repo = repo();
        // What a user's own command deletes beside it is the user's affair.
        repo.rm("notes.txt");
        let called = session(&repo, "true", deletion).ok();
        assert_eq!(results(&repo), expected, "{deletion}: {called:#?}");
        assert_eq!(repo.read(".autoresearch/t/runs/00004/run.log"), "val_bpb: 3\n", "{deletion}");
        assert_eq!(fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count(), 5, "{deletion}");
    }
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
    assert!(called.stderr.contains(".autoresearch/t was gone"), "{called:?}");
    assert!(called.stderr.contains("results.tsv was deleted; 5 rows of it are put back"), "{called:?}");
    assert_eq!(results(&repo), expected);
    let journal: serde_json::Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["iteration"], &journal["stale_count"]), (&4.into(), &1.into()), "{journal}");
}

#[test]
fn a_run_that_went_on_without_its_files_is_ended_before_another_one() {
    let repo = repo();
    let command = "echo $$ > ../pid; [ $AR_EXPERIMENT = 0 ] || sleep 600; sh train.sh";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", command];
    let mut child = ar_command(&repo, &repo.path(), args)
        .args(["--agent", "echo 1.5 > value"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = until("the run", || {
        repo.exists(".autoresearch/t/runs/00001/started.json").then_some(())?;
        let pid = fs::read_to_string(repo.outside().join("pid")).ok()?;
        fs::read_link(format!("/proc/{}/cwd", pid.trim())).ok()?;
        Some(pid.trim().to_owned())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    repo.git(["clean", "-ffdxq"]);
    let called = ar(&repo, ["resume"]).exits(1);
    assert!(called.stderr.contains("which is no experiment"), "{called:?}");
    repo.git(["reset", "-q", "--keep", "main"]);
    ar(&repo, ["resume", "--max-experiments", "0"]).ok();
    // Of a process that has ended this cannot be read, even if nobody reaped it.
    assert!(fs::read_link(format!("/proc/{pid}/cwd")).is_err(), "the run {pid} is still there");
}

#[test]
fn what_a_person_edits_while_the_training_runs_is_saved_and_named() {
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
    assert_eq!(repo.read("todo.txt"), "a new file\n");
    assert_eq!(repo.read("docs/kept.txt"), "kept\n");
    assert_eq!(repo.status(), "?? notes.txt\n?? todo.txt");
}
