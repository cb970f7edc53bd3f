//! Settings that cannot work, and a metric that is never printed.

use std::fs;

use super::harness::{RUN, TRY, assert_says, refused, standing, training_repo};
use crate::support::{Called, ar, ar_command};

#[test]
fn a_command_that_does_not_exist() {
    let repo = training_repo();
    let call = |cmd| ["run", "--metric", "val_bpb", "--cmd", cmd, "--tag", "t1"];
    refused(&repo, &call("no-such-program --x"), 1, &["`no-such-program` not found", "hint: check with `command -v"]);
    refused(&repo, &call("A=1 ./no-such-file"), 1, &["`./no-such-file` not found"]);
    refused(&repo, &call("  "), 2, &["needs --cmd", "hint: run `ar run --metric"]);
    let agent = [RUN, &["--agent", "no-such-agent"]].concat();
    refused(&repo, &agent, 1, &["cannot start the agent: `no-such-agent` not found"]);

    for (flag, what) in [("--guard", "guard"), ("--on-event", "command of --on-event")] {
        let args = [RUN, &[flag, "/no/such/program"]].concat();
        refused(&repo, &args, 1, &[&format!("cannot start the {what}: `/no/such/program` not found")]);
    }
    let relative = [RUN, &["--on-event", "./train.sh"]].concat();
    refused(&repo, &relative, 1, &["`./train.sh` not found", "\"$AR_ROOT/./train.sh\""]);
    for (glob, why) in
        [("", "it is empty"), ("/etc/passwd", "relative to the repository's root"), ("../x", "leads out")]
    {
        refused(&repo, &[RUN, &["--scope", glob]].concat(), 2, &["is not a glob", why]);
    }
    let zero = ar(&repo, [RUN, &["--max-files", "0"]].concat()).exits(2);
    assert!(zero.stderr.contains("must be a whole number from 1"), "{zero:#?}");
    let negative = ar(&repo, [RUN, &["--simpler-wins", "-1"]].concat()).exits(2);
    assert!(negative.stderr.contains("must be 0 or more"), "{negative:#?}");

    // The shell is there, and what it is told to read is not: only the run finds out.
    let before = standing(&repo);
    let called = ar(&repo, call("sh no-such.sh")).exits(3);
    assert_says(&called, &["the run failed (exit ", "no-such.sh", "runs/00000/run.log"]);
    assert!(!called.stderr.contains("pass --metric"), "a complaint of the shell is no number: {called:#?}");
    assert_eq!(standing(&repo), before);
}

#[test]
fn a_metric_that_the_baseline_never_prints() {
    let repo = training_repo();
    repo.write("train.sh", "echo val_loss: 2.5; echo val_bpb: 1.0\n");
    repo.commit_all("prints two");
    repo.write("results.tsv", "commit_hash\tval_bpc\tmemory_gb\tstatus\tdescription\n");
    repo.git(["config", "core.excludesFile", repo.outside().join("ignored").to_str().unwrap()]);
    fs::write(repo.outside().join("ignored"), "results.tsv\n").unwrap();
    let misspelt = |args: &[&str]| args.iter().map(|arg| arg.replace("val_bpb", "val_bpc")).collect::<Vec<_>>();

    let before = standing(&repo);
    let called = ar(&repo, misspelt(RUN)).exits(3);
    let hint = "pass --metric with a number that the log prints: ";
    assert_says(&called, &["the baseline failed: the run printed no val_bpc", hint, "val_loss", "val_bpb"]);
    assert_eq!(standing(&repo), before);
    assert_eq!(repo.read("run.log"), "val_loss: 2.5\nval_bpb: 1.0\n");
    assert_eq!(repo.read(".autoresearch/t1/runs/00000/run.log"), repo.read("run.log"));

    // The change of `ar try` and `--adopt` is in the working tree again, with what was staged of it.
    repo.write("README.md", "staged\n");
    repo.write("new.py", "new\n");
    repo.git(["add", "README.md", "new.py"]);
    repo.write("README.md", "staged, and changed again\n");
    repo.write("train.sh", "echo val_loss: 2.5; echo val_bpb: 0.5\n");
    let before = (standing(&repo), repo.git(["diff"]), repo.git(["diff", "--cached"]));
    for args in [misspelt(TRY), [misspelt(RUN), vec!["--adopt".into()]].concat()] {
        ar(&repo, args).exits(3);
        assert_eq!((standing(&repo), repo.git(["diff"]), repo.git(["diff", "--cached"])), before);
    }

    repo.rm("results.tsv");
    let called = ar(&repo, TRY).ok();
    assert!(
        called.stdout.contains("keep     0.5       x: val_bpb 0.5 is better than 1.0"),
        "the tag is free: {called:?}"
    );
}

#[test]
fn wrong_settings() {
    let repo = training_repo();
    let file = |content: &str, needles: &[&str]| {
        repo.write("ar.toml", content);
        refused(&repo, &["run"], 1, &[&["ar.toml"], needles].concat());
    };
    file("metrik = \"x\"\n", &["unknown setting `metrik`", "hint: the settings are metric, cmd"]);
    file("metric = [\"x\"]\n", &["`metric` must be a text"]);
    file("max_experiments = \"many\"\n", &["max_experiments", "'many'"]);
    file("metric = \n", &["line 1"]);
    file("higher = \"perhaps\"\n", &["higher", "must be true or false"]);
    repo.rm("ar.toml");

    let mut command = ar_command(&repo, &repo.path(), RUN);
    let called = Called::from(command.env("AR_TIMEOUT", "soon").output().unwrap()).exits(1);
    assert_says(&called, &["the variable AR_TIMEOUT", "`soon` is not a duration", "hint: unset it"]);

    let called = ar(&repo, [RUN, &["--higher", "--lower"]].concat()).exits(2);
    assert!(called.stderr.contains("'--higher' cannot be used with '--lower'"), "{called:?}");
    refused(&repo, &["run", "--metric", "accuracy", "--cmd", "sh train.sh"], 2, &["`accuracy`", "--higher or --lower"]);
    refused(&repo, &["run", "--cmd", "sh train.sh"], 2, &["needs --metric"]);
    refused(&repo, &[RUN, &["--metric-regex", "("]].concat(), 2, &["unclosed group"]);
    refused(&repo, &[RUN, &["--metric-regex", "loss [0-9]+"]].concat(), 2, &["group"]);
}
