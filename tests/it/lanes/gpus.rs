//! GPUs of slots, with a stand-in for the driver's library.

use std::fs;

use serde_json::Value;

use super::landscape::{first_call, landscape, records};
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
