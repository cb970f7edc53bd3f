//! Real commands under the real shim: how they end, what is left of them, and what is written about them.

use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use autoresearch::exec::{ExecError, Executor, Exit, Job, Running, Started, environment, find_builder};
use autoresearch::rules::{JobPlaces, Places, Wall, WalledRole, wall};
use tempfile::TempDir;

use crate::kill::soak;
use crate::support::{AR, FakeGpus, can_have_walls, until};

/// This machine, with shims of the program under test.
pub(crate) static LOCAL: LazyLock<Executor> = LazyLock::new(|| Executor::Local { program: AR.into() });
pub(crate) const TRAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/train");
const MARKER: &str = "AR_TEST_MARKER";

/// Set where jobs of benches start behind walls.
pub(crate) const WALLED: &str = "AR_TEST_WALLED";

/// Whether a command ended by itself with status 0.
pub(crate) fn succeeded(exit: &Exit) -> bool {
    exit.exit == Some(0) && !exit.timed_out && !exit.stopped
}

/// A folder for a job whose processes can be told from all others.
pub(crate) struct Bench {
    folder: TempDir,
    marker: String,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let marker = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Bench { folder: tempfile::tempdir().unwrap(), marker }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A job with a deadline and a grace that no well-behaved command gets near.
    pub(crate) fn job(&self, command: &str) -> Job {
        Job {
            name: "run".to_owned(),
            command: command.to_owned(),
            cwd: self.folder.path().to_owned(),
            folder: self.path("runs/00001"),
            log: self.path("run.log"),
            stdin: None,
            env: vec![(MARKER.to_owned(), self.marker.clone())],
            timeout: Duration::from_secs(60),
            silence: None,
            grace: Duration::from_secs(60),
            watched: None,
            gpu_sharers: None,
            wall: env::var_os(WALLED).map(|_| self.wall()),
            answers: false,
            ticket: None,
            log_limit: None,
            tied: false,
        }
    }

    /// A wall around the files of its job.
    fn wall(&self) -> Wall {
        let job = JobPlaces {
            tree: self.folder.path().to_owned(),
            folder: self.path("runs/00001"),
            own: ["lock", "job.json", "started.json"].map(str::to_owned).into(),
            ..JobPlaces::default()
        };
        let places = Places { builder: find_builder(&[]).unwrap(), ..Places::default() };
        wall(&places, &job, &WalledRole::Run)
    }

    pub(crate) fn train(&self, script: &str) -> Job {
        self.job(&format!("sh {TRAIN}/{script}"))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("run.log")).unwrap_or_default()
    }

    pub(crate) fn exit_file(&self) -> Option<Exit> {
        fs::read(self.path("runs/00001/exit.json")).ok().map(|json| serde_json::from_slice(&json).unwrap())
    }

    pub(crate) fn started_file(&self) -> Option<Started> {
        fs::read(self.path("runs/00001/started.json")).ok().map(|json| serde_json::from_slice(&json).unwrap())
    }

    /// The living processes of this bench's jobs.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let entry = format!("{MARKER}={}", self.marker);
        let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
        })
        .collect()
    }

    /// The end of a job, after which none of its processes may be there.
    pub(crate) fn end(&self, job: &Job) -> Exit {
        let exit = block_on(async { start(job).wait().await }).unwrap();
        assert_eq!(self.processes(), [0_u32; 0], "left behind by {}", job.command);
        assert_eq!(exit.survivors, 0);
        exit
    }
}

fn start(job: &Job) -> Running {
    LOCAL.start(job).unwrap()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(300), future).await.expect("hangs") })
}

pub(crate) fn kill(signal: &str, pid: u32) {
    let status = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// The largest resident set that a process had so far, in bytes.
fn peak_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn behind_a_wall_all_of_it_holds_too() {
    if env::var_os(WALLED).is_some() || !can_have_walls() {
        return;
    }
    let again = |args: &[&str]| Command::new(env::current_exe().unwrap()).args(args).env(WALLED, "1").output().unwrap();
    let rooms = ["exec::", "shims::", "silence::"];
    let listed = again(&[&rooms[..], &["--list", "--format", "terse"]].concat()).stdout;
    let listed = String::from_utf8(listed).unwrap();
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    // In a suite that is called often, every fifth one.
    let tests: Vec<&str> = tests.step_by(if soak().is_some() { 1 } else { 5 }).collect();
    let again = again(&[&["--exact"], &tests[..]].concat());
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
}

#[test]
fn a_status_and_the_output_are_kept() {
    let bench = Bench::new();
    let exit = bench.end(&bench.train("fails.sh 3"));
    assert_eq!((exit.exit, exit.signal, exit.timed_out, exit.stopped), (Some(3), None, false, false));
    assert!(!succeeded(&exit));
    assert!(bench.log().contains("ValueError: head dimension"));
    assert_eq!(bench.exit_file(), Some(exit));
}

#[test]
fn a_command_that_ends_well_is_not_waited_for() {
    let bench = Bench::new();
    let exit = bench.end(&bench.job("echo out; echo err >&2"));
    assert!(succeeded(&exit));
    assert!(exit.seconds < 10.0 && exit.finished >= exit.started, "{exit:?}");
    assert!(exit.memory.peak_rss_bytes > 0);
    assert_eq!((exit.memory.gpu_peak_bytes, exit.oom_killed), (None, false));
    assert_eq!(bench.log(), "out\nerr\n");
    assert!(!LOCAL.is_busy(&bench.path("runs/00001")));
}

#[test]
fn the_log_is_appended_to() {
    let bench = Bench::new();
    fs::write(bench.path("run.log"), "before\n").unwrap();
    bench.end(&bench.job("echo after; echo late >&2"));
    assert_eq!(bench.log(), "before\nafter\nlate\n");
}

#[test]
fn a_signal_is_told_from_a_status() {
    let bench = Bench::new();
    let exit = bench.end(&bench.job("kill -s SEGV $$"));
    assert_eq!((exit.exit, exit.signal), (None, Some(11)));
    let exit = bench.end(&bench.job(&format!("exec sh {TRAIN}/dies_by_signal.sh")));
    assert_eq!((exit.exit, exit.signal, exit.oom_killed, exit.stopped), (None, Some(9), false, false));
}

#[test]
fn children_in_the_background_end_with_the_command() {
    let bench = Bench::new();
    let exit = bench.end(&bench.train("forks.sh"));
    assert!(succeeded(&exit));
    assert!(!bench.log().contains("late"));
}

#[test]
fn daemons_end_with_the_command() {
    let bench = Bench::new();
    let exit = bench.end(&Job { grace: Duration::from_millis(300), ..bench.train("daemons.sh") });
    assert!(succeeded(&exit));
    assert!(bench.log().contains("ready"), "the daemon was not up: {}", bench.log());
    // The time of the run is that of its leader.
    assert!(exit.seconds < 60.0, "{exit:?}");
}

#[test]
fn who_runs_away_is_caught() {
    let bench = Bench::new();
    let job = Job { grace: Duration::from_millis(100), ..bench.train("runs_away.sh") };
    bench.end(&job);
    assert!(!bench.log().contains("5000"), "it ran to its end");
}

#[test]
fn who_ignores_term_is_killed_when_the_grace_is_over() {
    let bench = Bench::new();
    let times = (Duration::from_millis(400), Duration::from_millis(300));
    let exit =
        bench.end(&Job { timeout: times.0, grace: times.1, ..bench.job(&format!("exec sh {TRAIN}/ignores_term.sh")) });
    assert_eq!((exit.exit, exit.signal, exit.timed_out), (None, Some(9), true));
    assert!(exit.seconds >= 0.7, "{exit:?}");
    assert!(!exit.oom_killed);
}

#[test]
fn who_hangs_is_ended_at_the_deadline() {
    let bench = Bench::new();
    let job = Job { timeout: Duration::from_millis(500), ..bench.train("hangs.sh") };
    let exit = bench.end(&job);
    assert!(exit.timed_out && !exit.stopped && !succeeded(&exit));
    assert!((0.5..60.0).contains(&exit.seconds), "{exit:?}");
    let started = bench.started_file().unwrap();
    assert_eq!(started.started.as_millisecond(), exit.started.as_millisecond());
    assert_eq!(started.deadline.unwrap().duration_since(started.started).as_millis(), 500);
    assert!(started.boot_id.is_some());
}

#[test]
fn a_stopped_process_ends_too() {
    let bench = Bench::new();
    let job = bench.job("sh -c 'kill -s STOP $$' & sleep 600");
    let exit = bench.end(&Job { timeout: Duration::from_millis(300), ..job });
    assert!(exit.timed_out);
    assert!(exit.seconds < 60.0, "{exit:?}");
}

#[test]
fn a_flood_costs_no_memory() {
    let peak_after = |megabytes: u64| {
        let bench = Bench::new();
        let go = bench.path("go");
        let job = bench.job(&format!("sh {TRAIN}/floods.sh {megabytes}; sh {TRAIN}/waits_for.sh {}", go.display()));
        let (peak, exit) = block_on(async {
            let mut running = start(&job);
            let is_there = |log: &fs::Metadata| log.len() > megabytes * 1_000_000;
            until("the flood", || fs::metadata(bench.path("run.log")).ok().filter(is_there));
            let peak = peak_of(bench.started_file().unwrap().pid);
            fs::write(go, "").unwrap();
            (peak, running.wait().await.unwrap())
        });
        assert!(succeeded(&exit));
        assert!(bench.log().ends_with("val_bpb: 0.9\n"));
        peak
    };
    // The program itself takes some, and more where it is not optimised.
    let (trickle, flood) = (peak_after(1), peak_after(40));
    assert!(flood < trickle + 4_000_000, "the shim has {flood} bytes resident, {trickle} without a flood");
}

#[test]
fn the_log_can_be_read_while_the_command_runs() {
    let bench = Bench::new();
    let go = bench.path("go");
    let job = bench.train(&format!("waits_for.sh {}", go.display()));
    block_on(async {
        let mut running = start(&job);
        until("the first number", || (bench.log() == "val_bpb: 1.0\n").then_some(()));
        assert!(LOCAL.is_busy(&job.folder));
        assert!(matches!(LOCAL.start(&job), Err(ExecError::Busy { .. })));
        fs::write(go, "").unwrap();
        assert!(succeeded(&running.wait().await.unwrap()));
    });
    assert_eq!(bench.log(), "val_bpb: 1.0\nval_bpb: 0.9\n");
}

#[test]
fn standard_input_folder_and_variables_are_given() {
    let bench = Bench::new();
    fs::write(bench.path("prompt"), "improve it").unwrap();
    fs::create_dir(bench.path("with space")).unwrap();
    let mut job = bench.job("cat; echo; pwd; echo \"$AR_TAG\"");
    job.name = "agent".to_owned();
    job.stdin = Some(bench.path("prompt"));
    job.cwd = bench.path("with space");
    job.env.push(("AR_TAG".to_owned(), "nov20 'x'".to_owned()));
    assert!(succeeded(&bench.end(&job)));
    let folder = fs::canonicalize(bench.path("with space")).unwrap();
    assert_eq!(bench.log(), format!("improve it\n{}\nnov20 'x'\n", folder.display()));
    assert!(bench.path("runs/00001/agent.exit.json").exists());
    assert!(!bench.path("runs/00001/exit.json").exists());
}

#[test]
fn what_cannot_be_started_is_an_error() {
    let bench = Bench::new();
    let wait = |job: Job| block_on(async { LOCAL.start(&job)?.wait().await });
    let gone = wait(Job { cwd: bench.path("gone"), ..bench.job("true") });
    assert!(matches!(&gone, Err(ExecError::WorkingFolder(path)) if *path == bench.path("gone")), "{gone:?}");
    let no_start = wait(Job { env: vec![("WORD".to_owned(), "no\0word".to_owned())], ..bench.job("true") });
    let no_input = wait(Job { stdin: Some(bench.path("no-prompt")), ..bench.job("true") });
    assert!(matches!(&no_start, Err(ExecError::Command { detail, .. }) if detail.contains("sh: ")), "{no_start:?}");
    assert!(matches!(&no_input, Err(ExecError::File { path, .. }) if path.ends_with("no-prompt")), "{no_input:?}");
    let no_shim = block_on(async { Executor::Local { program: "/nowhere/ar".into() }.start(&bench.job("true")).err() });
    assert!(matches!(no_shim, Some(ExecError::Shim { .. })), "{no_shim:?}");
    assert!(succeeded(&bench.end(&bench.job("true"))), "an earlier failure must not stick");
}

#[test]
fn a_run_can_be_stopped_at_any_moment() {
    let bench = Bench::new();
    for when_running in [true, false] {
        let exit = block_on(async {
            let mut running = start(&bench.train("hangs.sh"));
            if when_running {
                until("output", || (!bench.log().is_empty()).then_some(()));
            }
            running.stop().unwrap();
            let exit = running.wait().await.unwrap();
            running.stop().unwrap();
            exit
        });
        assert!(exit.stopped && !exit.timed_out, "{exit:?}");
        assert_eq!(bench.processes(), [0_u32; 0]);
    }
}

#[test]
fn the_shim_heeds_no_interrupt_and_no_hangup() {
    let bench = Bench::new();
    let go = bench.path("go");
    let job = bench.train(&format!("waits_for.sh {}", go.display()));
    let exit = block_on(async {
        let mut running = start(&job);
        until("output", || (!bench.log().is_empty()).then_some(()));
        let shim = bench.started_file().unwrap().pid;
        kill("INT", shim);
        kill("HUP", shim);
        fs::write(go, "").unwrap();
        running.wait().await.unwrap()
    });
    assert!(succeeded(&exit), "{exit:?}");
}

#[test]
fn when_the_shim_is_killed_the_command_is_lost_and_ended() {
    let bench = Bench::new();
    let result = block_on(async {
        let mut running = start(&bench.train("ignores_term.sh"));
        until("output", || (!bench.log().is_empty()).then_some(()));
        kill("KILL", bench.started_file().unwrap().pid);
        running.wait().await
    });
    assert!(matches!(result, Err(ExecError::Lost { killed, .. }) if killed > 0), "{result:?}");
    assert_eq!(bench.processes(), [0_u32; 0]);
    assert!(!LOCAL.is_busy(&bench.path("runs/00001")));
}

#[test]
fn the_memory_of_all_processes_counts() {
    let bench = Bench::new();
    let hold = "(head -c 40000000 /dev/zero; sleep 4) | tail -c 40000000 > /dev/null";
    let exit = bench.end(&bench.job(&format!("{hold} & {hold} & {hold} & wait")));
    assert!(succeeded(&exit), "{}", bench.log());
    let megabytes = exit.memory.peak_rss_bytes / 1_000_000;
    assert!((110..300).contains(&megabytes), "{megabytes} MB");
}

#[test]
fn a_short_peak_of_memory_counts() {
    let bench = Bench::new();
    let exit = bench.end(&bench.job("head -c 50000000 /dev/zero | tail -c 50000000 > /dev/null"));
    assert!(exit.memory.peak_rss_bytes > 45_000_000, "{exit:?}");
}

/// Makes the test binary start a job as another process would, wait for it, and be killed at will.
pub(crate) const OWNED_JOB: &str = "AR_TEST_OWNED_JOB";

/// In the process that [`owner`] starts: starts the job, waits, and returns its exit.
pub(crate) fn owned() -> Option<Exit> {
    let job: Job = serde_json::from_str(&env::var(OWNED_JOB).ok()?).unwrap();
    Some(block_on(async { start(&job).wait().await.unwrap() }))
}

/// Does the same where the exit tells nothing.
pub(crate) fn owned_here() -> bool {
    owned().is_some()
}

/// A process that owns the job and runs the test `name` to do so, under a shell that ignores what a shell may make
/// its children ignore and leaves a descriptor open.
pub(crate) fn owner(name: &str, job: &Job) -> Child {
    owner_command(name, job).stdout(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn owner_command(name: &str, job: &Job) -> Command {
    let script = "trap '' HUP INT QUIT USR1; exec \"$0\" --exact \"$1\" --nocapture 9>&1";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(env::current_exe().unwrap()).arg(name);
    command.env(OWNED_JOB, serde_json::to_string(job).unwrap());
    command
}

#[test]
fn a_tied_command_ends_with_its_owner() {
    if owned_here() {
        return;
    }
    let bench = Bench::new();
    let job = Job { tied: true, ..bench.train("hangs.sh") };
    let mut owner = owner("exec::a_tied_command_ends_with_its_owner", &job);
    until("output", || (!bench.log().is_empty()).then_some(()));
    owner.kill().unwrap();
    owner.wait().unwrap();
    let exit = until("exit.json", || bench.exit_file());
    assert!(exit.stopped && !exit.timed_out, "{exit:?}");
    until("the end of all processes", || bench.processes().is_empty().then_some(()));
}

#[test]
fn nothing_leaks_into_the_command() {
    if owned_here() {
        return;
    }
    let bench = Bench::new();
    let open = "for fd in /proc/$$/fd/*; do [ -e \"$fd\" ] && echo \"fd ${fd##*/}\"; done";
    let job =
        Job { tied: true, ..bench.job(&format!("{open}; grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'")) };
    let mut owner = owner("exec::nothing_leaks_into_the_command", &job);
    let mut output = String::new();
    owner.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(owner.wait().unwrap().success(), "{output}");
    let log = bench.log();
    let (descriptors, masks): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| line.starts_with("fd "));
    assert_eq!(descriptors, ["fd 0", "fd 1", "fd 2"]);
    assert_eq!(masks.len(), 2, "{log}");
    for mask in masks {
        let signals = u64::from_str_radix(mask.rsplit(':').next().unwrap(), 16).unwrap();
        // Those above 31 have no names and are no one's to ignore but the C library's.
        assert_eq!(signals & 0x7fff_ffff, 0, "{mask}");
    }
}

#[test]
fn gpus_are_named_and_their_memory_counts() {
    if env::var_os(OWNED_JOB).is_some() {
        let here = environment(Path::new("/"));
        assert_eq!((here.gpu.as_deref(), here.gpus), (Some("2 x NVIDIA Fake 9000"), 2));
        assert_eq!(here.driver.as_deref(), Some("999.01"));
        owned_here();
        return;
    }
    let machine = "gpu GPU-a 80 NVIDIA Fake 9000\ngpu GPU-b 80 NVIDIA Fake 9000\nprocess * 1 3072\n";
    let Some(gpus) = FakeGpus::new(machine) else { return };
    let bench = Bench::new();
    // The command and one child use both GPUs, from the second on in which they are looked at.
    let mut job = bench.job("use() { echo \"process * $1 3072\" >> \"$FAKE_GPUS\"; }; use $$; sleep 3 & use $!; wait");
    job.env.push(("CUDA_VISIBLE_DEVICES".into(), "GPU-a,GPU-b".into()));
    let mut command = owner_command("exec::gpus_are_named_and_their_memory_counts", &job);
    gpus.show_to(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let exit = bench.exit_file().unwrap();
    assert_eq!((exit.memory.gpu_peak_bytes, exit.memory.gpu_other_bytes), (Some(12 << 30), Some(6 << 30)));
    assert_eq!((exit.host, exit.visible_gpus.as_deref()), (environment(Path::new("/")).host, Some("GPU-a,GPU-b")));
}
