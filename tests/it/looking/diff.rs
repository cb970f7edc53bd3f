//! `ar diff`.

use serde_json::Value;

use super::{commit, session};
use crate::run_loop::{agent, training_repo};
use crate::support::{Called, ar, ar_command};

fn row<'a>(compared: &'a Value, name: &str) -> &'a Value {
    compared["compared"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn two_experiments_stand_side_by_side_with_the_diff_that_git_gives() {
    let repo = session("better rename-better binary-worse");
    for (a, b) in [("1", "2"), ("3", "baseline"), ("best", "last")] {
        let id = |name: &str| match name {
            "best" => 2,
            "last" => 3,
            "baseline" => 0,
            id => id.parse().unwrap(),
        };
        let gits = repo.git(["diff", &commit(&repo, id(a)), &commit(&repo, id(b))]);
        let shown = ar(&repo, ["diff", a, b]).ok().stdout;
        assert!(shown.ends_with(&format!("\n\n{gits}\n")), "{shown}");
        let json = ar(&repo, ["diff", a, b, "--format", "json"]).ok().json();
        assert_eq!(json["diff_text"], format!("{gits}\n"));
        assert_eq!((&json["a"]["id"], &json["b"]["id"]), (&Value::from(id(a)), &Value::from(id(b))));
    }
    let shown = ar(&repo, ["diff", "1", "2"]).ok().stdout;
    let words = |start: &str| -> Vec<&str> {
        let line = shown.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {shown}")).split_whitespace().collect()
    };
    assert_eq!(words("experiment"), ["experiment", "t/1", "t/2"]);
    assert_eq!(words("val_bpb"), ["val_bpb", "1.900000", "1.800000", "-0.100000", "(5.3%),", "better"]);
    assert_eq!(words("memory_gb")[1..], ["14.300", "GiB", "14.300", "GiB", "0"]);
    assert_eq!(words("num_params_M"), ["num_params_M", "50.3", "50.3", "0"]);
    assert!(!shown.contains("settings:") && !shown.contains("environment:"), "{shown}");
    let csv = ar(&repo, ["diff", "1", "2", "--format", "csv"]).ok().stdout;
    assert!(
        csv.starts_with("what,a,b,change\n")
            && csv.contains("\nval_bpb,1.900000,1.800000,\"-0.100000 (5.3%), better\"\n")
    );
    assert_eq!(ar(&repo, ["diff", "1", "1", "--format", "json"]).ok().json()["diff_text"], "");
    let markdown = ar(&repo, ["diff", "1", "2", "--format", "md"]).ok().stdout;
    assert!(markdown.starts_with("| what | a | b | change |\n"), "{markdown}");
}

#[test]
fn experiments_of_two_sessions_differ_in_their_settings_and_a_changed_machine_is_named() {
    let repo = training_repo();
    repo.write("uv.lock", "torch 2.8\n");
    repo.commit_all("a lock file");
    let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent"];
    ar(&repo, run.into_iter().chain([agent("better").as_str(), "--max-experiments", "1"])).ok();
    repo.git(["switch", "--quiet", "main"]);
    repo.write("uv.lock", "torch 2.9\n");
    repo.commit_all("another lock file");
    let run = ["run", "--yes", "--tag", "u", "--metric", "val_bpb", "--cmd", "sh ./train.sh", "--min-delta", "0.001"];
    let mut command = ar_command(&repo, &repo.path(), run);
    let output = command.args(["--agent", &agent("better"), "--max-experiments", "1"]).output().unwrap();
    Called::from(output).ok();
    let json = ar(&repo, ["diff", "t/1", "u/1", "--format", "json"]).ok().json();
    assert_eq!((&json["a"]["tag"], &json["b"]["tag"]), (&"t".into(), &"u".into()));
    assert_eq!(row(&json, "command")["a"], "sh train.sh");
    assert_eq!(row(&json, "command")["b"], "sh ./train.sh");
    assert_eq!(
        (&row(&json, "min_delta")["b"], &row(&json, "min_delta")["aspect"]),
        (&0.001.into(), &"settings".into())
    );
    assert_eq!(row(&json, "metric.name"), &Value::Null, "what is the same is left out");
    assert_eq!(row(&json, "lockfile")["aspect"], "environment");
    let shown = ar(&repo, ["diff", "1", "t/1"]).ok().stdout;
    assert!(shown.contains("u/1") && shown.contains("they ran in different environments"), "{shown}");
}
