//! `ar` called from within a call of the loop: commands that act are refused, others work.

use std::fs;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, TestRepo, ar};

/// Shell that calls each of these commands and notes its exit code in `../codes`, one on a line.
fn call_all(commands: &[&str]) -> String {
    let calls = commands.iter().map(|command| {
        format!("{AR} {command} > ../out 2>&1; echo \"$? {command}: $(grep -c '^hint: ' ../out)\" >> ../codes; ")
    });
    calls.collect()
}

/// A session of one experiment.
fn run(repo: &TestRepo, cmd: &str, more: &[&str]) -> Called {
    let agent = ["--agent", "echo \"# $AR_EXPERIMENT\" >> train.sh", "--max-experiments", "1"];
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", cmd, "--tag", "t"];
    let more: Vec<&str> = if more.contains(&"--agent") { more.to_vec() } else { [&agent, more].concat() };
    ar(repo, args.into_iter().chain(more))
}

fn codes(repo: &TestRepo) -> Vec<String> {
    let codes = fs::read_to_string(repo.outside().join("codes")).unwrap();
    codes.lines().map(str::to_owned).collect()
}

#[test]
fn in_a_call_of_the_agent_only_what_reads_works_and_other_repositories_are_free() {
    let acting = [
        "run --yes",
        "try -m x",
        "resume",
        "stop --now",
        "rate t 0.8",
        "rate --tag t 0.8",
        "restore 0",
        "repro 0",
        "review",
        "finalize",
        "import results.tsv --tag old",
        "delete t",
        "init",
        "doctor --repair",
        "tell psst",
        "tell --drop 1",
    ];
    let reading = [
        "status",
        "log",
        "show 0",
        "report",
        "brief",
        "doctor",
        "idea add warm-up",
        "note 0 seen",
        "idea list",
        "rate t",
        "tell --list",
    ];
    let elsewhere = "mkdir ../other; cd ../other; git init --quiet; echo echo loss: 1 > t.sh; git add t.sh; \
                     git commit --quiet -m t; ";
    let repo = training_repo();
    let agent = format!(
        "{}{}mkdir sub; cd sub; {AR} stop 2>> ../../codes; cd ..; rmdir sub; echo '# 1' >> train.sh; {elsewhere}{}{}",
        call_all(&acting),
        call_all(&reading),
        call_all(&["run --yes --metric loss --cmd 'sh t.sh'"]),
        call_all(&["stop nov20"]),
    );
    let called = run(&repo, "sh train.sh", &["--agent", &agent, "--max-experiments", "1"]).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    let codes = codes(&repo);
    for command in acting {
        assert!(codes.contains(&format!("1 {command}: 1")), "{command}: {codes:#?}");
    }
    for command in reading {
        assert!(codes.contains(&format!("0 {command}: 0")), "{command}: {codes:#?}");
    }
    assert!(codes.contains(&"error: cannot call `ar stop` inside experiment 1 of the loop".to_owned()), "{codes:#?}");
    assert!(codes.contains(&"0 run --yes --metric loss --cmd 'sh t.sh': 0".to_owned()), "{codes:#?}");
    assert!(codes.contains(&"0 stop nov20: 0".to_owned()), "{codes:#?}");
}

#[test]
fn a_run_and_a_guard_cannot_stop_the_loop_and_a_hook_can() {
    let repo = training_repo();
    let stop = call_all(&["stop"]);
    let cmd = format!("sh train.sh; [ $AR_EXPERIMENT = 0 ] || {{ {stop} }}");
    let guard = format!("[ $AR_EXPERIMENT = 0 ] || {{ {stop} }}");
    let agent = "sed -i s/^VAL_BPB=.*/VAL_BPB=1.$((99 - AR_EXPERIMENT))/ train.sh";
    let hook = format!("cd $AR_ROOT; [ $AR_EVENT != best ] || {AR} stop");
    let more = ["--guard", &guard, "--agent", agent, "--max-experiments", "60", "--on-event", &hook];
    let called = run(&repo, &cmd, &more).ok();
    assert!(called.stderr.contains("`ar stop` was requested") && called.stdout.contains("   1  keep"), "{called:#?}");
    let codes = codes(&repo);
    assert_eq!(codes.iter().filter(|line| *line == "1 stop: 1").count(), codes.len(), "{codes:#?}");
    assert!(codes.len() >= 2, "{codes:#?}");
}
