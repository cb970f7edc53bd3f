//! GPUs of slots, with a stand-in for the driver's library.

use std::fs;

use serde_json::Value;

use super::landscape::{FASTER, FASTER_BY, check, first_call, landscape, loss, records};
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
    let names_model =
        |record: &Value| record.get("gpu").or(record.get("numbers")).or(record["runs"][0].get("gpu")).is_some();
    assert!(!records.iter().any(names_model), "one model needs no name: {records:#?}");
    let slots: Vec<u64> = records.iter().filter_map(|record| record["slot"].as_u64()).collect();
    assert!(slots.contains(&0) && slots.contains(&1), "{slots:?}");
    let report = ar_command(&repo, &repo.path(), ["report", "t", "--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["slots"]["count"], 2, "{report:#}");
    assert!(report["gain_per_gpu_hour"].is_number());
}

/// Two GPUs of each of two models.
pub(super) const TWO_MODELS: &str = "gpu GPU-aaaa 80 NVIDIA Fake 9000\n\
    gpu GPU-bbbb 80 NVIDIA Fake 9000\n\
    gpu GPU-gggg 24 NVIDIA Fake 4000\n\
    gpu GPU-hhhh 24 NVIDIA Fake 4000\n";

/// A landscape in which the loss is much lower on the second model, with a session of it that makes 12 experiments.
fn two_models() -> (TestRepo, Vec<String>) {
    let repo = landscape();
    let by_model = "most=1000\ncase $CUDA_VISIBLE_DEVICES in GPU-[gh]*) most=500 ;; esac\nsleep";
    let train = repo.read("train.sh").replacen("sleep", by_model, 1);
    repo.write("train.sh", train.replacen("awk '", "awk -v most=$most '", 1).replacen("1000 -", "most -", 1));
    repo.git(["commit", "--quiet", "--message", "two models", "train.sh"]);
    let more = ["--gpus", "all", "--mixed-gpus", "--calls", "4", "--max-experiments", "12"];
    let call = first_call(&repo, ["0.1", "0.02"], "", &more);
    (repo, call)
}

/// Calls `ar` with GPUs to see, and has it killed at a point if there is one.
pub(super) fn call_at(repo: &TestRepo, gpus: &FakeGpus, args: &[String], point: &str) -> Called {
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

#[test]
fn values_of_two_models_are_compared_within_their_own_kind_only() {
    let Some(gpus) = FakeGpus::new(TWO_MODELS) else { return };
    let (repo, first) = two_models();
    let resume = ["resume", "t"].map(str::to_owned);
    for (call, point) in [(&first[..], "line.won:1"), (&resume, "trial.ended:1"), (&resume, "recording.recorded:1")] {
        let killed = call_at(&repo, &gpus, call, point);
        assert_eq!(killed.code, None, "{point}: {killed:#?}");
    }
    call_at(&repo, &gpus, &resume, "").ok();
    let records = check(&repo, "two models");
    let kept: Vec<&Value> = records.iter().filter(|record| record["outcome"] == "keep").collect();
    for (place, record) in kept.iter().enumerate() {
        let own = loss(&repo, record["commit"].as_str().unwrap());
        assert!(place == 0 || own < loss(&repo, record["base"].as_str().unwrap()), "{record:#}");
        if record["metric"]["value"].is_null() {
            assert_eq!(record.get("numbers"), None, "{record:#}");
            continue;
        }
        let number = |model: &str| record["numbers"][model]["value"].as_f64();
        let numbers = [number("NVIDIA Fake 9000"), number(FASTER)];
        assert_eq!(numbers, [Some(own as f64), Some((own - FASTER_BY) as f64)], "{record:#}");
        let ran = |model| record["runs"].as_array().unwrap().iter().any(|run| run["gpu"] == model);
        assert!(ran("NVIDIA Fake 9000") && ran(FASTER), "{record:#}");
    }
    for record in records.iter().filter(|record| record["outcome"] == "discard" && record["gpu"] == FASTER) {
        assert!(record["metric"]["value"].is_null() && record["numbers"][FASTER].is_object(), "{record:#}");
        assert!(record["reason"].as_str().unwrap().ends_with(", on NVIDIA Fake 4000"), "{record:#}");
    }
    let status = ar_command(&repo, &repo.path(), ["status", "t"]).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("lower is better; numbers are those on NVIDIA Fake 9000"), "{status}");
}

#[test]
fn a_session_goes_on_with_the_models_that_it_was_measured_on() {
    let Some(gpus) = FakeGpus::new(TWO_MODELS) else { return };
    let (repo, first) = two_models();
    call_at(&repo, &gpus, &first, "").ok();
    let resumed = |choice: &str| {
        let more = ["resume", "t", "--max-experiments", "1", "--slots", "2", "--gpus", choice].map(str::to_owned);
        call_at(&repo, &gpus, &more, "")
    };
    let refused = resumed("0,1");
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let both = "the session was measured on NVIDIA Fake 9000 and NVIDIA Fake 4000, and its slots have NVIDIA Fake 9000";
    assert!(refused.stderr.contains(both), "{refused:#?}");
    resumed("2,0").ok();
    assert_eq!(check(&repo, "with fewer GPUs, in another order").len(), 14);
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
