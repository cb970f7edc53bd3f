//! What the user is told to type next, typed.

use std::path::Path;
use std::process::Command;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, TestRepo, ar};

const RUN: [&str; 8] = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];

/// Types the command between backticks that begins with `start`.
#[track_caller]
fn type_hint(repo: &TestRepo, said: &str, start: &str) -> Called {
    let hint = said.split('`').find(|part| part.starts_with(start)).unwrap_or_else(|| panic!("no {start}: {said}"));
    let mut command = Command::new("sh");
    repo.environment(&mut command);
    let path = std::env::var_os("PATH").unwrap();
    let folders = [Path::new(AR).parent().unwrap().to_owned()].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap()).args(["-c", hint]).current_dir(repo.path());
    command.output().unwrap().into()
}

#[test]
fn a_ledger_of_another_metric_is_moved_to_a_free_name() {
    const OTHER: &str = "commit\tval_loss\tmemory_gb\tstatus\tdescription\n";
    let repo = training_repo();
    for (target, content) in [("results.tsv.old", "first"), ("results.tsv.old-2", "second")] {
        repo.write("results.tsv", format!("{OTHER}{content}\t1.0\t1.0\tkeep\tx\n"));
        let said = ar(&repo, RUN).exits(1).stderr;
        assert!(said.contains("`--metric val_loss` continues it"), "{said}");
        type_hint(&repo, &said, "mv ").ok();
        assert!(repo.read(target).contains(content));
    }
    assert!(repo.read("results.tsv.old").contains("first"));
    // A session that exists keeps its metric.
    ar(&repo, RUN).ok();
    repo.write("results.tsv", OTHER);
    let said = ar(&repo, ["resume"]).exits(1).stderr;
    assert!(!said.contains("continues it") && said.contains("results.tsv.old-3"), "{said}");
}
