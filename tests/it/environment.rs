//! Where the experiments run: what a record says of it, and who is told that it changed.

use std::fs;
use std::time::Instant;

use serde_json::Value;

use crate::support::{TestRepo, ar, until};

/// A repository with an interpreter of its own, `env/bin/python`, that knows the version of torch which stands in the file
/// `torch` beside the repository, and that writes there when it is asked.
fn repo_with_interpreter() -> TestRepo {
    let repo = TestRepo::empty();
    let beside = repo.outside();
    let beside = beside.display();
    let python = format!(
        "#!/bin/sh\ncase $1 in -c) ;; *) exec sh \"$@\" ;; esac\necho asked >> {beside}/asked\n\
         printf 'version\\tpython\\t3.12.1\\nversion\\ttorch\\t%s\\n' \"$(cat {beside}/torch)\"\n\
         printf 'stamp\\t{beside}/torch\\n'\nif [ -e {beside}/slow ]; then sleep 600 & wait; fi\n"
    );
    repo.write("env/bin/python", python);
    repo.chmod("env/bin/python", true);
    repo.write(".gitignore", "env/\nuv.lock\n");
    repo.write("train.sh", "echo val_bpb: 2.0\n");
    repo.commit_all("a training script");
    fs::write(repo.outside().join("torch"), "2.4.0\n").unwrap();
    repo.write("uv.lock", "one\n");
    repo
}

fn record(repo: &TestRepo, id: u32) -> Value {
    ar(repo, ["show", &id.to_string(), "--format", "json"]).ok().json()
}

fn asked(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("asked")).unwrap().lines().count()
}

fn try_number(repo: &TestRepo, number: &str) -> String {
    repo.write("train.sh", format!("echo val_bpb: {number}\n"));
    ar(repo, ["try", "-m", number, "--max-experiments", "9"]).ok().stderr
}

#[test]
fn a_record_names_the_versions_and_they_are_asked_again_only_when_something_was_installed() {
    let repo = repo_with_interpreter();
    let agent = "echo \"echo val_bpb: 1.$AR_EXPERIMENT\" > train.sh";
    let terms = ["--metric", "val_bpb", "--cmd", "env/bin/python train.sh", "--tag", "t", "--max-experiments", "2"];
    ar(&repo, [&["run", "--yes", "--agent", agent][..], &terms].concat()).ok();
    let environment = &record(&repo, 2)["environment"];
    assert_eq!(environment["tools"], serde_json::json!({"python": "3.12.1", "torch": "2.4.0"}));
    assert_eq!(asked(&repo), 1);
    let shown = ar(&repo, ["show", "2"]).ok().stdout;
    assert!(shown.lines().any(|line| line.starts_with("torch ") && line.ends_with(" 2.4.0")), "{shown}");

    let said = try_number(&repo, "0.9") + &try_number(&repo, "0.8");
    assert_eq!((asked(&repo), said.contains("warning")), (1, false), "{said}");
    fs::write(repo.outside().join("torch"), "2.5.0+cu124\n").unwrap();
    try_number(&repo, "0.7");
    assert_eq!((asked(&repo), &record(&repo, 5)["environment"]["tools"]["torch"]), (2, &"2.5.0+cu124".into()));
}

#[test]
fn a_session_that_goes_on_in_another_place_says_so() {
    let repo = repo_with_interpreter();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    repo.write("uv.lock", "another\n");
    let said = try_number(&repo, "2.5");
    assert!(said.contains("warning: numbers are not comparable with that of the baseline: lockfile "), "{said}");
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let event = log.lines().find(|line| line.contains("\"environment_changed\"")).unwrap();
    assert!(event.contains("\"level\":\"warn\""), "{event}");
    // The discard leaves the baseline as what is compared with; a keep takes its place.
    assert!(try_number(&repo, "1.5").contains("warning: numbers are not comparable with that of the baseline: "));
    assert!(!try_number(&repo, "1.4").contains("warning"));
    assert_ne!(record(&repo, 0)["environment"]["lockfile"], record(&repo, 1)["environment"]["lockfile"]);
}

#[test]
fn an_interpreter_that_does_not_answer_holds_nothing_up_and_leaves_nothing_behind() {
    let repo = repo_with_interpreter();
    fs::write(repo.outside().join("slow"), "").unwrap();
    let start = Instant::now();
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "env/bin/python train.sh", "--tag", "t"]).ok();
    assert!(start.elapsed().as_secs() < 300, "{:?}", start.elapsed());
    // What it printed until then counts.
    assert_eq!(record(&repo, 0)["environment"]["tools"]["torch"], "2.4.0");
    until("the end of all processes", || repo.processes().is_empty().then_some(()));
}
