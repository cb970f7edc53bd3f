//! When a loop ends, and the criterion of simplicity.

use serde_json::Value;

use crate::run_loop::{agent, training_repo};
use crate::support::{Called, MovableClock, TestRepo, ar, ar_command};

/// The arguments of `ar run` with a command and an agent.
fn args<'a>(command: &'a str, agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", command, "--agent", agent];
    [&args[..], more].concat()
}

/// Calls `ar run` with a command and an agent.
fn run(repo: &TestRepo, command: &str, agent: &str, more: &[&str]) -> Called {
    ar(repo, args(command, agent, more))
}

/// A night of four hours by the clock of the test.
fn night_by(clock: &MovableClock, repo: &TestRepo, command: &str, agent: &str, more: &[&str]) -> Called {
    let mut night = ar_command(repo, &repo.path(), args(command, agent, &[more, &["--for", "4h"]].concat()));
    Called::from(clock.show_to(&mut night).output().unwrap()).ok()
}

fn records(repo: &TestRepo) -> Vec<Value> {
    let text = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/0*"]);
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn no_experiment_is_started_that_cannot_end_in_time() {
    // The run of the baseline leaves less time than it takes.
    let repo = training_repo();
    let clock = MovableClock::new(&repo);
    let command = format!("sleep 1.1; {}; sh train.sh", clock.moving_to("2026-11-21T01:59:59Z"));
    let called = night_by(&clock, &repo, &command, "echo called > ../called", &[]);
    assert!(called.stdout.contains(" left of 4h, but ") && called.stdout.ends_with(" needed\n"), "{called:#?}");
    assert!(!repo.outside().join("called").exists(), "{called:#?}");
    assert_eq!(records(&repo).len(), 1);
    let repo = training_repo();
    let clock = MovableClock::new(&repo);
    let guard = format!("sleep 0.8; {}", clock.moving_to("2026-11-21T01:59:58.5Z"));
    let guarded = ["--guard", "sleep 0.8", "--guard", &guard];
    let called = night_by(&clock, &repo, "sh train.sh", "echo called > ../called", &guarded);
    let stopped = called.stdout.lines().last().unwrap();
    assert!(
        stopped.contains(" left of 4h, but ") && stopped.ends_with(" needed"),
        "its guards are a part: {called:#?}"
    );
    assert!(!repo.outside().join("called").exists(), "{called:#?}");
}

#[test]
fn a_call_that_the_end_of_the_loop_cuts_short_is_not_held_against_the_agent() {
    let repo = training_repo();
    let clock = MovableClock::new(&repo);
    let command = format!("{}; sh train.sh", clock.moving_to("2026-11-21T01:59:56Z"));
    let agent = format!("{}; sleep 60", clock.moving_to("2026-11-21T02:00:00Z"));
    let called = night_by(&clock, &repo, &command, &agent, &["--grace", "100ms"]);
    assert!(called.stdout.ends_with("stopped: time limit of 4h reached\n"), "{called:#?}");
    let agent = "cp \"$AR_PROMPT\" ../prompt; echo more >> train.sh";
    let mut resumed =
        ar_command(&repo, &repo.path(), ["resume", "--for", "8h", "--max-experiments", "1", "--agent", agent]);
    Called::from(clock.show_to(&mut resumed).output().unwrap()).ok();
    let prompt = std::fs::read_to_string(repo.outside().join("prompt")).unwrap();
    let (_, told) = prompt.split_once("## Where the session stands").unwrap();
    assert!(!told.contains("The last"), "{told}");
    let iterations = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    assert_eq!(iterations.lines().count(), 1, "{iterations}");
    assert!(iterations.contains("\"iteration\":1,"), "{iterations}");
}

#[test]
fn a_change_that_comes_too_late_becomes_an_idea() {
    let repo = training_repo();
    let clock = MovableClock::new(&repo);
    let agent = format!("echo $AR_EXPERIMENT > new.txt; {}", clock.moving_to("2026-11-21T02:00:00Z"));
    let called = night_by(&clock, &repo, "echo run >> ../runs; sh train.sh", &agent, &[]);
    let kept = "refs/autoresearch/t/saved/00000";
    assert!(
        called.stderr.contains(&format!("the proposal of experiment 1 was not run; it is in {kept}")),
        "{called:#?}"
    );
    let ideas = ar(&repo, ["idea", "list"]).ok().stdout;
    assert!(
        ideas.contains("new.txt") && ideas.contains(&format!("(proposed and not run; its change is {kept})")),
        "{ideas}"
    );
    assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:new.txt"]), "1");
    assert_eq!(std::fs::read_to_string(repo.outside().join("runs")).unwrap(), "run\n");
    assert_eq!((records(&repo).len(), repo.status().as_str()), (1, ""));
    // The next call makes the experiment.
    let called =
        ar(&repo, ["resume", "t", "--for", "8h", "--max-experiments", "1", "--agent", "echo 2 > new.txt"]).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
}

#[test]
fn a_call_ends_at_the_time_of_day_that_it_is_given() {
    let repo = training_repo();
    // The tests begin at ten in the evening.
    let clock = MovableClock::new(&repo);
    let late = clock.moving_to("2026-11-20T23:00:02Z");
    let agent = format!("echo $AR_EXPERIMENT > new.txt; [ $AR_EXPERIMENT != 3 ] || {late}");
    let mut night = ar_command(&repo, &repo.path(), args("sh train.sh", &agent, &["--until", "23:00:02"]));
    let called = Called::from(clock.show_to(&mut night).output().unwrap()).ok();
    assert!(called.stderr.contains("note: this invocation stops at 23:00 on Nov 20\n"), "{called:#?}");
    let last = called.stdout.lines().last().unwrap();
    assert!(last.ends_with("it is 23:00:02"), "{called:#?}");
    assert!(records(&repo).len() > 2, "{called:#?}");
    let status = ar(&repo, ["status"]).ok().stdout;
    assert!(status.contains("until 23:00:02"), "{status}");
    let mut later = ar_command(&repo, &repo.path(), ["status"]);
    let status = Called::from(later.env("AR_CLOCK", "2026-11-21T06:00:00Z").output().unwrap()).ok().stdout;
    assert!(status.contains("  ar run --tag t  begins another night\n") && !status.contains("ar resume"), "{status}");
}

#[test]
fn crashes_in_a_row_stop_the_loop_and_who_starts_it_again_has_seen_them() {
    let repo = training_repo();
    let agent = agent("crash silent better crash syntax crash better");
    let called = run(&repo, "sh train.sh", &agent, &["--max-crashes", "3"]).exits(4);
    assert!(called.stdout.ends_with("stopped: 3 crashes in a row\n"), "{called:#?}");
    assert_eq!(records(&repo).len(), 7, "{called:#?}");
    let called = ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert!(called.stdout.contains("   7  keep"), "{called:#?}");
}

#[test]
fn the_simpler_program_wins_where_the_numbers_are_about_the_same() {
    let repo = training_repo();
    repo.write("train.sh", "# a\n# b\n# c\n# d\n# e\necho val_bpb: 1.800\n");
    repo.commit_all("a program with parts that nobody needs");
    let program = |lines: &str, number: &str| format!("printf '{lines}echo val_bpb: {number}\\n' > train.sh");
    let edits = [
        program("# a\\n# b\\n# c\\n", "1.804"),
        program("# a\\n# b\\n# c\\n# more\\n# and more\\n", "1.799"),
        program("# a\\n", "1.812"),
        program("# a\\n", "1.806"),
        program("# a\\n# new\\n", "1.7"),
    ];
    let cases: String = (1..).zip(&edits).map(|(n, edit)| format!("{n}) {edit};; ")).collect();
    let agent = format!("case $AR_EXPERIMENT in {cases} esac; echo \"number $AR_EXPERIMENT\"");
    let called = run(&repo, "sh train.sh", &agent, &["--simpler-wins", "0.01", "--max-experiments", "5"]).ok();
    let lines: Vec<_> = called.stdout.lines().filter(|line| line.contains("number ")).collect();
    let expected = [
        "   1  keep     1.804     number 1: simplification: val_bpb 1.804 is within 0.01 of 1.800 of experiment 0, with +1 -3 lines",
        "   2  discard  1.799     number 2: val_bpb 1.799 is within 0.01 of 1.804 of experiment 1, which is not worth +3 -1 lines",
        "   3  discard  1.812     number 3: val_bpb 1.812 is within 0.01 of 1.804 of experiment 1, but 0.012 behind the best, 1.800, \
         which is more than a simplification may cost",
        "   4  keep     1.806     number 4: simplification: val_bpb 1.806 is within 0.01 of 1.804 of experiment 1, with +1 -3 lines",
        "   5  keep     1.7       number 5: val_bpb 1.7 is better than 1.806 of experiment 4 by 0.106 (5.9%)",
    ];
    assert_eq!(lines[1..6], expected, "{called:#?}");
    let spec = repo.read(".autoresearch/t/state/task_spec.md");
    assert!(spec.contains("kept when it deletes more lines than it adds, and not when it adds more"), "{spec}");
    let report = ar(&repo, ["report", "--format", "json"]).ok().json();
    assert_eq!(report["ended"], "the night reached its limit of 5 experiments");
    assert!(
        ar(&repo, ["report"]).ok().stdout.contains("\nended        the night reached its limit of 5 experiments\n")
    );
    assert_eq!((&report["best"]["id"], &report["counts"]["keep"]), (&5.into(), &4.into()), "{report}");
}
