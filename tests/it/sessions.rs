//! Which session a command is about.

use std::process::{Command, Stdio};

use crate::confirm::{ARGS, made, noisy};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// Starts a session with a baseline at a moment, and leaves its branch.
fn session(repo: &TestRepo, tag: &str, moment: &str) {
    let mut command =
        ar_command(repo, &repo.path(), ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", tag]);
    assert!(command.env("AR_CLOCK", moment).status().unwrap().success());
    repo.git(["switch", "--quiet", "main"]);
}

#[test]
fn without_a_tag_the_newest_session_is_meant_and_named() {
    let repo = training_repo();
    session(&repo, "b", "2026-11-21T22:00:00Z");
    session(&repo, "a", "2026-11-20T22:00:00Z");
    let said = ar(&repo, ["log", "--format", "json"]).ok();
    assert_eq!(said.json()["tag"], "b");
    assert_eq!(said.stderr, "using session b, the newest of 2; pass --tag for another\n");
    assert_eq!(ar(&repo, ["log", "-q"]).ok().stderr, "");
    // What happened last counts, and not where a session began.
    let mut note = ar_command(&repo, &repo.path(), ["resume", "a", "--max-experiments", "0"]);
    assert!(note.env("AR_CLOCK", "2026-11-22T22:00:00Z").stdout(Stdio::null()).status().unwrap().success());
    repo.git(["switch", "--quiet", "main"]);
    assert_eq!(ar(&repo, ["log", "--format", "json"]).ok().json()["tag"], "a");
    repo.git(["switch", "--quiet", "autoresearch/b"]);
    let said = ar(&repo, ["log", "--format", "json"]).ok();
    assert_eq!((&said.json()["tag"], said.stderr.as_str()), (&"b".into(), ""));
}

#[test]
fn without_a_tag_the_active_session_comes_before_the_newest() {
    let repo = training_repo();
    session(&repo, "b", "2026-11-21T22:00:00Z");
    session(&repo, "a", "2026-11-20T22:00:00Z");
    let mut command = ar_command(&repo, &repo.path(), ["resume", "a", "--agent", "touch ../at-work; sleep 60"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the agent is called", || repo.outside().join("at-work").exists().then_some(()));
    repo.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    let said = ar(&repo, ["brief"]).ok();
    repo.git(["symbolic-ref", "HEAD", "refs/heads/autoresearch/a"]);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    assert_eq!(said.stderr, "using session a, the active one of 2; pass --tag for another\n");
}

#[test]
fn a_brief_comes_in_every_format() {
    let repo = training_repo();
    session(&repo, "a", "2026-11-20T22:00:00Z");
    let text = ar(&repo, ["brief"]).ok().stdout;
    let formatted = |format| ar(&repo, ["brief", "--format", format]).ok();
    assert_eq!((formatted("table").stdout, formatted("md").stdout), (text.clone(), text.clone()));
    let json = formatted("json").json();
    assert_eq!((&json["version"], &json["tag"], &json["text"]), (&1.into(), &"a".into(), &text.into()));
    assert!(formatted("csv").stdout.starts_with("line\n## The goal\n"));
}

#[test]
fn the_tag_is_an_option_wherever_a_session_is_meant() {
    let repo = training_repo();
    session(&repo, "a", "2026-11-20T22:00:00Z");
    session(&repo, "b", "2026-11-21T22:00:00Z");
    for args in [
        &["status"][..],
        &["report"],
        &["log"],
        &["show", "0"],
        &["diff", "0", "0"],
        &["brief"],
        &["doctor"],
        &["note", "0", "text"],
        &["export", "--to", "jsonl"],
        &["stop"],
        &["restore", "0"],
        &["resume"],
    ] {
        let said = ar(&repo, args.iter().copied().chain(["--tag", "a"])).ok();
        assert!(!said.stderr.contains("using session"), "{args:?}: {said:?}");
        repo.git(["switch", "--quiet", "main"]);
    }
    ar(&repo, ["report", "a", "--tag", "b"]).exits(2);
    ar(&repo, ["report", "--ledger", "results.tsv", "--tag", "a"]).exits(2);
    assert_eq!(ar(&repo, ["log", "--tag", "a", "--format", "json"]).ok().json()["tag"], "a");
}

#[test]
fn extract_takes_the_metric_from_the_settings_and_else_from_the_session() {
    let repo = training_repo();
    repo.write("a.log", "val_bpb: 1.5\nother: 2.5\n");
    let hint = ar(&repo, ["extract", "a.log"]).exits(2).stderr;
    assert!(hint.contains("hint: pass --metric NAME"), "{hint}");
    let missing = ["extract", "a.log", "--metric", "val_bp"];
    assert!(ar(&repo, missing).exits(1).stdout.contains("no_metric"));
    assert_eq!(ar(&repo, [&missing[..], &["--format", "json"]].concat()).ok().json()["failure"], "no_metric");
    session(&repo, "a", "2026-11-20T22:00:00Z");
    assert_eq!(ar(&repo, ["extract", "a.log", "--format", "json"]).ok().json()["value"], 1.5);
    repo.write("ar.toml", "metric = \"other\"\n");
    assert_eq!(ar(&repo, ["extract", "a.log", "--format", "json"]).ok().json()["value"], 2.5);
    assert_eq!(ar(&repo, ["extract", "a.log", "--tag", "a", "--format", "json"]).ok().json()["value"], 1.5);
    ar(&repo, ["extract", "a.log", "--tag", "b"]).exits(1);
}

/// A clone of a repository with a session `t` of one kept experiment, with the refs of the session.
fn cloned_session(with_branch: bool) -> (TestRepo, TestRepo) {
    let origin = training_repo();
    let agent = "echo echo val_bpb: 0.5 > train.sh; echo halve it";
    let args = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&origin, [&args[..], &["--max-experiments", "1"]].concat()).ok();
    let clone = TestRepo::empty();
    let from = origin.path().display().to_string();
    clone.git(["fetch", "--quiet", &from, "main", "refs/autoresearch/*:refs/autoresearch/*"]);
    clone.git(["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    if with_branch {
        clone.git(["fetch", "--quiet", &from, "autoresearch/t:autoresearch/t"]);
    }
    (origin, clone)
}

#[test]
fn a_fetched_session_is_not_damaged_and_is_continued() {
    for with_branch in [false, true] {
        let (origin, clone) = cloned_session(with_branch);
        let status = ar(&clone, ["status", "--format", "json"]).ok().json();
        let session = &status["sessions"][0];
        assert_eq!((&session["fetched"], &session["damage"]), (&true.into(), &serde_json::json!([])), "{status}");
        let words = ar(&clone, ["status", "t"]).ok().stdout;
        assert!(words.contains("fetched") && words.contains("ar resume t --max-experiments N"), "{words}");
        assert!(words.contains("1 of 1 experiments tonight"), "{words}");
        let doctor = ar(&clone, ["doctor"]).ok().stdout;
        assert!(doctor.contains("fetched: ") && doctor.contains("hint: ar resume t"), "{doctor}");
        assert!(doctor.contains("no problems found"), "{doctor}");
        ar(&clone, ["doctor", "--repair"]).ok();
        assert!(!clone.exists(".autoresearch") && !clone.exists("results.tsv"), "nothing to repair");

        let agent = "echo echo val_bpb: 0.25 > train.sh; echo halve it again";
        let resumed = ar(&clone, ["resume", "--agent", agent, "--max-experiments", "1"]).ok();
        assert!(resumed.stderr.contains("continued the fetched session t from its records"), "{resumed:?}");
        let outcomes = |repo: &TestRepo| -> Vec<(u64, f64)> {
            let log = ar(repo, ["log", "t", "--format", "json"]).ok().json();
            let each = log["experiments"].as_array().unwrap().iter();
            each.map(|one| (one["id"].as_u64().unwrap(), one["metric"]["value"].as_f64().unwrap())).collect()
        };
        assert_eq!(outcomes(&origin), [(0, 2.0), (1, 0.5)]);
        assert_eq!(outcomes(&clone), [(0, 2.0), (1, 0.5), (2, 0.25)]);
        assert_eq!(clone.read("results.tsv").lines().count(), 4, "a row for each experiment");
        assert_eq!(clone.read("train.sh"), "echo val_bpb: 0.25\n");
        let status = ar(&clone, ["status", "--format", "json"]).ok().json();
        assert_eq!(status["sessions"][0]["fetched"], false);
        ar(&clone, ["doctor"]).ok();
    }
}

#[test]
fn a_change_that_a_stop_left_open_is_saved_and_made_again_in_another_clone() {
    let origin = noisy();
    let hold = origin.outside().join("hold-1-3");
    std::fs::write(&hold, "").unwrap();
    let args = ARGS.iter().chain(&["confirmed", "--max-experiments", "1"]);
    let child = ar_command(&origin, &origin.path(), args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    until("a fresh run", || made(&origin).contains(&"1 3".to_owned()).then_some(()));
    ar(&origin, ["stop"]).ok();
    std::fs::remove_file(&hold).unwrap();
    let stopped = Called::from(child.unwrap().wait_with_output().unwrap()).ok();
    assert!(stopped.stderr.contains("experiment 1 stays open with "), "{stopped:?}");
    let clone = TestRepo::empty();
    let from = origin.path().display().to_string();
    let refs = ["main", "refs/autoresearch/*:refs/autoresearch/*", "autoresearch/t:autoresearch/t"];
    clone.git([&["fetch", "--quiet", &from], &refs[..]].concat());
    clone.git(["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    let resumed = ar(&clone, ["resume", "t", "--max-experiments", "1"]).ok();
    assert!(resumed.stderr.contains("saved that commit in refs/autoresearch/t/saved/00000"), "{resumed:?}");
    assert!(resumed.stdout.contains("   1  keep"), "{resumed:?}");
    assert_eq!(clone.git(["show", "refs/autoresearch/t/saved/00000:value"]), "1.4");
    assert_eq!(clone.git(["for-each-ref", "refs/autoresearch/t/open"]), "");
    ar(&clone, ["doctor"]).ok();
    // Where it was left, it goes on.
    ar(&origin, ["resume", "t", "--max-experiments", "1"]).ok();
    assert_eq!(origin.git(["for-each-ref", "refs/autoresearch/t/open", "refs/autoresearch/t/saved"]), "");
}

#[test]
fn a_session_whose_folder_was_deleted_is_not_taken_for_a_fetched_one() {
    let (repo, _) = cloned_session(false);
    std::fs::remove_dir_all(repo.file(".autoresearch")).unwrap();
    let status = ar(&repo, ["status", "t", "--format", "json"]).ok().json();
    assert_eq!(status["sessions"][0]["fetched"], false);
    assert_ne!(status["sessions"][0]["damage"], serde_json::json!([]));
    // A limit of a night is not one of the session.
    let words = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(words.contains("1 of 1 experiments tonight") && !words.contains("--session-max-experiments"), "{words}");
}

#[test]
fn status_lists_all_sessions_where_head_is_on_the_branch_of_none() {
    let repo = training_repo();
    session(&repo, "a", "2026-11-20T22:00:00Z");
    session(&repo, "b", "2026-11-21T22:00:00Z");
    let all = ar(&repo, ["status"]).ok();
    let tags: Vec<_> = all.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((&tags[..3], all.stderr.as_str()), (&["session", "a", "b"][..], ""));
    assert!(all.stdout.ends_with("\n`ar status TAG` has the details of one\n"), "{all:?}");
    let help = ar(&repo, ["status", "--help"]).ok().stdout;
    assert!(help.contains("Session [default: that of HEAD, else all of them; "), "{help}");
}
