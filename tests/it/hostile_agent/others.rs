//! Attacks by way of other sessions of the repository, and what other sessions do meanwhile.

use std::fs::{self, File};

use super::harness::{record, repo, said, session};
use crate::support::{AR, TestRepo, ar};

/// A repository with a session `old`, which nobody is at work on.
fn repo_with_old_session() -> TestRepo {
    let repo = repo();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--tag", "old", "--cmd", "sh eval.sh"]).ok();
    repo.git(["switch", "--quiet", "main"]);
    repo
}

fn refs(repo: &TestRepo, tag: &str) -> String {
    repo.git(["for-each-ref", "--format=%(refname) %(objectname)", &format!("refs/autoresearch/{tag}/")])
}

/// A shell line that makes a record of session `tag` that says that the commit at HEAD has 0.001.
fn forge(tag: &str) -> String {
    format!(
        "git cat-file tag $R/00000 | sed 's/\"tag\":\"t\"/\"tag\":\"{tag}\"/; s/2\\.0/0.001/g; s/baseline/great/' > ../forged; \
         git update-ref refs/autoresearch/{tag}/00000 $(git mktag --no-strict < ../forged)"
    )
}

const ROW: &str = "printf '%s\\t0.001\\t0.0\\timproved\\tgreat\\n' $(git rev-parse --short=8 main) >> results.tsv";
const JUNK: &str = "git tag -a -m junk junk HEAD; git update-ref refs/autoresearch/zzz/00000 $(git rev-parse junk); git tag -d junk > /dev/null";

#[test]
fn what_an_agent_makes_up_of_a_session_that_nobody_has_is_taken_away_and_named() {
    let repo = repo_with_old_session();
    let old = refs(&repo, "old");
    let attacks = [
        &format!("{}; {ROW}", forge("zzz")),
        &format!("{JUNK}; {ROW}"),
        "git update-ref refs/autoresearch/old/00000 $(git rev-parse $R/00001)",
        "git update-ref -d refs/autoresearch/old/00000",
        &format!(
            "git update-ref refs/autoresearch/old/00001 $(git commit-tree -m odd HEAD^{{tree}}); {}",
            forge("Z.Z")
        ),
        // What is put back is put back from what is true.
        &format!("{}; rm results.tsv", forge("zzz")),
    ];
    let called = session(&repo, &attacks, &[]).ok();
    let said = said(&called);
    for (deed, name, fate) in [
        ("removed", "zzz/00000", "created at "),
        ("restored", "old/00000", "moved to "),
        ("removed", "old/00001", "created at "),
        ("removed", "Z.Z/00000", "created at "),
    ] {
        assert!(said.contains(&format!("{deed} the ref refs/autoresearch/{name}, {fate}")), "{name}: {said}");
    }
    let restored = "restored ar's refs deleted while the agent was active: refs/autoresearch/old/00000";
    assert!(said.contains(restored), "{said}");
    assert_eq!(said.matches("1 row without an experiment, removed").count(), 2, "{said}");
    assert_eq!(refs(&repo, "old"), old);
    assert_eq!(refs(&repo, "zzz") + &refs(&repo, "Z.Z"), "");
    assert!(!repo.read("results.tsv").contains("0.001"), "{}", repo.read("results.tsv"));
    let saved = repo.git(["log", "--format=%s", "--glob=refs/autoresearch/t/saved"]);
    assert!(saved.contains("odd"), "{saved}");
    assert_eq!(record(&repo, 6)["outcome"], "discard");
}

#[test]
fn what_a_session_does_that_somebody_has_meanwhile_is_left_to_it() {
    let repo = repo();
    // One that another process has all the time, and one that comes and goes.
    fs::create_dir_all(repo.file(".autoresearch/held")).unwrap();
    let lock = File::create(repo.file(".autoresearch/held/lock")).unwrap();
    lock.lock().unwrap();
    let brief = format!(
        "git worktree add --quiet --detach ../second main; (cd ../second; unset AR_RUN_DIR AR_STATE_DIR AR_EXPERIMENT; \
         {AR} run --yes --metric val_bpb --tag brief --cmd 'sh eval.sh' > ../brief 2>&1)"
    );
    let held = format!("{}; git update-ref refs/autoresearch/held/00001 main; {ROW}", forge("held"));
    let called = session(&repo, &[&brief, &held], &[]).ok();
    let said = said(&called);
    assert_eq!(refs(&repo, "brief").lines().count(), 1, "{said}");
    assert_eq!(refs(&repo, "held").lines().count(), 2, "{said}");
    assert!(!said.contains("refs/autoresearch/brief") && !said.contains("held/00000"), "{said}");
    let left = "left the ref refs/autoresearch/held/00001, which is not a record and was created or moved";
    assert!(said.contains(left), "{said}");
    assert!(!said.contains("without an experiment") && !said.contains("removed"), "{said}");
    assert_eq!(repo.read("results.tsv").lines().count(), 1 + 1 + 2 + 2);
}

#[test]
fn what_cannot_be_read_of_another_session_ends_no_night() {
    let repo = repo_with_old_session();
    repo.git(["tag", "-a", "-m", "junk", "junk", "main"]);
    repo.git(["update-ref", "refs/autoresearch/old/00001", &repo.git(["rev-parse", "junk"])]);
    repo.write(".git/refs/autoresearch/older/00000", "garbage\n");
    repo.write(".autoresearch/old/state/progress.json", "{");
    let row = "echo 'feedface\t0.5\t1.0\timproved\tby hand' >> results.tsv";
    let wrong = format!("{ROW}; {row}");
    let called = session(&repo, &[&wrong, "rm results.tsv", "true", &wrong], &[]).ok();
    let said = said(&called);
    assert_eq!(said.matches("skipped a record of session old").count(), 1, "{said}");
    assert_eq!(said.matches("skipped the journal of session old").count(), 1, "{said}");
    assert_eq!(said.matches("2 rows without an experiment, removed").count(), 2, "{said}");
    assert_eq!(repo.read("results.tsv").lines().count(), 1 + 1 + 5, "{}", repo.read("results.tsv"));
    // With something of it at work nobody knows where that is.
    fs::create_dir_all(repo.file(".autoresearch/old/runs/00007")).unwrap();
    let lock = File::create(repo.file(".autoresearch/old/runs/00007/lock")).unwrap();
    lock.lock().unwrap();
    let called = ar(&repo, ["resume", "t", "--max-experiments", "5"]).exits(6);
    assert!(called.stderr.contains("old/state/progress.json"), "{called:?}");
}
