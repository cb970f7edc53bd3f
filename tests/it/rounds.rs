//! The rounds that a call of the agent may take.

use std::fs;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar_command};

/// A session of one experiment with a program `name` on the PATH that is the agent: its first call does `first`, the next one
/// makes a change. Each notes its arguments, and the second one its prompt.
fn session(name: &str, agent: &str, first: &str) -> (TestRepo, Called) {
    let repo = training_repo();
    fs::create_dir_all(repo.outside().join("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\ncat > ../prompt\necho \"$*\" >> ../arguments\n\
         step() {{ echo '{{\"type\":\"step_start\",\"timestamp\":1,\"sessionID\":\"s\",\"part\":{{}}}}'; }}\n\
         if [ -e ../called ]; then step; echo '# more' >> train.sh; exit; fi\ntouch ../called\n{first}\n"
    );
    let program = format!("../bin/{name}");
    repo.write(&program, script);
    repo.chmod(&program, true);
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    let more = ["--agent", agent, "--agent-rounds", "3", "--agent-timeout", "90s"];
    let mut command = ar_command(&repo, &repo.path(), [&args[..], &more].concat());
    command.env("PATH", format!("{}:/usr/bin:/bin", repo.outside().join("bin").display()));
    let called = Called::from(command.output().unwrap()).ok();
    (repo, called)
}

const USED_UP: &str = "ended the agent's call for experiment 1: all 3 rounds were used";

/// How often the agent was called, and what the last call was told of the one before.
fn told(repo: &TestRepo) -> (usize, bool) {
    let prompt = repo.read("../prompt");
    assert!(prompt.contains("- rounds of this call: 3; then it is terminated"), "{prompt}");
    (
        repo.read("../arguments").lines().count(),
        prompt.contains("The last call was terminated: all 3 rounds were used."),
    )
}

#[test]
fn a_call_is_ended_that_begins_one_round_too_many() {
    let (repo, called) = session("opencode", "opencode", "step; step; step; step; sleep 600");
    assert!(called.stderr.contains(USED_UP), "{called:#?}");
    assert!(called.stdout.contains("   1  -        the agent changed nothing"), "{called:#?}");
    assert!(!called.stdout.contains("interrupted") && !called.stderr.contains("--agent-rounds cannot"), "{called:#?}");
    assert_eq!(told(&repo), (2, true));
}

#[test]
fn what_was_changed_by_then_is_measured() {
    let first = "echo '# begun' >> train.sh; step; step; step; step; sleep 600";
    let (repo, called) = session("opencode", "opencode", first);
    assert!(called.stderr.contains(USED_UP), "{called:#?}");
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    assert_eq!(told(&repo), (1, false));
}

#[test]
fn a_call_within_its_rounds_goes_on() {
    let (repo, called) = session("opencode", "opencode", "step; step; step; sleep 3; echo '# done' >> train.sh");
    assert!(!called.stderr.contains("ended the agent's call"), "{called:#?}");
    assert!(repo.git(["show", "refs/autoresearch/t/00001:train.sh"]).ends_with("# done"));
}

#[test]
fn a_preset_that_has_an_option_for_it_gets_it_and_is_no_outage_when_it_stops() {
    let stops = "echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}'\n\
                 echo '{\"type\":\"result\",\"subtype\":\"error_max_turns\",\"is_error\":true,\"session_id\":\"s\",\
                 \"errors\":[\"Reached maximum number of turns (3)\"]}'\nexit 1";
    let (repo, called) = session("claude", "claude", stops);
    assert!(called.stderr.contains(USED_UP), "{called:#?}");
    assert!(!called.stdout.contains("waiting") && !called.stdout.contains("available again"), "{called:#?}");
    assert_eq!(told(&repo), (2, true));
    assert!(repo.read("../arguments").lines().all(|line| line.ends_with(" --max-turns 3")));
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!(contract["caps"]["agent_rounds"], 3);
    assert!(!contract["agent"].as_str().unwrap().contains("--max-turns"), "{contract}");
}

#[test]
fn an_agent_that_tells_no_rounds_is_named() {
    let (repo, called) = session("myagent", "myagent -x", "echo '# done' >> train.sh");
    assert!(
        called.stderr.contains("--agent-rounds cannot act: the agent is not known to report its rounds"),
        "{called:#?}"
    );
    assert_eq!(repo.read("../arguments").trim(), "-x");
}
