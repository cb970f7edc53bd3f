//! Attacks on the logs that numbers are read from.

use super::harness::{assert_undone, said};
use crate::ladder::make_up_records;
use crate::run_loop::training_repo;
use crate::support::ar;

#[test]
fn a_number_that_the_agent_writes_into_a_log_counts_for_nothing() {
    let (repo, called) = assert_undone(&[
        // The link in the root leads to the newest log.
        ("echo 'val_bpb: 0.001' >> run.log", "runs/00000/run.log"),
        ("true", ""),
        ("echo 'val_bpb: 0.001' > .autoresearch/t/runs/00001/run.log", "logs of earlier runs were changed, while"),
        ("rm run.log; echo 'val_bpb: 0.001' > run.log", "moved the existing run.log to "),
        (
            "echo 'val_bpb: 0.001' > $AR_RUN_DIR/run.log",
            "moved away files that already existed where the next run writes, while the agent was active: ",
        ),
        ("echo 'val_bpb: 0.001' > ../away; ln -s ../../../../../away $AR_RUN_DIR/run.log", "runs/00006/run.log"),
        ("ln ../away $AR_RUN_DIR/run.log", "runs/00007/run.log"),
        ("mkfifo $AR_RUN_DIR/run.log $AR_RUN_DIR/exit.json", "runs/00008/run.log"),
        ("mkdir $AR_RUN_DIR/run.log $AR_RUN_DIR/job.json", "runs/00009/run.log"),
        (
            "cd $AR_RUN_DIR; cp ../00000/run.log ../00000/*.json .; sed -i 's/\"exit\": 0/\"exit\": 3/' exit.json; \
                cd - > /dev/null",
            "runs/00010/exit.json",
        ),
        (
            "sed 's/\"version\": 1/\"version\": 99/' $AR_RUN_DIR/../00000/exit.json > $AR_RUN_DIR/exit.json",
            "runs/00011/exit.json",
        ),
        // Of the agent's own call.
        ("mkfifo $AR_RUN_DIR/agent.exit.json", ""),
        ("echo '{\"version\": 99}' > $AR_RUN_DIR/agent.exit.json", ""),
        ("mkdir -p $AR_RUN_DIR/../00015; mkfifo $AR_RUN_DIR/../00015/agent.log $AR_RUN_DIR/../00015/lock", ""),
        ("true", ""),
    ]);
    for id in 0..=15 {
        let path = format!(".autoresearch/t/runs/{id:05}/run.log");
        let log = repo.read(&path);
        // Those of earlier runs are named, and not put back.
        assert_eq!(log.matches("val_bpb").count(), if id == 0 { 2 } else { 1 }, "{path}: {log}");
        assert_eq!(log.contains("0.001"), id <= 1, "{path}: {log} {}", said(&called));
    }
    assert_eq!(repo.read("run.log.before"), "val_bpb: 0.001\n");
    assert_eq!(
        std::fs::read_to_string(repo.outside().join("away")).unwrap(),
        "val_bpb: 0.001\n",
        "not written through"
    );
}

#[test]
fn a_proposal_that_is_a_pipe_holds_nothing_up() {
    let repo = super::harness::repo();
    let called = super::harness::session(&repo, &["rm -f $AR_PROPOSAL; mkfifo $AR_PROPOSAL"], &[]).ok();
    assert_eq!(super::harness::record(&repo, 1)["description"], "number 1", "{called:?}");
}

#[test]
fn logs_that_nobody_changed_are_not_named_while_slots_record() {
    let repo = training_repo();
    let agent = "echo \"# $AR_EXPERIMENT\" >> train.sh; echo change $AR_EXPERIMENT";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, args.into_iter().chain(["--slots", "2", "--max-experiments", "1"])).ok();
    // With each record that is made, the oldest of those that are watched is watched no more.
    make_up_records(&repo, 51);
    (2..=51).for_each(|id| repo.write(format!(".autoresearch/t/runs/{id:05}/run.log"), "val_bpb: 2.0\n"));
    repo.rm(".autoresearch/t/state/progress.json");
    let called = ar(&repo, ["resume", "--max-experiments", "4"]).ok();
    assert!(!called.stderr.contains("logs of earlier runs"), "{called:#?}");
}

#[test]
fn a_journal_that_is_deleted_while_the_loop_goes_on_is_restored_and_no_more_is_said() {
    let repo = super::harness::repo();
    let called = super::harness::session(&repo, &["rm .autoresearch/t/state/progress.json"], &[]).ok();
    assert!(called.stderr.contains(".autoresearch/t was deleted; restored it\n"), "{called:#?}");
    assert!(!called.stderr.contains("without event logs"), "{called:#?}");
}
