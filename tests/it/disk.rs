//! A disk that is full at any moment of an experiment: the loop stops, nothing is torn, and with room it goes on.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use autoresearch::domain::{CommitId, LedgerDialect, Outcome};
use autoresearch::exec::{ExecError, Job};
use autoresearch::fs::append_line;
use autoresearch::ledger::{Entry, LedgerFile};
use serde_json::Value;

use crate::exec::{LOCAL, block_on};
use crate::hints::type_hint;
use crate::interrupt::waiting_loop;
use crate::kill::soak;
use crate::outcome::outcome;
use crate::run_loop::{agent, training_repo};
use crate::support::{Called, SmallDisk, TestRepo, ar, ar_command};

const STEPS: &str = "better new-worse commit-better";

/// What there is too little of.
#[derive(Debug, Clone, Copy)]
enum Scarce {
    /// Blocks of 4 KiB.
    Blocks,
    /// Files, however small.
    Files,
}

/// When the disk becomes full.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// When the agent has made its change for an experiment.
    AfterAgent(u32),
    /// Before the run of an experiment prints anything.
    BeforeRun(u32),
    /// After it has printed everything.
    AfterRun(u32),
    /// At the end of a run that printed a number on its way, and ends with this status.
    InRun(u32, i32),
    /// When the agent has made half a change, and ends with this status.
    InAgent(u32, i32),
}

/// A command that, once and for one experiment, does `before`, leaves only so much on the disk of the repository, and then
/// does `more`.
fn filling(repo: &TestRepo, scarce: Scarce, left: u32, id: u32, [before, more]: [&str; 2]) -> String {
    let once = repo.outside().join("filled");
    let fill = match scarce {
        Scarce::Blocks => {
            format!("cat /dev/zero >fill/0 2>/dev/null; truncate -s -$(({left} * 4096)) fill/0")
        }
        Scarce::Files => format!(
            "( while : >fill/$((n += 1)); do :; done ) 2>/dev/null; \
             for n in $(ls fill | tail -n {left}); do rm fill/$n; done"
        ),
    };
    format!("if [ ! -e {0} ] && [ $AR_EXPERIMENT = {id} ]; then touch {0}; {before} {fill}; {more} fi", once.display())
}

fn session(repo: &TestRepo, full: Option<(Moment, Scarce, u32)>) -> Called {
    let (mut train, mut agent) = ("sh train.sh".to_owned(), agent(STEPS));
    if let Some((moment, scarce, left)) = full {
        let filling = |id, around| filling(repo, scarce, left, id, around);
        match moment {
            Moment::AfterAgent(id) => {
                // Its last words are its description, and its shim writes them down while it goes on.
                let logged = format!("grep -q '^{id}: ' .autoresearch/t/runs/{id:05}/agent.log");
                let wait = format!("until {logged}; do sleep 0.02; done;");
                agent = format!("{agent}; {}", filling(id, [&wait, ""]));
            }
            Moment::BeforeRun(id) => train = format!("{}; {train}", filling(id, ["", ""])),
            Moment::AfterRun(id) => train = format!("{train}; {}", filling(id, ["", ""])),
            Moment::InRun(id, status) => {
                let end = format!("exit {status};");
                train = format!("{}; {train}", filling(id, ["echo val_bpb: 0.5;", &end]));
            }
            Moment::InAgent(id, status) => {
                let end = format!("echo >> train.sh; exit {status};");
                agent = format!("{}; {agent}", filling(id, ["", &end]));
            }
        }
    }
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "3"];
    ar(repo, args.iter().chain(&["--cmd", &train, "--agent", &agent]))
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// Everything that is written in pieces is there whole or not at all.
fn assert_nothing_torn(repo: &TestRepo, what: &str) {
    let rows = fs::read_to_string(repo.file("results.tsv")).unwrap_or_default();
    assert!(rows.lines().all(|row| row.split('\t').count() == 5), "{what}: {rows}");
    assert!(rows.is_empty() || rows.ends_with('\n'), "{what}: {rows}");
    let own = repo.file(".autoresearch");
    for path in files_below(&own, "json") {
        let text = fs::read_to_string(&path).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{what}: {}: {text}", path.display());
    }
    for path in files_below(&own, "jsonl") {
        let text = fs::read_to_string(&path).unwrap();
        let whole = text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
        assert!(whole && (text.is_empty() || text.ends_with('\n')), "{what}: {}: {text}", path.display());
    }
    let fsck = repo.try_git(["fsck", "--strict", "--no-dangling"]);
    assert!(fsck.status.success(), "{what}: {}", String::from_utf8_lossy(&fsck.stderr));
}

/// A folder for what fills the disk, which is part of no change.
fn make_folder_to_fill(repo: &TestRepo) {
    repo.write(".git/info/exclude", "fill\n");
    fs::create_dir(repo.file("fill")).unwrap();
}

/// Fills the disk under a session but for `left` at one moment, makes room, and compares what comes of it with `expected`.
/// Whether it had to stop; `None` where no such disk can be had.
fn stops_and_goes_on(moment: Moment, scarce: Scarce, left: u32, expected: &str) -> Option<bool> {
    let what = format!("{moment:?}, {scarce:?}: {left}");
    let repo = training_repo();
    let _disk = SmallDisk::under(&repo)?;
    make_folder_to_fill(&repo);
    let called = session(&repo, Some((moment, scarce, left)));
    assert_nothing_torn(&repo, &what);
    let stopped = called.code != Some(0);
    if stopped {
        assert_eq!(called.code, Some(4), "{what}: {called:#?}");
        assert!(
            called.stderr.contains("disk") && called.stderr.contains("; then run `ar resume` to continue"),
            "{called:#?}"
        );
        let again = ar(&repo, ["resume"]).exits(1);
        assert!(again.stderr.contains("the disk is too full for an experiment"), "{what}: {again:#?}");
    }
    fs::remove_dir_all(repo.file("fill")).unwrap();
    let resumed = stopped.then(|| ar(&repo, ["resume"]).ok());
    assert_eq!(outcome(&repo), expected, "{what}: {called:#?} {resumed:#?}");
    Some(stopped)
}

/// Makes the disk full at each of these moments with each of these amounts left; gives at how many it was noticed, and how
/// many there are. `None` where no small disk can be had.
fn full_at_each(moments: &[(Moment, Scarce, &[u32])]) -> Option<(usize, usize)> {
    let whole = training_repo();
    session(&whole, None).ok();
    let expected = outcome(&whole);
    let mut stops = Vec::new();
    for (moment, scarce, amounts) in moments {
        // In a suite that is called often, every third one.
        for left in amounts.iter().step_by(if soak().is_some() { 1 } else { 3 }) {
            stops.push(stops_and_goes_on(*moment, *scarce, *left, &expected)?);
        }
    }
    Some((stops.iter().filter(|stopped| **stopped).count(), stops.len()))
}

#[test]
fn a_disk_that_is_full_at_any_step_stops_a_session_whole_and_it_goes_on_with_room() {
    // What an experiment makes, file by file, until there are enough left for all of it.
    let noticed = full_at_each(&[
        (Moment::AfterAgent(2), Scarce::Files, &[0, 1, 2, 3, 5, 6, 7, 8, 9, 11]),
        (Moment::AfterRun(0), Scarce::Files, &[1, 2, 3, 5, 6, 7, 8, 10]),
        (Moment::AfterRun(2), Scarce::Files, &[0, 1, 2, 3, 4]),
        (Moment::AfterRun(3), Scarce::Files, &[2, 3, 4]),
    ]);
    match noticed {
        // Whether the last file finds room depends on the names of git's objects.
        Some((stops, all)) => assert!(stops + 2 >= all, "{stops} of {all}"),
        None => eprintln!("skipped: no small file system can be mounted here"),
    }
}

#[test]
fn a_run_or_an_agent_that_ends_on_a_full_disk_is_not_measured_but_repeated() {
    let noticed = full_at_each(&[
        (Moment::AfterAgent(2), Scarce::Blocks, &[0, 1, 3, 20]),
        (Moment::InAgent(2, 1), Scarce::Blocks, &[0, 8, 40]),
        (Moment::InAgent(2, 0), Scarce::Blocks, &[8]),
        (Moment::BeforeRun(0), Scarce::Blocks, &[0, 1, 3]),
        (Moment::BeforeRun(2), Scarce::Blocks, &[1, 20]),
        (Moment::AfterRun(2), Scarce::Blocks, &[1]),
        (Moment::InRun(0, 1), Scarce::Blocks, &[40]),
        (Moment::InRun(2, 1), Scarce::Blocks, &[0, 8, 40]),
        (Moment::InRun(2, 0), Scarce::Blocks, &[8]),
    ]);
    match noticed {
        Some((stops, all)) => assert_eq!(stops, all),
        None => eprintln!("skipped: no small file system can be mounted here"),
    }
}

#[test]
fn a_log_that_fills_the_disk_is_named_and_can_be_deleted() {
    let repo = training_repo();
    let Some(_disk) = SmallDisk::under(&repo) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let train = "echo val_bpb: 1; [ $AR_EXPERIMENT = 0 ] || [ -e ../room ] || head -c 8000000 /dev/zero; exit 0";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", train];
    let mut said = ar(&repo, args.into_iter().chain(["--agent", "echo x >> docs/a.txt"])).exits(4).stderr;
    let log = repo.file(".autoresearch/t/runs/00001/run.log");
    for _ in 0..2 {
        assert!(said.contains(&format!("delete it with `rm -f {}`, then run `ar resume`", log.display())), "{said}");
        assert!(said.contains("hint: its largest log has 3.") && !said.contains("to continue"), "{said}");
        said = ar(&repo, ["resume"]).stderr;
    }
    fs::write(repo.outside().join("room"), "").unwrap();
    type_hint(&repo, &said, "rm -f ").ok();
    let called = ar(&repo, ["resume"]).ok();
    assert!(called.stdout.contains("   1  discard  1 "), "{called:?}");
}

/// Resumes a session whose disk its run fills each time, and then one last time with room.
fn resume_again_and_again(repo: &TestRepo) -> Called {
    for _ in 0..4 {
        repo.rm("fill/0");
        fs::remove_file(repo.outside().join("filled")).unwrap();
        ar(repo, ["resume"]).exits(4);
    }
    repo.rm("fill/0");
    ar(repo, ["resume"]).ok()
}

#[test]
fn a_run_that_meets_a_full_disk_again_and_again_is_not_lost() {
    // What is written meanwhile may take or free some blocks; with 52 free ones the disk would not count as full.
    for left in [0, 24] {
        let repo = training_repo();
        let Some(_disk) = SmallDisk::under(&repo) else {
            eprintln!("skipped: no small file system can be mounted here");
            return;
        };
        make_folder_to_fill(&repo);
        session(&repo, Some((Moment::InRun(1, 1), Scarce::Blocks, left))).exits(4);
        let called = resume_again_and_again(&repo);
        assert!(
            called.stdout.contains("   1  keep     1.900000  1: better: val_bpb 1.900000 is better"),
            "{left}: {called:?}"
        );
    }
}

#[test]
fn a_fresh_run_that_meets_a_full_disk_again_and_again_is_not_lost() {
    let repo = training_repo();
    repo.write("value", "2.00");
    repo.commit_all("a value");
    let Some(_disk) = SmallDisk::under(&repo) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    make_folder_to_fill(&repo);
    let fill = filling(&repo, Scarce::Blocks, 8, 1, ["echo val_bpb: 0.5;", "exit 1;"]);
    let train = format!("if [ $AR_SEED -gt 1 ]; then {fill}; fi; echo val_bpb: $(cat value)$AR_SEED");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--decide", "confirmed", "--max-experiments", "1"];
    ar(&repo, args.iter().chain(&["--cmd", &train, "--agent", "echo 1.00 > value"])).exits(4);
    let called = resume_again_and_again(&repo);
    assert!(called.stdout.contains("   1  keep "), "{called:?}");
}

#[test]
fn a_number_in_the_file_of_a_run_that_a_full_disk_spoilt_is_not_that_of_the_next_run() {
    for left in [0, 8] {
        let repo = training_repo();
        let Some(_disk) = SmallDisk::under(&repo) else {
            eprintln!("skipped: no small file system can be mounted here");
            return;
        };
        make_folder_to_fill(&repo);
        repo.write(".git/info/exclude", "fill\nout.json\n");
        let print = |number: &str| format!("echo '{{\"loss\": {number}}}' > out.json;");
        let fill = filling(&repo, Scarce::Blocks, left, 1, [&print("0.5"), "exit 1;"]);
        let train = format!("{fill}; [ $AR_EXPERIMENT = 1 ] || {} echo done", print("2.0"));
        let args = ["run", "--yes", "--metric", "loss", "--metric-file", "out.json:/loss", "--max-experiments", "1"];
        ar(&repo, args.iter().chain(&["--cmd", &train, "--agent", &agent("better")])).exits(4);
        repo.rm("fill/0");
        let called = ar(&repo, ["resume"]).ok();
        assert!(called.stdout.contains("the run did not write the metric file out.json"), "{left}: {called:?}");
    }
}

#[test]
fn a_number_before_output_that_the_disk_did_not_take_is_not_that_of_the_run() {
    let repo = training_repo();
    let Some(_disk) = SmallDisk::under(&repo) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    make_folder_to_fill(&repo);
    let before = "echo val_bpb: 0.5; until grep -q 0.5 $AR_RUN_DIR/run.log; do sleep 0.02; done;";
    let more = "head -c 9000 /dev/zero | tr '\\0' x; echo; echo val_bpb: 3; sleep 1; rm fill/0; exit 0;";
    let train = format!("{}; sh train.sh", filling(&repo, Scarce::Blocks, 0, 1, [before, more]));
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--max-experiments", "1", "--cmd", &train];
    let called = ar(&repo, args.into_iter().chain(["--agent", "echo '# change' >> train.sh"])).ok();
    assert!(called.stdout.contains("   1  discard  2.000000 "), "{called:?}");
    assert!(called.stderr.contains("lacks output that could not be written"), "{called:?}");
}

#[test]
fn a_run_can_be_ended_on_a_full_disk() {
    let alone = |full: bool| {
        let repo = training_repo();
        let disk = SmallDisk::under(&repo)?;
        let (mut child, go) = waiting_loop(&repo);
        child.kill().unwrap();
        child.wait().unwrap();
        disk.fill();
        if !full {
            let fill = File::options().write(true).open(disk.path().join("fill")).unwrap();
            fill.set_len(fill.metadata().unwrap().len() - 150_000).unwrap();
        }
        let said = ar(&repo, ["stop", "--now"]).ok().stdout;
        assert!(!LOCAL.is_busy(&repo.file(".autoresearch/t/runs/00001")), "{said}");
        disk.free();
        fs::write(go, "").unwrap();
        ar(&repo, ["resume", "--max-experiments", "1"]).ok();
        assert_eq!((repo.read("results.tsv").lines().count(), repo.status().as_str()), (3, ""));
        Some(said)
    };
    let (Some(little), Some(none)) = (alone(false), alone(true)) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    assert_eq!(little, "terminated the run of experiment 1 and rolled its change back\n");
    assert!(none.starts_with("terminated the run of experiment 1; the disk is too full for the rest"), "{none}");
}

#[test]
fn a_request_to_stop_that_finds_no_room_names_another_way() {
    let repo = training_repo();
    let Some(disk) = SmallDisk::under(&repo) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let (child, go) = waiting_loop(&repo);
    disk.fill();
    let error = ar(&repo, ["stop"]).exits(1).stderr;
    assert!(error.contains(&format!("kill -INT {}", child.id())), "{error}");
    let error = ar(&repo, ["stop", "--now"]).exits(1).stderr;
    let command = format!("kill -TERM {}", child.id());
    assert!(
        error.contains("cannot write the request to stop: the disk is full") && error.contains(&command),
        "{error}"
    );
    Command::new("sh").args(["-c", &command]).status().unwrap();
    Called::from(child.wait_with_output().unwrap()).exits(4);
    assert!(!LOCAL.is_busy(&repo.file(".autoresearch/t/runs/00001")));
    disk.free();
    fs::write(go, "").unwrap();
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert_eq!((repo.read("results.tsv").lines().count(), repo.status().as_str()), (3, ""));
}

#[test]
fn a_job_that_cannot_begin_on_a_full_disk_leaves_no_word_that_it_failed() {
    let repo = TestRepo::new();
    let Some(disk) = SmallDisk::mount(repo.outside().join("small")) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    // Where only the log finds no room, there is room to say so.
    let folder = repo.outside().join("run");
    let job = Job {
        name: "run".into(),
        command: "true".into(),
        cwd: "/".into(),
        log: disk.path().join("run.log"),
        folder: folder.clone(),
        stdin: None,
        env: Vec::new(),
        timeout: Duration::from_secs(60),
        silence: None,
        grace: Duration::from_secs(60),
        watched: None,
        gpu_sharers: None,
        wall: None,
        answers: false,
        ticket: None,
        log_limit: None,
        tied: false,
    };
    let run = || block_on(async { LOCAL.start(&job)?.wait().await });
    let mut fillers = 0..;
    while File::create(disk.path().join(fillers.next().unwrap().to_string())).is_ok() {}
    let ended = run();
    let Err(ExecError::File { source, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(source.kind(), ErrorKind::StorageFull);
    assert!(!folder.join("started.json").exists() && !folder.join("exit.json").exists());
    fs::remove_file(disk.path().join("0")).unwrap();
    assert_eq!(run().unwrap().exit, Some(0));
}

#[test]
fn a_line_that_does_not_fit_is_not_there_at_all() {
    let repo = TestRepo::new();
    let Some(disk) = SmallDisk::mount(repo.outside().join("small")) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    // Both end six bytes before the end of a block.
    let log = disk.path().join("work.jsonl");
    fs::write(&log, format!("{}\n", "x".repeat(4089))).unwrap();
    let rows = disk.path().join("results.tsv");
    let header = "commit_hash\tloss\tmemory_gb\tstatus\tdescription\n";
    fs::write(&rows, format!("{header}#{}\n", "x".repeat(4088 - header.len()))).unwrap();
    let before = (fs::read(&log).unwrap(), fs::read(&rows).unwrap());
    disk.fill();
    assert!(append_line(&log, "{\"a line\": \"that is longer\"}").is_err());
    let entry = Entry {
        commit: &CommitId::new("a".repeat(40)),
        value: None,
        memory_gb: None,
        outcome: Outcome::Crash,
        failure: None,
        description: "does not fit",
        is_partial: false,
        is_refused: false,
        is_baseline: false,
    };
    let mut ledger = LedgerFile::open(&rows, "loss", LedgerDialect::Ar).unwrap();
    assert!(ledger.append(&entry).is_err());
    assert_eq!((fs::read(&log).unwrap(), fs::read(&rows).unwrap()), before);
    disk.free();
    append_line(&log, "{}").unwrap();
    ledger.append(&entry).unwrap();
    assert!(fs::read_to_string(&log).unwrap().ends_with("x\n{}\n"));
    assert!(fs::read_to_string(&rows).unwrap().ends_with("x\naaaaaaaa\tnan\tnan\tfailed\tdoes not fit\n"));
}

#[test]
fn a_baseline_that_is_recorded_gets_its_row_later_when_it_cannot_be_written_at_once() {
    let repo = training_repo();
    let (trace, rows) = (repo.outside().join("trace"), repo.file("results.tsv"));
    let [trace, rows] = [trace, rows].map(|path| path.display().to_string());
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let mut command = ar_command(&repo, &repo.path(), args);
    let fault = format!("[ \"$(tail -n 1 {trace})\" != recording.recorded ] || mkdir {rows}");
    let called = Called::from(command.env("AR_CRASH_TRACE", &trace).env("AR_CRASH_RUN", fault).output().unwrap());
    let called = called.exits(4);
    assert!(called.stderr.contains("results.tsv`"), "{called:?}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch"]).lines().count(), 1);
    ar(&repo, ["resume"]).ok();
    assert!(repo.read("results.tsv").ends_with("\t2.000000\t14.3\timproved\tbaseline\n"));
    assert_eq!(repo.read("results.tsv").lines().count(), 2);
}

#[test]
fn a_run_that_fails_where_the_disk_of_its_temporary_files_is_full_may_be_tried_again() {
    let repo = training_repo();
    let Some(disk) = SmallDisk::mount(repo.outside().join("small")) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let fill = "head -c 100000000 /dev/zero > $TMPDIR/filled 2>/dev/null; exit 1";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "2"];
    let mut command = ar_command(&repo, &repo.path(), args);
    command.env("TMPDIR", disk.path()).args(["--agent", &format!("echo '{fill}' > train.sh")]);
    let called = Called::from(command.output().unwrap()).ok();
    let report = ar(&repo, ["show", "1", "--format", "json"]).ok().json();
    let cause = format!("the disk of {} was full", disk.path().display());
    assert_eq!(report["outside_cause"], Value::from(cause), "{called:#?} {report}");
    let again = ar(&repo, ["show", "2", "--format", "json"]).ok().json();
    assert_eq!(again["failure"]["class"], "no_output", "the same change is no duplicate: {again}");
}
