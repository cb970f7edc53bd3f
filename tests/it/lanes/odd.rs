//! What a crash, a full disk or an agent empties in git's own folder stops no session, and is gone with it.

use std::fs;
use std::path::Path;

use super::landscape::{check, first_call, landscape};
use crate::run_loop::{agent, training_repo};
use crate::support::{TestRepo, ar_in_time};

/// Entries of the user's, each odd in another way; gives their names.
fn odd_entries(repo: &TestRepo) -> Vec<String> {
    let odd = [("gitdir", ""), ("gitdir", "\0\0\0\0"), ("HEAD", ""), ("commondir", "\u{1}\u{2}garbage")];
    for (number, (file, content)) in odd.into_iter().enumerate() {
        let dir = repo.outside().join(format!("user-{number}"));
        repo.git(["worktree", "add", "--quiet", "--detach", "--lock", dir.to_str().unwrap()]);
        repo.write(format!(".git/worktrees/user-{number}/{file}"), content);
    }
    repo.write(".git/worktrees/plain", "no folder");
    fs::create_dir(repo.file(".git/worktrees/empty")).unwrap();
    entries(repo)
}

fn entries(repo: &TestRepo) -> Vec<String> {
    let entries = fs::read_dir(repo.file(".git/worktrees")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Takes the user's entries out, so that what is checked of a session is what it left itself.
fn clear(repo: &TestRepo, names: &[String]) {
    assert_eq!(entries(repo), names, "all of the user's entries, and none else");
    fs::remove_dir_all(repo.file(".git/worktrees")).unwrap();
}

#[test]
fn odd_entries_of_the_user_stop_no_session_in_place() {
    let repo = training_repo();
    let names = odd_entries(&repo);
    let agent = agent("better worse crash better");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    ar_in_time(&repo, args.iter().chain(&["--agent", &agent, "--max-experiments", "2"])).ok();
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "2"]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 1 + 5);
    assert_eq!(entries(&repo), names);
}

#[test]
fn odd_entries_of_the_user_stop_no_session_on_slots() {
    let repo = landscape();
    let names = odd_entries(&repo);
    let more = ["--slots", "2", "--max-experiments", "3"];
    ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).ok();
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    clear(&repo, &names);
    assert_eq!(check(&repo, "odd entries").len(), 5);
}

/// A session on slots in which each call empties something once.
fn harmed(harms: &[&str]) -> TestRepo {
    let repo = landscape().without_walls();
    let calls = harms.len() + 1;
    let mut args = first_call(&repo, ["0.02", "0.02"], "", &["--slots", "2", "--max-experiments", &calls.to_string()]);
    let agent = args.iter().position(|arg| arg == "--agent").unwrap() + 1;
    let memory = repo.outside().join("harmed");
    fs::create_dir(&memory).unwrap();
    let own = "G=$(git rev-parse --absolute-git-dir); C=$(git rev-parse --path-format=absolute --git-common-dir)";
    let harms: String = harms
        .iter()
        .enumerate()
        .map(|(n, harm)| format!("mkdir {}/{n} 2>/dev/null && {{ {harm}; exit; }}; ", memory.display()))
        .collect();
    let work = std::mem::take(&mut args[agent]);
    // The harm comes after the work.
    args[agent] = format!("{own}; {work}; {harms} true");
    ar_in_time(&repo, args).ok();
    assert_eq!(fs::read_dir(&memory).unwrap().count(), calls - 1, "all harm was done");
    repo
}

#[test]
fn what_an_agent_empties_of_its_own_entry_is_gone_with_the_session() {
    let repo = harmed(&[": > $G/gitdir", ": > $G/HEAD", ": > $G/commondir", ": > $G/gitdir; : > $G/locked"]);
    check(&repo, "emptied entries");
    assert!(!repo.exists(".git/worktrees") || entries(&repo).is_empty());
}

#[test]
fn an_entry_that_was_emptied_while_nobody_was_active_is_gone_with_the_session() {
    let repo = landscape();
    ar_in_time(&repo, first_call(&repo, ["0.02", "0.02"], "", &["--slots", "2", "--max-experiments", "1"])).ok();
    // As a power cut leaves the trees of a session that was active.
    let tree = |name: &str| repo.file(".autoresearch/t/trees").join(name).display().to_string();
    for (name, file, is_missing) in [
        ("slot-0", "gitdir", false),
        ("slot-1", "HEAD", true),
        ("seat-0", "commondir", false),
        ("seat-9", "gitdir", true),
    ] {
        let lock = format!("made and removed by ar: {}", tree(name));
        repo.git(["worktree", "add", "--quiet", "--detach", "--lock", "--reason", &lock, &tree(name)]);
        if is_missing {
            fs::remove_dir_all(tree(name)).unwrap();
        }
        for other in ["slot-0", "slot-1", "seat-0", "seat-9"] {
            // Git itself fails as long as a `commondir` is empty.
            let emptied = format!(".git/worktrees/{other}/{file}");
            if other == name && name != "seat-0" && Path::new(&repo.file(&emptied)).exists() {
                repo.write(emptied, "");
            }
        }
    }
    repo.write(".git/worktrees/seat-0/commondir", "");
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    check(&repo, "emptied while nobody was active");
    assert!(!repo.exists(".git/worktrees") || entries(&repo).is_empty());
}

#[test]
fn an_emptied_head_of_the_users_tree_is_put_back_in_the_loop() {
    let repo = harmed(&[": > $C/HEAD", "printf '\\0\\0\\0' > $C/HEAD", "rm $C/HEAD"]);
    check(&repo, "an emptied HEAD of the user's");

    let repo = training_repo().without_walls();
    let agent = format!("{}; : > .git/HEAD", agent("better worse crash better"));
    let args =
        ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh; printf '\\0\\0' > .git/HEAD", "--tag", "t"];
    let called = ar_in_time(&repo, args.iter().chain(&["--agent", &agent, "--max-experiments", "3"])).ok();
    assert!(called.stderr.contains("moved what replaced files that git reads to "), "{called:#?}");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t");
    assert_eq!((repo.read("results.tsv").lines().count(), repo.status()), (5, String::new()));
}

#[test]
fn a_session_whose_journal_is_gone_continues_on_its_slots() {
    for repair in [false, true] {
        let repo = landscape();
        let more = ["--slots", "2", "--max-experiments", "2"];
        ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).ok();
        ar_in_time(&repo, ["resume", "t", "--slots", "3", "--max-experiments", "1"]).ok();
        repo.rm(".autoresearch/t/state/progress.json");
        if repair {
            ar_in_time(&repo, ["doctor", "t", "--repair"]).ok();
        }
        ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
        let journal: serde_json::Value =
            serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
        assert_eq!(journal["layout"]["slots"], 3, "repaired: {repair}");
        assert_eq!(check(&repo, "a lost journal").len(), 5);
    }
}
