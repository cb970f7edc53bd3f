//! What git does not have comes into the trees as links, and what leads to the user's own tree is found.

use std::fs;

use super::landscape::{check, first_call, landscape};
use crate::support::{TestRepo, ar_in_time};

/// A landscape whose script begins with more lines.
fn with(lines: &str, files: &[(&str, &str)]) -> TestRepo {
    let repo = landscape();
    for (file, content) in files {
        repo.write(file, content);
    }
    repo.write("train.sh", repo.read("train.sh").replacen("set -eu\n", &format!("set -eu\n{lines}"), 1));
    repo.git(["add", "--all", "--", ".", ":!notes.txt"]);
    repo.git(["commit", "--quiet", "--message", "more"]);
    repo
}

#[test]
fn linked_data_is_in_every_slot_and_writing_to_it_is_named() {
    let repo = with("[ \"$(cat data/set)\" = whole ]\necho \"$AR_SLOT\" >>data/cache\n", &[(".gitignore", "/data/\n")])
        .without_walls();
    fs::create_dir(repo.file("data")).unwrap();
    repo.write("data/set", "whole\n");
    let more = ["--slots", "2", "--link", "data", "--max-experiments", "4"];
    let called = ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).ok();
    assert!(called.stderr.contains("linked paths, which all slots share, were written to: data"), "{called:#?}");
    check(&repo, "linked data");
    let slots = repo.read("data/cache");
    assert!(slots.contains('0') && slots.contains('1'), "{slots}");
    assert_eq!(repo.read("data/set"), "whole\n", "trees are removed, and what they link to stays");
}

#[test]
fn a_run_that_reads_the_users_tree_is_refused_before_its_number_counts() {
    let repo = with("cat \"$(cat where)/ideas/0\" >/dev/null\n", &[("where", "")]);
    repo.write("where", repo.path().display().to_string());
    repo.git(["commit", "--quiet", "--message", "where", "--", "where"]);
    let more = ["--slots", "2", "--max-experiments", "2"];
    let called = ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).exits(1);
    let said = "a run opened files of this working tree instead of its slot's: ideas/0";
    assert!(called.stderr.contains(said), "{called:#?}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch", "refs/heads/autoresearch"]), "");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(repo.status(), " M notes.txt");
}

#[test]
fn a_tool_that_looks_for_a_workspace_above_its_project_reads_nothing_of_the_users() {
    let project = ("pyproject.toml", "[project]\nname = \"t\"\nversion = \"0\"\n");
    let repo = with("cat ../../../../pyproject.toml >/dev/null\n", &[project]);
    let more = ["--slots", "2", "--max-experiments", "1"];
    ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).ok();
}

#[test]
fn a_run_finds_nothing_in_its_slot_that_an_earlier_one_left() {
    // What it finds there gives it a better number than its tree has.
    let poison = "if [ -e kept/ckpt ] || [ -e left ] || [ -e ideas/left ]; then echo 'loss: 1'; exit; fi\n\
                  mkdir -p kept nested deep/er\ntouch kept/ckpt left ideas/left deep/er/left\ngit init -q nested\n\
                  git add -f ideas/left 2>/dev/null || true\nchmod 555 deep/er\nln -s \"$HOME\" home\n";
    let repo = with(poison, &[(".gitignore", "/kept/\n/deep/\n")]);
    repo.write("kept/of-the-user", "");
    let more = ["--slots", "1", "--ahead", "1", "--max-experiments", "4"];
    ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).ok();
    assert_eq!(check(&repo, "what a run left").len(), 5);
    assert!(repo.exists("kept/of-the-user"));
}

#[test]
fn a_cache_that_is_linked_for_writing_outlives_a_run_and_is_not_named() {
    let repo = with("echo \"$AR_EXPERIMENT\" >>cache/runs\n", &[(".gitignore", "/cache\n")]);
    fs::create_dir(repo.file("cache")).unwrap();
    let more = ["--slots", "1", "--ahead", "1", "--link", "./cache:rw", "--max-experiments", "2"];
    let called = ar_in_time(&repo, first_call(&repo, ["0.02", "0.01"], "", &more)).ok();
    assert!(!called.stderr.contains("were written to"), "{called:#?}");
    check(&repo, "a linked cache");
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    // The second call may be over before the first.
    let runs = repo.read("cache/runs");
    let mut runs: Vec<&str> = runs.lines().collect();
    runs.sort_unstable();
    assert_eq!(runs, ["0", "1", "2", "3"]);
}
