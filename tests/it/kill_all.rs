//! Killed at any moment, a session with all that decides on a change at once loses nothing, doubles nothing and leaves nothing
//! behind: fresh runs, slots, calls ahead, guards with reworks, a reviewer, rechecks and second looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::kill::{run_and_kill, soak};
use crate::lanes::landscape::records;
use crate::support::{TestRepo, ar, ar_in_time};

/// The layouts, by turns.
const LAYOUTS: [&[&str]; 3] =
    [&[], &["--slots", "2", "--calls", "2", "--ahead", "1"], &["--slots", "3", "--calls", "1"]];

/// How many experiments a session makes, not counting second looks.
fn experiments() -> usize {
    if soak().is_some() { 12 } else { 8 }
}

/// A repository in which gains add up: each file in `ideas` has what it takes off the loss, with noise by seed. Each run says
/// outside which one it is, when it begins and when it ends.
fn noisy_landscape() -> TestRepo {
    let repo = TestRepo::empty();
    let train = format!(
        "run=\"$AR_EXPERIMENT $(basename $AR_RUN_DIR) $AR_SEED $AR_COMMIT\"\n\
         echo \"begins $run\" >> {0}/runs\n\
         awk -v s=$AR_SEED '{{ sum += $1 }} END {{ v = 500 - sum; print \"loss: \" (v * 10 + (s * 37 + v * 11) % 17) / 100 }}' ideas/*\n\
         echo \"ends $run\" >> {0}/runs\n",
        repo.outside().display()
    );
    repo.write("train.sh", train);
    repo.write("guard.sh", "[ ! -e bad ]\n");
    repo.write("ideas/0", "0\n");
    repo.commit_all("a landscape with noise");
    repo.write("../agent.sh", AGENT);
    repo.write("../review.sh", REVIEWER);
    repo
}

/// By turns: ideas that help, of which some fail a guard at first, one that all but helps, and others that harm. A gain is in tenths.
const AGENT: &str = "cat > /dev/null\nn=$AR_EXPERIMENT\n\
                     if [ -e bad ]; then rm bad; echo mended; exit; fi\n\
                     case $((n % 8)) in 1|5) gain=7;; 2) gain=8; : > bad;; 3) gain=-1;; 0) gain=9; : > bad;; *) gain=-$((n % 4 + 3));; esac\n\
                     echo $gain > ideas/$n\n\
                     printf '{\"direction\": \"idea n%s\"}\\n' $n > $AR_PROPOSAL\n\
                     echo idea $n takes off $gain\n";

/// Refuses the fifth idea, and is out once.
const REVIEWER: &str = "cat > /dev/null\n\
                        if mkdir ${0%/*}/was-out 2>/dev/null; then echo overloaded; exit 1; fi\n\
                        if [ $AR_EXPERIMENT = 5 ]; then echo '{\"verdict\": \"not_earned\", \"why\": \"so it is\"}'; exit; fi\n\
                        echo '{\"verdict\": \"earned\", \"why\": \"it is\"}'\n";

/// The experiment that the reviewer refuses.
const REFUSED: u64 = 5;

/// When the kills come, in milliseconds: from the first one on, in steps, over a span.
fn moments() -> [u64; 3] {
    if soak().is_some() { [60, 97, 700] } else { [150, 197, 900] }
}

fn first_call(repo: &TestRepo, layout: &[&str]) -> Vec<String> {
    let outside = repo.outside().display().to_string();
    let (agent, reviewer) = (format!("sh {outside}/agent.sh"), format!("sh {outside}/review.sh"));
    let count = experiments().to_string();
    let run = ["run", "--yes", "--metric", "loss", "--tag", "t", "--cmd", "sh train.sh", "--agent", &agent];
    let decide = ["--decide", "confirmed", "--recheck", "2", "--second-look", "3", "--reviewer", &reviewer];
    let guards = ["--guard", "sh guard.sh", "--guard", "true", "--max-experiments", &count];
    [&run[..], &decide, &guards, layout].concat().into_iter().map(str::to_owned).collect()
}

/// A run of the training script, as the script itself notes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RunMade {
    seed: u64,
    commit: String,
    role: String,
}

/// The lines that the training script has written with this word, which says whether it begins or ends.
fn noted(repo: &TestRepo, word: &str) -> Vec<String> {
    let text = fs::read_to_string(repo.outside().join("runs")).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix(word)).map(|line| line.trim().to_owned()).collect()
}

/// The runs that came to their end, without reruns of the best experiment, which have no record.
fn runs_made(repo: &TestRepo) -> Vec<RunMade> {
    let run = |line: &String| {
        let [id, folder, seed, commit] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let role = match folder.split_once('-') {
            Some((role, _)) => role,
            None if id == "0" => "baseline",
            None => "first",
        };
        RunMade { seed: seed.parse().unwrap(), commit: commit.to_owned(), role: role.to_owned() }
    };
    noted(repo, "ends").iter().map(run).filter(|run| run.role != "check").collect()
}

/// The runs of a record, each with its value. One without a commit is of that of its version.
fn runs_of(record: &Value) -> Vec<(RunMade, Option<f64>)> {
    let mut versions = record["versions"].as_array().into_iter().flatten();
    let runs = record["runs"].as_array().unwrap().iter();
    runs.map(|run| {
        let version = if run["void"] == true { versions.next() } else { None };
        let commit = run["commit"].as_str().or(version.unwrap_or(record)["commit"].as_str()).unwrap();
        // The first run of a second look is a fresh one, and that of a trial is in the folder of a first one.
        let role = run["role"].as_str().unwrap().to_owned();
        (RunMade { seed: run["seed"].as_u64().unwrap(), commit: commit.to_owned(), role }, run["value"].as_f64())
    })
    .collect()
}

/// The hundredth parts of what a run gives.
fn expected_value(repo: &TestRepo, RunMade { seed, commit, .. }: &RunMade) -> i64 {
    let ideas = repo.git(["grep", "-h", "-e", "", commit, "--", "ideas"]);
    let value = 500 - ideas.lines().map(|line| line.trim().parse::<i64>().unwrap()).sum::<i64>();
    value * 10 + (i64::try_from(*seed).unwrap() * 37 + value * 11) % 17
}

fn hundredths(value: f64) -> i64 {
    (value * 100.0).round() as i64
}

/// Checks that each run was made once, that it is in the records, and that these have no other one.
#[track_caller]
fn check_runs(repo: &TestRepo, records: &[Value], what: &str) {
    let mut begun = noted(repo, "begins");
    // A rerun of the best experiment ends with its `ar`, and is made again.
    begun.retain(|line| !line.contains(" check-"));
    begun.sort();
    let twice: Vec<&String> = begun.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "{what}: made twice: {twice:#?}");

    let mut known: BTreeMap<(u64, String), String> = BTreeMap::new();
    for record in records {
        let runs = runs_of(record);
        let different: BTreeSet<&RunMade> = runs.iter().map(|(run, _)| run).collect();
        assert_eq!(different.len(), runs.len(), "{what}: a run is counted twice: {record}");
        for (run, value) in &runs {
            let value = value.unwrap_or_else(|| panic!("{what}: {run:?} of {record}"));
            assert_eq!(hundredths(value), expected_value(repo, run), "{what}: {run:?} of {record}");
            known.insert((run.seed, run.commit.clone()), run.role.clone());
        }
        check_number(record, &runs, what);
    }
    let made = runs_made(repo);
    for run in &made {
        let role = known.get(&(run.seed, run.commit.clone()));
        let is_it = |role: &String| *role == run.role || run.role == "first" && role != "baseline";
        // One of a trial that nobody had any use for is in no record.
        let is_replay = |record: &Value| record.to_string().contains(&run.commit);
        let is_needed = run.role != "trial" && run.role != "first" || records.iter().any(is_replay);
        assert!(role.is_some_and(is_it) || !is_needed, "{what}: {run:?} is lost, {role:?}");
    }
    let made: BTreeSet<(u64, String)> = made.into_iter().map(|run| (run.seed, run.commit)).collect();
    let invented: Vec<_> = known.keys().filter(|run| !made.contains(*run)).collect();
    assert!(invented.is_empty(), "{what}: nobody made {invented:#?}");
}

/// Checks that the number of a record is the mean of the runs that decide on its commit.
#[track_caller]
fn check_number(record: &Value, runs: &[(RunMade, Option<f64>)], what: &str) {
    let Some(number) = record["metric"]["value"].as_f64() else { return };
    let mut own: Vec<f64> = Vec::new();
    let mut deciding: Vec<f64> = Vec::new();
    for (run, value) in runs.iter().filter(|(run, _)| record["commit"] == run.commit.as_str()) {
        own.extend(value);
        deciding.extend(value.filter(|_| run.role != "screen"));
    }
    let values = if deciding.is_empty() { own } else { deciding };
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    assert!((number - mean).abs() < 0.006, "{what}: {number} is not the mean of {values:?}: {record}");
}

/// Checks all that must hold of a session that has come to an end, however it got there. Gives its records.
#[track_caller]
fn check(repo: &TestRepo, is_in_place: bool, what: &str) -> Vec<Value> {
    let records = records(repo);
    let places: Vec<u64> = records.iter().map(|record| record["sequence"].as_u64().unwrap()).collect();
    assert_eq!(places, (0..records.len() as u64).collect::<Vec<_>>(), "{what}: the places have no gaps");
    let ids: BTreeSet<u64> = records.iter().map(|record| record["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), records.len(), "{what}: each number is used once");
    let own = records.iter().filter(|record| record["second_look"]["of"].is_null()).count();
    assert_eq!(own, experiments() + 1, "{what}: {records:#?}");
    check_runs(repo, &records, what);

    let mut tip = records[0]["commit"].as_str().unwrap().to_owned();
    for record in records.iter().filter(|record| record["outcome"] == "keep" && record["id"] != 0) {
        let commit = record["commit"].as_str().unwrap();
        assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), tip, "{what}: what is kept is a chain: {record}");
        let passed = record["guards"].as_array().unwrap().iter().filter(|guard| guard["passed"] == true).count();
        assert_eq!(passed, 2, "{what}: {record}");
        assert!(record["review"]["verdict"].is_string(), "{what}: {record}");
        assert!(
            record["id"] != REFUSED || record["second_look"]["of"].is_u64(),
            "{what}: the reviewer refuses it: {record}"
        );
        commit.clone_into(&mut tip);
    }
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), tip, "{what}: the branch is at the last keep");
    let rows = repo.read("results.tsv");
    let rows: Vec<&str> = rows.lines().skip(1).map(|row| row.split('\t').next().unwrap()).collect();
    let commits: Vec<&str> = records.iter().map(|record| &record["commit"].as_str().unwrap()[..8]).collect();
    assert_eq!(rows, commits, "{what}: one row for each record, in their order");

    let branch = if is_in_place { "refs/heads/autoresearch/t" } else { "refs/heads/main" };
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), branch, "{what}");
    assert_eq!(repo.git(["rev-parse", "main"]), records[0]["commit"], "{what}");
    assert_eq!(repo.status(), "", "{what}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/open"]), "", "{what}: nothing is open");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1, "{what}: no tree is left");
    assert!(!repo.exists(".autoresearch/t/trees"), "{what}");
    let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["open"], journal.get("attempts")), (&Value::Null, None), "{what}: {journal}");
    assert_eq!(left_locks(repo), [""; 0], "{what}");
    assert_eq!(repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]), "", "{what}");
    assert_eq!(repo.processes(), [""; 0], "{what}: no process is left");
    let doctor = ar(repo, ["doctor", "t"]).ok();
    assert!(doctor.stdout.contains("no problems found"), "{what}: {doctor:#?}");
    records
}

/// The locks in git's folder, and the files with which `ar` notes its own.
fn left_locks(repo: &TestRepo) -> Vec<String> {
    let mut folders = vec![repo.file(".git")];
    let mut locks = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if name.ends_with(".lock") || name.starts_with("ar-") {
                locks.push(name);
            }
        }
    }
    locks
}

/// What came of each experiment of a session in place: outcome, number, and the roles and seeds of its runs.
fn came_of(records: &[Value]) -> Vec<String> {
    let of = |record: &Value| {
        let runs: Vec<_> = runs_of(record).into_iter().map(|(run, _)| format!("{} {}", run.role, run.seed)).collect();
        format!(
            "{} {} {} {runs:?} {}",
            record["id"], record["outcome"], record["metric"]["raw"], record["second_look"]["of"]
        )
    };
    records.iter().map(of).collect()
}

#[test]
fn all_features_at_once_lose_and_double_nothing_when_they_are_killed_at_random() {
    let mut kills = 0;
    let mut whole: Option<Vec<String>> = None;
    for layout in LAYOUTS.iter().cycle() {
        let repo = noisy_landscape();
        let before = kills;
        kills += run_and_kill(&repo, kills, moments(), |repo| first_call(repo, layout));
        let what = format!("{layout:?} after {} kills of {kills}", kills - before);
        let records = check(&repo, layout.is_empty(), &what);
        if soak().is_some() {
            eprintln!("{what}: {} records", records.len());
            if layout.is_empty() {
                let whole = whole.get_or_insert_with(|| {
                    let whole = noisy_landscape();
                    ar_in_time(&whole, first_call(&whole, layout)).ok();
                    came_of(&check(&whole, true, "not killed"))
                });
                assert_eq!(&came_of(&records), whole, "{what}");
            }
        }
        if kills >= soak().unwrap_or(6) {
            break;
        }
    }
}
