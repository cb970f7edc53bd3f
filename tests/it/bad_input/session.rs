//! Sessions, ledgers and names that cannot be used.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::harness::{RUN, TRY, assert_says, both_refused, both_refused_with_change, refused, start, training_repo};
use crate::support::{Called, TestRepo, ar, ar_command, until};

#[test]
fn a_ledger_that_cannot_be_continued() {
    const HEADER: &str = "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n";
    let repo = training_repo();
    fs::create_dir(repo.file("results.tsv")).unwrap();
    both_refused(&repo, &["results.tsv` is not a regular file", "hint: move it aside with `mv "]);
    fs::remove_dir(repo.file("results.tsv")).unwrap();

    repo.write("results.tsv", "hello\n");
    refused(&repo, RUN, 1, &["cannot continue the ledger `", "hint: see its content with `ar report --ledger"]);

    repo.write("results.tsv", HEADER);
    fs::set_permissions(repo.file("results.tsv"), fs::Permissions::from_mode(0o444)).unwrap();
    refused(&repo, RUN, 1, &["results.tsv` is read-only", "hint: make it writable: chmod u+w "]);
    fs::set_permissions(repo.file("results.tsv"), fs::Permissions::from_mode(0o644)).unwrap();

    repo.commit_all("tracked");
    both_refused(
        &repo,
        &[
            "results.tsv is tracked by git: a reset would undo what ar writes there\n",
            "hint: git rm -r --quiet --cached results.tsv && git commit -m \"stop tracking results.tsv\"\n",
        ],
    );
}

#[test]
fn a_tag_that_is_none_and_a_branch_that_is_not_ars() {
    let repo = training_repo();
    for tag in ["Nov20", "a/b", "a b", "ä", "", ".a", "a..b", "a.lock", "a."] {
        let tag = format!("--tag={tag}");
        refused(
            &repo,
            &["run", "--metric", "loss", "--cmd", "true", &tag],
            2,
            &["is not a tag", "hint: use a name such as"],
        );
    }
    let long = format!("--tag={}", "a".repeat(300));
    refused(&repo, &["run", "--metric", "loss", "--cmd", "true", &long], 2, &["at most 100 characters", "hint: use"]);
    repo.git(["branch", "autoresearch/t1"]);
    both_refused_with_change(
        &repo,
        &[
            "branch autoresearch/t1 exists but belongs to no session",
            "hint: choose another name with --tag, or rename the branch: git branch -m autoresearch/t1 NEW-NAME;",
            "run `ar doctor` to see whether a session left work of yours there\n",
        ],
    );
    repo.git(["checkout", "--quiet", "autoresearch/t1"]);
    refused(&repo, &RUN[..5], 1, &["branch autoresearch/t1 exists but belongs to no session"]);
    repo.git(["checkout", "--quiet", "main"]);

    repo.git(["branch", "-m", "autoresearch/t1", "autoresearch/t1/x"]);
    refused(
        &repo,
        RUN,
        1,
        &["beside the existing branch autoresearch/t1/x\n", "hint: git branch -m autoresearch/t1/x "],
    );
    repo.git(["branch", "-m", "autoresearch/t1/x", "autoresearch"]);
    refused(&repo, RUN, 1, &["beside the existing branch autoresearch\n", "hint: git branch -m autoresearch "]);
}

#[test]
fn a_session_of_a_newer_format() {
    let repo = training_repo();
    ar(&repo, RUN).ok();
    repo.write("README.md", "changed\n");
    let newer = |file: &str| {
        let old = repo.read(file);
        let mut value: serde_json::Value = serde_json::from_str(&old).unwrap();
        value["version"] = 9.into();
        repo.write(file, value.to_string());
        old
    };
    for file in ["contract.json", "progress.json"] {
        let file = format!(".autoresearch/t1/state/{file}");
        let old = newer(&file);
        let new = repo.read(&file);
        let refs = repo.git(["for-each-ref"]);
        for args in [&["run", "--adopt"][..], &["try", "-m", "x"], TRY] {
            assert_says(&ar(&repo, args).exits(1), &[&file, "format version 9", "newer ar"]);
        }
        assert_eq!((repo.read(&file), repo.git(["for-each-ref"])), (new, refs));
        assert_eq!(repo.read("README.md"), "changed\n");
        repo.write(&file, old);
    }

    let reference = "refs/autoresearch/t1/00000";
    let message = repo.git(["for-each-ref", "--format=%(contents)", reference]);
    let message = message.replacen("\"version\":1", "\"version\":2", 1);
    repo.git(["tag", "--annotate", "--message", &message, "newer", "HEAD"]);
    repo.git(["update-ref", reference, "newer"]);
    for args in [&["try", "-m", "x"][..], &["report"], &["log"], &["show", "0"]] {
        assert_says(&ar(&repo, args).exits(1), &[reference, "format version 2", "newer ar"]);
    }
}

#[test]
fn other_terms_than_those_that_were_approved() {
    let repo = training_repo();
    ar(&repo, RUN).ok();
    let drift = |args: &[&str], field: &str| {
        refused(&repo, &[&["run"], args].concat(), 1, &["t1 was approved with", field, "another session with --tag"]);
    };
    drift(&["--metric", "loss"], "metric `val_bpb`, and now `loss`");
    drift(&["--higher"], "direction `lower`, and now `higher`");
    drift(&["--cmd", "true"], "command `sh train.sh`, and now `true`");
    drift(&["--metric-regex", "x(.)"], "metric source");
    drift(&["--guard", "sh tests.sh"], "list of guards `none`, and now `sh tests.sh`");
    drift(&["--limit", "memory_gb<=40"], "list of limits `none`, and now `memory_gb<=40`");
    drift(&["--min-delta", "0.5"], "minimum gain `0`, and now `0.5`");
    drift(&["--simpler-wins", "0.5"], "margin for simpler changes `none`, and now `0.5`");
    drift(&["--protect", "eval/**"], "list of protected files");
    drift(
        &["--scope", "src/**", "--cmd", "true"],
        "command `sh train.sh`, and now `true` is asked for; scope `none`, and now `src/**` is asked for",
    );
    ar(&repo, RUN).ok();
}

/// Waits until the session at work has written down what it started.
fn until_told(repo: &TestRepo, event: &str) {
    until(event, || repo.read(".autoresearch/t1/logs/work.jsonl").contains(event).then_some(()));
}

#[test]
fn a_second_call_while_one_is_going_on() {
    let repo = training_repo();
    let (there, go) = (repo.outside().join("there"), repo.outside().join("go"));
    let wait = "touch ../there; while [ ! -e ../go ]; do sleep 0.02; done";
    repo.write("train.sh", format!("{wait}; echo val_bpb: 1.0\n"));
    repo.commit_all("waits");
    let first = start(&repo, RUN);
    until("the run", || there.exists().then_some(()));
    until_told(&repo, "run_started");
    let holder = format!("process {} with session t1", first.id());
    let held = [holder.as_str(), "hint: wait until it ends"];
    refused(&repo, RUN, 5, &held);
    // Another session would move HEAD under the run.
    refused(&repo, &[&RUN[..5], &["--tag", "t2"]].concat(), 5, &held);
    fs::write(&go, "").unwrap();
    Called::from(first.wait_with_output().unwrap()).ok();

    // What the agent is just changing is no dirty working tree.
    fs::remove_file(&there).unwrap();
    fs::remove_file(&go).unwrap();
    let agent = format!("echo changed > README.md; {wait}");
    let second = start(&repo, &["run", "--max-experiments", "1", "--agent", &agent]);
    until("the run", || there.exists().then_some(()));
    until_told(&repo, "agent_started");
    let holder = format!("process {} with session t1", second.id());
    for args in [&["run"][..], &["run", "--adopt"], &["try", "-m", "x"]] {
        refused(&repo, args, 5, &[&holder]);
    }
    fs::write(&go, "").unwrap();
    Called::from(second.wait_with_output().unwrap()).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
}

#[test]
fn a_session_that_is_at_home_in_another_working_tree() {
    let repo = training_repo();
    let there = repo.outside().join("linked tree");
    repo.git(["worktree", "add", "--quiet", "--detach", there.to_str().unwrap()]);
    Called::from(ar_command(&repo, &there, RUN).output().unwrap()).ok();
    refused(&repo, RUN, 1, &["autoresearch/t1 is checked out in ", "hint: continue it there: cd '", "--tag"]);
    ar(&repo, [&RUN[..5], &["--tag", "t2"]].concat()).ok();
    Called::from(ar_command(&repo, &there, ["run"]).output().unwrap()).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3, "both in the main working tree's");
}

#[test]
fn reading_what_is_not_there() {
    let repo = training_repo();
    for args in [&["report"][..], &["log"], &["show", "0"]] {
        refused(&repo, args, 1, &["no session found", "hint: start one with `ar run"]);
    }
    refused(&repo, &["report", "t9"], 1, &["no session `t9` found"]);
    ar(&repo, RUN).ok();
    refused(
        &repo,
        &["show", "99"],
        1,
        &["session t1 has no experiment 99", "hint: it has 0 to 0; `ar log t1` lists them"],
    );
    for command in ["report", "resume", "doctor", "brief", "stop"] {
        refused(&repo, &[command, "t9"], 1, &["no session `t9` found\nhint: the only session is t1\n"]);
    }
    let called = ar(&repo, ["report", "--ledger", "nope.tsv"]).exits(1);
    assert!(called.stderr.starts_with("error: cannot read nope.tsv\n  caused by: "), "{called:?}");
    repo.git(["checkout", "--quiet", "main"]);
    ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t2"]).ok();
    repo.git(["checkout", "--quiet", "main"]);
    refused(&repo, &["log", "t22"], 1, &["no session `t22` found\nhint: did you mean t2? the sessions are t1, t2\n"]);
    refused(&repo, &["restore", "0", "--tag", "t9"], 1, &["no session `t9` found\nhint: the sessions are t1, t2\n"]);
}
