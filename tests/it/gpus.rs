//! What is known of the GPUs of a machine, and that sessions do not take one twice. The library of the driver is a stand-in.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};

use autoresearch::domain::{Gpu, GpuUse};
use autoresearch::exec::{GpuHolder, GpuLocks, GpuProcesses, gpu_inventory};

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
    assert_eq!(gpu_inventory(), expected);

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

/// In a process of its own: locks GPU 1, says so or why not, and holds it until standard input ends.
fn hold_gpu(tag: &str) {
    let gpu = gpu_inventory().swap_remove(1);
    let holder = GpuHolder { repository: "/path".into(), session: tag.parse().unwrap(), process: std::process::id() };
    let taken = GpuLocks::take(&[gpu], &holder);
    let said = taken.as_ref().map_or_else(|error| error.to_string(), |_| "taken".to_owned());
    let mut output = stdout();
    writeln!(output, "\nGPU: {said}").and_then(|()| output.flush()).unwrap();
    let _ = stdin().read_line(&mut String::new());
}

#[test]
fn sessions_of_whatever_repository_do_not_take_a_gpu_twice() {
    const NAME: &str = "gpus::sessions_of_whatever_repository_do_not_take_a_gpu_twice";
    if let Ok(tag) = env::var(TASK) {
        return hold_gpu(&tag);
    }
    let Some(gpus) = FakeGpus::new("") else { return };
    let runtime = tempfile::tempdir().unwrap();
    /// Whoever holds it ends with the test.
    struct Session(Child, String);
    impl Drop for Session {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    // One login has a runtime folder, and another has not.
    let session = |tag: &str, has_folder: bool| {
        let mut command = process(NAME, &gpus, tag);
        if has_folder {
            command.env("XDG_RUNTIME_DIR", runtime.path());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("GPU: ").map(str::to_owned));
        Session(child, said.unwrap_or_default())
    };
    let night = session("night", true);
    assert_eq!(night.1, "taken");
    let said = "GPU 1 (GPU-10000000-0000-4000-8000-000000000000) is in use by session night in /path";
    for has_folder in [true, false] {
        assert_eq!(session("day", has_folder).1, said);
    }
    let folder = runtime.path().join("autoresearch/gpus");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    drop(night);
    assert_eq!(session("day", false).1, "taken");
    // A link in the place of the folder may lead to where others can write.
    fs::rename(runtime.path().join("autoresearch"), runtime.path().join("elsewhere")).unwrap();
    symlink("elsewhere", runtime.path().join("autoresearch")).unwrap();
    let said = &session("day", true).1;
    assert!(said.starts_with("cannot lock GPUs in ") && said.contains("only you can write to"), "{said}");
}
