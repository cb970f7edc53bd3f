//! Attempts that were open beside each other, and what they leave behind.

use serde_json::{Value, json};

use super::session::{assert_healthy, doctor, edit, object, session, state};
use crate::support::TestRepo;

/// An open attempt on a commit.
fn open(id: u32, phase: &str, commit: &str, base: &str, more: Value) -> Value {
    let mut open = json!({"id": id, "phase": phase, "base": base, "commit": commit, "description": "",
        "started": "2026-11-20T22:00:00Z"});
    open.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    open
}

/// Writes a journal of a session with two slots that has these attempts.
fn write_attempts(repo: &TestRepo, attempts: &[Value]) {
    edit(repo, &state("progress.json"), |journal| {
        journal["attempts"] = attempts.iter().map(|open| json!({"phase": open["phase"], "open": open})).collect();
        journal["given"] = 9.into();
        journal["layout"] = json!({"slots": 2, "ahead": 1});
    });
}

#[test]
fn refs_and_trees_that_nothing_needs_are_named_and_cleared_away() {
    let repo = session();
    let commit = object(&repo, "HEAD");
    repo.git(["update-ref", "refs/autoresearch/t/open/00009", "HEAD"]);
    repo.git(["update-ref", "refs/autoresearch/t/open/00001", "HEAD"]);
    repo.git(["update-ref", "refs/autoresearch/t/merged/00001", "HEAD"]);
    repo.git(["worktree", "add", "--detach", "--lock", ".autoresearch/t/trees/slot-0", "HEAD"]);
    repo.write(".autoresearch/t/trees/seat-1/half.txt", "a tree that git does not know\n");
    let said = doctor(&repo, &[], 0);
    for what in [
        "open/00009 keeps a commit of experiment 9, which is neither open nor recorded",
        "slot-0 was left",
        "seat-1 was left",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
    assert!(!said.contains("open/00001") && !said.contains("merged/"), "{said}");
    let said = doctor(&repo, &["--repair"], 0);
    assert!(said.contains("moved refs/autoresearch/t/open/00009 to refs/autoresearch/t/saved/00000"), "{said}");
    assert_eq!(object(&repo, "refs/autoresearch/t/saved/00000^"), commit);
    assert_eq!(
        repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/open"]),
        "refs/autoresearch/t/open/00001"
    );
    assert!(!repo.file(".autoresearch/t/trees/slot-0").exists() && !repo.file(".autoresearch/t/trees/seat-1").exists());
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert_healthy(&repo, "orphans");
}

#[test]
fn each_open_attempt_is_looked_at_and_its_tree_stays() {
    let repo = session();
    // The incumbent, and the baseline on which an attempt is stale.
    let (tip, start) = (object(&repo, "HEAD"), object(&repo, "HEAD~1"));
    let stale = repo.git(["commit-tree", "-m", "stale", "-p", &start, &format!("{tip}^{{tree}}")]);
    repo.git(["update-ref", "refs/autoresearch/t/open/00004", &stale]);
    for tree in ["slot-0", "slot-1", "seat-0"] {
        repo.git(["worktree", "add", "--detach", &format!(".autoresearch/t/trees/{tree}"), "HEAD"]);
    }
    let attempts = |commit: &str| {
        let merged = json!({"seat": 0, "merge_with": tip});
        [open(4, "running", &stale, &start, json!({"slot": 1})), open(5, "proposing", commit, &tip, merged)]
    };
    write_attempts(&repo, &attempts(&tip));
    repo.git(["switch", "--quiet", "--detach", "HEAD"]);
    let said = doctor(&repo, &["t"], 0);
    for what in
        ["experiment 4 is open (running), but no ar is active", "experiment 5 is open (proposing)", "slot-0 was left"]
    {
        assert!(said.contains(what), "{what}: {said}");
    }
    for not in ["slot-1", "seat-0", "on the session's branch", "open/00004"] {
        assert!(!said.contains(not), "{not}: {said}");
    }
    doctor(&repo, &["t", "--repair"], 0);
    let left = |tree: &str| repo.file(format!(".autoresearch/t/trees/{tree}")).exists();
    assert_eq!(["slot-0", "slot-1", "seat-0"].map(left), [false, true, true]);

    // The journal has the commit that a torn ref named.
    repo.write(".git/refs/autoresearch/t/open/00004", "");
    doctor(&repo, &["t", "--repair"], 0);
    assert_eq!(object(&repo, "refs/autoresearch/t/open/00004"), stale);

    // What contradicts the commits is found of the second one, too.
    write_attempts(&repo, &attempts(&"5".repeat(40)));
    let said = doctor(&repo, &["t"], 6);
    assert!(said.contains("the journal's open experiment is on a commit that is not in the repository"), "{said}");
}

#[test]
fn a_train_that_is_half_recorded_is_no_contradiction_and_its_rows_are_found() {
    let repo = session();
    let (tip, start) = (object(&repo, "HEAD"), object(&repo, "HEAD~1"));
    let own = repo.git(["commit-tree", "-m", "its own", "-p", &start, &format!("{tip}^{{tree}}")]);
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]);
    let record: Value = serde_json::from_str(body.trim()).unwrap();
    let trial = json!({"slot": 0, "trial": {"train": {"on": 0, "cars": [1, 8]}}, "recording": [record]});
    let winner = json!({"slot": 1, "draft": trial["recording"][0]});
    write_attempts(&repo, &[open(9, "recording", &tip, &start, trial), open(1, "waiting", &own, &start, winner)]);
    let said = doctor(&repo, &["t"], 0);
    assert!(said.contains("experiment 9 is open (recording)"), "{said}");
    let rows = repo.read("results.tsv");
    repo.rm("results.tsv");
    doctor(&repo, &["t", "--repair"], 0);
    let journal: Value = serde_json::from_str(&repo.read(state("progress.json"))).unwrap();
    let row_of_1 = rows.lines().take(2).map(|line| line.len() + 1).sum::<usize>();
    assert_eq!((&journal["phase"], &journal["open"]["rows_from"]), (&"recording".into(), &row_of_1.into()));
    assert_eq!(
        (&journal["attempts"][1]["phase"], &journal["attempts"][1]["open"]["rows_from"]),
        (&"waiting".into(), &0.into())
    );
}
