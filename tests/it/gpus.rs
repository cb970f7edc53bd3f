//! What is known of the GPUs of a machine. The library of the driver is a stand-in.

use std::env;
use std::fs;
use std::process::Command;

use autoresearch::domain::{Gpu, GpuInventory, GpuRuntime, GpuUse};
use autoresearch::exec::{GpuProcesses, gpu_inventory};

use crate::exec::block_on;
use crate::support::{Called, FakeGpus, TestRepo, ar_command};

/// Says to a test that it runs in a process of its own, where it finds the stand-in, and what to do there.
const TASK: &str = "AR_TEST_GPU_TASK";

const GIB: u64 = 1 << 30;

/// The test `name` in a process that finds the stand-in.
fn process(name: &str, gpus: &FakeGpus, task: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(TASK, task);
    for variable in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"] {
        command.env_remove(variable);
    }
    gpus.show_to(&mut command);
    command
}

#[test]
fn gpus_instances_and_what_others_use_are_what_the_library_shows() {
    const MACHINE: &str = "gpu GPU-aaaa 80 NVIDIA Fake 9000\n\
        lost\n\
        gpu GPU-bbbb 80 NVIDIA Fake 9000\n\
        mig MIG-b1 40 NVIDIA Fake 9000 MIG 3g.40gb\n\
        mig MIG-b2 20 NVIDIA Fake 9000\n\
        process GPU-aaaa 11 1024\n\
        process MIG-b2 12 2048\n\
        process MIG-b2 13 ?\n";
    if env::var_os(TASK).is_none() {
        let Some(gpus) = FakeGpus::new(MACHINE) else { return };
        let name = "gpus::gpus_instances_and_what_others_use_are_what_the_library_shows";
        let output = process(name, &gpus, "look").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let gpu = |index, uuid: &str, model: &str, gib, parent: Option<&str>| Gpu {
        index,
        uuid: uuid.into(),
        model: format!("NVIDIA Fake 9000{model}"),
        memory: Some(gib * GIB),
        parent: parent.map(str::to_owned),
    };
    let expected = vec![
        gpu(0, "GPU-aaaa", "", 80, None),
        gpu(2, "MIG-b1", " MIG 3g.40gb", 40, Some("GPU-bbbb")),
        gpu(2, "MIG-b2", " MIG 21 GB", 20, Some("GPU-bbbb")),
    ];
    assert_eq!(gpu_inventory(), GpuInventory { runtime: GpuRuntime::Cuda, gpus: expected });

    let seen = |uuid: &str, total, halves, processes: &[(u32, Option<u64>)]| GpuUse {
        uuid: uuid.into(),
        total: total * GIB,
        used: halves * GIB / 2,
        processes: processes.to_vec(),
    };
    let processes = GpuProcesses::start();
    let look = || block_on(processes.look());
    assert_eq!(
        look(),
        [
            seen("GPU-aaaa", 80, 3, &[(11, Some(GIB))]),
            seen("MIG-b1", 40, 1, &[]),
            seen("MIG-b2", 20, 19, &[(12, Some(2 * GIB)), (13, None)]),
        ]
    );
    // Each look is a fresh one.
    fs::write(env::var_os("FAKE_GPUS").unwrap(), "process GPU-aaaa 14 3072\n").unwrap();
    assert_eq!(look()[0], seen("GPU-aaaa", 80, 7, &[(14, Some(3 * GIB))]));
}

#[test]
fn a_record_names_the_models_that_the_library_shows() {
    let Some(gpus) = FakeGpus::new("") else { return };
    let repo = TestRepo::empty();
    repo.write("train.sh", "echo val_bpb: 2.0\n");
    repo.commit_all("a training script");
    let called = |args: &[&str]| {
        let mut command = ar_command(&repo, &repo.path(), args);
        gpus.show_to(&mut command);
        Called::from(command.output().unwrap()).ok()
    };
    called(&["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]);
    let record = called(&["show", "0", "--format", "json"]).json();
    let environment = &record["environment"];
    assert_eq!(environment["gpu"], "4 x NVIDIA Fake 5000, 4 x NVIDIA Fake 9000");
    assert_eq!((&environment["gpus"], &environment["driver"]), (&8.into(), &"999.01".into()));
}
