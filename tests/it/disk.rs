//! A disk that is full at any moment of an experiment: the loop stops, nothing is torn, and with room it goes on.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::kill::outcome;
use crate::run_loop::{agent, training_repo};
use crate::support::{Called, SmallDisk, TestRepo, ar};

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
}

/// A command that, once and for one experiment, leaves only so much on the disk of the repository.
fn filling(repo: &TestRepo, scarce: Scarce, left: u32, id: u32) -> String {
    let once = repo.outside().join("filled");
    let fill = match scarce {
        Scarce::Blocks => {
            format!("cat /dev/zero >.git/fill/0 2>/dev/null; truncate -s -$(({left} * 4096)) .git/fill/0")
        }
        Scarce::Files => format!(
            "( while : >.git/fill/$((n += 1)); do :; done ) 2>/dev/null; \
             for n in $(ls .git/fill | tail -n {left}); do rm .git/fill/$n; done"
        ),
    };
    format!("if [ ! -e {0} ] && [ $AR_EXPERIMENT = {id} ]; then touch {0}; {fill}; fi", once.display())
}

fn session(repo: &TestRepo, full: Option<(Moment, Scarce, u32)>) -> Called {
    let (mut train, mut agent) = ("sh train.sh".to_owned(), agent(STEPS));
    if let Some((moment, scarce, left)) = full {
        let filling = |id| filling(repo, scarce, left, id);
        match moment {
            Moment::AfterAgent(id) => agent = format!("{agent}; {}", filling(id)),
            Moment::BeforeRun(id) => train = format!("{}; {train}", filling(id)),
            Moment::AfterRun(id) => train = format!("{train}; {}", filling(id)),
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

/// Fills the disk under a session but for `left` at one moment, makes room, and compares what comes of it with `expected`.
/// Whether it had to stop; `None` where no such disk can be had.
fn stops_and_goes_on(moment: Moment, scarce: Scarce, left: u32, expected: &str) -> Option<bool> {
    let what = format!("{moment:?}, {scarce:?}: {left}");
    let repo = training_repo();
    let _disk = SmallDisk::under(&repo)?;
    fs::create_dir(repo.file(".git/fill")).unwrap();
    let called = session(&repo, Some((moment, scarce, left)));
    assert_nothing_torn(&repo, &what);
    let stopped = called.code != Some(0);
    if stopped {
        assert_eq!(called.code, Some(4), "{what}: {called:#?}");
        assert!(called.stderr.contains("disk") && called.stderr.contains("; then `ar resume` goes on"), "{called:#?}");
        let again = ar(&repo, ["resume"]).exits(1);
        assert!(again.stderr.contains("the disk has no room for an experiment"), "{what}: {again:#?}");
    }
    fs::remove_dir_all(repo.file(".git/fill")).unwrap();
    if stopped {
        ar(&repo, ["resume"]).ok();
    }
    assert_eq!(outcome(&repo), expected, "{what}");
    assert_nothing_torn(&repo, &what);
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
        for left in *amounts {
            stops.push(stops_and_goes_on(*moment, *scarce, *left, &expected)?);
        }
    }
    Some((stops.iter().filter(|stopped| **stopped).count(), stops.len()))
}

#[test]
fn a_disk_that_is_full_at_any_step_stops_a_session_whole_and_it_goes_on_with_room() {
    // What an experiment makes, file by file, until there are enough left for all of it.
    let noticed = full_at_each(&[
        (Moment::AfterAgent(2), Scarce::Files, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]),
        (Moment::AfterRun(0), Scarce::Files, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10]),
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
        (Moment::BeforeRun(0), Scarce::Blocks, &[0, 1, 3]),
        (Moment::BeforeRun(2), Scarce::Blocks, &[0, 1, 2, 4, 20]),
        (Moment::AfterRun(2), Scarce::Blocks, &[1]),
        // The last run prints no more than a part of its log, the number not among it.
        (Moment::BeforeRun(3), Scarce::Blocks, &[3]),
    ]);
    match noticed {
        Some((stops, all)) => assert_eq!(stops, all),
        None => eprintln!("skipped: no small file system can be mounted here"),
    }
}
