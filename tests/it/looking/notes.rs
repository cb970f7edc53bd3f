//! `ar note`.

use std::fs;
use std::process::Stdio;

use autoresearch::domain::CommitId;
use autoresearch::git::{Notes, Repo};

use super::{commit, session, surroundings};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

#[test]
fn notes_are_gits_own_and_leave_the_record_alone() {
    let repo = session("better worse");
    let before = surroundings(&repo, |line| line.starts_with("refs/notes/autoresearch "));
    ar(&repo, ["note", "1", "a spike\nat step 300"]).ok();
    ar(&repo, ["note", "best", "look again"]).ok();
    assert_eq!(surroundings(&repo, |line| line.starts_with("refs/notes/autoresearch ")), before);
    let gits = repo.git(["notes", "--ref=autoresearch", "show", &commit(&repo, 1)]);
    let line = "2026-11-20T22:00:00.000Z t/1 Test: ";
    assert_eq!(gits, format!("{line}a spike at step 300\n{line}look again"));
    assert!(repo.git(["log", "-1", "--notes=autoresearch", "autoresearch/t"]).contains("look again"));
    let shown = ar(&repo, ["show", "1"]).ok().stdout;
    let notes: Vec<Vec<&str>> =
        shown.lines().filter(|line| line.starts_with("note ")).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(notes[0][1..7], ["a", "spike", "at", "step", "300", "(Test,"], "{shown}");
    assert_eq!(notes[0][8..], ["just", "now)"], "{shown}");
    assert_eq!(notes.len(), 2, "{shown}");
    // One that was made with git alone counts as well.
    repo.git(["notes", "--ref=autoresearch", "append", "-m", "by hand", &commit(&repo, 2)]);
    ar(&repo, ["note", "2", "by ar"]).ok();
    let json = ar(&repo, ["log", "--format", "json"]).ok().json();
    let texts = |id: usize| -> Vec<&str> {
        let notes = json["experiments"][id]["notes"].as_array().unwrap();
        notes.iter().map(|note| note["text"].as_str().unwrap()).collect()
    };
    assert_eq!((texts(1), texts(2)), (vec!["a spike at step 300", "look again"], vec!["by hand", "by ar"]));
    assert_eq!(json["experiments"][0].get("notes"), None);
    let report = ar(&repo, ["report", "--format", "json"]).ok().json();
    assert_eq!(report["experiments"][2]["notes"][1]["text"], "by ar", "{report}");
    repo.git(["gc", "--quiet", "--prune=now"]);
    repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert_eq!(ar(&repo, ["show", "2", "--format", "json"]).ok().json()["notes"][0]["text"], "by hand");
    ar(&repo, ["note", "1", " \n "]).exits(2);
    ar(&repo, ["note", "9", "nothing there"]).exits(1);
}

#[test]
fn notes_that_are_made_at_once_are_all_there() {
    let repo = TestRepo::new();
    let head = CommitId::new(repo.head());
    std::thread::scope(|scope| {
        for person in 0..4 {
            let (repo, head) = (&repo, &head);
            scope.spawn(move || {
                let git = Repo::discover(&repo.path()).unwrap();
                (0..8).for_each(|n| {
                    Notes::new(&git.refs, "refs/notes/autoresearch")
                        .add(head, &format!("note {n} of {person}"))
                        .unwrap()
                });
            });
        }
    });
    let text = repo.git(["notes", "--ref=autoresearch", "show", head.as_str()]);
    assert_eq!(text.lines().count(), 4 * 8, "{text}");
    for person in 0..4 {
        let own: Vec<&str> = text.lines().filter(|line| line.ends_with(&format!("of {person}"))).collect();
        assert!(own.len() == 8 && own.is_sorted(), "{text}");
    }
    assert_eq!(repo.git(["rev-list", "--count", "refs/notes/autoresearch"]), "32", "nobody's note is written over");
}

#[test]
fn a_loop_at_work_undoes_neither_notes_nor_branches() {
    let repo = training_repo();
    let wait =
        "[ $AR_EXPERIMENT = 1 ] || while [ ! -e ../go ]; do sleep 0.05; done; echo \"# $AR_EXPERIMENT\" >> train.sh";
    let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", wait];
    let mut command = ar_command(&repo, &repo.path(), run);
    command.args(["--max-experiments", "2"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let session = command.spawn().unwrap();
    until("the second call of the agent", || repo.exists(".autoresearch/t/runs/00002/agent.log").then_some(()));
    ar(&repo, ["note", "1", "while it goes on"]).ok();
    let beside = repo.outside().join("beside");
    ar(&repo, ["restore", "1", "--worktree", beside.to_str().unwrap()]).ok();
    let restored = commit(&repo, 1);
    ar(&repo, ["repro", "1"]).ok();
    fs::write(repo.outside().join("go"), "").unwrap();
    let called = Called::from(session.wait_with_output().unwrap()).ok();
    for word in ["restored", "removed the ref", "created while"] {
        assert!(!called.stdout.contains(word) && !called.stderr.contains(word), "{word}: {called:#?}");
    }
    assert_eq!(repo.git(["rev-parse", "t-1"]), restored);
    assert_eq!(ar(&repo, ["show", "1", "--format", "json"]).ok().json()["notes"][0]["text"], "while it goes on");
    assert_eq!(ar(&repo, ["log", "--format", "csv"]).ok().stdout.lines().count(), 4);
}

#[test]
fn notes_that_cannot_be_read_keep_nobody_from_reading_the_rest() {
    let repo = session("better");
    repo.write("not-notes", "no notes\n");
    let blob = repo.git(["hash-object", "-w", "not-notes"]);
    fs::remove_file(repo.file("not-notes")).unwrap();
    repo.git(["update-ref", "refs/notes/autoresearch", blob.trim()]);
    for args in [&["log"][..], &["show", "0"], &["report"], &["log", "--format", "json"]] {
        let called = ar(&repo, args).ok();
        assert!(
            called.stderr.starts_with("note: cannot read notes on experiments, run `ar doctor` for details: "),
            "{called:?}"
        );
    }
    let said = ar(&repo, ["doctor"]).exits(1).stdout;
    assert!(said.contains("cannot read the notes on experiments: "), "{said}");
    let hint = "hint: drop them with `git update-ref -d refs/notes/autoresearch`";
    assert!(said.contains(hint), "{said}");
    repo.git(["update-ref", "-d", "refs/notes/autoresearch"]);
    ar(&repo, ["doctor"]).ok();
}
