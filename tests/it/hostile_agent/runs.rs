//! The training run as the attacker: the agent edits the script, and the script does it.

use super::harness::{measured, record, repo, runs, said, session};

/// Has the training do something in one experiment, only when the command runs it.
fn train(attack: &str) -> String {
    format!("printf '%s\\n' '{}' > src/train.sh", attack.replace('\'', "'\\''"))
}

#[test]
fn a_run_that_changes_the_evaluator_has_no_number() {
    let repo = repo();
    let attacks = [
        "echo easier > prepare.py",
        "rm prepare.py; ln -s src/value prepare.py",
        "chmod +x prepare.py",
        "rm -rf src/lib; mv lib src/lib; ln -s src/lib lib",
        "git update-index --assume-unchanged prepare.py; echo easier > prepare.py",
    ];
    let mut lines: Vec<String> = attacks.iter().map(|attack| train(attack)).collect();
    lines.push(train("git checkout -q main"));
    let called = session(&repo, &lines.iter().map(String::as_str).collect::<Vec<_>>(), &[]).ok();
    for (id, attack) in (1..).zip(attacks) {
        let record = record(&repo, id);
        assert_eq!(
            (&record["outcome"], &record["failure"]["class"]),
            (&"crash".into(), &"protected".into()),
            "{attack}"
        );
        assert_eq!(record["metric"]["value"], serde_json::Value::Null);
        assert!(record["failure"]["excerpt"].as_str().unwrap().starts_with("the run changed "), "{record}");
    }
    assert_eq!(repo.read("prepare.py"), "the evaluation\n", "{called:?}");
    // What the last one measured is not what its commit has, and so does not count.
    let last = record(&repo, 6);
    assert_eq!((&last["failure"]["class"], &last["metric"]["value"]), (&"changed".into(), &serde_json::Value::Null));
    assert_eq!(last["changed_while_running"], serde_json::json!(["src/train.sh", "src/value"]), "{last}");
    assert_eq!(repo.status(), "?? src/lib/", "what a run leaves is nobody's change");
}

#[test]
fn a_run_that_changes_what_is_known_changes_nothing() {
    let attacks = [
        ("sed -i s/lower/higher/ $S/contract.json; echo {} > $S/progress.json", "contract.json"),
        ("sed -i s/2.0/0.1/ results.tsv; echo >> results.tsv", "results.tsv changed while the run was active"),
        (
            "printf \"$(git rev-parse --short=8 HEAD)\\t0.1\\t0.1\\timproved\\tx\\n\" >> results.tsv",
            "1 row without an experiment",
        ),
        (
            "git update-ref -d $R/00001; git update-ref $R/00000 main",
            "restored the ref refs/autoresearch/t/00000, moved",
        ),
        ("git update-ref $R/00005 main", "removed the ref refs/autoresearch/t/00005, created at "),
        ("git checkout -qb other; git branch -qD autoresearch/t", "recreated the missing branch autoresearch/t"),
        ("echo \"val_bpb: 0.001\" > $D/x; mv $D/x $D/run.log", ""),
        ("rm $D/run.log; mkfifo $D/run.log", ""),
        ("rm $D/run.log; ln -s ../00000/run.log $D/run.log", ""),
        ("echo \"{\\\"version\\\": 99}\" > $D/exit.json; rm $D/started.json; mkfifo $D/started.json", ""),
        (
            "echo \"val_bpb: 0.001\" >> $D/../00000/run.log",
            "logs of earlier runs were changed, while the run was active",
        ),
    ];
    let set = "R=refs/autoresearch/t; D=$AR_RUN_DIR; S=$D/../../state;";
    let session_of = |attacked: bool| {
        let repo = repo();
        let lines: Vec<String> =
            attacks.iter().map(|(attack, _)| train(&format!("{set} [ -e ../honest ] || {{ {attack}; }}"))).collect();
        if !attacked {
            std::fs::write(repo.outside().join("honest"), "").unwrap();
        }
        let called = session(&repo, &lines.iter().map(String::as_str).collect::<Vec<_>>(), &[]).ok();
        (repo, called)
    };
    let (honest, _) = session_of(false);
    let (hostile, called) = session_of(true);
    assert_eq!(measured(&hostile), measured(&honest), "{called:#?}");
    assert_eq!(runs(&hostile), attacks.len() + 1, "{called:#?}");
    let said = said(&called);
    for (attack, named) in attacks {
        assert!(said.contains(named), "{attack} is not named: {named}\n{said}");
    }
    for id in 1..=attacks.len() {
        let log = hostile.read(format!(".autoresearch/t/runs/{id:05}/run.log"));
        assert!(log.contains("val_bpb") && !log.contains("0.001"), "{id}: {log}");
    }
    assert_eq!(hostile.read(".autoresearch/t/runs/00007/run.log.replaced"), "val_bpb: 0.001\n");
}
