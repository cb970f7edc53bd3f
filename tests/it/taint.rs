//! Another process on the GPU of a run: the run is repeated, and given up after three times. The library of the driver is a
//! stand-in.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Called, FakeGpus, TestRepo, ar, ar_command};

const MACHINE: &str = "gpu GPU-aaaa 80 NVIDIA Fake 9000\ngpu GPU-bbbb 80 NVIDIA Fake 9000\n";

/// The measuring command. It is on its GPU and waits until its shim looked at it three times. In the first runs of an experiment by a
/// seed, as many as `../beside` says, another process is on the GPU as well: `EXPERIMENT SEED RUNS`, `*` for any.
const TRAIN: &str = r#"
cd "$(dirname "$0")"
gpu=${CUDA_VISIBLE_DEVICES:-GPU-aaaa}
until mkdir "$OUTSIDE/lock" 2>/dev/null; do sleep 0.01; done
before=$(grep -c "^$AR_EXPERIMENT $AR_SEED " "$OUTSIDE/runs")
echo "$AR_EXPERIMENT $AR_SEED $before" >>"$OUTSIDE/runs"
sed -i "/process $gpu $OTHER /d" "$FAKE_GPUS"
most=$(awk -v e="$AR_EXPERIMENT" -v s="$AR_SEED" '($1 == e || $1 == "*") && ($2 == s || $2 == "*") { print $3 }' "$OUTSIDE/beside")
me="process $gpu $$ 1024"
[ "$before" -ge "${most:-0}" ] || me="$me\nprocess $gpu $OTHER 11264"
printf "$me\n" >>"$FAKE_GPUS"
rmdir "$OUTSIDE/lock"
[ ! -e "$OUTSIDE/child" ] || { sleep 60 & echo "process $gpu $! 2048" >>"$FAKE_GPUS"; }
[ ! -e "$OUTSIDE/hidden" ] || sed -i "s/ $$ / 99999998 /" "$FAKE_GPUS"
if [ -e "$OUTSIDE/hidden" ]; then sleep 1
else
    shim=$(grep -o '"pid": *[0-9]*' "$AR_RUN_DIR/started.json" | grep -o '[0-9]*')
    until [ -e "$FAKE_GPUS.$$.$shim" ] && [ "$(wc -c <"$FAKE_GPUS.$$.$shim")" -ge 3 ]; do sleep 0.02; done
fi
while [ -e "$OUTSIDE/hold-$AR_EXPERIMENT" ]; do sleep 0.02; done
echo "val_bpb: $(cat value)"
"#;

const AGENT: &str = "echo 1.$((9 - AR_EXPERIMENT)) > value; echo change $AR_EXPERIMENT";

/// A session on a machine with GPUs, and a process of somebody else that uses them now and then.
struct Bench {
    repo: TestRepo,
    gpus: FakeGpus,
    other: Child,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

impl Bench {
    /// `beside` has the runs beside which the other process is on the GPU.
    fn new(beside: &str) -> Option<Bench> {
        let gpus = FakeGpus::new(MACHINE)?;
        let repo = TestRepo::empty();
        repo.write("train.sh", TRAIN);
        repo.write("value", "2.0\n");
        repo.commit_all("a script on a GPU");
        fs::write(repo.outside().join("beside"), beside).unwrap();
        fs::write(repo.outside().join("runs"), "").unwrap();
        let other = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        Some(Bench { repo, gpus, other })
    }

    /// Calls `ar` on this machine; `point` is where it is killed, if anywhere.
    fn call(&self, args: &[&str], point: &str) -> Called {
        let mut command = ar_command(&self.repo, &self.repo.path(), args);
        self.show_to(&mut command);
        if !point.is_empty() {
            let trace = self.repo.outside().join("trace");
            fs::write(&trace, "").unwrap();
            command.env("AR_CRASH_TRACE", trace).env("AR_CRASH_AT", point);
        }
        command.output().unwrap().into()
    }

    fn show_to(&self, command: &mut Command) {
        self.gpus.show_to(command);
        command.env_remove("CUDA_VISIBLE_DEVICES");
        command.env("OTHER", self.other.id().to_string()).env("OUTSIDE", self.repo.outside());
    }

    fn night(&self, more: &[&str]) -> Called {
        self.night_of(AGENT, more)
    }

    fn night_of(&self, agent: &str, more: &[&str]) -> Called {
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
        self.call(&[&args, more].concat(), "")
    }

    /// Which run of which experiment and seed was made, in order.
    fn made(&self) -> Vec<String> {
        let text = fs::read_to_string(self.repo.outside().join("runs")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn record(&self, id: u32) -> Value {
        ar(&self.repo, ["show", &id.to_string(), "--tag", "t", "--format", "json"]).ok().json()
    }

    /// What is said of the other process.
    fn clause(&self, gpu: u32) -> String {
        format!("another process (pid {}, sleep, 12 GB) was on GPU {gpu} while it ran", self.other.id())
    }
}

#[test]
fn a_run_beside_another_process_is_repeated_and_kept_once_it_is_gone() {
    let Some(bench) = Bench::new("1 1 2\n") else { return };
    let said = bench.night(&["--max-experiments", "2"]).ok();
    let why = format!("repeating the run of experiment 1: {}", bench.clause(0));
    assert_eq!(said.stderr.matches(&why).count() + said.stdout.matches(&why).count(), 2, "{said:#?}");
    assert_eq!(bench.made(), ["0 1 0", "1 1 0", "1 1 1", "1 1 2", "2 1 0"]);
    let record = bench.record(1);
    assert_eq!((&record["outcome"], &record["metric"]["raw"]), (&json!("keep"), &json!("1.8")), "{record:#}");
    assert_eq!((&record["runs"][0]["tainted"], record.get("gpu_others")), (&json!(2), None), "{record:#}");
    let report = ar(&bench.repo, ["report", "t", "--format", "json"]).ok().json();
    assert_eq!(report["tainted_runs"], 2);
    let report = ar(&bench.repo, ["report", "t"]).ok().stdout;
    assert!(report.contains("2 runs were repeated or given up because another process was on the GPU"), "{report}");
}

#[test]
fn an_experiment_beside_which_it_stays_is_no_keep_and_the_next_one_goes_on() {
    let Some(bench) = Bench::new("1 1 9\n") else { return };
    bench.night(&["--max-experiments", "2"]).ok();
    assert_eq!(bench.made(), ["0 1 0", "1 1 0", "1 1 1", "1 1 2", "2 1 0"]);
    let record = bench.record(1);
    assert_eq!((&record["outcome"], &record["failure"]["class"]), (&json!("crash"), &json!("tainted")), "{record:#}");
    assert_eq!(record["metric"]["value"], Value::Null);
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.starts_with("its run was tainted three times") && reason.ends_with(&bench.clause(0)), "{reason}");
    assert_eq!(record["gpu_others"][0]["pid"], bench.other.id());
    assert_eq!(bench.record(2)["outcome"], "keep");
    assert_eq!(ar(&bench.repo, ["report", "t", "--format", "json"]).ok().json()["tainted_runs"], 3);
    ar(&bench.repo, ["doctor", "t"]).ok();
}

#[test]
fn each_slot_has_only_its_own_gpu_to_itself() {
    let Some(bench) = Bench::new("0 2 1\n1 1 1\n2 1 9\n") else { return };
    let said = bench.night(&["--gpus", "0,1", "--calls", "1", "--max-experiments", "3"]).ok();
    let mut made = bench.made();
    let mut baseline = made.clone();
    baseline.retain(|run| run.starts_with("0 "));
    baseline.sort();
    assert_eq!(baseline, ["0 1 0", "0 2 0", "0 2 1"], "{said:#?}");
    assert_eq!(bench.record(0)["runs"][1]["tainted"], 1, "{:#}", bench.record(0));
    made.retain(|run| !run.starts_with("0 "));
    let of = |id: &str| made.iter().filter(|run| run.starts_with(id)).count();
    assert!(of("1 ") >= 2 && of("2 ") == 3 && of("3 ") >= 1, "{made:?} {said:#?}");
    assert_eq!(bench.record(2)["failure"]["class"], "tainted");
    // Whether it is kept depends on which one is ready first.
    let record = bench.record(1);
    assert_eq!((&record["metric"]["raw"], &record["failure"]), (&json!("1.8"), &Value::Null), "{record:#}");
    let slot = bench.record(2)["slot"].as_u64().unwrap() as u32;
    assert!(bench.record(2)["reason"].as_str().unwrap().ends_with(&bench.clause(slot)), "{:#}", bench.record(2));
}

#[test]
fn runs_of_other_slots_may_be_on_the_same_gpu_where_none_has_its_own() {
    let Some(bench) = Bench::new("") else { return };
    let said = bench.night(&["--slots", "2", "--max-experiments", "3"]).ok();
    let mut once = bench.made();
    once.retain(|run| run.ends_with(" 0"));
    assert_eq!(once, bench.made(), "{said:#?}");
}

#[test]
fn a_confirming_run_is_repeated_and_gives_up_the_change_if_it_stays() {
    let Some(bench) = Bench::new("1 2 1\n2 3 9\n") else { return };
    bench.repo.write("value", "2.0\n");
    let noise = TRAIN.replace(
        "echo \"val_bpb: $(cat value)\"",
        "awk -v s=$AR_SEED -v v=$(cat value) 'BEGIN { print \"val_bpb: \" v + s % 3 / 1000 }'",
    );
    bench.repo.write("train.sh", noise);
    bench.repo.commit_all("noisy");
    bench.night(&["--decide", "confirmed", "--max-experiments", "2"]).ok();
    let record = bench.record(1);
    assert_eq!(record["outcome"], "keep", "{record:#}");
    let seeds = |record: &Value| -> Vec<Value> {
        let runs = record["runs"].as_array().unwrap().iter();
        runs.map(|run| json!([run["seed"], run.get("tainted").cloned().unwrap_or(json!(0))])).collect()
    };
    assert_eq!(seeds(&record), [json!([1, 0]), json!([2, 1]), json!([3, 0]), json!([4, 0]), json!([5, 0])]);
    let record = bench.record(2);
    assert_eq!((&record["outcome"], &record["failure"]["class"]), (&json!("crash"), &json!("tainted")), "{record:#}");
    let of_seed = |seed: &str| bench.made().iter().filter(|run| run.starts_with(seed)).count();
    assert_eq!((of_seed("2 3 "), of_seed("2 4 ")), (3, 0));
}

#[test]
fn processes_of_the_run_itself_are_no_others() {
    let Some(bench) = Bench::new("") else { return };
    fs::write(bench.repo.outside().join("child"), "").unwrap();
    bench.night(&["--max-experiments", "1"]).ok();
    assert_eq!(bench.made(), ["0 1 0", "1 1 0"]);
}

#[test]
fn nobody_is_accused_where_the_driver_names_processes_of_another_namespace() {
    let Some(bench) = Bench::new("* * 9\n") else { return };
    fs::write(bench.repo.outside().join("hidden"), "").unwrap();
    let said = bench.night(&["--max-experiments", "1"]).ok();
    assert_eq!(bench.made(), ["0 1 0", "1 1 0"], "{said:#?}");
    assert_eq!(bench.record(1)["outcome"], "keep");
}

#[test]
fn a_baseline_beside_which_it_stays_keeps_its_number_and_is_the_rule_from_then_on() {
    let Some(bench) = Bench::new("* * 9\n") else { return };
    let said = bench.night(&["--max-experiments", "1"]).ok();
    assert_eq!(bench.made(), ["0 1 0", "0 1 1", "0 1 2", "1 1 0"], "{said:#?}");
    let kept = format!("kept the baseline's number although {}, in each of its 3 runs", bench.clause(0));
    assert!(said.stderr.contains(&kept) || said.stdout.contains(&kept), "{said:#?}");
    assert_eq!(bench.record(0)["gpu_others"][0]["pid"], bench.other.id());
    assert_eq!(bench.record(1)["outcome"], "keep");
}

#[test]
fn repeats_are_counted_across_kills_also_while_nobody_waits() {
    let Some(bench) = Bench::new("1 1 9\n") else { return };
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", AGENT];
    let args = [&args[..], &["--max-experiments", "2"]].concat();
    // The first run of experiment 1 ends without `ar`.
    fs::write(bench.repo.outside().join("hold-1"), "").unwrap();
    let mut command = ar_command(&bench.repo, &bench.repo.path(), &args);
    bench.show_to(&mut command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    crate::support::until("the run", || bench.made().contains(&"1 1 0".to_owned()).then_some(()));
    let mine = fs::read_to_string(bench.repo.file(".autoresearch/t/runs/00001/started.json"));
    assert!(mine.is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(bench.repo.outside().join("hold-1")).unwrap();
    crate::support::until("its end", || bench.repo.exists(".autoresearch/t/runs/00001/exit.json").then_some(()));
    // Killed once the second run is entered, and again once it is over.
    assert_eq!(bench.call(&["resume", "t"], "running.entered:1").code, None);
    let status = ar(&bench.repo, ["status", "t", "--format", "json"]).ok().json();
    assert_eq!(status["sessions"][0]["attempts"][0]["tainted"], 1, "{status:#}");
    assert_eq!(bench.call(&["resume", "t"], "running.over:1").code, None);
    bench.call(&["resume", "t"], "").ok();
    assert_eq!(bench.made(), ["0 1 0", "1 1 0", "1 1 1", "1 1 2", "2 1 0"]);
    assert_eq!(bench.record(1)["failure"]["class"], "tainted");
    assert_eq!(bench.record(2)["outcome"], "keep");
}

#[test]
fn a_baseline_that_is_killed_between_its_repeats_counts_each_once() {
    for point in ["running.entered:2", "running.over:2", "running.entered:3"] {
        let Some(bench) = Bench::new("0 1 9\n") else { return };
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", AGENT];
        let args = [&args[..], &["--max-experiments", "1"]].concat();
        assert_eq!(bench.call(&args, point).code, None, "{point}");
        bench.call(&["resume", "t"], "").ok();
        assert_eq!(bench.made(), ["0 1 0", "0 1 1", "0 1 2", "1 1 0"], "{point}");
        assert_eq!(bench.record(0)["runs"].as_array().unwrap().len(), 1, "{point}");
        assert_eq!(bench.record(1)["outcome"], "keep", "{point}");
    }
}

#[test]
fn a_process_that_comes_and_stays_ends_the_loop_with_its_name() {
    let Some(bench) = Bench::new("") else { return };
    let agent = format!("echo '* * 99' >\"$OUTSIDE/beside\"; {AGENT}");
    let said = bench.night_of(&agent, &["--max-experiments", "9"]);
    assert_ne!(said.code, Some(0), "{said:#?}");
    let made = bench.made();
    assert_eq!(made.iter().filter(|run| !run.starts_with("0 ")).count(), 15, "{made:?}");
    assert_eq!(made[made.len() - 3..], ["0 1 1", "0 1 2", "0 1 3"], "the best experiment is tainted as well");
    assert!(said.stderr.contains(&bench.clause(0)), "{said:#?}");
    assert_eq!(bench.record(5)["failure"]["class"], "tainted");
}

#[test]
fn a_tainted_check_of_the_best_experiment_says_that_it_still_runs() {
    let Some(bench) = Bench::new("") else { return };
    let agent = "echo '0 1 99' >\"$OUTSIDE/beside\"; echo none $AR_EXPERIMENT > value; echo change $AR_EXPERIMENT";
    let said = bench.night_of(agent, &["--max-experiments", "6"]).ok();
    assert_eq!(bench.made().iter().filter(|run| run.starts_with("0 1 ")).count(), 4, "{said:#?}");
    let still = format!("still runs (val_bpb 2.0, though {})", bench.clause(0));
    assert!(said.stderr.contains(&still) || said.stdout.contains(&still), "{said:#?}");
}

#[test]
fn a_verification_repeats_tainted_runs_and_a_rerun_says_that_its_number_is_doubtful() {
    let Some(bench) = Bench::new("") else { return };
    let noise = TRAIN.replace("$(cat value)\"", "$(cat value)00$AR_SEED\"");
    bench.repo.write("train.sh", noise);
    bench.repo.commit_all("noisy");
    bench.night(&["--max-experiments", "1"]).ok();
    fs::write(bench.repo.outside().join("beside"), "1 6 1\n1 1 9\n").unwrap();
    let said = bench.call(&["verify", "--tag", "t", "--runs", "2"], "").ok();
    let why = format!("repeating the run of experiment 1 with seed 6: {}", bench.clause(0));
    assert_eq!(said.stderr.matches(&why).count(), 1, "{said:#?}");
    let rerun = bench.call(&["repro", "1", "--tag", "t"], "").ok();
    assert!(rerun.stdout.contains(&format!("its number is doubtful: {}", bench.clause(0))), "{rerun:#?}");
}
