//! Attacks on the state files.

use super::harness::{assert_undone, said};

#[test]
fn state_files_that_the_agent_rewrites_are_put_back_and_named() {
    let (repo, called) = assert_undone(&[
        ("sed -i s/lower/higher/ $S/contract.json", "restored ar's files changed while the agent was active: "),
        (
            "sed -i 's/sh eval.sh/echo val_bpb: 0.1/; s/\"version\": 1/\"version\": 99/' $S/contract.json",
            "contract.json",
        ),
        ("echo '{\"version\": 1}' > $S/progress.json", "progress.json"),
        ("sed -i 's/\"version\": 3/\"version\": 99/' $S/progress.json", "progress.json.rewritten"),
        ("echo '{\"experiment\": 9, \"finding\": \"x\"}' >> $S/findings.jsonl", "findings.jsonl"),
        ("rm $S/directions_tried.json; mkdir $S/directions_tried.json", "directions_tried.json"),
        ("rm $S/iteration_log.jsonl; mkfifo $S/iteration_log.jsonl", "iteration_log.jsonl"),
        ("echo '{\"x\": 1}' > $S/untracked.json", "untracked.json"),
        ("ln -sf ../../../../prepare.py $S/task_spec.md", "task_spec.md"),
        ("rm $S/progress.json; mkfifo $S/progress.json", "progress.json.rewritten-2"),
        ("rm $S/findings.jsonl", "restored ar's files deleted while the agent was active: "),
    ]);
    assert!(said(&called).contains("restored ar's files changed while the agent was active: "), "{called:?}");
    // What was found is kept.
    let kept = repo.read(".autoresearch/t/state/contract.json.rewritten");
    assert!(kept.contains("higher"), "{kept}");
    let events = repo.read(".autoresearch/t/logs/work.jsonl");
    assert!(events.starts_with("{\"ts\":") && events.lines().next().unwrap().contains("session_started"), "{events}");
    assert_eq!(events.matches("\"experiment_finished\"").count(), 12, "{events}");
    assert!(events.contains("contract.json.rewritten"), "it is in the log of events too");
}

#[test]
fn event_logs_that_the_agent_changes_are_named_and_written_on() {
    let named = "event logs were changed, while the agent was active: ";
    let (repo, called) = assert_undone(&[
        ("echo '{}' >> $S/../logs/orchestrator.jsonl", named),
        ("cp prepare.py ../away; ln -f ../away $S/../logs/work.jsonl", "work.jsonl"),
        ("ln -sf $PWD/prepare.py $S/../logs/orchestrator.jsonl", "orchestrator.jsonl"),
        ("rm $S/../logs/heartbeat.jsonl; mkfifo $S/../logs/heartbeat.jsonl", "heartbeat.jsonl"),
        ("rm $S/../logs/work.jsonl", "work.jsonl"),
    ]);
    assert_eq!(said(&called).matches(named).count(), 5, "{called:?}");
    // Nothing was written through a link.
    assert_eq!(std::fs::read_to_string(repo.outside().join("away")).unwrap(), "the evaluation\n");
    let events = repo.read(".autoresearch/t/logs/work.jsonl");
    assert!(events.contains("session_stopped") && !events.contains("session_started"), "{events}");
}

#[test]
fn a_request_to_stop_that_the_agent_makes_is_named_and_changes_no_number() {
    let repo = super::harness::repo();
    let called = super::harness::session(&repo, &["touch $S/../stop.json", "true"], &[]).ok();
    assert!(said(&called).contains("`ar stop` was requested; stopping after this experiment"), "{called:?}");
    assert_eq!(super::harness::record(&repo, 1)["metric"]["raw"], "1.98");
    assert_eq!(super::harness::runs(&repo), 2);
}
