//! What a session cannot solve: the report to a person, and the wait for an answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::programs::interrupt_twice;
use crate::run_loop::training_repo;
use crate::support::{AR, Called, MovableClock, SIGNS, SmallDisk, TestRepo, ar, ar_command, ar_in_time, until};

pub(crate) const REPORT: &str = ".autoresearch/t/state/escalation.md";

/// The arguments of a session of one experiment, whose agent does what `first` says and changes something.
fn args(first: &str, more: &[&str]) -> Vec<String> {
    let agent = format!("{first}; echo \"# $AR_EXPERIMENT\" >> train.sh");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    args.into_iter().chain(["--agent", &agent]).chain(more.iter().copied()).map(str::to_owned).collect()
}

/// An agent that is out until the file `back` is there, beside the repository.
const OUT: &str = "[ -e ../back ] || { echo 'Credit balance is too low'; exit 1; }";

pub(crate) fn start(repo: &TestRepo, args: &[String]) -> Child {
    ar_command(repo, &repo.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What `ar status` says of the session, once there is one.
pub(crate) fn status(repo: &TestRepo) -> Option<Value> {
    let called = ar(repo, ["status", "t", "--format", "json"]);
    (called.code == Some(0)).then(|| called.json()["sessions"][0].clone())
}

/// Waits until the session waits for a person.
pub(crate) fn until_waiting(repo: &TestRepo) -> Value {
    until("the wait for an answer", || status(repo).filter(|session| session["escalation"]["waits"] == true))
}

pub(crate) fn events(repo: &TestRepo, name: &str) -> usize {
    let log = repo.read(".autoresearch/t/logs/orchestrator.jsonl");
    log.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["event"] == name).count()
}

#[test]
fn by_default_the_loop_stops_and_leaves_a_report() {
    let repo = training_repo();
    let tell = format!("echo $AR_EVENT >> {}/told", repo.outside().display());
    let called = ar_in_time(&repo, args(OUT, &["--outage-limit", "100ms", "--on-event", &tell])).exits(4);
    assert!(called.stdout.contains("      needs you: the agent is out of credit, longer than --outage-limit allows"));
    assert!(called.stdout.contains(REPORT), "{called:#?}");
    let report = repo.read(REPORT);
    for words in
        ["# Session t needs you\n", "what happened: the agent is out of credit", "buy credit", "\nar resume t\n"]
    {
        assert!(report.contains(words), "{words}: {report}");
    }
    assert_eq!(fs::read_to_string(repo.outside().join("told")).unwrap(), "outage\nescalated\nstopped\n");
    assert_eq!(events(&repo, "escalated"), 1);
    let session = status(&repo).unwrap();
    assert_eq!((&session["escalation"]["kind"], &session["escalation"]["waits"]), (&"outage".into(), &false.into()));
    ar(&repo, ["guard"]).exits(4);
    let shown = ar(&repo, ["status"]).ok().stdout;
    assert!(shown.contains("\nneeded       buy credit") && shown.contains("idle, and needs you: the agent is out"));
    fs::write(repo.outside().join("back"), "").unwrap();
    ar(&repo, ["resume"]).ok();
    assert!(status(&repo).unwrap()["escalation"].is_null(), "who starts it again has seen to it");
}

#[test]
fn who_stops_or_finalizes_a_session_has_seen_its_report() {
    for seen in [["stop", "t"], ["finalize", "t"]] {
        let repo = training_repo();
        ar_in_time(
            &repo,
            args("[ -e ../out ] || { echo 'echo val_bpb: 1' > train.sh; touch ../out; exit; }; exit 1", &[]),
        )
        .ok();
        let args = ["resume", "--agent", OUT, "--outage-limit", "100ms", "--max-experiments", "9"];
        ar_in_time(&repo, args).exits(4);
        ar(&repo, ["guard"]).exits(4);
        ar(&repo, seen).ok();
        assert_over(&repo);
    }
}

/// Nobody is needed for the session any more.
#[track_caller]
fn assert_over(repo: &TestRepo) {
    assert!(!repo.exists(REPORT));
    assert!(status(repo).unwrap()["escalation"].is_null());
    ar(repo, ["guard"]).ok();
}

#[test]
fn a_session_that_waits_goes_on_when_somebody_answers_or_the_cause_is_gone() {
    for answer in [true, false] {
        let repo = training_repo();
        let wait = ["--outage-limit", "100ms", "--escalate", "wait"];
        let mut child = start(&repo, &args(OUT, &wait));
        let session = until_waiting(&repo);
        assert!(session["doing"].as_str().unwrap().starts_with("waiting for you: the agent is out of credit"));
        assert!(session["next"].to_string().contains("ar tell --tag t"), "{session}");
        assert!(repo.read(REPORT).contains("\nar tell --tag t \"it is solved\"\n"));
        if answer {
            // It was killed meanwhile, and waits on.
            child.kill().unwrap();
            child.wait().unwrap();
            child = start(&repo, &["resume".to_owned(), "t".to_owned()]);
            until_waiting(&repo);
        }
        fs::write(repo.outside().join("back"), "").unwrap();
        if answer {
            ar(&repo, ["tell", "credit is bought"]).ok();
        }
        let called = Called::from(child.wait_with_output().unwrap()).ok();
        assert!(called.stdout.contains("   1  discard"), "{called:#?}");
        assert_eq!((events(&repo, "escalated"), events(&repo, "escalation_over")), (1, 1));
        assert!(status(&repo).unwrap()["escalation"]["waits"] != true);
    }
}

#[test]
fn a_wait_ends_when_somebody_asks_the_loop_to_stop_or_its_time_is_over() {
    for flags in [&[][..], &["--for", "8h"]] {
        let repo = training_repo();
        let clock = MovableClock::new(&repo);
        let args = args(OUT, &[&["--outage-limit", "100ms", "--escalate", "wait"], flags].concat());
        let mut command = ar_command(&repo, &repo.path(), args);
        clock.show_to(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        until_waiting(&repo);
        if flags.is_empty() {
            ar(&repo, ["stop", "t"]).ok();
        } else {
            clock.move_to("2026-11-21T06:00:00Z");
        }
        Called::from(child.wait_with_output().unwrap()).ok();
        assert!(status(&repo).unwrap()["escalation"]["waits"] != true);
        if flags.is_empty() {
            assert_over(&repo);
            assert!(!repo.exists(REPORT));
            ar(&repo, ["guard"]).ok();
        } else {
            assert!(repo.read(REPORT).contains("meanwhile: the session has stopped; nothing is lost"));
            ar(&repo, ["guard"]).exits(4);
        }
    }
}

#[test]
fn a_loop_that_cannot_call_its_agent_goes_on_in_the_same_process_and_hears_of_a_stop() {
    for stops in [false, true] {
        let repo = training_repo();
        let child = start(&repo, &args(KILLED, &["--escalate", "wait", "--for", "1h"]));
        let session = until_waiting(&repo);
        assert_eq!(session["escalation"]["kind"], "agent", "{session}");
        ar(&repo, if stops { ["stop", "t"] } else { ["tell", "it is back"] }).ok();
        let called = Called::from(child.wait_with_output().unwrap()).ok();
        assert_eq!(called.stdout.contains("   1  discard"), !stops, "{called:#?}");
        assert_over(&repo);
    }
}

/// A loop that has waited and opens its session again, with `asks` run before it has done so. Returns what the loop said,
/// and what `ar stop` said that `asks` called.
fn opens_again_while(repo: &TestRepo, asks: &str) -> (Called, String) {
    let trace = repo.outside().join("trace");
    let shell = format!(
        "[ -e ../armed ] && [ \"$(tail -n 1 {})\" = open.excluded ] || exit 0
        unset AR_CRASH_TRACE
        stop() {{ {{ {AR} stop t \"$@\" > ../said 2>&1; mv ../said ../answer; }} & }}
        heard() {{ until [ -e .autoresearch/t/stop.json ] || [ -e ../answer ]; do sleep 0.01; done; }}
        {asks}",
        trace.display()
    );
    let mut command = ar_command(repo, &repo.path(), args(KILLED, &["--escalate", "wait", "--for", "1h"]));
    command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_RUN", shell).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until_waiting(repo);
    fs::write(repo.outside().join("armed"), "").unwrap();
    // The command runs at each moment that is not named there.
    fs::remove_file(trace).unwrap();
    ar(repo, ["tell", "it is back"]).ok();
    let called = Called::from(child.wait_with_output().unwrap());
    (called, until("the answer of `ar stop`", || fs::read_to_string(repo.outside().join("answer")).ok()))
}

#[test]
fn a_stop_is_heard_while_the_session_is_opened_again_and_nobody_else_can_open_it() {
    let press = "kill -INT $PPID; echo pressed > ../answer";
    let touch = "touch .autoresearch/t/stop.json; echo touched > ../answer";
    for (asks, code, ended) in [
        ("stop; heard", 0, "on request"),
        ("stop --now; heard", 0, "on request"),
        (touch, 0, "on request"),
        (press, 130, "interrupted"),
    ] {
        let repo = training_repo();
        let (called, said) = opens_again_while(&repo, &format!("{AR} resume t > ../another 2>&1; {asks}"));
        assert!(!called.exits(code).stdout.contains("   1  discard"), "{said}");
        assert!(!said.contains("idle"), "{said}");
        let another = fs::read_to_string(repo.outside().join("another")).unwrap();
        assert!(another.contains("another ar holds the lock"), "{another}");
        assert_eq!(status(&repo).unwrap()["ended"], ended);
        assert_over(&repo);
    }
}

#[test]
fn a_stop_that_cuts_the_opening_short_ends_the_session() {
    for (is_asked, ended) in [(true, "on request"), (false, "interrupted")] {
        let repo = training_repo();
        let signs = repo.executable("signs", SIGNS);
        repo.git(["config", "commit.gpgsign", "true"]);
        repo.git(["config", "gpg.program", signs.to_str().unwrap()]);
        let child = start(&repo, &args(KILLED, &["--escalate", "wait"]));
        until_waiting(&repo);
        repo.executable("signs", &format!("#!/bin/sh\ntouch {}/asked\nexec sleep 600\n", repo.outside().display()));
        ar(&repo, ["tell", "it is back"]).ok();
        until("the signing program", || repo.outside().join("asked").exists().then_some(()));
        if is_asked {
            assert!(ar(&repo, ["stop", "t", "--now"]).ok().stdout.starts_with("session t has stopped;"));
        } else {
            interrupt_twice(&child);
        }
        Called::from(child.wait_with_output().unwrap()).exits(130);
        assert_eq!(status(&repo).unwrap()["ended"], ended);
        assert_over(&repo);
    }
}

#[test]
fn an_interrupt_while_a_killed_loop_is_resumed_ends_the_session() {
    let repo = training_repo();
    let signs = repo.executable("signs", SIGNS);
    repo.git(["config", "commit.gpgsign", "true"]);
    repo.git(["config", "gpg.program", signs.to_str().unwrap()]);
    let mut killed = start(&repo, &args(KILLED, &["--escalate", "wait"]));
    until_waiting(&repo);
    killed.kill().unwrap();
    killed.wait().unwrap();
    repo.executable("signs", &format!("#!/bin/sh\ntouch {}/asked\nexec sleep 600\n", repo.outside().display()));
    let mut resume = ar_command(&repo, &repo.path(), ["resume", "t"]);
    let child = resume.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the signing program", || repo.outside().join("asked").exists().then_some(()));
    interrupt_twice(&child);
    Called::from(child.wait_with_output().unwrap()).exits(130);
    assert_eq!(status(&repo).unwrap()["ended"], "interrupted");
    assert_over(&repo);
}

#[test]
fn a_stop_of_a_loop_that_is_killed_while_it_opens_its_session_again_does_not_stop_the_next_one() {
    let repo = training_repo();
    let (called, said) = opens_again_while(&repo, "stop; heard; kill -KILL $PPID");
    assert_eq!((called.code, said.as_str()), (None, "session t has stopped\n"));
    assert_over(&repo);
    let called = ar_in_time(&repo, ["resume", "t"]).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
}

#[test]
fn what_a_killed_loop_waited_for_is_over_once_the_next_one_works() {
    let repo = training_repo();
    let mut child = start(&repo, &args(KILLED, &["--escalate", "wait"]));
    until_waiting(&repo);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(repo.exists(REPORT));
    let agent = "echo \"# $AR_EXPERIMENT\" >> train.sh";
    let called = ar_in_time(&repo, ["resume", "--agent", agent]).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    assert_over(&repo);
    ar(&repo, ["guard"]).ok();
}

/// An agent whose shim is killed until the prompt has the answer.
const KILLED: &str = "grep -q 'it is back' \"$AR_PROMPT\" || kill -KILL $PPID; sleep 0.1";

#[test]
fn a_program_that_goes_away_during_the_wait_is_waited_for() {
    let repo = training_repo();
    let reviewer = repo.outside().join("reviewer");
    let script = "#!/bin/sh\necho '{\"verdict\": \"earned\"}'\n";
    let give = || {
        fs::write(&reviewer, script).unwrap();
        fs::set_permissions(&reviewer, fs::Permissions::from_mode(0o755)).unwrap();
    };
    give();
    let child = start(&repo, &args(KILLED, &["--escalate", "wait", "--reviewer", reviewer.to_str().unwrap()]));
    until_waiting(&repo);
    fs::remove_file(&reviewer).unwrap();
    ar(&repo, ["tell", "it is back"]).ok();
    let missing = || status(&repo).filter(|session| session["escalation"]["kind"] == "error");
    let session = until("another escalation", || missing().filter(|session| session["escalation"]["waits"] == true));
    assert!(session["escalation"]["what"].as_str().unwrap().contains("cannot start the reviewer"), "{session}");
    // While the loop tries again, its report is written anew.
    let report = || fs::read_to_string(repo.file(REPORT)).ok();
    until("its report", || report().filter(|report| report.contains("cannot start the reviewer")));
    give();
    ar(&repo, ["tell", "the reviewer, too"]).ok();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    assert_over(&repo);
}

#[test]
fn what_keeps_a_session_from_being_opened_after_the_wait_is_reported() {
    let repo = training_repo();
    let tell = format!("echo $AR_EVENT >> {}/told", repo.outside().display());
    let signs = repo.executable("signs", SIGNS);
    repo.git(["config", "commit.gpgsign", "true"]);
    repo.git(["config", "gpg.program", signs.to_str().unwrap()]);
    let child = start(&repo, &args(KILLED, &["--escalate", "wait", "--on-event", &tell]));
    until_waiting(&repo);
    fs::remove_file(signs).unwrap();
    ar(&repo, ["tell", "it is back"]).ok();
    let called = Called::from(child.wait_with_output().unwrap()).exits(1);
    assert!(repo.read(REPORT).contains("sign") && repo.read(REPORT).contains("\nar resume t\n"), "{called:#?}");
    assert_eq!(fs::read_to_string(repo.outside().join("told")).unwrap(), "escalated\nescalated\n");
    assert_eq!(events(&repo, "escalated"), 2);
}

#[test]
fn a_full_disk_is_waited_out() {
    let repo = training_repo();
    let Some(disk) = SmallDisk::under(&repo) else { return };
    // The first call fills it, as somebody else might.
    let full = "mkdir ../filled 2>/dev/null && { cat /dev/zero > fill; truncate -s -100K fill; exit 1; } 2>/dev/null";
    let child = start(&repo, &args(full, &["--escalate", "wait"]));
    let session = until_waiting(&repo);
    assert_eq!(session["escalation"]["kind"], "disk", "{session}");
    disk.free();
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/00*"]).lines().count(), 2, "the baseline and one more");
}

#[test]
fn a_contradiction_is_reported_and_waits_for_nobody() {
    let repo = training_repo();
    let tell = format!("echo $AR_EVENT >> {}/told", repo.outside().display());
    ar_in_time(&repo, args(":", &["--on-event", &tell])).ok();
    let told = || fs::read_to_string(repo.outside().join("told")).unwrap();
    let before = told();
    let path = repo.file(".autoresearch/t/state/progress.json");
    let mut journal: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let open = serde_json::json!({"id": 1, "base": repo.git(["rev-parse", "HEAD"]), "started": "2026-11-20T22:00:00Z"});
    journal["attempts"] = serde_json::json!([{"phase": "running", "open": open}]);
    fs::write(&path, journal.to_string()).unwrap();
    ar_in_time(&repo, ["resume", "--max-experiments", "2", "--escalate", "wait"]).exits(6);
    let report = repo.read(REPORT);
    assert!(
        report.contains("the journal names no commit for the experiment that runs")
            && report.contains("\nar doctor t\n")
    );
    assert_eq!(events(&repo, "escalated"), 1);
    assert_eq!(told(), before + "escalated\n");
}
