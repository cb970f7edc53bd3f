//! GPUs of slots, with a stand-in for the driver's library.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::landscape::{check, first_call, landscape, records};
use crate::support::{Called, FakeGpus, TestRepo, ar_command, until};

const MACHINE: &str = "gpu GPU-aaaa 80 NVIDIA Fake 9000\n\
    gpu GPU-bbbb 80 NVIDIA Fake 9000\n\
    gpu GPU-cccc 80 NVIDIA Fake 9000\n\
    gpu GPU-dddd 80 NVIDIA Fake 9000\n\
    gpu GPU-eeee 80 NVIDIA Fake 9000\n\
    gpu GPU-ffff 80 NVIDIA Fake 9000\n\
    gpu GPU-gggg 24 NVIDIA Fake 4000\n\
    gpu GPU-hhhh 24 NVIDIA Fake 4000\n";

/// A landscape whose runs note what they are shown.
fn noting() -> TestRepo {
    let repo = landscape();
    let noted = repo.outside().join("noted");
    let train = repo.read("train.sh");
    let note = format!("echo \"$AR_SLOT $CUDA_VISIBLE_DEVICES $MASTER_PORT\" >>{}\nsleep", noted.display());
    repo.write("train.sh", train.replacen("sleep", &note, 1));
    repo.git(["commit", "--quiet", "--all", "--message", "noting"]);
    repo
}

fn call(repo: &TestRepo, gpus: &FakeGpus, more: &[&str]) -> Called {
    let mut command = ar_command(repo, &repo.path(), first_call(repo, ["0.05", "0.01"], "", more));
    command.env_remove("CUDA_VISIBLE_DEVICES");
    gpus.show_to(&mut command);
    command.output().unwrap().into()
}

#[test]
fn each_slot_shows_its_runs_its_own_gpus() {
    let Some(gpus) = FakeGpus::new(MACHINE) else { return };
    let repo = noting();
    let refused = call(&repo, &gpus, &["--gpus", "all", "--max-experiments", "4"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("the GPUs are of different models"), "{refused:#?}");

    let more = ["--gpus", "0,1,2,3", "--gpus-per-run", "2", "--max-experiments", "6"];
    call(&repo, &gpus, &more).ok();
    let noted = fs::read_to_string(repo.outside().join("noted")).unwrap();
    let mut seen: Vec<&str> = noted.lines().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, ["0 GPU-aaaa,GPU-bbbb 29500", "1 GPU-cccc,GPU-dddd 29501"]);
    let records = records(&repo);
    let slots: Vec<u64> = records.iter().filter_map(|record| record["slot"].as_u64()).collect();
    assert!(slots.contains(&0) && slots.contains(&1), "{slots:?}");
    let report = ar_command(&repo, &repo.path(), ["report", "t", "--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["slots"]["count"], 2, "{report:#}");
    assert!(report["gain_per_gpu_hour"].is_number());
}

/// Two GPUs of each of two models.
const TWO_MODELS: &str = "gpu GPU-aaaa 80 NVIDIA Fake 9000\n\
    gpu GPU-bbbb 80 NVIDIA Fake 9000\n\
    gpu GPU-gggg 24 NVIDIA Fake 4000\n\
    gpu GPU-hhhh 24 NVIDIA Fake 4000\n";

/// Calls `ar` with these GPUs to see, and has it killed at a point if there is one.
fn call_at(repo: &TestRepo, gpus: &FakeGpus, args: &[String], point: &str) -> Called {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env_remove("CUDA_VISIBLE_DEVICES");
    if !point.is_empty() {
        let trace = repo.outside().join("trace");
        fs::write(&trace, "").unwrap();
        command.env("AR_CRASH_TRACE", trace).env("AR_CRASH_AT", point);
    }
    gpus.show_to(&mut command);
    command.output().unwrap().into()
}

/// Rewrites session `t`, of which a winner waits and an attempt runs, as earlier versions left one with GPUs of two models: both
/// ran on the second model, and the winner's tree runs on the first one.
fn as_with_two_models(repo: &TestRepo) {
    const FIRST: &str = "NVIDIA Fake 9000";
    const SECOND: &str = "NVIDIA Fake 4000";
    let reference = "refs/autoresearch/t/00000";
    let tag = repo.git(["cat-file", "tag", reference]);
    let (head, body) = tag.rsplit_once("\n\n").unwrap();
    let mut baseline: Value = serde_json::from_str(body).unwrap();
    let value = &baseline["metric"];
    let numbers =
        json!({FIRST: {"value": value["value"], "raw": value["raw"]}, SECOND: {"value": 500.0, "raw": "500"}});
    (baseline["gpu"], baseline["numbers"], baseline["layout"]["mixed_gpus"]) = (json!(FIRST), numbers, json!(true));
    repo.write("../tag", format!("{head}\n\n{baseline}\n"));
    let tag = repo.git(["hash-object", "-t", "tag", "-w", "../tag"]);
    repo.git(["update-ref", reference, &tag]);

    let file = ".autoresearch/t/state/progress.json";
    let mut journal: Value = serde_json::from_str(&repo.read(file)).unwrap();
    let number = json!({"value": 400.0, "raw": "400"});
    let (car, on) = (journal["line"]["waiting"][0].clone(), json!(0));
    let trial = |gpu: &str| json!({"elsewhere": {"on": on, "cars": [car["id"]], "own": true, "gpu": gpu}});
    journal["line"]["held"] = json!([[trial(FIRST), {"value": 990.0, "raw": "990"}]]);
    (journal["line"]["waiting"][0]["gpu"], journal["line"]["waiting"][0]["number"]) = (json!(SECOND), number.clone());
    (journal["layout"]["gpus"], journal["layout"]["mixed_gpus"]) = (json!("all"), json!(true));
    let mut attempts: Vec<Value> = journal["attempts"].as_array().cloned().unwrap_or_default();
    attempts.insert(0, json!({"phase": journal["phase"], "open": journal["open"]}));
    assert!(attempts.iter().any(|attempt| attempt["phase"] == "running"), "{journal:#}");
    for attempt in &mut attempts {
        let open = &mut attempt["open"];
        (open["gpu"], open["numbers"]) = (json!(SECOND), json!({SECOND: number}));
        if let Some(draft) = open["draft"].as_object_mut() {
            draft["metric"]["value"] = number["value"].clone();
            draft.extend([("gpu".into(), json!(SECOND)), ("numbers".into(), json!({SECOND: number}))]);
        }
    }
    let mut run = attempts[0].clone();
    let of_run = [("id", json!(9)), ("trial", trial(FIRST)), ("gpu", json!(FIRST)), ("draft", Value::Null)];
    of_run.into_iter().for_each(|(name, value)| run["open"][name] = value);
    run["phase"] = json!("running");
    attempts.push(run);
    journal["given"] = json!(9);
    (journal["phase"], journal["open"]) = (attempts[0]["phase"].clone(), attempts[0]["open"].clone());
    journal["attempts"] = json!(attempts[1..]);
    repo.write(file, journal.to_string());
}

#[test]
fn a_session_with_two_models_goes_on_with_the_first_one() {
    let Some(gpus) = FakeGpus::new(TWO_MODELS) else { return };
    let repo = landscape();
    // The others run once the second experiment does, which waits until the session is resumed.
    let (gate, started) = (repo.outside().join("gate"), repo.file(".autoresearch/t/runs/00002/started.json"));
    let held = format!(
        "case $AR_EXPERIMENT in 0) file=train.sh ;; 2) file={} ;; *) file={} ;; esac\n\
         until [ -e $file ]; do sleep 0.02; done\n",
        gate.display(),
        started.display()
    );
    repo.write("train.sh", held + &repo.read("train.sh"));
    repo.git(["commit", "--quiet", "--message", "waits", "train.sh"]);
    let more = ["--gpus", "0,1", "--calls", "2", "--max-experiments", "3"];
    let call = first_call(&repo, ["0.1", "0.02"], "", &more);
    let killed = call_at(&repo, &gpus, &call, "line.won:1");
    assert_eq!(killed.code, None, "{killed:#?}");
    as_with_two_models(&repo);

    let resumed = |more: &[&str]| {
        let args: Vec<String> = ["resume", "t"].iter().chain(more).map(|arg| (*arg).to_owned()).collect();
        call_at(&repo, &gpus, &args, "")
    };
    let refused = resumed(&[]);
    assert!(refused.stderr.contains("choose one model, as in `--gpus 0,1`"), "{refused:#?}");
    let refused = resumed(&["--gpus", "2,3"]);
    let other = "the session was measured on NVIDIA Fake 9000, and its slots have NVIDIA Fake 4000";
    assert!(refused.stderr.contains(other), "{refused:#?}");
    fs::write(gate, "").unwrap();
    resumed(&["--gpus", "0,1"]).ok();
    let records = check(&repo, "two models");
    let ids: BTreeSet<u64> = records.iter().filter_map(|record| record["id"].as_u64()).collect();
    assert!(records.len() == 4 && ids.contains(&1) && ids.contains(&2) && !ids.contains(&9), "{records:#?}");
}

#[test]
fn a_run_waits_for_others_to_leave_its_gpu() {
    let crowded = format!("{MACHINE}process GPU-bbbb 11 81900\n");
    let Some(gpus) = FakeGpus::new(&crowded) else { return };
    let repo = noting();
    // The run says how much memory it took, of which the next one has too little.
    let train = repo.read("train.sh") + "echo 'peak_vram_mb: 4096'\n";
    repo.write("train.sh", train);
    repo.git(["commit", "--quiet", "--all", "--message", "with memory"]);
    let mut command = ar_command(
        &repo,
        &repo.path(),
        first_call(&repo, ["0.05", "0.01"], "", &["--gpus", "1", "--max-experiments", "1"]),
    );
    command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("AR_NO_PAUSES");
    gpus.show_to(&mut command);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("the run waits", || all_events(&repo).contains("the run in slot 0 waits: other processes use").then_some(()));
    assert_eq!(records(&repo).len(), 1);
    gpus.describe(MACHINE);
    assert!(child.wait().unwrap().success());
    assert_eq!(records(&repo).len(), 2);
}

/// All that the session has told.
fn all_events(repo: &TestRepo) -> String {
    let logs = repo.file(".autoresearch/t/logs");
    let files = fs::read_dir(logs).into_iter().flatten().flatten();
    files.map(|file| fs::read_to_string(file.path()).unwrap_or_default()).collect()
}
