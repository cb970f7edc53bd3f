//! Killed in any way, a session in which all that decides on a change is on at once loses nothing, doubles nothing and leaves nothing
//! behind: fresh runs, slots, calls ahead, guards with reworks, a reviewer, rechecks and second looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::kill::{run_and_kill_by, soak};
use crate::lanes::landscape::records;
use crate::support::{TestRepo, ar, ar_command, in_time};

/// The layouts, by turns.
const LAYOUTS: [&[&str]; 3] =
    [&[], &["--slots", "2", "--calls", "2", "--ahead", "1"], &["--slots", "3", "--calls", "1"]];

/// How a session is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `ar` alone, at random moments.
    Alone,
    /// `ar` alone, at points that sessions in the layout pass.
    AtPoints,
    /// All processes, at random moments, as if the machine had lost its power.
    Together,
}

/// By turns: ideas that help, of which some fail a guard at first, one that all but helps, and others that harm. A gain is in tenths.
/// Some that help write the same line, so that beside each other they conflict.
const AGENT: &str = "cat > /dev/null\nn=$AR_EXPERIMENT\nsleep 0.0$((n % 5 * 2))\n\
                     if [ -e bad ]; then rm bad; echo mended; exit; fi\n\
                     may_fail=:; ! grep -q '^The change below.*conflicts with experiment' $AR_PROMPT || may_fail=\n\
                     case $((n % 8)) in 1|5) gain=7;; 2) gain=8; ${may_fail:+touch bad};; 3) gain=-1;; \
                     0) gain=9; ${may_fail:+touch bad};; *) gain=-$((n % 4 + 3));; esac\n\
                     echo $gain > ideas/$n\n\
                     case $((n % 8)) in 1|2|5) echo $n > shared;; esac\n\
                     printf '{\"direction\": \"idea n%s\"}\\n' $n > $AR_PROPOSAL\n\
                     echo idea $n takes off $gain\n";

/// The experiment that the reviewer refuses.
const REFUSED: u64 = 5;

/// Refuses one experiment, and is out once.
const REVIEWER: &str = "cat > /dev/null\nsleep 0.0$((AR_EXPERIMENT % 4 * 3))\n\
                        if mkdir ${0%/*}/was-out 2>/dev/null; then echo overloaded; exit 1; fi\n\
                        case $AR_EXPERIMENT in 5) verdict=not_earned;; *) verdict=earned;; esac\n\
                        printf '{\"verdict\": \"%s\", \"why\": \"so it is\"}\\n' $verdict\n";

/// How many experiments a session makes, not counting second looks.
fn experiments() -> usize {
    if soak().is_some() { 12 } else { 8 }
}

/// When kills come, in milliseconds: from the first one on, in steps, over a span.
fn moments() -> [u64; 3] {
    if soak().is_some() { [60, 97, 700] } else { [150, 197, 900] }
}

/// A repository in which gains add up: each file in `ideas` has what it takes off the loss, with noise by seed. Each run says
/// outside which one it is, when it begins and when it ends.
fn noisy_landscape() -> TestRepo {
    let repo = TestRepo::empty();
    let train = format!(
        "run=\"$AR_EXPERIMENT $(basename $AR_RUN_DIR) $AR_SEED $AR_COMMIT\"\n\
         echo \"begins $run\" >> {0}/runs\n\
         sleep 0.0$((AR_SEED * 3 % 8))\n\
         awk -v s=$AR_SEED '{{ sum += $1 }} END {{ v = 500 - sum; print \"loss: \" (v * 10 + (s * 37 + v * 11) % 17) / 100 }}' ideas/*\n\
         echo \"ends $run\" >> {0}/runs\n",
        repo.outside().display()
    );
    repo.write("train.sh", train);
    repo.write("guard.sh", "[ ! -e bad ]\n");
    repo.write("ideas/0", "0\n");
    repo.write("shared", "0\n");
    repo.commit_all("a landscape with noise");
    repo.write("../agent.sh", AGENT);
    repo.write("../review.sh", REVIEWER);
    repo
}

/// The hundredth parts of what a run gives.
fn expected_value(repo: &TestRepo, (seed, commit): &(u64, String)) -> i64 {
    let ideas = repo.git(["grep", "-h", "-e", "", commit, "--", "ideas"]);
    let value = 500 - ideas.lines().map(|line| line.trim().parse::<i64>().unwrap()).sum::<i64>();
    value * 10 + (i64::try_from(*seed).unwrap() * 37 + value * 11) % 17
}

/// The next call for the session.
fn next_call(repo: &TestRepo, layout: &[&str]) -> Vec<String> {
    if repo.exists(".autoresearch/t/state/contract.json") {
        return vec!["resume".to_owned(), "t".to_owned()];
    }
    let outside = repo.outside().display().to_string();
    let (agent, reviewer) = (format!("sh {outside}/agent.sh"), format!("sh {outside}/review.sh"));
    let count = experiments().to_string();
    let run = ["run", "--yes", "--metric", "loss", "--tag", "t", "--cmd", "sh train.sh", "--agent", &agent];
    let decide = ["--decide", "confirmed", "--recheck", "2", "--second-look", "3", "--reviewer", &reviewer];
    let guards = ["--guard", "sh guard.sh", "--guard", "true", "--max-experiments", &count];
    [&run[..], &decide, &guards, layout].concat().into_iter().map(str::to_owned).collect()
}

/// The lines that the training script has written with this word, which says whether a run begins or ends: the experiment, the
/// folder, the seed and the commit.
fn noted(repo: &TestRepo, word: &str) -> Vec<String> {
    let text = fs::read_to_string(repo.outside().join("runs")).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix(word)).map(|line| line.trim().to_owned()).collect()
}

/// The folder of a run that the training script has noted, its role as far as that says it, its seed and its commit.
fn of_line(line: &str) -> (&str, &str, (u64, String)) {
    let [id, folder, seed, commit] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let role = match folder.split_once('-') {
        Some((role, _)) => role,
        None if id == "0" => "baseline",
        None => "first",
    };
    (folder, role, (seed.parse().unwrap(), commit.to_owned()))
}

/// The runs of a record: the role, the seed with the commit, and the value. One without a commit is of that of its version.
fn runs_of(record: &Value) -> Vec<(String, (u64, String), Option<f64>)> {
    let mut versions = record["versions"].as_array().into_iter().flatten();
    let runs = record["runs"].as_array().unwrap().iter();
    runs.map(|run| {
        let version = if run["void"] == true { versions.next() } else { None };
        let commit = run["commit"].as_str().or(version.unwrap_or(record)["commit"].as_str()).unwrap();
        let role = run["role"].as_str().unwrap().to_owned();
        (role, (run["seed"].as_u64().unwrap(), commit.to_owned()), run["value"].as_f64())
    })
    .collect()
}

/// Checks that each run was made once, that it is in the records, and that these have no other one. Those that were `lost`, as
/// their processes were killed, may have been made again.
#[track_caller]
fn check_runs(repo: &TestRepo, records: &[Value], lost: &BTreeSet<String>, what: &str) {
    let mut begun = noted(repo, "begins");
    // A rerun of the best experiment ends with its `ar`, and is made again.
    begun.retain(|line| !line.contains(" check-") && !lost.contains(line));
    begun.sort();
    let twice: Vec<&String> = begun.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "{what}: made twice: {twice:#?}");

    let lost: BTreeSet<(u64, String)> = lost.iter().map(|line| of_line(line).2).collect();
    let mut known = BTreeMap::new();
    for record in records {
        let runs = runs_of(record);
        let different: BTreeSet<_> = runs.iter().map(|(role, run, _)| (role, run)).collect();
        assert_eq!(different.len(), runs.len(), "{what}: a run is counted twice: {record}");
        for (role, run, value) in &runs {
            match value.map(|value| (value * 100.0).round() as i64) {
                Some(value) => assert_eq!(value, expected_value(repo, run), "{what}: {run:?} of {record}"),
                None => assert!(lost.contains(run), "{what}: {run:?} of {record}"),
            }
            known.insert(run.clone(), role.clone());
        }
        check_number(record, &runs, what);
    }
    let mut made = lost.clone();
    for line in noted(repo, "ends") {
        let (_, role, run) = of_line(&line);
        if role == "check" {
            continue;
        }
        // The first run of an experiment, a second look or a trial is in the same kind of folder.
        let is_it = |known: &String| known == role || role == "first" && known != "baseline";
        // A trial that nobody had any use for is in no record; nor is the start that was lost of a run that was given up.
        let may_be_useless = ["trial", "first"].contains(&role);
        let is_useless = || may_be_useless && !records.iter().any(|record| record.to_string().contains(&run.1));
        let is_of_it = |record: &&Value| record["commit"] == run.1.as_str() && record["failure"]["class"] == "lost";
        let is_given_up = || lost.contains(&run) && records.iter().any(|record| is_of_it(&record));
        let is_counted = known.get(&run).is_some_and(is_it) || is_useless() || is_given_up();
        assert!(is_counted, "{what}: {line} is lost, {:?}: {records:#?}", known.get(&run));
        made.insert(run);
    }
    let invented: Vec<_> = known.keys().filter(|run| !made.contains(*run)).collect();
    assert!(invented.is_empty(), "{what}: nobody made {invented:#?}");
}

/// Checks that the number of a record is the mean of the runs that decide on its commit.
#[track_caller]
fn check_number(record: &Value, runs: &[(String, (u64, String), Option<f64>)], what: &str) {
    let Some(number) = record["metric"]["value"].as_f64() else { return };
    let own = runs.iter().filter(|(_, (_, commit), _)| record["commit"] == commit.as_str());
    let (screens, fresh): (Vec<_>, Vec<_>) = own.partition(|(role, ..)| role == "screen");
    let deciding = if fresh.is_empty() { screens } else { fresh };
    let values: Vec<f64> = deciding.iter().filter_map(|(.., value)| *value).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    assert!((number - mean).abs() < 0.006, "{what}: {number} is not the mean of {values:?}: {record}");
}

/// Checks that what is kept is a chain of changes that passed both guards and a review, and that the branch is at its end.
#[track_caller]
fn check_keeps(repo: &TestRepo, records: &[Value], what: &str) {
    let mut tip = records[0]["commit"].as_str().unwrap().to_owned();
    for record in records.iter().filter(|record| record["outcome"] == "keep" && record["id"] != 0) {
        let commit = record["commit"].as_str().unwrap();
        assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), tip, "{what}: {record}");
        let passed = record["guards"].as_array().unwrap().iter().filter(|guard| guard["passed"] == true).count();
        assert_eq!(passed, 2, "{what}: {record}");
        assert!(record["review"]["verdict"].is_string(), "{what}: {record}");
        assert!(is_look(record) || record["id"] != REFUSED, "{what}: the reviewer refuses it: {record}");
        commit.clone_into(&mut tip);
    }
    assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), tip, "{what}");
}

fn is_look(record: &Value) -> bool {
    record["second_look"]["of"].is_u64()
}

/// Checks all that must hold of a session that has come to an end, however it got there. Gives its records.
#[track_caller]
fn check(repo: &TestRepo, layout: &[&str], lost: &BTreeSet<String>, what: &str) -> Vec<Value> {
    let records = records(repo);
    let places: Vec<u64> = records.iter().map(|record| record["sequence"].as_u64().unwrap()).collect();
    assert_eq!(places, (0..records.len() as u64).collect::<Vec<_>>(), "{what}: the places have no gaps");
    let ids: BTreeSet<u64> = records.iter().map(|record| record["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), records.len(), "{what}: each number is used once");
    let looks = records.iter().filter(|record| is_look(record));
    let looked: BTreeSet<u64> = looks.clone().map(|record| record["second_look"]["of"].as_u64().unwrap()).collect();
    assert_eq!(looked.len(), looks.count(), "{what}: no discard is looked at twice");
    let own = records.iter().filter(|record| record["id"] != 0 && !is_look(record));
    let own: BTreeSet<u64> = own.map(|record| record["id"].as_u64().unwrap()).collect();
    assert_eq!(own.len(), experiments(), "{what}: {records:#?}");
    check_runs(repo, &records, lost, what);
    check_keeps(repo, &records, what);

    let rows = repo.read("results.tsv");
    let rows: Vec<&str> = rows.lines().skip(1).map(|row| row.split('\t').next().unwrap()).collect();
    let commits: Vec<&str> = records.iter().map(|record| &record["commit"].as_str().unwrap()[..8]).collect();
    assert_eq!(rows, commits, "{what}: one row for each record, in their order");
    let log = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    let iterations =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["experiment"].as_u64().unwrap());
    let mut iterations: Vec<u64> = iterations.collect();
    iterations.sort_unstable();
    assert_eq!(iterations, own.into_iter().collect::<Vec<_>>(), "{what}: one line for each experiment: {log}");
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let mut accused = log.lines().filter(|line| line.contains(" active: ") || line.contains("restored "));
    assert_eq!(accused.next(), None, "{what}: nobody changed anything");
    check_left(repo, layout, &records, what);
    records
}

/// Checks that a session leaves nothing behind.
#[track_caller]
fn check_left(repo: &TestRepo, layout: &[&str], records: &[Value], what: &str) {
    let branch = if layout.is_empty() { "refs/heads/autoresearch/t" } else { "refs/heads/main" };
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
        let runs: Vec<_> = runs_of(record).into_iter().map(|(role, (seed, _), _)| format!("{role} {seed}")).collect();
        let (outcome, number) = (&record["outcome"], &record["metric"]["raw"]);
        format!("{} {outcome} {number} {runs:?} {}", record["id"], record["second_look"]["of"])
    };
    records.iter().map(of).collect()
}

/// What a session comes to that nobody kills.
struct Whole {
    /// The points at which `ar` can be killed, each as often as it is passed.
    points: BTreeMap<String, u64>,
    came_of: Vec<String>,
}

impl Whole {
    fn of(layout: &[&str]) -> Whole {
        let repo = noisy_landscape();
        let trace = repo.outside().join("trace");
        let mut command = ar_command(&repo, &repo.path(), next_call(&repo, layout));
        command.env("AR_CRASH_TRACE", &trace);
        in_time(command).ok();
        let came_of = came_of(&check(&repo, layout, &BTreeSet::new(), "not killed"));
        let mut points = BTreeMap::new();
        for point in fs::read_to_string(trace).unwrap().lines().filter(|point| !point.starts_with("shim.")) {
            *points.entry(point.to_owned()).or_insert(0) += 1;
        }
        Whole { points, came_of }
    }
}

/// Brings a session to its end that is killed at points on the way. Gives the number of kills.
fn run_and_kill_at_points(repo: &TestRepo, layout: &[&str], points: &BTreeMap<String, u64>, salt: u64) -> u64 {
    const MOST: u64 = 5;
    let mut kills = 0;
    for call in 0.. {
        let mut command = ar_command(repo, &repo.path(), next_call(repo, layout));
        let chance = (salt + call).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let chosen = points.iter().nth((chance % points.len() as u64) as usize).unwrap();
        // Later calls pass a point less often.
        let time = 1 + chance / 997 % if call == 0 { *chosen.1 } else { (*chosen.1).min(6) };
        if call < MOST {
            command.env("AR_CRASH_TRACE", repo.outside().join(format!("trace-{call}")));
            command.env("AR_CRASH_AT", format!("{}:{time}", chosen.0));
        }
        let called = in_time(command);
        match called.code {
            None => kills += 1,
            Some(0) => break,
            Some(_) => panic!("after kills at {:?}:{time} and others, salt {salt}: {called:#?}", chosen.0),
        }
    }
    kills
}

/// Ends a call and all that it has started; gives the runs that are lost by that: they have begun, and no shim has noted their end.
fn kill_together(repo: &TestRepo, child: &mut Child) -> BTreeSet<String> {
    child.kill().unwrap();
    child.wait().unwrap();
    while let left = repo.processes()
        && !left.is_empty()
    {
        Command::new("kill").arg("-KILL").args(left).stderr(Stdio::null()).status().unwrap();
    }
    let runs = repo.file(".autoresearch/t/runs");
    let is_over = |line: &String| {
        let first = format!("{:0>5}", line.split(' ').next().unwrap());
        let (folder, role, _) = of_line(line);
        // Further runs of the baseline are in the folder of an experiment that asks for them: that one is not noted.
        let folder =
            if ["first", "baseline"].contains(&role) { runs.join(folder) } else { runs.join(first).join(folder) };
        folder.join("exit.json").exists()
    };
    noted(repo, "begins").into_iter().filter(|line| !is_over(line)).collect()
}

#[test]
fn all_features_at_once_lose_and_double_nothing_however_a_session_is_killed() {
    let ways = match soak() {
        Some(_) if cfg!(debug_assertions) => &[Way::Alone, Way::AtPoints, Way::Together][..],
        Some(_) => &[Way::Alone, Way::Together],
        None => &[Way::Alone],
    };
    let mut turns = ways.iter().flat_map(|way| LAYOUTS.map(|layout| (*way, layout))).cycle();
    let mut wholes: BTreeMap<&[&str], Whole> = BTreeMap::new();
    let mut kills = 0;
    while kills < soak().unwrap_or(6) {
        let Some((way, layout)) = turns.next() else { break };
        let repo = noisy_landscape();
        let mut lost = BTreeSet::new();
        let call = |repo: &TestRepo| next_call(repo, layout);
        let killed = match way {
            Way::Alone => run_and_kill_by(&repo, kills, moments(), call, |child| child.kill().unwrap()),
            Way::AtPoints => {
                let points = &wholes.entry(layout).or_insert_with(|| Whole::of(layout)).points;
                run_and_kill_at_points(&repo, layout, points, kills)
            }
            Way::Together => {
                run_and_kill_by(&repo, kills, moments(), call, |child| lost.extend(kill_together(&repo, child)))
            }
        };
        kills += killed;
        let what = format!("{way:?} {layout:?} after {killed} kills of {kills}");
        let records = check(&repo, layout, &lost, &what);
        if soak().is_some() {
            eprintln!("{what}: {} records, {} runs", records.len(), noted(&repo, "ends").len());
        }
        if way == Way::AtPoints && layout.is_empty() {
            assert_eq!(came_of(&records), wholes[layout].came_of, "{what}");
        }
    }
}
