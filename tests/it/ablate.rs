//! What each kept change carries, `ar ablate`, and what two sessions are apart.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{TestRepo, ar, ar_command, ar_in_time, until};

/// The worth of the changes of a session, in standard deviations of a run.
const WORTH: &str = "1.5 0 2 0 0 1.75 0 3";

/// A repository whose command adds up the numbers in the files `idea-N`, with noise that looks random and depends on the seed
/// and the files alone. By the first seed each file seems to help. Each run notes its files and its seed.
fn repository(worth: &str) -> TestRepo {
    let repo = TestRepo::empty();
    let outside = repo.outside();
    let script = format!(
        "import glob, os, random, time\n\
         seed = os.environ['AR_SEED']\n\
         ideas = {{name: open(name).read().strip() for name in sorted(glob.glob('idea-*'))}}\n\
         note = ' '.join(name[5:] for name in ideas) + ': ' + seed + '\\n'\n\
         os.write(os.open('{0}/runs', os.O_WRONLY | os.O_APPEND | os.O_CREAT), note.encode())\n\
         while os.path.exists('{0}/hold-' + seed): time.sleep(0.02)\n\
         noise = random.Random(note).gauss(0, 1)\n\
         if len(ideas) == 3 and 'idea-4' in ideas and 'idea-3' not in ideas: raise SystemExit(3)\n\
         print('score:', len(ideas) if seed == '1' else sum(map(float, ideas.values())) + noise)\n",
        outside.display()
    );
    repo.write("train.py", script);
    repo.commit_all("a noisy script");
    let agent = format!("n=$(($(ls idea-* 2>/dev/null | wc -l) + 1)); echo {worth} | cut -d' ' -f$n > idea-$n");
    let count = worth.split(' ').count().to_string();
    let args = ["run", "--yes", "--tag", "t", "--metric", "score", "--higher", "--cmd", "python3 train.py"];
    ar_in_time(&repo, args.iter().chain(&["--agent", &agent, "--decide", "once", "--max-experiments", &count])).ok();
    fs::remove_file(outside.join("runs")).unwrap();
    repo
}

/// The runs that were made, in no order: which changes were there, and the seed.
fn made(repo: &TestRepo) -> Vec<String> {
    let text = fs::read_to_string(repo.outside().join("runs")).unwrap_or_default();
    let mut made: Vec<String> = text.lines().map(str::to_owned).collect();
    made.sort();
    made
}

/// The experiments in a list of what was kept for which `carries` is so.
fn those(found: &Value, carries: &Value) -> Vec<u64> {
    let kept = found["kept"].as_array().unwrap().iter();
    kept.filter(|it| it["carries"] == *carries).map(|it| it["experiment"].as_u64().unwrap()).collect()
}

#[test]
fn changes_that_carry_nothing_are_found_and_dropped_and_others_stay() {
    let repo = repository(WORTH);
    let before = repo.git(["status", "--porcelain", "--branch"]);
    let first = ar(&repo, ["ablate", "--slots", "2", "--format", "json"]).ok();
    assert!(first.stderr.contains("54 runs, 2 at a time"), "{first:#?}");
    let found = first.json();
    assert_eq!(
        (found["version"].as_u64(), found["best"].as_u64(), found["runs"].as_u64()),
        (Some(1), Some(8), Some(6))
    );
    let idle = those(&found, &false.into());
    assert!([2, 4, 5, 7].iter().filter(|id| idle.contains(id)).count() >= 3, "{found}");
    let largest = &found["kept"][7];
    let [low, contribution, high] = ["low", "contribution", "high"].map(|name| largest[name].as_f64().unwrap());
    assert!(0.0 < low && low < contribution && contribution < high && (contribution - 3.0).abs() < 1.5, "{largest}");
    let runs = made(&repo);
    assert_eq!(runs.len(), 54, "all that was announced, none before it");

    let dropped = ar(&repo, ["ablate", "--drop", "--format", "json"]).ok().json();
    assert_eq!(dropped["kept"], found["kept"], "the first round");
    let gone: Vec<u64> = dropped["dropped"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert!(gone.len() >= 3 && gone.iter().all(|id| [2, 4, 5, 7].contains(id)), "{gone:?}");
    assert_eq!(dropped["branch"], "t-dropped");
    let files = repo.git(["ls-tree", "--name-only", "t-dropped"]);
    for id in 1..=8 {
        assert_eq!(files.lines().any(|file| file == format!("idea-{id}")), !gone.contains(&id), "{files}");
    }
    let all = made(&repo);
    let (count, mut each) = (all.len(), all.clone());
    each.dedup();
    assert!(each.len() == count && count <= 54 + 54, "{count} runs: {all:?}");

    let again = ar(&repo, ["ablate", "--drop"]).ok();
    assert_eq!(made(&repo), all, "nothing was left to run");
    assert!(again.stdout.contains("Branch t-dropped") && again.stdout.contains("dropped"), "{again:#?}");
    let made_before = repo.git(["rev-parse", "t-dropped^{tree}"]);
    repo.git(["branch", "-D", "t-dropped"]);
    ar(&repo, ["ablate", "--drop"]).ok();
    assert_eq!(repo.git(["rev-parse", "t-dropped^{tree}"]), made_before, "it is made again");
    repo.git(["branch", "-f", "t-dropped", "main"]);
    let other = ar(&repo, ["ablate", "--drop"]).exits(1);
    assert!(other.stderr.contains("git branch -m t-dropped"), "{other:#?}");
    repo.git(["branch", "-D", "t-dropped"]);
    ar(&repo, ["ablate"]).ok();
    ar(&repo, ["ablate", "--drop"]).ok();
    assert_eq!(made(&repo), all, "nothing was left to run");
    let refs = repo.git(["for-each-ref", "--format=%(objecttype) %(contents)", "refs/autoresearch/t/ablated"]);
    let message = refs.trim().strip_prefix("tag ").unwrap();
    assert_eq!(serde_json::from_str::<Value>(message).unwrap()["dropped"], dropped["dropped"]);
    assert_eq!(repo.git(["status", "--porcelain", "--branch"]), before);
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(repo.git(["show-ref", "--heads"]).lines().count(), 3, "the user's, the session's, and the new one");
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn a_change_that_others_build_on_or_that_does_not_run_alone_cannot_be_taken_out() {
    let repo = repository("2 1 3");
    let edit = "echo 4 > idea-1; echo 1 > idea-4";
    ar_in_time(&repo, ["resume", "t", "--agent", edit, "--max-experiments", "1"]).ok();
    let called = ar(&repo, ["ablate", "--runs", "2", "--format", "json", "--tag", "t"]).ok();
    // 1 was edited by 4, and without 3 the script fails.
    let found = called.json();
    assert_eq!(those(&found, &Value::Null), [1, 3], "{found}");
    assert_eq!(found["kept"][0]["contribution"], Value::Null);
    let why = |place: usize| found["kept"][place]["why"].as_str().unwrap().to_owned();
    assert!(why(0).contains("idea-1") && why(2).contains("no number"), "{found}");
}

#[test]
fn changes_of_neighbouring_lines_are_taken_out_one_by_one() {
    let repo = TestRepo::empty();
    repo.write("train.sh", "awk '{ sum += $1 } END { print \"score: \" sum }' values\n");
    repo.write("values", "0\n0\n0\n");
    repo.commit_all("three values");
    let args = ["run", "--yes", "--tag", "t", "--metric", "score", "--higher", "--cmd", "sh train.sh"];
    let agent = "sed -i ${AR_EXPERIMENT}s/.*/1/ values";
    ar_in_time(&repo, args.iter().chain(&["--agent", agent, "--decide", "once", "--max-experiments", "3"])).ok();
    let found = ar(&repo, ["ablate", "--runs", "2", "--format", "json"]).ok().json();
    let contributions: Vec<&Value> = found["kept"].as_array().unwrap().iter().map(|it| &it["contribution"]).collect();
    assert_eq!(contributions, [1.0; 3], "{found}");
}

#[test]
fn an_ablation_that_was_killed_goes_on_and_counts_no_run_twice() {
    let repo = repository("2 0");
    fs::write(repo.outside().join("hold-7"), "").unwrap();
    let mut command = ar_command(&repo, &repo.path(), ["ablate", "--runs", "3", "--tag", "t"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run with seed 7", || made(&repo).iter().any(|run| run.ends_with(": 7")).then_some(()));
    let status = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(status.contains("running recorded experiments again"), "{status}");
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(repo.outside().join("hold-7")).unwrap();
    let found = ar(&repo, ["ablate", "--runs", "3", "--tag", "t", "--format", "json"]).ok().json();
    assert_eq!(found["kept"].as_array().unwrap().len(), 2);
    let mut runs = made(&repo);
    assert_eq!(runs.len(), 10, "nine, and the one that was killed: {runs:?}");
    runs.dedup();
    assert_eq!(runs.len(), 9, "{runs:?}");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1, "what was left of the killed one is removed");
}

#[test]
fn a_session_without_keeps_or_with_a_branch_in_the_way_is_not_ablated() {
    let repo = repository("2 0");
    repo.git(["branch", "t-dropped", "autoresearch/t"]);
    let taken = ar(&repo, ["ablate", "--drop", "--tag", "t"]).exits(1);
    assert!(taken.stderr.contains("t-dropped") && taken.stderr.contains("hint:"), "{taken:#?}");
    assert!(made(&repo).is_empty(), "said before the first run");
    let empty = TestRepo::empty();
    empty.write("train.sh", "echo val_bpb: 1\n");
    empty.commit_all("a script");
    ar_in_time(
        &empty,
        [
            "run",
            "--yes",
            "--tag",
            "u",
            "--metric",
            "val_bpb",
            "--cmd",
            "sh train.sh",
            "--agent",
            "true",
            "--max-experiments",
            "0",
        ],
    )
    .ok();
    let nothing = ar(&empty, ["ablate", "--tag", "u"]).exits(1);
    assert!(nothing.stderr.contains("hint:"), "{nothing:#?}");
}

#[test]
fn two_sessions_are_compared_and_the_second_one_keeps_what_was_found() {
    let repo = repository("2 0");
    repo.git(["checkout", "-q", "main"]);
    let args = ["run", "--yes", "--tag", "u", "--metric", "score", "--higher", "--cmd", "python3 train.py", "--decide"];
    ar_in_time(&repo, args.iter().chain(&["once", "--agent", "echo 6 > idea-9", "--max-experiments", "1"])).ok();
    let found = ar(&repo, ["verify", "t:best", "u:1", "--runs", "4", "--slots", "3", "--format", "json"]).ok().json();
    assert_eq!((&found["a"], &found["b"], &found["runs"]), (&"t:2".into(), &"u:1".into(), &4.into()));
    let difference = found["difference"].as_f64().unwrap();
    assert!((difference - 4.0).abs() < 2.0 && found["better"] == true, "{found}");
    let refs = repo.git([
        "for-each-ref",
        "--format=%(refname)",
        "refs/autoresearch/t/verified",
        "refs/autoresearch/u/verified",
    ]);
    assert_eq!(refs.trim(), "refs/autoresearch/u/verified/t-00002-00001");
    let pooled = ar(&repo, ["verify", "t/2", "u/1", "--runs", "2", "--format", "json"]).ok().json();
    assert_eq!(pooled["runs"], 6);
    let text = ar(&repo, ["verify", "t:2", "u:1", "--runs", "2"]).ok();
    assert!(text.stdout.contains("u:1 is better than t:2 by"), "{text:#?}");
    let mut runs = made(&repo);
    let count = runs.len();
    runs.dedup();
    assert_eq!(runs.len(), count, "a seed was used twice: {runs:?}");
    let report = ar(&repo, ["report", "u"]).ok();
    assert!(report.stdout.contains("u:1 against t:2: +"), "{report:#?}");
    let alone = ar(&repo, ["verify", "--tag", "t", "--runs", "2"]).ok();
    assert!(alone.stderr.contains("with seed 14"), "the others were used in the comparison: {alone:#?}");
    let args =
        ["run", "--yes", "--tag", "w", "--metric", "score", "--lower", "--cmd", "python3 train.py", "--agent", "true"];
    repo.git(["checkout", "-q", "main"]);
    ar_in_time(&repo, args.iter().chain(&["--max-experiments", "0"])).ok();
    let other = ar(&repo, ["verify", "t:2", "w:0"]).exits(2);
    assert!(other.stderr.contains("lower") && other.stderr.contains("higher"), "{other:#?}");
}

#[test]
fn what_fresh_runs_said_stays_while_a_loop_of_another_session_is_at_work() {
    let repo = repository("2 0");
    repo.git(["checkout", "-q", "main"]);
    let hold = repo.outside().join("hold-1");
    fs::write(&hold, "").unwrap();
    let args = ["run", "--yes", "--tag", "u", "--metric", "score", "--higher", "--cmd", "python3 train.py", "--decide"];
    let more = ["once", "--agent", "echo 6 > idea-9", "--max-experiments", "1"];
    let mut command = ar_command(&repo, &repo.path(), args.iter().chain(&more));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the baseline of the other session", || (!made(&repo).is_empty()).then_some(()));
    ar(&repo, ["verify", "--tag", "t", "--runs", "2"]).ok();
    ar(&repo, ["ablate", "t", "--runs", "2"]).ok();
    let written = repo.git(["for-each-ref", "refs/autoresearch/t/verified", "refs/autoresearch/t/ablated"]);
    assert_eq!(written.lines().count(), 2, "{written}");
    fs::remove_file(&hold).unwrap();
    let told = child.wait_with_output().unwrap();
    assert!(told.status.success(), "{told:?}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/verified", "refs/autoresearch/t/ablated"]), written);
    let said = String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr);
    assert!(!said.contains("the ref "), "{said}");
}
