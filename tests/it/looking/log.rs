//! `ar log` with its selections, and `ar show --log`.

use std::fs;

use super::session;
use crate::run_loop::training_repo;
use crate::support::{TestRepo, ar};

#[test]
fn the_log_is_sorted_filtered_and_cut_in_every_format() {
    let repo = session("better worse crash better oom");
    let csv = |args: &[&str]| -> Vec<String> {
        let called = ar(&repo, [&["log", "--format", "csv", "--columns", "id"], args].concat()).ok();
        called.stdout.lines().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(csv(&[]), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(csv(&["--sort", "best"]), ["4", "1", "0", "2", "3", "5"]);
    assert_eq!(csv(&["--sort", "best", "--top", "2"]), ["4", "1"]);
    assert_eq!(csv(&["--sort", "time", "--top", "1"]), ["5"]);
    assert_eq!(csv(&["--outcome", "crash"]), ["3", "5"]);
    assert_eq!(csv(&["--outcome", "crash", "--outcome", "discard", "--sort", "id"]), ["2", "3", "5"]);
    assert_eq!(csv(&["--grep", "(?i)OutOfMemory"]), ["5"], "in what the log showed");
    assert_eq!(csv(&["--grep", "^[14]: better"]), ["1", "4"], "in the description");
    ar(&repo, ["note", "2", "try this at half the rate"]).ok();
    assert_eq!(csv(&["--grep", "half the rate"]), ["2"], "in a note");
    let json = ar(&repo, ["log", "t", "--format", "json", "--outcome", "keep", "--sort", "best"]).ok().json();
    let ids: Vec<_> = json["experiments"].as_array().unwrap().iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [4, 1, 0]);

    let columns = "id,when,direction,reason,agent,memory,val_bpb,num_params_M,notes";
    let called = ar(&repo, ["log", "--format", "csv", "--columns", columns, "--top", "3"]).ok().stdout;
    let mut lines = called.lines();
    let heading = lines.next();
    assert_eq!(heading, Some("#,when,direction,reason,agent seconds,GiB,val_bpb,num_params_M,notes"));
    let one = lines.nth(1).unwrap();
    assert!(one.starts_with("1,2026-11-20T22:00:00.000Z,better,") && one.ends_with(",14.3,1.900000,50.3,"), "{one}");
    assert!(called.ends_with(",50.3,try this at half the rate\n"), "{called}");
    let table = ar(&repo, ["log"]).ok().stdout;
    assert!(table.lines().next().unwrap().ends_with("description  notes"), "{table}");
    // Gains are over what was the incumbent, whatever is shown.
    assert!(ar(&repo, ["log", "--grep", "^4:"]).ok().stdout.contains("+0.100000"));

    let called = ar(&repo, ["log", "--columns", "id,vram"]).exits(2);
    assert!(called.stderr.contains("error: unknown column `vram`\nhint: there are id, commit, "), "{called:#?}");
    assert!(called.stderr.contains("num_params_M"), "{called:#?}");
    ar(&repo, ["log", "--grep", "("]).exits(2);
    ar(&repo, ["log", "--outcome", "kept"]).exits(2);
}

#[test]
fn a_whole_log_is_shown_of_each_version_and_compressed_ones_too() {
    let repo = training_repo();
    repo.write("train.sh", "i=0; while [ $i -lt 9 ]; do i=$((i + 1)); seq 20000; done; echo val_bpb: 1.0\n");
    repo.commit_all("a long log");
    // The first version is refused by the guard.
    let agent = "echo \"echo 'first \\033[31mred'; echo val_bpb: 0.9; touch tried\" >> train.sh; \
                 [ -e ../once ] || { touch ../once; exit; }; echo 'echo second' >> train.sh";
    let guard = "grep -q second train.sh || ! grep -q first train.sh";
    let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--guard", guard];
    ar(&repo, run.into_iter().chain(["--agent", agent, "--max-experiments", "1"])).ok();
    let folder = repo.file(".autoresearch/t/runs/00001");
    assert!(folder.join("run.1.log.gz").exists() || folder.join("run.1.log").exists());
    let shown = ar(&repo, ["show", "1", "--log"]).ok().stdout;
    let whole = "20000\nval_bpb: 1.0\nfirst red\nval_bpb: 0.9\n";
    assert_eq!(shown.matches(whole).count(), 2, "both versions, without escapes: {}", &shown[shown.len() - 300..]);
    assert_eq!(shown.matches("\n20000\n").count(), 18);
    assert!(shown.contains(", of version 1\n1\n2\n") && shown.contains("00001/run.log"), "{}", &shown[..3000]);
    assert!(shown.ends_with("second\n"));
    let lines: Vec<&str> = shown.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
    let of_versions = ["version", "run", "guard", "version", "run", "guard"];
    let at = lines.iter().position(|word| *word == "version").unwrap();
    assert_eq!(lines[at..at + 6], of_versions, "{}", &shown[..3000]);
    assert!(!ar(&repo, ["show", "1"]).ok().stdout.contains("\n1\n2\n"), "only the end");
    ar(&repo, ["show", "1", "--log", "--format", "json"]).exits(2);
    fs::remove_dir_all(&folder).unwrap();
    ar(&repo, ["show", "1", "--log"]).ok();
}

#[test]
fn the_numbers_of_an_experiment_are_shown_in_the_digits_of_its_log() {
    let repo = TestRepo::new();
    let log = "loss: 2.50\nacc: 0.900\nsteps: 1,200\nlr: 3e-4\nval: 1.10\n";
    repo.write("log", log);
    repo.commit_all("a log");
    let run =
        ["run", "--yes", "--tag", "t", "--metric", "val", "--lower", "--cmd", "cat log", "--max-experiments", "0"];
    ar(&repo, run).ok();
    // They stay when the log does not.
    let folder = repo.file(".autoresearch/t/runs/0");
    fs::remove_dir_all(&folder)
        .unwrap_or_else(|_| fs::remove_dir_all(repo.file(".autoresearch/t/runs/00000")).unwrap());
    let shown = ar(&repo, ["show", "0"]).ok().stdout;
    let fields: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for field in [["val", "1.10"], ["loss", "2.50"], ["acc", "0.900"], ["steps", "1200"], ["lr", "3e-4"]] {
        assert!(fields.iter().any(|words| *words == field), "{field:?} in {shown}");
    }
    assert!(shown.contains("seed 1, 1.10, "), "{shown}");
    // What programs read is as it was.
    let csv = ar(&repo, ["show", "0", "--format", "csv"]).ok().stdout;
    assert!(csv.contains("\nloss,2.5\nacc,0.9\n") && csv.contains("seed 1, 1.1, "), "{csv}");
    let json = ar(&repo, ["show", "0", "--format", "json"]).ok().json();
    assert_eq!((&json["metrics"]["loss"], json.get("digits")), (&serde_json::json!(2.5), None));
}
