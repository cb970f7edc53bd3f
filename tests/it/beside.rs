//! A person at work beside the loop, in the same working tree.

use std::fs;

use crate::run_loop::training_repo;
use crate::support::{Called, ar_command};

const ARGS: [&str; 10] =
    ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];

#[test]
fn a_file_that_a_person_goes_on_editing_while_it_is_saved_loses_no_line() {
    let repo = training_repo();
    repo.write("notes.txt", "first\n");
    let mut command = ar_command(&repo, &repo.path(), ARGS);
    command.args(["--agent", "echo in-the-call >> notes.txt; cp ../train.sh ."]);
    fs::write(repo.outside().join("train.sh"), "echo in-the-run >> notes.txt; echo val_bpb: 3\n").unwrap();
    let edit = "[ \"$(tail -n 1 \"$AR_CRASH_TRACE\")\" != git.saved ] || echo after-the-save >> notes.txt";
    command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_RUN", edit);
    let called = Called::from(command.output().unwrap()).ok();
    let refs = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t"]);
    let kept = refs.lines().filter(|name| !name.ends_with("/00000") || name.contains("/saved/"));
    let kept: Vec<String> = kept.map(|name| repo.git(["show", &format!("{name}:notes.txt")])).collect();
    assert!(kept.iter().any(|text| text.contains("after-the-save")), "{kept:?} {called:#?}");
    assert_eq!(repo.read("notes.txt"), "first\n");
}
