//! The artifacts of keeps on several slots: moved out of the slot's tree, those of a train with its last member.

use std::fs;

use super::landscape::{check, first_call, landscape};
use crate::artifacts::{check_artifacts, left};
use crate::crash::in_parallel;
use crate::crash_points::POINTS;
use crate::kill::{in_turn, run_and_kill, soak};
use crate::support::{Called, SmallDisk, TestRepo, ar, ar_command, ar_in_time};

const EXPERIMENTS: &str = "8";

fn call(repo: &TestRepo) -> Vec<String> {
    if repo.exists(".autoresearch/t/state/contract.json") {
        return vec!["resume".to_owned(), "t".to_owned()];
    }
    let more = ["--slots", "3", "--calls", "3", "--max-experiments", EXPERIMENTS];
    let mut args = first_call(repo, ["0.03", "0.02"], "broken", &more);
    let command = args.iter().position(|arg| arg == "--cmd").unwrap() + 1;
    let write = "mkdir -p out; git rev-parse 'HEAD^{tree}' > out/model; cp out/model out/last";
    args[command] = format!("{write}; {}", args[command]);
    args.extend(["--artifact".to_owned(), "out".to_owned()]);
    args
}

/// Checks the session, and that what each keep with a number left is what a run of its very tree wrote.
#[track_caller]
fn check_all(repo: &TestRepo, what: &str) {
    let records = check(repo, what);
    check_artifacts(repo, &records, what);
    assert_eq!(records.len(), EXPERIMENTS.parse::<usize>().unwrap() + 1, "{what}");
    for record in &records {
        let id = u32::try_from(record["id"].as_u64().unwrap()).unwrap();
        let has_number = record["outcome"] == "keep" && !record["metric"]["value"].is_null();
        let tree = repo.git(["rev-parse", &format!("{}^{{tree}}", record["commit"].as_str().unwrap())]);
        let files = left(repo, id);
        assert_eq!(files.len(), if has_number { 2 } else { 0 }, "{what}: {record}");
        assert!(files.values().all(|content| content.trim() == tree), "{what}: {record} {files:?}");
    }
}

#[test]
fn on_slots_each_keep_with_a_number_has_the_files_of_the_run_that_gave_it() {
    let repo = landscape();
    ar(&repo, call(&repo)).ok();
    check_all(&repo, "whole");
}

#[test]
fn a_guard_on_slots_reads_what_the_run_left() {
    let repo = landscape();
    let guard = ["--guard", "test -s out/model && echo guard > out/model"].map(str::to_owned);
    ar(&repo, [call(&repo), guard.to_vec()].concat()).ok();
    check_all(&repo, "with a guard");
}

#[test]
fn across_file_systems_a_copy_takes_the_place_of_the_move() {
    let repo = landscape();
    let Some(disk) = SmallDisk::mount(repo.outside().join("disk")) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    fs::create_dir_all(repo.file(".autoresearch/t")).unwrap();
    repo.symlink(disk.path(), ".autoresearch/t/runs");
    ar(&repo, call(&repo)).ok();
    check_all(&repo, "on two disks");
}

#[test]
fn kills_of_three_slots_leave_exactly_the_artifacts_of_the_keeps() {
    let mut kills = 0;
    while kills < soak().unwrap_or(4) {
        let repo = landscape();
        kills += run_and_kill(&repo, kills, [150, 197, 2000], call);
        check_all(&repo, &format!("after {kills} kills"));
    }
    let points: Vec<_> =
        POINTS.iter().filter(|point| point.starts_with("artifacts.") && !point.contains("drop")).collect();
    in_parallel(&in_turn(&points, &[1, 3]), |(point, time)| {
        let kill = |repo: &TestRepo, time: usize| {
            fs::write(repo.outside().join("trace"), "").unwrap();
            let mut command = ar_command(repo, &repo.path(), call(repo));
            command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:{time}"));
            Called::from(command.output().unwrap())
        };
        let (mut repo, mut time) = (landscape(), *time);
        let mut killed = kill(&repo, time);
        // Winners that ride together leave their files once: how often that is, the order of runs decides.
        while killed.code.is_some() && time > 1 {
            check_all(&repo, &format!("{point} came less than {time} times"));
            (repo, time) = (landscape(), time - 1);
            killed = kill(&repo, time);
        }
        assert_eq!(killed.code, None, "{point}:{time} {killed:#?}");
        // Once more on the way back, where it is passed there, too.
        let again = kill(&repo, 1);
        assert!(again.code.is_none_or(|code| code == 0), "{point}: {again:#?}");
        ar_in_time(&repo, call(&repo)).ok();
        check_all(&repo, point);
    });
}
