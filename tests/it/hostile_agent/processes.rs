//! Processes that go on when the agent has ended.

use std::fs;
use std::process::Stdio;

use super::harness::{agent, measured, record, repo, said, session};
use crate::support::{Called, ar_command, until};

/// A process in a session of its own that ignores TERM and keeps writing; it says in `../escaped` that it is there.
const DAEMON: &str = "setsid sh -c 'trap \"\" TERM HUP INT; (trap \"\" TERM HUP; echo $$ > ../escaped; while :; do \
                      echo cheat > prepare.py; echo 0.001 > src/value; echo val_bpb: 0.001 >> $AR_RUN_DIR/run.log; \
                      sleep 0.01; done) & exit 0' > /dev/null 2>&1 & until [ -e ../escaped ]; do sleep 0.01; done; \
                      rm ../escaped";

#[test]
fn what_the_agent_leaves_running_is_gone_before_the_run_starts() {
    let repo = repo();
    let called = session(&repo, &[DAEMON, "true"], &[]).ok();
    // What it had done by then is the agent's change.
    assert_eq!(record(&repo, 1)["failure"]["class"], "protected", "{called:?}");
    assert_eq!(record(&repo, 2)["metric"]["raw"], "2.2", "{called:?}");
    assert_eq!(repo.read("prepare.py"), "the evaluation\n");
    assert_eq!(repo.read(".autoresearch/t/runs/00002/run.log"), "val_bpb: 2.2\n");
    let honest = super::harness::repo();
    session(&honest, &["true", "true"], &[]).ok();
    assert_eq!(repo.status(), "");
    // It kept to what an agent may do: the number is that of its commit.
    let repo = super::harness::repo();
    let within = DAEMON.replace("echo cheat > prepare.py;", "").replace("echo 0.001 > src/value;", "");
    let called = session(&repo, &[&within, "true"], &[]).ok();
    assert_eq!(measured(&repo), measured(&honest), "{called:?}");
    assert!(said(&called).contains("moved away files that already existed where the next run writes"), "{called:?}");
}

#[test]
fn what_a_process_that_escaped_changes_during_the_run_costs_its_number() {
    let repo = repo();
    repo.write("eval.sh", "sh src/train.sh; [ $AR_EXPERIMENT = 0 ] || { echo x > ../there; until [ -e ../go ]; do sleep 0.01; done; rm ../go ../there; }; echo val_bpb: $(cat src/value)\n");
    repo.commit_all("a run that waits");
    let agent = agent(&["true", "true"]);
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--scope", "src/**"];
    let child = ar_command(&repo, &repo.path(), args)
        .args(["--max-experiments", "2", "--agent", &agent])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (there, go) = (repo.outside().join("there"), repo.outside().join("go"));
    until("the first run", || there.exists().then_some(()));
    repo.write("prepare.py", "easier\n");
    fs::write(&go, "").unwrap();
    until("the first run again", || (there.exists() && !go.exists()).then_some(()));
    fs::write(&go, "").unwrap();
    until("its end", || {
        repo.try_git(["rev-parse", "--verify", "-q", "refs/autoresearch/t/00001"]).status.success().then_some(())
    });
    until("the second run", || (there.exists() && !go.exists()).then_some(()));
    repo.write("src/value", "0.001\n");
    let rows = repo.read("results.tsv");
    repo.write("results.tsv", rows.replace("2.0", "0.1"));
    repo.write(".autoresearch/t/state/contract.json", "{}");
    fs::write(&go, "").unwrap();
    until("the same run again", || (there.exists() && !go.exists()).then_some(()));
    fs::write(&go, "").unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(record(&repo, 1)["failure"], serde_json::Value::Null, "{called:?}");
    assert_eq!(record(&repo, 2)["metric"]["raw"], "2.2", "{called:?}");
    let said = said(&called);
    assert!(said.contains("repeating the run of experiment 1: prepare.py changed while it ran"), "{said}");
    assert!(said.contains("repeating the run of experiment 2: src/value changed while it ran"), "{said}");
    assert!(said.contains("results.tsv changed while the run was active: 1 row changed"), "{said}");
    assert!(said.contains("state/contract.json; the changed versions are "), "{said}");
    assert!(repo.read("results.tsv").starts_with(&rows), "{}", repo.read("results.tsv"));
}
