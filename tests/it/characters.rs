//! A real training on several slots: a character model, with changes that conflict, do not add or do not run.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run_loop::FIXTURES;
use crate::support::{TestRepo, ar, ar_in_time};

const PYTHON: &str = "python3";
const IDEAS: usize = 20;

fn repository() -> TestRepo {
    let repo = TestRepo::empty();
    for (file, source) in [("train.py", "train/characters/train.py"), ("input.txt", "demo/data/input.txt")] {
        repo.write(file, std::fs::read(Path::new(FIXTURES).join(source)).unwrap());
    }
    repo.commit_all("a character model");
    repo
}

/// What the training prints for the tree of a commit.
fn trained(repo: &TestRepo, commit: &str) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    for file in ["train.py", "input.txt"] {
        std::fs::write(folder.path().join(file), repo.git(["show", &format!("{commit}:{file}")])).unwrap();
    }
    let output = Command::new(PYTHON).arg("train.py").current_dir(&folder).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.trim().strip_prefix("val_loss: ").unwrap().parse().unwrap()
}

#[test]
fn each_number_of_a_real_training_on_four_slots_is_that_of_its_tree() {
    if Command::new(PYTHON).arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no {PYTHON}");
        return;
    }
    let repo = repository();
    let agent = format!("sh {FIXTURES}/agents/constants.sh {}", repo.outside().join("memory").display());
    let limit = IDEAS.to_string();
    let command = format!("{PYTHON} train.py");
    let args = ["run", "--yes", "--tag", "t", "--metric", "val_loss", "--cmd", &command, "--agent", &agent];
    ar_in_time(&repo, args.iter().copied().chain(["--slots", "4", "--max-experiments", &limit])).ok();

    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let experiments = report["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), IDEAS + 1, "{experiments:#?}");
    let measured: Vec<(&str, f64)> =
        experiments.iter().filter_map(|it| Some((it["commit"].as_str()?, it["value"].as_f64()?))).collect();
    for (commit, value) in &measured {
        assert_eq!(trained(&repo, commit), *value, "{commit}");
    }
    let best = report["best"]["value"].as_f64().unwrap();
    let kept = experiments.iter().filter(|it| it["outcome"] == "keep").filter_map(|it| it["value"].as_f64());
    assert_eq!(kept.reduce(f64::min), Some(best));
    assert!(best < report["baseline"]["value"].as_f64().unwrap(), "{report:#}");
    let diverged = experiments.iter().find(|it| it["description"] == "RATE 1000.0").unwrap();
    assert_eq!((&diverged["outcome"], &diverged["value"]), (&"crash".into(), &Value::Null), "{diverged}");

    ar(&repo, ["finalize", "t", "--branch", "clean"]).ok();
    assert_eq!(trained(&repo, "clean"), best, "the last tree of the chain gives the number again");
    assert_eq!((repo.status().as_str(), repo.git(["symbolic-ref", "HEAD"]).as_str()), ("", "refs/heads/main"));
}
