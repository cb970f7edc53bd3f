//! What is looked at before each call and each run.

use std::fs;
use std::process::{Child, Stdio};

use crate::run_loop::training_repo;
use crate::support::{Called, FakeGpus, MovableClock, TestRepo, ar_command, until};

const ARGS: [&str; 10] =
    ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "1"];

const AGENT: &str = "echo '# more' >> train.sh";

#[test]
fn a_clock_that_is_behind_the_last_record_is_waited_for_and_then_named() {
    let repo = training_repo();
    let baseline = ARGS[..ARGS.len() - 1].iter().chain(&["0"]);
    Called::from(ar_command(&repo, &repo.path(), baseline).output().unwrap()).ok();
    let resume = |clock: &str, more: &str| {
        let args = ["resume", "--agent", AGENT, "--max-experiments", more];
        Called::from(ar_command(&repo, &repo.path(), args).env("AR_CLOCK", clock).output().unwrap()).ok()
    };
    let called = resume("2026-11-20T21:58:00Z", "1");
    let behind = "waiting for the clock: it shows 2026-11-20T21:58:00.000Z, before the end of the last experiment at \
                  2026-11-20T22:00:00.000Z";
    let named = called.stderr.lines().filter(|line| line.contains(behind)).count();
    assert_eq!(named, 1, "once for a record: {called:#?}");
    assert!(called.stderr.contains("continuing with a clock that is behind"), "{called:#?}");
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    let called = resume("2026-11-20T22:00:00Z", "1");
    assert!(!called.stderr.contains("clock"), "{called:#?}");
}

#[test]
fn a_call_finds_the_evaluator_as_it_was_approved() {
    let repo = training_repo();
    repo.write("eval.sh", "true\n");
    repo.commit_all("evaluator");
    // Somebody edits it while the loop waits for the agent.
    let edits = "[ -e \"$AR_ROOT/../back\" ] || { echo false > \"$AR_ROOT/eval.sh\"; touch \"$AR_ROOT/../back\"; }";
    let agent =
        format!("[ -e ../back ] || {{ echo 'Credit balance is too low'; exit 1; }}; cat eval.sh > ../saw; {AGENT}");
    let more = ["--protect", "eval.sh", "--on-event", edits, "--agent", &agent];
    let called = Called::from(ar_command(&repo, &repo.path(), ARGS.iter().chain(&more)).output().unwrap()).ok();
    assert_eq!(fs::read_to_string(repo.outside().join("saw")).unwrap(), "true\n", "{called:#?}");
    assert!(called.stderr.contains("restored protected files"), "{called:#?}");
}

#[test]
fn damaged_objects_of_the_session_end_the_loop_by_name() {
    for damage in ["cuts", "changes", "removes"] {
        let repo = training_repo();
        repo.write("data.txt", "what no step reads again\n");
        repo.commit_all("data");
        let blob = repo.git(["rev-parse", "HEAD:data.txt"]);
        let path = repo.path().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        match damage {
            "cuts" => fs::write(&path, &fs::read(&path).unwrap()[..9]).unwrap(),
            "changes" => {
                let other = repo.git(["rev-parse", "HEAD:train.sh"]);
                fs::copy(repo.path().join(".git/objects").join(&other[..2]).join(&other[2..]), &path)
                    .map(drop)
                    .unwrap();
            }
            _ => fs::remove_file(&path).unwrap(),
        }
        let agent = format!("touch ../called; {AGENT}");
        let mut command = ar_command(&repo, &repo.path(), ARGS[..8].iter().chain(&["--max-experiments", "30"]));
        let called = Called::from(command.args(["--agent", &agent]).output().unwrap()).exits(4);
        assert!(
            called.stderr.contains(&format!("objects of git's are damaged: blob {blob} ")),
            "{damage}: {called:#?}"
        );
        assert!(called.stderr.contains("hint: inspect with `git fsck --full`"), "{called:#?}");
        assert!(!repo.outside().join("called").exists(), "before the call that costs: {called:#?}");
    }
}

/// A machine with one GPU, on which another process holds so much.
fn machine(others: u32) -> String {
    format!("gpu GPU-a 80 NVIDIA Fake 9000\nprocess GPU-a 1 {others}\n")
}

/// A repository whose runs use 60 GiB of the GPU until their shim has looked at it.
fn on_gpu() -> TestRepo {
    let repo = training_repo();
    let script = format!(
        "echo run >> {0}/runs\necho \"process GPU-a $$ 61440\" >> \"$FAKE_GPUS\"\n\
         shim=$(grep -o '\"pid\": *[0-9]*' \"$AR_RUN_DIR/started.json\" | grep -o '[0-9]*')\n\
         until [ -s \"$FAKE_GPUS.$$.$shim\" ]; do sleep 0.02; done\necho val_bpb: 2\n\
         cp {0}/free \"$FAKE_GPUS\"\n",
        repo.outside().display()
    );
    repo.write("train.sh", script);
    repo.commit_all("a script that uses the GPU");
    fs::write(repo.outside().join("free"), machine(0)).unwrap();
    repo
}

#[test]
fn a_run_in_place_waits_while_another_process_fills_its_gpu() {
    let Some(gpus) = FakeGpus::new(&machine(0)) else { return };
    let repo = on_gpu();
    let crowded = machine(40960);
    fs::write(repo.outside().join("full"), &crowded).unwrap();
    let agent = format!("{AGENT}; cp ../full \"$FAKE_GPUS\"");
    let mut command = ar_command(&repo, &repo.path(), ARGS);
    gpus.show_to(&mut command);
    command.args(["--agent", &agent]).env_remove("AR_NO_PAUSES").env_remove("CUDA_VISIBLE_DEVICES");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = || fs::read_to_string(repo.path().join(".autoresearch/t/logs/work.jsonl")).unwrap_or_default();
    let waits =
        "the run waits: other processes use 43 GB of GPU 0 (GPU-a) and leave 43 GB; the last run took 64 GB; on it: ";
    until("the wait", || log().contains(waits).then_some(()));
    assert_eq!(repo.read("../runs").lines().count(), 1, "that of the baseline");
    gpus.describe(&machine(0));
    let called = Called::from(child.wait_with_output().unwrap()).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    let name = fs::read_to_string("/proc/1/comm").unwrap();
    assert!(called.stderr.contains(&format!("on it: {} (1)", name.trim())), "{called:#?}");
}

#[test]
fn the_wait_for_a_gpu_ends_with_the_time_of_the_loop() {
    let Some(gpus) = FakeGpus::new(&machine(0)) else { return };
    let repo = on_gpu();
    fs::write(repo.outside().join("full"), machine(40960)).unwrap();
    let agent = format!("{AGENT}; cp ../full \"$FAKE_GPUS\"");
    let clock = MovableClock::new(&repo);
    let start = |args: &[&str]| {
        let mut command = ar_command(&repo, &repo.path(), args);
        gpus.show_to(&mut command);
        clock.show_to(&mut command).env_remove("AR_NO_PAUSES").env_remove("CUDA_VISIBLE_DEVICES");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ended = |child: Child| Called::from(child.wait_with_output().unwrap()).ok();
    ended(start(&[&ARGS[..ARGS.len() - 1], &["0"]].concat()));
    let child = start(&["resume", "--agent", &agent, "--max-experiments", "1", "--for", "6h"]);
    until("the wait", || repo.read(".autoresearch/t/logs/work.jsonl").contains("the run waits: ").then_some(()));
    clock.move_to("2026-11-21T04:00:00Z");
    let called = ended(child);
    assert!(called.stderr.contains("the run waits: other processes use 43 GB"), "{called:#?}");
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
}
