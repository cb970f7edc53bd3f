//! Runs that an engine executes elsewhere, by the commands of `[executor]`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::kill::soak;
use crate::lanes::landscape::{self, first_call, landscape, records};
use crate::other_host::taken_over;
use crate::support::{Called, FakeGpus, TestRepo, ar, ar_command, ar_in_time, in_time, until};

/// The engine of the tests, with its folder beside the repository.
pub(crate) struct Engine {
    pub(crate) folder: PathBuf,
}

impl Engine {
    /// An engine, and a landscape whose `ar.toml` has its commands.
    pub(crate) fn with(more: &str) -> (TestRepo, Engine) {
        let repo = landscape();
        let folder = repo.outside().join("engine");
        fs::create_dir_all(&folder).unwrap();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/engine.py");
        let line = |verb: &str| format!("{verb} = \"python3 {program} {} {verb}\"\n", folder.display());
        let lines: String = ["submit", "states", "cancel", "logs"].into_iter().map(line).collect();
        repo.write("ar.toml", format!("{more}\n[executor]\n{lines}"));
        repo.git(["add", "ar.toml"]);
        repo.git(["commit", "--quiet", "-m", "an engine", "ar.toml"]);
        (repo, Engine { folder })
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// The tokens of all jobs.
    pub(crate) fn tokens(&self) -> Vec<String> {
        let jobs = fs::read_dir(self.folder.join("jobs")).into_iter().flatten().flatten();
        jobs.filter_map(|job| fs::read_to_string(job.path().join("token")).ok()).collect()
    }

    /// The job of a token that has begun.
    fn pid(&self, token_part: &str) -> Option<String> {
        let jobs = fs::read_dir(self.folder.join("jobs")).ok()?.flatten();
        let mut meant = jobs
            .filter(|job| fs::read_to_string(job.path().join("token")).is_ok_and(|token| token.contains(token_part)));
        let pid = fs::read_to_string(meant.next()?.path().join("pid")).ok()?;
        Some(pid.trim().to_owned())
    }

    /// Forgets a job.
    fn forget(&self, token: &str) {
        for job in fs::read_dir(self.folder.join("jobs")).unwrap().flatten() {
            if fs::read_to_string(job.path().join("token")).is_ok_and(|known| known == token) {
                fs::rename(job.path(), self.folder.join("forgotten")).unwrap();
            }
        }
    }

    /// How often a verb was called.
    pub(crate) fn calls(&self, verb: &str) -> usize {
        self.read("calls").lines().filter(|line| *line == verb).count()
    }
}

fn call(repo: &TestRepo, run: &str, more: &[&str]) -> Vec<String> {
    if repo.exists(".autoresearch/t/state/contract.json") {
        return vec!["resume".to_owned(), "t".to_owned()];
    }
    first_call(repo, [run, "0.05"], "", more)
}

/// How often each run of each experiment was begun, by the lines that the landscape's command prints.
fn starts(repo: &TestRepo) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut folders = vec![repo.file(".autoresearch/t/runs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name() == "run.log" {
                let log = fs::read_to_string(&path).unwrap_or_default();
                found.insert(path.display().to_string(), log.matches("loss:").count());
            }
        }
    }
    found
}

/// Checks all that must hold of the session, once the engine has cleared up behind its last job.
#[track_caller]
fn check(repo: &TestRepo, what: &str) -> Vec<Value> {
    until("the engine is idle", || repo.processes().is_empty().then_some(()));
    landscape::check(repo, what)
}

fn spawn(repo: &TestRepo, args: Vec<String>) -> Child {
    let mut command = ar_command(repo, &repo.path(), args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn status(repo: &TestRepo) -> Value {
    let called = ar(repo, ["status", "t", "--format", "json"]);
    // There is no session at first.
    if called.code == Some(0) { called.json() } else { Value::Null }
}

#[test]
fn a_night_on_an_engine_is_one_like_any_other() {
    let (repo, engine) = Engine::with("");
    ar_in_time(&repo, call(&repo, "0.1", &["--max-experiments", "6", "--slots", "3"])).ok();
    let records = check(&repo, "on an engine");
    assert_eq!(records.len(), 7);
    // One job for each run, and none without.
    let jobs = fs::read_dir(engine.folder.join("jobs")).unwrap().count();
    assert_eq!((engine.calls("submit"), engine.tokens().len()), (jobs, jobs));
    assert!(engine.calls("states") < jobs, "all jobs are asked about in one question");
    assert!(starts(&repo).values().all(|times| *times == 1), "{:?}", starts(&repo));
    let run = &records[1]["runs"][0];
    assert!(run["queued"].as_f64().is_some_and(|seconds| seconds < 60.0), "{run}");
    // The next call repeats the executor.
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert!(engine.calls("submit") > jobs);
    let before = engine.calls("submit");
    ar_in_time(&repo, ["resume", "t", "--executor", "local", "--max-experiments", "1"]).ok();
    assert_eq!(engine.calls("submit"), before, "it went on here");
    check(&repo, "here again");
}

/// Calls `ar`, which waits for an engine that hangs for a fifth of the usual time: an engine that answers does so within it on a
/// busy machine, too.
fn ar_hastily(repo: &TestRepo, args: Vec<String>) -> Called {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env("AR_LIMITS", "5");
    in_time(command)
}

#[test]
fn a_submission_whose_answer_is_lost_is_found_and_not_made_again() {
    for fault in ["late", "hang", "fail", "garbage"] {
        let (repo, engine) = Engine::with("");
        engine.write("faults-submit", &format!("{fault}\n{fault}\n"));
        ar_hastily(&repo, call(&repo, "0.1", &["--max-experiments", "2", "--slots", "2"])).ok();
        assert_eq!(check(&repo, fault).len(), 3);
        assert!(starts(&repo).values().all(|times| *times == 1), "{fault}: {:?}", starts(&repo));
        let mut tokens = engine.tokens();
        let all = tokens.len();
        tokens.sort();
        tokens.dedup();
        assert_eq!(tokens.len(), all, "{fault}: a job was submitted twice");
    }
}

#[test]
fn an_engine_that_fails_lies_empty_or_hangs_loses_nothing() {
    let (repo, engine) = Engine::with("");
    engine
        .write("faults-states", "twice\ntwice\nempty\nfail\ngarbage\nempty\nempty\nfail\nhang\nempty\ntwice\ntwice\n");
    ar_hastily(&repo, call(&repo, "3", &["--max-experiments", "2", "--slots", "2"])).ok();
    assert_eq!(check(&repo, "with answers that are none").len(), 3);
    assert!(starts(&repo).values().all(|times| *times == 1), "{:?}", starts(&repo));
}

/// A command that measures at once and goes on for a minute, but for the baseline.
const LINGERING: &str = "0; [ \"$AR_EXPERIMENT\" = 0 ] || sleep 60";

/// Waits until experiment 1 has measured. Gives the token of its job, and its process group.
fn measured(repo: &TestRepo, engine: &Engine) -> (String, String) {
    until("experiment 1 has measured", || {
        fs::read_to_string(repo.file(".autoresearch/t/runs/00001/run.log")).ok().filter(|log| log.contains("loss:"))
    });
    let token = engine.tokens().into_iter().find(|token| token.contains("-1-run-")).unwrap();
    let pid = until("its job runs", || engine.pid("-1-run-"));
    (token, pid)
}

fn kill(signal: &str, pid: &str) {
    let killed = Command::new("kill").args([signal, "--", &format!("-{pid}")]).status().unwrap();
    assert!(killed.success());
}

fn over(night: Child) -> Called {
    Called::from(night.wait_with_output().unwrap())
}

#[test]
fn a_job_that_ends_by_a_signal_ended_as_the_engine_says() {
    for (state, class) in [("cancelled", "killed"), ("timeout", "timeout"), ("oom", "oom"), ("failed", "killed")] {
        let (repo, engine) = Engine::with("");
        let night = spawn(&repo, call(&repo, LINGERING, &["--max-experiments", "1", "--slots", "1"]));
        let (token, pid) = measured(&repo, &engine);
        engine.write(&format!("state-{token}"), state);
        kill("-TERM", &pid);
        over(night).ok();
        let records = check(&repo, state);
        assert_eq!(records[1]["failure"]["class"], class, "{state}: {}", records[1]);
    }
}

#[test]
fn a_job_without_a_trace_is_lost_after_a_while_and_started_again() {
    for is_told in [true, false] {
        let (repo, engine) = Engine::with("lost-after = \"3s\"");
        let command = format!(
            "0; [ \"$AR_EXPERIMENT\" = 0 ] || [ -e {0} ] || {{ touch {0}; sleep 60; }}",
            repo.outside().join("once").display()
        );
        let night = spawn(&repo, call(&repo, &command, &["--max-experiments", "1", "--slots", "1"]));
        let (token, pid) = measured(&repo, &engine);
        if is_told {
            engine.write(&format!("state-{token}"), "lost");
        } else {
            engine.forget(&token);
        }
        // Shim and command die as with their machine.
        kill("-KILL", &pid);
        let called = over(night).ok();
        assert!(called.stderr.contains("restarted the run of experiment 1, which was lost"), "{called:#?}");
        let records = check(&repo, "lost");
        assert!(records[1]["failure"].is_null(), "{}", records[1]);
    }
}

#[test]
fn jobs_that_are_over_and_wait_in_the_queue_again_are_cancelled_in_the_end() {
    let (repo, engine) = Engine::with("");
    ar(&repo, call(&repo, "0.05", &["--max-experiments", "1", "--slots", "1"])).ok();
    assert_eq!(engine.calls("cancel"), 0);
    let over = engine.tokens();
    over.iter().for_each(|token| engine.write(&format!("state-{token}"), "pending"));
    ar(&repo, ["run", "--yes", "--max-experiments", "1"]).ok();
    assert_eq!(check(&repo, "another night").len(), 3);
    assert_eq!(engine.calls("cancel"), over.len(), "{over:?}");
}

#[test]
fn the_doctor_names_a_job_whose_supervisor_is_gone() {
    let (repo, engine) = Engine::with("");
    let mut night = spawn(&repo, call(&repo, LINGERING, &["--max-experiments", "1", "--slots", "1"]));
    let (token, pid) = measured(&repo, &engine);
    let examined = || ar(&repo, ["doctor", "t"]).stdout;
    assert!(!examined().contains("supervisor"), "{}", examined());
    engine.write(&format!("state-{token}"), "running");
    kill("-KILL", &pid);
    let what = format!("job 2 of `commands`, {token}, did not end, but its supervisor is gone");
    let found = until("the doctor finds it", || Some(examined()).filter(|found| found.contains(&what)));
    assert!(found.contains("the loop cancels it after its time limit"), "{found}");
    night.kill().unwrap();
    night.wait().unwrap();
    let found = examined();
    assert!(found.contains("`ar resume t` cancels it after its time limit"), "{found}");
}

#[test]
fn a_stop_leaves_proposals_in_the_queue_ready_and_status_says_that_they_wait() {
    let (repo, engine) = Engine::with("");
    engine.write("hold", "1");
    let night = spawn(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1", "--ahead", "0"]));
    until("the baseline is recorded", || (records(&repo).len() == 1).then_some(()));
    let waiting = until("the session waits in the queue", || {
        Some(status(&repo)).filter(|status| status["sessions"][0]["activity"] == "paused")
    });
    let open = &waiting["sessions"][0]["attempts"][0];
    assert!(open["queued"].as_f64().is_some(), "{waiting}");
    let said = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(said.contains("waiting in the queue for"), "{said}");
    ar(&repo, ["stop", "t"]).ok();
    over(night).ok();
    assert_eq!(records(&repo).len(), 1);
    assert!(engine.folder.join("jobs/2/cancelled").exists(), "{:?}", engine.tokens());
    let left = status(&repo);
    assert_eq!(left["sessions"][0]["attempts"][0]["phase"], "committing", "{left}");
    engine.write("hold", "100");
    ar_in_time(&repo, call(&repo, "", &[])).ok();
    assert_eq!(check(&repo, "after the stop").len(), 2);
    assert!(starts(&repo).values().all(|times| *times == 1), "{:?}", starts(&repo));
    assert_eq!(engine.calls("submit"), 3, "the proposal was not made anew");
}

#[test]
fn what_waits_in_the_queue_when_the_loop_is_killed_waits_on_however_long_that_takes() {
    let (repo, engine) = Engine::with("");
    engine.write("hold", "1");
    let mut night = spawn(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1", "--ahead", "0"]));
    until("the baseline is recorded", || (records(&repo).len() == 1).then_some(()));
    until("the session waits in the queue", || {
        Some(status(&repo)).filter(|status| status["sessions"][0]["activity"] == "paused")
    });
    night.kill().unwrap();
    night.wait().unwrap();
    let before = engine.calls("states");
    let night = spawn(&repo, call(&repo, "", &[]));
    // Questions become rare, so that these take longer than a shim may take to restore its files.
    until("the engine is asked again and again", || (engine.calls("states") >= before + 5).then_some(()));
    assert_eq!(engine.calls("cancel"), 0, "it was cancelled while it waited");
    engine.write("hold", "100");
    over(night).ok();
    assert_eq!(check(&repo, "after the wait").len(), 2);
    assert_eq!(engine.calls("submit"), 2, "the job was not submitted anew");
}

#[test]
fn the_job_of_a_killed_rerun_is_cancelled_by_the_next_one() {
    let (repo, engine) = Engine::with("");
    let hold = repo.outside().join("hold");
    let command = format!("0; while [ -e {} ]; do sleep 0.05; done", hold.display());
    ar_in_time(&repo, call(&repo, &command, &["--max-experiments", "1", "--slots", "1"])).ok();
    let args = ["repro", "t/0"].map(str::to_owned).to_vec();
    fs::write(&hold, "").unwrap();
    let jobs = engine.calls("submit");
    let mut killed = spawn(&repo, args.clone());
    until("its job is submitted", || (engine.calls("submit") > jobs).then_some(()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(engine.calls("cancel"), 0);
    let next = spawn(&repo, args);
    until("the job is cancelled", || (engine.calls("cancel") == 1).then_some(()));
    fs::remove_file(&hold).unwrap();
    over(next).ok();
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    until("the engine is idle", || repo.processes().is_empty().then_some(()));
}

#[cfg(debug_assertions)]
#[test]
fn killed_at_any_point_of_a_submission_a_job_is_made_once() {
    crate::crash::in_parallel(crate::crash_points::IN_CLUSTER, |point| {
        for nth in 1..=if soak().is_some() { 3 } else { 1 } {
            let (repo, engine) = Engine::with("");
            let args = call(&repo, "0.2", &["--max-experiments", "2", "--slots", "2"]);
            let mut command = ar_command(&repo, &repo.path(), args);
            command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:{nth}"));
            let killed = Called::from(command.output().unwrap());
            assert_eq!(killed.code, None, "{point}:{nth}: {killed:#?}");
            let args = match repo.exists(".autoresearch/t/state/contract.json") {
                true => vec!["resume".to_owned(), "t".to_owned()],
                false => call(&repo, "0.2", &["--max-experiments", "2", "--slots", "2"]),
            };
            ar_in_time(&repo, args).ok();
            assert_eq!(check(&repo, &format!("{point}:{nth}")).len(), 3, "{point}:{nth}");
            let mut tokens = engine.tokens();
            let all = tokens.len();
            tokens.sort();
            tokens.dedup();
            assert_eq!(tokens.len(), all, "{point}:{nth}: a job was submitted twice");
            assert!(starts(&repo).values().all(|times| *times == 1), "{point}:{nth}: {:?}", starts(&repo));
        }
    });
}

#[test]
fn a_job_that_is_started_again_touches_nothing() {
    let (repo, engine) = Engine::with("");
    ar_in_time(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1"])).ok();
    let asked: Value = serde_json::from_str(&engine.read("jobs/1/asked")).unwrap();
    let folder = repo.file(".autoresearch/t/runs/00000");
    let files = |name: &str| fs::read(folder.join(name)).unwrap();
    let before = ["job.json", "exit.json", "run.log"].map(files);
    let words: Vec<String> = serde_json::from_value(asked["command"].clone()).unwrap();
    let start = |token: &str| {
        let mut command = Command::new(&words[0]);
        repo.environment(&mut command);
        command.args(&words[1..3]).arg(token).stdin(Stdio::null()).output().unwrap()
    };
    // A controller that crashed starts a job that is over.
    let again = start(&words[3]);
    assert_eq!((again.status.code(), &again.stderr[..]), (Some(0), &b""[..]));
    // A job that was given up starts at last.
    fs::remove_file(folder.join("exit.json")).unwrap();
    assert_eq!(start("ar-t-0-run-000000000000").status.code(), Some(0));
    assert!(!folder.join("exit.json").exists());
    fs::write(folder.join("exit.json"), &before[1]).unwrap();
    assert_eq!(["job.json", "exit.json", "run.log"].map(files), before);
}

#[test]
fn an_engine_that_is_away_for_too_long_needs_a_person_and_its_jobs_are_picked_up() {
    let (repo, engine) = Engine::with("");
    let more = ["--max-experiments", "1", "--slots", "1", "--outage-limit", "4s"];
    let back = repo.outside().join("back");
    let run = format!("0; [ \"$AR_EXPERIMENT\" = 0 ] || until [ -e {} ]; do sleep 0.05; done", back.display());
    let night = spawn(&repo, call(&repo, &run, &more));
    measured(&repo, &engine);
    engine.write("faults-states", &"fail\n".repeat(200));
    let called = over(night).exits(4);
    assert!(called.stderr.contains("`commands` has given no answer for"), "{called:#?}");
    assert!(called.stderr.contains("the engine is away") && called.stderr.contains("hint: "), "{called:#?}");
    engine.write("faults-states", "");
    fs::write(back, "").unwrap();
    ar_in_time(&repo, call(&repo, "", &[])).ok();
    assert_eq!(engine.calls("submit"), 2);
    assert_eq!(check(&repo, "after the outage").len(), 2);
}

#[test]
fn status_says_that_the_engine_does_not_answer_and_a_stop_does_not_wait_for_it() {
    let (repo, engine) = Engine::with("");
    let doing = |wanted: &str| {
        until(wanted, || {
            status(&repo)["sessions"][0]["doing"].as_str().is_some_and(|doing| doing.contains(wanted)).then_some(())
        });
    };
    let fail = |verb: &str| engine.write(verb, &"fail\n".repeat(200));
    engine.write("hold", "0");
    let night = spawn(&repo, call(&repo, "2", &["--slots", "1", "--max-experiments", "0"]));
    doing("waiting in the queue for");
    fail("faults-states");
    doing("paused: the baseline waits for the executor: the engine is away; asking again in");
    let told = |wanted: &str| {
        until(wanted, || repo.read(".autoresearch/t/logs/work.jsonl").contains(wanted).then_some(()));
    };
    told("the executor `commands` does not answer: the engine is away; asking again in");
    engine.write("faults-states", "");
    doing("waiting in the queue for");
    told("the executor `commands` answers again");
    engine.write("hold", "1");
    over(night).ok();
    engine.write("hold", "0");
    let night = spawn(&repo, ["resume", "t", "--max-experiments", "1"].map(str::to_owned).to_vec());
    doing("waiting in the queue for");
    fail("faults-states");
    fail("faults-cancel");
    doing("waits for the executor");
    ar(&repo, ["stop", "t", "--now"]);
    // Else it would wait for hours.
    let said = over(night).exits(4).stderr;
    assert!(said.contains("given no answer for "), "{said}");
}

#[test]
fn slurm_is_refused_where_its_commands_are_absent() {
    let (repo, _engine) = Engine::with("");
    repo.git(["checkout", "--quiet", "notes.txt"]);
    let path = repo.outside().join("path");
    fs::create_dir(&path).unwrap();
    for program in ["sh", "git", "cat"] {
        let found = String::from_utf8(Command::new("which").arg(program).output().unwrap().stdout).unwrap();
        std::os::unix::fs::symlink(found.trim(), path.join(program)).unwrap();
    }
    let args = call(&repo, "0", &["--executor", "slurm"]);
    let mut command = ar_command(&repo, &repo.path(), args);
    command.env("PATH", &path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let called = over(command.spawn().unwrap()).exits(1);
    assert!(called.stderr.contains("Slurm's command sbatch is not in the PATH"), "{called:#?}");
    assert!(!repo.exists(".autoresearch/t"));
}

#[test]
fn what_cannot_work_is_refused_before_anything_starts() {
    let (repo, _engine) = Engine::with("");
    repo.git(["checkout", "--quiet", "notes.txt"]);
    let refused = |more: &[&str]| ar(&repo, call(&repo, "0", more));
    for (more, code, said) in [
        (&["--executor", "slurm", "--gpus", "all"][..], 2, "ask for GPUs in --sbatch"),
        (&["--executor", "slurm", "--gpus-per-run", "2"], 2, "--sbatch \"--gpus=2\""),
        (&["--gpus", "all"], 2, "[executor.resources]"),
        (&["--executor", "local", "--sbatch", "-p gpu"], 2, "add --executor slurm"),
        (&["--executor", "local", "--slots", "2", "--lost-after", "1m"], 2, "add --executor"),
        (&["--executor", "slurm", "--sbatch", "--time 5", "--timeout", "10m"], 2, "raise --time in --sbatch to 12"),
    ] {
        let called = refused(more).exits(code);
        assert!(called.stderr.contains(said), "{more:?}: {called:#?}");
    }
    repo.write("ar.toml", "");
    let called = refused(&["--executor", "commands"]).exits(2);
    assert!(called.stderr.contains("no table [executor]"), "{called:#?}");
    repo.write("ar.toml", "[executor]\nsubmit = \"x\"\n");
    assert!(refused(&[]).exits(1).stderr.contains("missing field `states`"));
    assert!(!repo.exists(".autoresearch/t"));
}

#[test]
fn a_submission_that_the_engine_refuses_stops_the_start_and_says_why() {
    let (repo, engine) = Engine::with("");
    engine.write("faults-submit", &"fail\n".repeat(50));
    let called = ar_in_time(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1"]));
    assert_ne!(called.code, Some(0), "{called:#?}");
    assert!(called.stderr.contains("takes no job: the engine is away"), "{called:#?}");
    assert_eq!(engine.tokens().len(), 0);
}

#[test]
fn an_experiment_is_repeated_by_the_engine_unless_it_is_to_run_here() {
    let (repo, engine) = Engine::with("");
    ar_in_time(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1"])).ok();
    let before = engine.calls("submit");
    ar_in_time(&repo, ["repro", "t/1", "--executor", "local"]).ok();
    assert_eq!(engine.calls("submit"), before);
    ar_in_time(&repo, ["repro", "t/1"]).ok();
    assert_eq!(engine.calls("submit"), before + 1);
    check(&repo, "after repro");
}

#[test]
fn a_run_on_another_model_of_gpu_is_repeated_and_then_needs_a_person() {
    let gpu = |model: &str| format!("gpu GPU-a 80 {model}\n");
    let Some(gpus) = FakeGpus::new(&gpu("NVIDIA H100")) else { return };
    let (repo, engine) = Engine::with("");
    let night = |args: Vec<String>| {
        let mut command = ar_command(&repo, &repo.path(), args);
        gpus.show_to(&mut command);
        Called::from(command.output().unwrap())
    };
    night(call(&repo, "0", &["--max-experiments", "0", "--slots", "1"])).ok();
    let baseline = &records(&repo)[0]["environment"];
    let model = baseline["gpu"].as_str().unwrap_or_default().to_owned();
    assert!(model.contains("H100"), "{baseline}");
    gpus.describe(&gpu("NVIDIA A100"));
    let resume = || vec!["resume".to_owned(), "t".to_owned(), "--max-experiments".to_owned(), "1".to_owned()];
    let called = night(resume()).exits(4);
    assert!(called.stderr.contains("--constraint") && called.stderr.contains("A100"), "{called:#?}");
    assert_eq!((engine.calls("submit"), records(&repo).len()), (1 + 3, 1), "{called:#?}");
    gpus.describe(&gpu("NVIDIA H100"));
    night(resume()).ok();
    let records = check(&repo, "on the same GPUs again");
    assert!(records[1]["failure"].is_null(), "{}", records[1]);
}

#[test]
fn a_wall_that_is_required_is_required_of_the_node() {
    let (repo, _engine) = Engine::with("");
    let Some(repo) = repo.with_walls() else { return };
    ar_in_time(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1", "--sandbox", "require"])).ok();
    assert_eq!(records(&repo)[1]["sandbox"], "bwrap");
    check(&repo, "behind walls");
}

/// Says how it ended while it goes on, as far as its own file says so.
const HASTY: &str = "[ $AR_EXPERIMENT != 0 ] || { echo loss: 5; exit; }
echo loss: 0.001
token=$(sed -n 's/.*\"token\": \"\\(.*\\)\".*/\\1/p' $AR_RUN_DIR/job.json)
sed \"s/\\\"token\\\": \\\".*\\\"/\\\"token\\\": \\\"$token\\\"/\" $AR_RUN_DIR/../00000/exit.json > $AR_RUN_DIR/exit.json
LOCK
sleep 4
echo loss: 7
";

#[test]
fn without_a_wall_no_run_says_how_it_ended_while_it_goes_on() {
    for lock in ["", ": > $AR_RUN_DIR/lock"] {
        let (repo, _engine) = Engine::with("");
        repo.write("hasty.sh", HASTY.replace("LOCK", lock));
        repo.git(["add", "hasty.sh"]);
        repo.git(["commit", "--quiet", "-m", "a hasty command", "hasty.sh"]);
        let terms = "run --yes --metric loss --lower --tag t --sandbox off --slots 1 --max-experiments 1 --cmd";
        let more = ["sh hasty.sh", "--agent", "echo 1 > ideas/1; echo one"];
        ar_in_time(&repo, terms.split(' ').chain(more)).ok();
        let record = &records(&repo)[1];
        assert_eq!(record["metric"]["value"], 7.0, "{lock}: {record:#}");
    }
}

#[test]
fn a_stop_at_once_ends_what_runs_and_what_waits_and_leaves_nothing() {
    let (repo, engine) = Engine::with("");
    // The baseline on both slots, one experiment that runs, and one that waits.
    engine.write("hold", "3");
    let night = spawn(&repo, call(&repo, LINGERING, &["--max-experiments", "4", "--slots", "2"]));
    until("one experiment runs and one waits", || {
        let status = status(&repo);
        let open = status["sessions"][0]["attempts"].as_array()?;
        let is_experiment = |open: &&Value| open["id"].as_u64() > Some(0);
        let waits = |open: &&Value| is_experiment(open) && open["queued"].as_f64().is_some();
        let runs =
            |open: &&Value| is_experiment(open) && open["phase"] == "running" && open["elapsed"].as_f64().is_some();
        (open.iter().any(|open| waits(&open)) && open.iter().any(|open| runs(&open))).then_some(())
    });
    ar(&repo, ["stop", "t", "--now"]).ok();
    over(night).ok();
    until("nothing runs", || repo.processes().is_empty().then_some(()));
    let states = |job: usize| engine.folder.join(format!("jobs/{job}/cancelled")).exists();
    assert!(states(3) && states(4), "both are cancelled");
    assert_eq!(records(&repo).len(), 1, "nothing was measured to its end");
}

#[test]
fn a_session_in_place_moves_to_an_engine_and_back() {
    let (repo, engine) = Engine::with("");
    repo.git(["checkout", "--quiet", "notes.txt"]);
    let mut args = call(&repo, "0", &["--max-experiments", "1"]);
    args.extend(["--executor".to_owned(), "local".to_owned()]);
    ar_in_time(&repo, args).ok();
    assert_eq!((engine.calls("submit"), records(&repo).len()), (0, 2));
    repo.git(["switch", "--quiet", "main"]);
    ar_in_time(&repo, ["resume", "t", "--executor", "commands", "--slots", "2", "--max-experiments", "2"]).ok();
    assert!(engine.calls("submit") >= 2, "its runs are jobs");
    assert_eq!(records(&repo).len(), 4);
    let before = engine.calls("submit");
    ar_in_time(&repo, ["resume", "t", "--executor", "local", "--max-experiments", "1"]).ok();
    assert_eq!((engine.calls("submit"), records(&repo).len()), (before, 5));
}

#[test]
fn a_job_that_is_started_twice_runs_once() {
    let (repo, engine) = Engine::with("");
    let night = spawn(&repo, call(&repo, LINGERING, &["--max-experiments", "1", "--slots", "1"]));
    let (token, pid) = measured(&repo, &engine);
    let asked: Value = serde_json::from_str(&engine.read("jobs/2/asked")).unwrap();
    let words: Vec<String> = serde_json::from_value(asked["command"].clone()).unwrap();
    assert_eq!(words[3], token);
    let folder = repo.file(".autoresearch/t/runs/00001");
    until("the id of the job is noted", || {
        fs::read_to_string(folder.join("job.json")).unwrap().contains("\"id\": \"2\"").then_some(())
    });
    let before = ["job.json", "started.json"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
    let mut second = Command::new(&words[0]);
    repo.environment(&mut second);
    assert_eq!(second.args(&words[1..]).stdin(Stdio::null()).output().unwrap().status.code(), Some(0));
    assert_eq!(["job.json", "started.json"].map(|name| fs::read_to_string(folder.join(name)).unwrap()), before);
    assert!(fs::exists(format!("/proc/{pid}")).unwrap(), "the first one goes on");
    ar(&repo, ["stop", "t", "--now"]).ok();
    over(night).ok();
    assert_eq!(records(&repo).len(), 1);
}

#[test]
fn what_another_host_took_over_goes_on_there() {
    let (repo, engine) = Engine::with("");
    let night = spawn(&repo, call(&repo, LINGERING, &["--max-experiments", "1", "--slots", "1"]));
    let (_, pid) = measured(&repo, &engine);
    taken_over(&repo);
    over(night).exits(5);
    assert_eq!(engine.calls("cancel"), 0);
    assert!(fs::exists(format!("/proc/{pid}")).unwrap(), "its job goes on");
    kill("-KILL", &pid);
}

#[test]
fn a_session_whose_engine_is_gone_is_deleted_once_its_jobs_are_cancelled_by_hand() {
    let (repo, engine) = Engine::with("");
    engine.write("hold", "1");
    let mut night = spawn(&repo, call(&repo, "0", &["--max-experiments", "1", "--slots", "1"]));
    let token = until("a job waits", || engine.tokens().into_iter().find(|token| token.contains("-1-run-")));
    until("the queue is known", || status(&repo).to_string().contains("waiting in the queue for").then_some(()));
    night.kill().unwrap();
    night.wait().unwrap();
    for verb in ["submit", "states", "cancel", "logs"] {
        engine.write(&format!("faults-{verb}"), &"fail\n".repeat(200));
    }
    let stopped = ar_in_time(&repo, ["stop", "t", "--now"]);
    println!("{stopped:#?}");
    let refused = ar(&repo, ["delete", "t"]).exits(1).stderr;
    println!("{refused}");
    let way_out = refused.rsplit('`').nth(1).unwrap();
    assert!(refused.contains(&token) && way_out.starts_with("rm "), "{refused}");
    assert!(Command::new("sh").arg("-c").arg(way_out).status().unwrap().success());
    ar(&repo, ["delete", "t"]).ok();
}
