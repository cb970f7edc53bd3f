//! What only a guess could mend.

use serde_json::json;

use super::session::{cut, doctor, edit, object, session, state};
use crate::bad_input::harness::files;
use crate::support::{TestRepo, ar};

/// Writes a tag object as one of experiment `id`, changed by `change`, and gives it.
fn another_record(repo: &TestRepo, id: u32, change: impl FnOnce(String) -> String) -> String {
    let content = repo.git(["cat-file", "-p", &format!("refs/autoresearch/t/{id:05}")]);
    repo.write("../tag", change(content) + "\n");
    repo.git(["hash-object", "-t", "tag", "-w", "../tag"])
}

/// Says what a person has to decide, exits with 6, and mends nothing of it.
#[track_caller]
fn assert_damaged(repo: &TestRepo, needles: &[&str]) {
    let said = doctor(repo, &[], 6);
    for needle in needles {
        assert!(said.contains(needle), "no `{needle}` in {said}");
    }
    assert!(said.contains(" that you have to decide"), "{said}");
    changes_nothing(repo, || doctor(repo, &["--repair"], 6));
}

/// Fails if `call` changes a file.
#[track_caller]
fn changes_nothing<T>(repo: &TestRepo, call: impl FnOnce() -> T) -> T {
    let before = files(&repo.path());
    let called = call();
    let after = files(&repo.path());
    for (path, content) in before {
        // What the locks of the session and the refs say is not the session.
        let is_lock = path.ends_with("lock") || path.ends_with("autoresearch-owner") || path.ends_with("exclude");
        assert!(is_lock || after.get(&path) == Some(&content), "{} was changed", path.display());
    }
    called
}

#[test]
fn a_record_that_is_gone_while_a_later_one_is_there() {
    let repo = session();
    let lost = object(&repo, "refs/autoresearch/t/00002");
    repo.git(["update-ref", "-d", "refs/autoresearch/t/00002"]);
    let put_back = format!("{lost}; then `git update-ref refs/autoresearch/t/00002 OBJECT`");
    assert_damaged(&repo, &["experiment 2 has no record, but a later one does", &put_back]);
    repo.git(["update-ref", "refs/autoresearch/t/00002", &lost]);
    doctor(&repo, &[], 0);
}

#[test]
fn two_tag_objects_for_one_torn_ref() {
    let repo = session();
    let first = object(&repo, "refs/autoresearch/t/00003");
    let second = another_record(&repo, 3, |content| content.replace("\"keep\"", "\"discard\"") + " ");
    repo.write(".git/refs/autoresearch/t/00003", "");
    assert_damaged(&repo, &["refs/autoresearch/t/00003 is empty or damaged", &first, &second, "decide which it is"]);
}

#[test]
fn a_torn_ref_whose_value_nothing_tells() {
    let repo = session();
    repo.write(".git/refs/autoresearch/t/saved/00000", "");
    assert_damaged(&repo, &["refs/autoresearch/t/saved/00000 is empty or damaged", "git fsck --lost-found"]);
}

#[test]
fn a_record_that_cannot_be_read_or_is_another_ones() {
    let repo = session();
    let whole = object(&repo, "refs/autoresearch/t/00001");
    let torn = another_record(&repo, 1, |content| content.replace("{\"version\":1", "{\"version\":"));
    repo.git(["update-ref", "refs/autoresearch/t/00001", &torn]);
    assert_damaged(&repo, &["cannot read the record refs/autoresearch/t/00001", "git cat-file -p refs/autoresearch/"]);
    let error = ar(&repo, ["resume", "t"]).exits(6).stderr;
    assert!(error.contains("hint: run `ar doctor` to see the damage and the fix"), "{error}");

    repo.git(["update-ref", "refs/autoresearch/t/00001", &object(&repo, "refs/autoresearch/t/00002")]);
    assert_damaged(&repo, &["the record refs/autoresearch/t/00001 belongs to experiment 2"]);
    repo.git(["update-ref", "refs/autoresearch/t/00001", &object(&repo, &format!("{whole}^{{commit}}"))]);
    assert_damaged(&repo, &["it is not an annotated tag on a commit"]);
    repo.git(["update-ref", "refs/autoresearch/t/00001", &whole]);
    doctor(&repo, &[], 0);
}

#[test]
fn a_ref_that_leads_to_another_ones_record_stops_all_that_write() {
    let repo = session();
    for (id, other) in [(1, 2), (2, 1), (3, 0), (0, 1)] {
        let name = format!("refs/autoresearch/t/{id:05}");
        let own = object(&repo, &name);
        repo.git(["update-ref", &name, &format!("refs/autoresearch/t/{other:05}")]);
        let what = format!("the record {name} belongs to experiment {other}");
        let refused = |args: &[&str]| {
            let said = changes_nothing(&repo, || ar(&repo, args).exits(6).stderr);
            assert!(said.contains(&what) && said.contains("hint: run `ar doctor`"), "{args:?}: {said}");
        };
        assert_damaged(&repo, &[&what, &format!("git cat-file -p {name}")]);
        refused(&["resume", "t"]);
        refused(&["run"]);
        repo.write("train.sh", repo.read("train.sh") + "# mine\n");
        refused(&["try", "-m", "mine"]);
        repo.git(["checkout", "--quiet", "train.sh"]);
        repo.git(["update-ref", &name, &own]);
    }
    doctor(&repo, &[], 0);
}

#[test]
fn a_record_whose_object_is_gone_is_reported_and_not_made_up() {
    let repo = session();
    let lost = object(&repo, "refs/autoresearch/t/00002");
    repo.rm(format!(".git/objects/{}/{}", &lost[..2], &lost[2..]));
    let what = format!("the object {lost} of the record refs/autoresearch/t/00002 is gone");
    assert_damaged(&repo, &[&what, "hint: fetch it from a copy of the repository"]);
}

#[test]
fn packed_refs_with_a_torn_line() {
    let repo = session();
    repo.git(["pack-refs", "--all"]);
    let packed = repo.read(".git/packed-refs");
    for torn in [packed.replace(" refs/autoresearch/t/00001", "refs/autore"), packed[..packed.len() - 30].to_owned()] {
        repo.write(".git/packed-refs", torn);
        assert_damaged(&repo, &["/.git/packed-refs does not name a ref", "decide what that line should be"]);
    }
    repo.write(".git/packed-refs", packed);
    doctor(&repo, &[], 0);
}

#[test]
fn a_commit_that_is_not_in_the_repository() {
    let repo = session();
    let commit = object(&repo, "refs/autoresearch/t/00002^{commit}");
    repo.rm(format!(".git/objects/{}/{}", &commit[..2], &commit[2..]));
    let what = format!("the commit {} of experiment 2 is not in the repository", &commit[..8]);
    assert_damaged(&repo, &[&what, "git fsck --full"]);
}

#[test]
fn terms_that_are_nowhere() {
    let repo = session();
    let bare = another_record(&repo, 0, |content| content.replace("\"contract\":", "\"forgotten\":"));
    repo.git(["update-ref", "refs/autoresearch/t/00000", &bare]);
    doctor(&repo, &[], 0);
    cut(&repo, &state("contract.json"), 9);
    assert_damaged(&repo, &["cannot read ", "contract.json, and no record holds the terms", "ar run --tag NEW"]);
    repo.rm(state("contract.json"));
    assert_damaged(&repo, &["no record holds the terms"]);
}

#[test]
fn a_journal_that_contradicts_the_records() {
    let repo = session();
    let journal = repo.read(state("progress.json"));
    let tip = repo.git(["rev-parse", "autoresearch/t"]);
    let nowhere = "1".repeat(40);
    let open = |id: u32, base: &str, commit: Option<&str>| json!({"id": id, "base": base, "commit": commit, "started": "2026-11-20T22:00:00Z", "runs": 1});
    for (phase, open, what) in [
        ("running", open(4, &tip, Some(&nowhere)), "on a commit that is not in the repository"),
        ("running", open(4, &tip, None), "names no commit"),
        ("running", open(9, &tip, Some(&tip)), "a number that the records do not leave room for"),
        ("proposing", open(4, &nowhere, None), "was made on a commit that is not in the repository"),
        ("idle", open(4, &tip, None), "has an open experiment and says that none is"),
    ] {
        edit(&repo, &state("progress.json"), |journal| {
            journal["attempts"] = json!([{"phase": phase, "open": open}]);
        });
        assert_damaged(&repo, &[what, "compare `cat ", "progress.json.wrong && ar doctor --repair"]);
        // What the hint says to do when the records are right.
        repo.rm(state("progress.json"));
        doctor(&repo, &["--repair"], 0);
        repo.write(state("progress.json"), &journal);
    }
}
