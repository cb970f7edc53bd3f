//! Runs and calls that write nothing and do nothing: they end before their time limit, and all others go on.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use autoresearch::exec::Job;
use autoresearch::rules::Silence;
use serde_json::{Value, json};

use crate::crash::in_parallel;
use crate::exec::{Bench, owned_here, owner_command, succeeded};
use crate::recovery::runs;
use crate::run_loop::training_repo;
use crate::support::{Called, FakeGpus, TestRepo, ar, ar_command, ar_in_time, until};

/// A silence that no working process keeps, however slow the machine is.
const SILENCE: Silence = Silence { after: Duration::from_secs(3), by_gpu: true };

/// Works without an end, for a tenth of its time: ten times what counts as work.
const WORK: &str = "while :; do i=0; until [ $i = 20000 ]; do i=$((i + 1)); done; sleep 0.1; done";

/// A job that ends after such a silence.
fn listened_to(bench: &Bench, command: &str) -> Job {
    Job { silence: Some(SILENCE), ..bench.job(command) }
}

#[test]
fn a_silent_sleeper_is_ended_with_all_that_it_started() {
    let bench = Bench::new();
    let exit = bench.end(&listened_to(&bench, "echo begun; sleep 600 & setsid sleep 600"));
    assert_eq!((exit.timed_out, exit.stopped, exit.silent), (true, false, Some(3.0)), "{exit:?}");
    assert!(exit.seconds >= 3.0, "{exit:?}");
    assert_eq!(bench.exit_file().unwrap().silent, Some(3.0));
}

#[test]
fn who_prints_goes_on() {
    let bench = Bench::new();
    let exit = bench.end(&listened_to(&bench, "for i in $(seq 20); do printf '\\r%s' $i; sleep 0.3; done"));
    assert!(succeeded(&exit) && exit.silent.is_none(), "{exit:?}");
    assert!(exit.seconds >= 6.0, "{exit:?}");
}

#[test]
fn who_works_in_a_grandchild_of_another_session_goes_on() {
    let bench = Bench::new();
    let work = format!("export WORK='{WORK}'; sh -c 'setsid sh -c \"$WORK\" & sleep 7'");
    let exit = bench.end(&listened_to(&bench, &work));
    assert!(succeeded(&exit) && exit.silent.is_none(), "{exit:?}");
    assert!(exit.seconds >= 7.0, "{exit:?}");
}

#[test]
fn who_works_in_children_that_end_goes_on() {
    let bench = Bench::new();
    // Each child is waited for, so its time is that of its parent.
    let work = "i=0; while [ $i -lt 10 ]; do timeout 0.1 sh -c 'while :; do :; done'; sleep 0.5; i=$((i + 1)); done";
    let exit = bench.end(&listened_to(&bench, work));
    assert!(succeeded(&exit) && exit.silent.is_none(), "{exit:?}");
}

/// Two GPUs of which the first does so much.
fn machine(percent: u32) -> String {
    format!("gpu GPU-a 80 NVIDIA Fake 9000\ngpu GPU-b 80 NVIDIA Fake 9000\nbusy GPU-a {percent}\nbusy GPU-b 99\n")
}

/// How a job ended that is on the first GPU, on a machine where this does so much; `None` without a C compiler.
fn on_gpu(test: &str, percent: u32, command: &str) -> Option<(bool, Option<f64>)> {
    let gpus = FakeGpus::new(&machine(percent))?;
    let bench = Bench::new();
    let job = listened_to(&bench, &format!("echo \"process GPU-a $$ 100\" >> \"$FAKE_GPUS\"; {command}"));
    let mut owner = owner_command(test, &job);
    gpus.show_to(&mut owner);
    let output = owner.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let exit = bench.exit_file().unwrap();
    Some((succeeded(&exit), exit.silent))
}

#[test]
fn who_has_a_busy_gpu_goes_on() {
    if owned_here() {
        return;
    }
    let Some(ended) = on_gpu("silence::who_has_a_busy_gpu_goes_on", 3, "sleep 8") else { return };
    assert_eq!(ended, (true, None));
}

#[test]
fn who_waits_busily_for_an_idle_gpu_is_ended() {
    if owned_here() {
        return;
    }
    let Some(ended) = on_gpu("silence::who_waits_busily_for_an_idle_gpu_is_ended", 0, WORK) else { return };
    assert_eq!(ended, (false, Some(3.0)));
}

/// A session whose first experiment hangs in silence; each run is noted.
fn hanging() -> TestRepo {
    let repo = training_repo();
    let script = format!(
        "echo run >> {}/runs\necho begun\nif [ -e hang ]; then sleep 600; fi\necho val_bpb: 2\n",
        repo.outside().display()
    );
    repo.write("train.sh", script);
    repo.commit_all("a script that hangs");
    repo
}

/// The arguments of a loop of one experiment, of this agent.
fn args(agent: &str) -> Vec<&str> {
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    [&args[..], &["--silence", "3s", "--timeout", "90s", "--agent", agent]].concat()
}

/// Whether the record of experiment 1 says that its run was silent, and the session goes on well after it.
fn is_recorded_as_silent(repo: &TestRepo) {
    let record: Value =
        serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]))
            .unwrap();
    assert_eq!((&record["outcome"], &record["failure"]["class"]), (&"crash".into(), &"timeout".into()), "{record}");
    assert!(record["reason"].as_str().unwrap().starts_with("silent for 3 s (ended by ar after "), "{record}");
    assert_eq!(record["runs"][0]["silent"], 3.0);
    assert_eq!(runs(repo), 2, "the baseline and experiment 1, once each");
    let brief = ar(repo, ["brief"]).ok().stdout;
    assert!(brief.contains("It hung: it printed nothing and did nothing."), "{brief}");
}

#[test]
fn a_silent_run_is_recorded_as_a_timeout() {
    let repo = hanging();
    let called = ar_in_time(&repo, args("touch hang; echo hangs")).ok();
    assert!(called.stdout.contains("   1  crash    timeout   hangs: silent for 3 s (ended by ar"), "{called:#?}");
    is_recorded_as_silent(&repo);
}

#[test]
fn silence_ends_a_run_also_when_its_loop_was_killed() {
    let repo = hanging();
    let mut child = ar_command(&repo, &repo.path(), args("touch hang; echo hangs"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the second run", || (runs(&repo) == 2).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    ar_in_time(&repo, ["resume"]).ok();
    is_recorded_as_silent(&repo);
}

/// Calls an agent whose first call does this and whose next one makes a change. Returns the second prompt, too.
fn calls(repo: &TestRepo, first: &str, more: &[&str]) -> (Called, String) {
    let agent = format!(
        "if [ -e ../first ]; then cp \"$AR_PROMPT\" ../prompt; echo '# more' >> train.sh; else touch ../first; {first}; fi"
    );
    let base = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];
    let called = ar_in_time(repo, [&base[..], &["--agent", &agent], more].concat()).ok();
    (called, fs::read_to_string(repo.outside().join("prompt")).unwrap_or_default())
}

#[test]
fn a_silent_call_is_ended_and_the_next_one_is_told() {
    let repo = training_repo();
    let (called, prompt) =
        calls(&repo, "echo thinking; sleep 600", &["--agent-silence", "3s", "--agent-timeout", "90s"]);
    assert!(called.stderr.contains("ended the agent's call for experiment 1: silent for 3 s"), "{called:#?}");
    assert!(called.stdout.contains("   1  -        the agent changed nothing: thinking"), "{called:#?}");
    let told = "The last call was terminated: silent for 3 s. Make a smaller change, and start nothing that waits.";
    assert!(prompt.contains(told), "{prompt}");
    assert!(!called.stdout.contains("outage"), "{called:#?}");
}

#[test]
fn the_limits_on_silence_can_be_turned_off_again() {
    let repo = training_repo();
    ar(&repo, [&args("echo '# x' >> train.sh")[..], &["--agent-silence", "10m"]].concat()).ok();
    let caps = || {
        let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
        contract["caps"].clone()
    };
    assert_eq!(caps(), json!({"silence": 3.0, "agent_silence": 600.0}));
    let refused = ar(&repo, ["resume", "--silence", "0"]).exits(2);
    assert!(refused.stderr.contains("`0` is not a duration; write 90s, 10m or 8h, or none"), "{refused:?}");
    ar(&repo, ["resume", "--silence", "none"]).ok();
    assert_eq!(caps(), json!({"agent_silence": 600.0}));
    ar(&repo, ["resume", "--agent-silence", "none"]).ok();
    assert_eq!(caps(), Value::Null);
}

#[test]
fn a_call_that_works_or_prints_goes_on() {
    let works = format!("timeout 6 sh -c '{WORK}'");
    in_parallel(&[works.as_str(), "for i in $(seq 20); do echo $i; sleep 0.3; done"], |work| {
        let repo = training_repo();
        let (called, _) = calls(
            &repo,
            &format!("{work}; echo '# done' >> train.sh"),
            &["--agent-silence", "3s", "--agent-timeout", "90s"],
        );
        assert!(!called.stderr.contains("ended the agent's call"), "{called:#?}");
        assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    });
}
