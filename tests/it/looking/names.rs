//! How experiments are named.

use std::fs;

use super::{commit, session};
use crate::support::ar;

#[test]
fn an_experiment_has_a_number_a_hash_and_three_words() {
    let repo = session("better worse crash better nan");
    let shown = |name: &str| ar(&repo, ["show", name, "--format", "json"]).ok().json()["id"].clone();
    for (name, id) in [("best", 4), ("baseline", 0), ("last", 5), ("2", 2), ("00002", 2), ("t/2", 2), ("t/best", 4)] {
        assert_eq!(shown(name), id, "{name}");
    }
    for id in 0..=5 {
        let commit = commit(&repo, id);
        assert_eq!(shown(&commit), id);
        assert_eq!(shown(&commit[..12].to_uppercase()), id);
    }
    for wrong in ["first", "3fa", "-1", "t/", "/2", "no such/2"] {
        let called = ar(&repo, ["show", "--", wrong]).exits(2);
        assert!(called.stderr.contains("names no experiment: write its number, at least 4 digits"), "{called:#?}");
    }
    let called = ar(&repo, ["show", "6"]).exits(1);
    let words = "error: session t has no experiment 6\nhint: it has 0 to 5; `ar log t` lists them\n";
    assert_eq!(called.stderr, words);
    assert!(ar(&repo, ["show", "other/2"]).exits(1).stderr.contains("no session `other` found"));
    let called = ar(&repo, ["show", "t/2", "--tag", "u"]).exits(2);
    assert!(called.stderr.contains("error: t/2 is not in session u\nhint: omit --tag\n"), "{called:#?}");
}

#[test]
fn a_hash_prefix_of_two_experiments_names_both_and_a_number_goes_before_a_hash() {
    let repo = session("better");
    // Records of commits whose names are made up: only the records are read.
    let body = repo.git(["cat-file", "tag", "refs/autoresearch/t/00001"]);
    let real = commit(&repo, 1);
    for (id, made_up) in [(2, "abcd1111"), (3, "abcd2222"), (4, "00010000")] {
        let text = body.replace("\"id\":1,", &format!("\"id\":{id},"));
        let text =
            text.replacen(&format!("\"commit\":\"{real}\""), &format!("\"commit\":\"{made_up}{}\"", &real[8..]), 1);
        let file = repo.outside().join("tag");
        fs::write(&file, format!("{text}\n")).unwrap();
        let object = repo.git(["hash-object", "-t", "tag", "-w", "--literally", file.to_str().unwrap()]);
        repo.git(["update-ref", &format!("refs/autoresearch/t/{id:05}"), &object]);
    }
    let called = ar(&repo, ["note", "abcd", "which"]).exits(2);
    assert!(called.stderr.contains("`abcd` matches several commits of session t: 2 (abcd1111"), "{called:#?}");
    assert!(
        called.stderr.contains(", 3 (abcd2222")
            && called.stderr.contains("hint: write more digits, or use the experiment number\n"),
        "{called:#?}"
    );
    assert!(ar(&repo, ["note", "abcd2", "this"]).ok().stdout.contains("experiment 3"));
    assert!(ar(&repo, ["note", "0001", "a number first"]).ok().stdout.contains("experiment 1 of t"));
    assert!(ar(&repo, ["note", "00010", "a hash"]).ok().stdout.contains("experiment 4 of t"));
}
