//! Shims beside one another, and without the `ar` that started them.

use std::fs;
use std::io::Read;
use std::thread;
use std::time::Duration;

use autoresearch::exec::{ExecError, Job, Started};

use crate::exec::{Bench, LOCAL, TRAIN, block_on, kill, owned, owned_here, owner, owner_command, succeeded};
use crate::support::until;

/// The fields of `/proc/PID/stat` behind the name, of a process that is there.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
    (fields[0] != "Z").then_some(fields)
}

/// The shim of a bench's job that is running.
fn shim(bench: &Bench) -> u32 {
    until("the shim", || bench.started_file()).pid
}

/// A job of the bench that waits until its file `go` is there.
fn waiting(bench: &Bench) -> Job {
    bench.train(&format!("waits_for.sh {}", bench.path("go").display()))
}

#[test]
fn jobs_at_the_same_time_have_nothing_of_each_other() {
    let benches = [Bench::new(), Bench::new(), Bench::new()];
    block_on(async {
        let tied = LOCAL.start(&Job { tied: true, ..waiting(&benches[0]) }).unwrap();
        let mut killed = LOCAL.start(&waiting(&benches[1])).unwrap();
        let mut last = LOCAL.start(&waiting(&benches[2])).unwrap();
        for shim in benches.each_ref().map(shim) {
            // What is sent to a whole group, or to all of a session, does not end it.
            assert_eq!(stat(shim).unwrap()[3], shim.to_string(), "it is in a session of its own");
        }
        drop(tied);
        until("the end of the first", || benches[0].exit_file());
        kill("KILL", shim(&benches[1]));
        assert!(matches!(killed.wait().await, Err(ExecError::Lost { .. })));
        fs::write(benches[2].path("go"), "").unwrap();
        assert!(succeeded(&last.wait().await.unwrap()));
    });
}

#[test]
fn a_shim_shows_what_it_is_and_what_it_looks_after() {
    let bench = Bench::new();
    let mut job = waiting(&bench);
    for folder in ["a".repeat(200), "b".into()] {
        job.folder = bench.path(&format!("{folder}/00001"));
        block_on(async {
            let mut running = LOCAL.start(&job).unwrap();
            let started = until("the shim", || fs::read(job.folder.join("started.json")).ok());
            let started: Started = serde_json::from_slice(&started).unwrap();
            let line = fs::read_to_string(format!("/proc/{}/cmdline", started.pid)).unwrap();
            let shown = format!("ar\0__shim\0{}", job.folder.join("job.json").display());
            assert_eq!(line.trim_end_matches('\0'), shown);
            // A copy of it that is about to become the command shows the same for a moment.
            until("the shim", || (LOCAL.supervisor(&job.folder, "run") == Some(started.pid)).then_some(()));
            fs::write(bench.path("go"), "").unwrap();
            assert!(succeeded(&running.wait().await.unwrap()));
        });
        fs::remove_file(bench.path("go")).unwrap();
    }
}

#[test]
fn to_stop_a_finished_job_leaves_the_next_one_in_its_folder_alone() {
    let bench = Bench::new();
    let (finished, next) = (Job { name: "agent".into(), ..bench.job("true") }, waiting(&bench));
    block_on(async {
        assert!(succeeded(&LOCAL.start(&finished).unwrap().wait().await.unwrap()));
        let mut running = LOCAL.start(&next).unwrap();
        LOCAL.stop(&finished.folder, &finished.name).await.unwrap();
        assert!(LOCAL.is_active(&next.folder, &next.name));
        fs::write(bench.path("go"), "").unwrap();
        assert!(succeeded(&running.wait().await.unwrap()));
        assert!(LOCAL.is_gone_within(&next.folder, &next.name, Duration::from_secs(10)).await);
    });
}

#[test]
fn another_command_goes_on_without_its_owner() {
    if owned_here() {
        return;
    }
    let bench = Bench::new();
    let go = bench.path("go");
    let job = bench.job(&format!("sh {TRAIN}/waits_for.sh {}; exit 7", go.display()));
    let mut owner = owner("shims::another_command_goes_on_without_its_owner", &job);
    until("output", || (!bench.log().is_empty()).then_some(()));
    let shim = shim(&bench);
    let mut output = owner.stdout.take().unwrap();
    let reader = thread::spawn(move || output.read_to_end(&mut Vec::new()).unwrap());
    owner.kill().unwrap();
    owner.wait().unwrap();
    until("the end of the owner's output", || reader.is_finished().then_some(()));
    assert!(stat(shim).is_some() && LOCAL.is_busy(&job.folder));
    assert!(!bench.processes().is_empty());
    fs::write(go, "").unwrap();
    let exit = until("exit.json", || bench.exit_file());
    assert_eq!((exit.exit, exit.stopped), (Some(7), false));
    assert!(bench.log().ends_with("val_bpb: 0.9\n"));
    until("the lock's release", || (!LOCAL.is_busy(&job.folder)).then_some(()));
}

/// A command that stops its shim, whose id it reads from a file, for as long as it runs, and has a child without its variables.
fn stops_its_shim(bench: &Bench) -> Job {
    let stop = "kill -STOP $(sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' runs/00001/started.json)";
    let child = "env -i setsid sh -c 'echo $$ > child; exec sleep 600' & ";
    bench.job(&format!("{child} until [ -s child ]; do sleep 0.01; done; echo begun; {stop}; while :; do {stop}; done"))
}

#[test]
fn a_stopped_shim_holds_up_nobody() {
    if let Some(exit) = owned() {
        assert!(exit.timed_out, "{exit:?}");
        return;
    }
    let bench = Bench::new();
    let job = Job { timeout: Duration::from_secs(2), grace: Duration::from_millis(200), ..stops_its_shim(&bench) };
    let mut owner = owner_command("shims::a_stopped_shim_holds_up_nobody", &job);
    let output = owner.env("AR_WAITS", "20").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(bench.processes(), [0_u32; 0]);
    until("the end of the child", || stat(child(&bench)).is_none().then_some(()));
}

#[test]
fn what_a_stopped_shim_supervises_is_ended_with_it() {
    let bench = Bench::new();
    let job = stops_its_shim(&bench);
    block_on(async {
        let mut running = LOCAL.start(&job).unwrap();
        until("output", || (!bench.log().is_empty()).then_some(()));
        LOCAL.end_left_over(&job.folder, &job.name).await;
        assert!(matches!(running.wait().await, Err(ExecError::Lost { .. })));
    });
    assert_eq!(bench.processes(), [0_u32; 0]);
    until("the end of the child", || stat(child(&bench)).is_none().then_some(()));
}

/// The id of the child of such a command.
fn child(bench: &Bench) -> u32 {
    fs::read_to_string(bench.path("child")).unwrap().trim().parse().unwrap()
}
