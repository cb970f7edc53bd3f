//! The user's own commits on a session's branch or on theirs begin the next session; slots go on from the branch that it began from.

use std::process::Command;

use crate::crash_points::BETWEEN_SESSIONS;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// An agent that makes one change that is better each time.
const AGENT: &str =
    "now=$(sed -n s/^VAL_BPB=//p train.sh); sed -i s/^VAL_BPB=.*/VAL_BPB=$(awk \"BEGIN{print $now-0.1}\")/ train.sh";

/// A repository whose session `t` has one kept experiment.
fn with_session() -> TestRepo {
    let repo = training_repo();
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", AGENT];
    ar(&repo, args.into_iter().chain(["--max-experiments", "1"])).ok();
    repo
}

/// The same with a commit of the user's on its branch.
fn with_commit() -> TestRepo {
    let repo = with_session();
    repo.write(
        "ar.toml",
        "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\nmax_experiments = 2\nprotect = [\"docs/**\"]\n",
    );
    repo.write("program.md", "Lower it.\n");
    repo.commit_all("set up ar");
    repo
}

fn commit(repo: &TestRepo, name: &str) -> String {
    repo.git(["rev-parse", name])
}

fn head(repo: &TestRepo) -> String {
    repo.git(["symbolic-ref", "--short", "HEAD"])
}

fn records(repo: &TestRepo, tag: &str) -> usize {
    repo.git(["for-each-ref", "--format=%(refname)", &format!("refs/autoresearch/{tag}/0*")]).lines().count()
}

#[test]
fn a_commit_of_the_users_on_the_branch_begins_the_next_session() {
    for args in [&["run"][..], &["run", "--tag", "t"]] {
        let repo = with_commit();
        let (best, own) = (commit(&repo, "refs/autoresearch/t/00001^{commit}"), repo.head());
        let called = ar(&repo, args).ok();
        let said = "began session t-2 with your commits on autoresearch/t; session t stays as it was";
        assert_eq!(called.stderr.matches(said).count(), 1, "{called:#?}");
        assert_eq!((records(&repo, "t"), records(&repo, "t-2")), (2, 3), "ar.toml allows two: {called:#?}");
        assert_eq!((head(&repo), commit(&repo, "autoresearch/t")), ("autoresearch/t-2".to_owned(), best));
        assert_eq!(commit(&repo, "refs/autoresearch/t-2/00000^{commit}"), own);
        assert!(repo.read(".autoresearch/t-2/state/contract.json").contains("docs/**"));
        assert_eq!((repo.status(), repo.read("program.md").as_str()), (String::new(), "Lower it.\n"));
        ar(&repo, ["doctor"]).ok();
        // The next one goes on there, and another commit begins the third one.
        ar(&repo, ["run", "--max-experiments", "1"]).ok();
        assert_eq!(records(&repo, "t-2"), 4);
        repo.write("docs/b.txt", "more\n");
        repo.commit_all("more");
        ar(&repo, ["run", "--max-experiments", "0"]).ok();
        assert_eq!((head(&repo), records(&repo, "t-3")), ("autoresearch/t-3".to_owned(), 1));
    }
}

#[test]
fn without_a_metric_in_ar_toml_the_terms_of_the_session_before_hold() {
    let repo = with_session();
    repo.write("docs/b.txt", "mine\n");
    repo.commit_all("mine");
    let called = ar(&repo, ["run", "--tag", "new", "--max-experiments", "1"]).ok();
    assert_eq!((head(&repo), records(&repo, "new")), ("autoresearch/new".to_owned(), 2), "{called:#?}");
}

#[test]
fn resume_begins_no_session_and_adopt_measures_the_commits() {
    let repo = with_session();
    repo.write("train.sh", repo.read("train.sh").replace("VAL_BPB=1.9", "VAL_BPB=1.0"));
    repo.commit_all("a change of mine");
    let own = repo.head();
    let refused = ar(&repo, ["resume"]).exits(1);
    assert!(refused.stderr.contains("which is not an experiment: a change of mine"), "{refused:#?}");
    assert!(refused.stderr.contains("`ar run` to begin the next session"), "{refused:#?}");
    assert!(refused.stderr.contains("`ar run --adopt` to measure it"), "{refused:#?}");
    assert_eq!(repo.head(), own);
    repo.git(["switch", "--quiet", "main"]);
    let refused = ar(&repo, ["run", "--tag", "t", "--adopt"]).exits(1);
    assert!(refused.stderr.contains("hint: git switch autoresearch/t"), "{refused:#?}");
    assert_eq!((head(&repo), commit(&repo, "autoresearch/t")), ("main".to_owned(), own.clone()));
    repo.git(["switch", "--quiet", "autoresearch/t"]);
    let called = ar(&repo, ["run", "--adopt", "--max-experiments", "1"]).ok();
    assert!(called.stdout.contains("   2  keep     1.0       a change of mine: "), "{called:#?}");
    assert_eq!((head(&repo), records(&repo, "t")), ("autoresearch/t".to_owned(), 3));
    assert_eq!(commit(&repo, "refs/autoresearch/t/00002^{commit}"), own);
}

#[test]
fn a_commit_that_was_measured_and_not_kept_is_named() {
    let repo = with_session();
    let saved =
        |id: u32| format!("      your change is saved as experiment {id}; `ar restore {id}` puts it on a branch\n");
    let commit_worse = |number: u32| {
        repo.write("train.sh", repo.read("train.sh").replace("VAL_BPB=1.9", &format!("VAL_BPB={number}")));
        repo.commit_all("a change of mine")
    };
    let own = commit_worse(5);
    let called = ar(&repo, ["run", "--adopt", "--max-experiments", "1"]).ok();
    assert!(called.stdout.contains(&saved(2)), "{called:#?}");
    ar(&repo, ["restore", "2"]).ok();
    assert_eq!(commit(&repo, "t-2"), own);
    commit_worse(6);
    let called = ar(&repo, ["try", "-m", "mine"]).ok();
    assert!(called.stdout.contains(&saved(3)), "{called:#?}");
    repo.write("train.sh", repo.read("train.sh") + "# not committed\n");
    let called = ar(&repo, ["try", "-m", "mine"]).ok();
    assert!(!called.stdout.contains(&saved(4)), "{called:#?}");
}

#[test]
fn a_finalized_branch_names_the_commits_of_the_users_below_it() {
    let repo = with_session();
    let finalized = ar(&repo, ["finalize"]).ok();
    assert!(!finalized.stderr.contains("also in it"), "{finalized:#?}");
    for text in ["one\n", "two\n"] {
        repo.write("docs/b.txt", text);
        repo.commit_all("mine");
    }
    ar(&repo, ["run", "--max-experiments", "1"]).ok();
    let finalized = ar(&repo, ["finalize", "t-2"]).ok();
    let said = "also in it: 2 commits of yours, made after session t, and what t kept\n";
    assert!(finalized.stderr.contains(said), "{finalized:#?}");
    assert_eq!(repo.git(["log", "--format=%s", "main..t-2-final"]).lines().filter(|it| *it == "mine").count(), 2);
}

#[test]
fn init_on_the_branch_of_a_session_has_its_metric_and_names_what_a_commit_does() {
    let repo = training_repo();
    let terms = ["run", "--metric", "score", "--higher", "--metric-regex", "val_bpb: (.*)", "--cmd", "sh train.sh"];
    ar(&repo, terms.into_iter().chain(["--tag", "t", "--agent", AGENT, "--max-experiments", "1"])).ok();
    let said = ar(&repo, ["init"]).ok();
    let note = "note: after a commit on autoresearch/t, `ar run` begins another session; to continue t, commit nothing and \
        type `ar resume t`\n";
    assert_eq!(said.stderr.matches(note).count(), 1, "{said:#?}");
    assert!(said.stdout.contains("found: metric score (higher is better)\n"), "{said:#?}");
    let settings = repo.read("ar.toml");
    for line in ["metric = \"score\"", "higher = true", "metric-regex = \"val_bpb: (.*)\"", "cmd = \"sh train.sh\""] {
        assert!(settings.lines().any(|it| it == line), "{line}: {settings}");
    }
    assert!(!ar(&repo, ["init"]).ok().stderr.contains("note: after a commit"), "there is nothing to commit");
    ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert_eq!(records(&repo, "t"), 3);

    repo.rm("ar.toml");
    ar(&repo, ["init", "--metric", "loss"]).ok();
    assert!(
        !repo.read("ar.toml").lines().any(|it| it.starts_with("metric-regex")),
        "another metric has another pattern"
    );
    repo.git(["switch", "--quiet", "main"]);
    repo.rm("ar.toml");
    assert!(!ar(&repo, ["init"]).ok().stderr.contains("note: after a commit"));
}

#[test]
fn a_next_session_without_a_baseline_gives_everything_back() {
    let repo = with_session();
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh; false\"\n");
    repo.commit_all("a typo");
    let own = repo.head();
    ar(&repo, ["run"]).exits(3);
    assert_eq!((head(&repo), repo.head(), repo.status()), ("autoresearch/t".to_owned(), own, String::new()));
    assert_eq!(repo.git(["branch", "--list", "autoresearch/*"]).lines().count(), 1);
}

#[test]
fn a_branch_that_was_moved_back_begins_nothing() {
    let repo = with_session();
    repo.git(["reset", "--quiet", "--hard", "main"]);
    let refused = ar(&repo, ["run"]).exits(1);
    assert!(refused.stderr.contains("git reset --keep "), "{refused:#?}");
    assert_eq!(repo.git(["branch", "--list", "autoresearch/*"]).lines().count(), 1);
}

/// Runs it until it is killed at a point.
fn killed_at(repo: &TestRepo, args: &[&str], point: &str) {
    let mut command = ar_command(repo, &repo.path(), args);
    command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:1"));
    let called = Called::from(command.output().unwrap());
    assert_eq!(called.code, None, "{point}: {called:#?}");
}

#[test]
fn a_kill_on_the_way_to_the_next_session_is_recovered() {
    let points = [
        "open.locked",
        "open.contract_stored",
        "open.branch_made",
        "open.branch_taken",
        "recording.entered",
        "recording.recorded",
        "idle.entered",
        "next.former_left",
    ];
    for point in points {
        let repo = with_commit();
        let (best, own) = (commit(&repo, "refs/autoresearch/t/00001^{commit}"), repo.head());
        killed_at(&repo, &["run"], point);
        let called = ar(&repo, ["run"]).ok();
        assert_eq!((records(&repo, "t"), records(&repo, "t-2")), (2, 3), "{point}: {called:#?}");
        assert_eq!((head(&repo), commit(&repo, "autoresearch/t")), ("autoresearch/t-2".to_owned(), best), "{point}");
        assert_eq!(commit(&repo, "refs/autoresearch/t-2/00000^{commit}"), own, "{point}");
        assert_eq!((repo.status(), records(&repo, "t-3")), (String::new(), 0), "{point}");
    }
}

#[test]
fn slots_switch_the_working_tree_back_and_go_on_with_the_session() {
    let repo = with_session();
    let best = commit(&repo, "autoresearch/t");
    repo.write("docs/b.txt", "mine\n");
    repo.git(["add", "."]);
    let refused = ar(&repo, ["run", "--slots", "2"]).exits(1);
    assert!(refused.stderr.contains("uncommitted changes: docs/b.txt"), "{refused:#?}");
    repo.git(["stash", "--quiet"]);
    let called = ar(&repo, ["run", "--slots", "2", "--max-experiments", "1"]).ok();
    assert!(called.stderr.contains("switched this working tree back to main"), "{called:#?}");
    assert_eq!((head(&repo), repo.status(), records(&repo, "t")), ("main".to_owned(), String::new(), 3));
    assert_eq!(commit(&repo, "refs/autoresearch/t/00002^{commit}^"), best, "its keep is not left behind");

    let terms = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", AGENT, "--max-experiments", "1"];
    let again = ar(&repo, terms).ok();
    assert!(again.stderr.contains("continued session t, which began from here"), "{again:#?}");
    assert_eq!(records(&repo, "t"), 4);
    let other = ar(&repo, terms.into_iter().chain(["--slots", "1", "--min-delta", "0.5"])).ok();
    assert_eq!(records(&repo, "t"), 4, "other terms: {other:#?}");
}

#[test]
fn slots_leave_the_settings_file_on_the_branch_of_the_session_unless_it_was_edited() {
    let repo = with_commit();
    ar(&repo, ["run"]).ok();
    // The index does not know by its stamp that the file is as committed.
    Command::new("touch").args(["-d", "2020-01-01"]).arg(repo.file("ar.toml")).status().unwrap();
    ar(&repo, ["run", "--slots", "1", "--max-experiments", "1"]).ok();
    assert_eq!((head(&repo), repo.status(), repo.exists("ar.toml")), ("main".to_owned(), String::new(), false));
    repo.git(["switch", "--quiet", "autoresearch/t-2"]);
    repo.write("ar.toml", repo.read("ar.toml") + "# mine\n");
    ar(&repo, ["run", "--slots", "1", "--max-experiments", "1"]).ok();
    assert!(repo.read("ar.toml").ends_with("# mine\n"), "an edit of the user's stays");
}

#[test]
fn commits_on_the_users_own_branch_begin_a_session_that_has_them() {
    for slots in [&[][..], &["--slots", "1"]] {
        let repo = with_session();
        repo.git(["switch", "--quiet", "main"]);
        ar(&repo, ["run", "--max-experiments", "1"].iter().chain(slots)).ok();
        assert_eq!(records(&repo, "t"), 3, "nothing new on main: the session continues");
        repo.git(["switch", "--quiet", "main"]);
        repo.write("docs/b.txt", "mine\n");
        let own = repo.commit_all("mine");
        let called = ar(&repo, ["run", "--max-experiments", "1"]).ok();
        let said = "began session t-2 with your commits on main, which session t does not have";
        assert_eq!(called.stderr.matches(said).count(), 1, "{slots:?}: {called:#?}");
        assert_eq!((records(&repo, "t"), records(&repo, "t-2")), (3, 2), "{slots:?}");
        assert_eq!(commit(&repo, "refs/autoresearch/t-2/00000^{commit}"), own);
        // The older session is worked on once more; what began at main's tip is still what goes on there.
        ar(&repo, ["resume", "t", "--max-experiments", "1"]).ok();
        repo.git(["switch", "--quiet", "main"]);
        ar(&repo, ["run", "--max-experiments", "1"]).ok();
        assert_eq!((records(&repo, "t"), records(&repo, "t-2")), (4, 3), "{slots:?}");
        ar(&repo, ["doctor", "t-2"]).ok();
    }
}

#[test]
fn a_finalized_session_and_a_new_commit_begin_another_one() {
    let slots = ["--slots", "1", "--max-experiments", "1"];
    let terms = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", AGENT];
    let all = || terms.into_iter().chain(slots);
    let repo = training_repo();
    ar(&repo, all().chain(["--tag", "t"])).ok();
    ar(&repo, all()).ok();
    assert_eq!((records(&repo, "t"), records(&repo, "nov20")), (3, 0));
    ar(&repo, ["finalize", "t"]).ok();
    ar(&repo, all()).ok();
    assert_eq!((records(&repo, "t"), records(&repo, "nov20")), (3, 2));
    repo.write("docs/b.txt", "mine\n");
    repo.commit_all("mine");
    ar(&repo, all()).ok();
    assert_eq!((records(&repo, "nov20"), records(&repo, "nov20-2")), (2, 2));
}

#[test]
fn a_finalized_session_is_followed_by_another_one_on_slots_without_terms() {
    let slots = ["run", "--slots", "1", "--max-experiments", "1"];
    let repo = training_repo();
    let terms = ["--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", AGENT, "--tag", "t", "--min-delta", "0.01"];
    ar(&repo, slots.into_iter().chain(terms)).ok();
    ar(&repo, slots).ok();
    assert_eq!(records(&repo, "t"), 3, "it is not finalized");
    ar(&repo, ["finalize", "t"]).ok();
    for again in 0..2 {
        let called = ar(&repo, slots).ok();
        let said = "began session t-2 from main by the settings of session t, which is finalized";
        assert_eq!(called.stderr.matches(said).count(), 1 - again, "{called:#?}");
        assert_eq!((records(&repo, "t"), records(&repo, "t-2")), (3, 2 + again), "{called:#?}");
    }
    let stored = |tag: &str| -> serde_json::Value {
        serde_json::from_str(&repo.read(format!(".autoresearch/{tag}/state/contract.json"))).unwrap()
    };
    assert_eq!((&stored("t-2")["min_delta"], &stored("t-2")["agent"]), (&stored("t")["min_delta"], &AGENT.into()));
    assert_eq!(commit(&repo, "refs/autoresearch/t-2/00000^{commit}"), commit(&repo, "main"));
    // Once that is finalized, too, neither is continued, whichever was used last.
    ar(&repo, ["finalize", "t-2"]).ok();
    ar(&repo, ["resume", "t", "--max-experiments", "0"]).ok();
    ar(&repo, slots).ok();
    assert_eq!((records(&repo, "t"), records(&repo, "t-2"), records(&repo, "t-3")), (3, 3, 2));
    ar(&repo, ["doctor"]).ok();
}

#[test]
fn status_and_doctor_say_what_becomes_of_a_commit_of_the_users() {
    let repo = with_commit();
    let next = |repo: &TestRepo| -> Vec<String> {
        let text = ar(repo, ["status", "t"]).ok().stdout;
        let (_, next) = text.split_once("what to type next\n").unwrap();
        next.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let begins = [
        "ar run --tag t begins session t-2 with your commits",
        "ar run --tag t --adopt measures them as an experiment of this one",
        "ar report t shows the findings",
    ];
    assert_eq!(next(&repo), begins);
    let found = ar(&repo, ["doctor", "--format", "json"]).ok().json();
    let it = found["findings"].as_array().unwrap().iter().find(|it| it["area"] == "refs").unwrap();
    assert_eq!((&it["level"], &found["health"]), (&"warning".into(), &"warning".into()), "{found}");
    let tip = &repo.head()[..8];
    assert_eq!(
        it["what"],
        format!("branch autoresearch/t has commits of yours after its last keep, the last {tip}: set up ar")
    );
    assert_eq!(
        it["hint"],
        "run `ar run --tag t` to begin session t-2 with them, or `ar run --tag t --adopt` to measure them in session t; \
         `ar resume` refuses"
    );
    // Both do what was said.
    ar(&repo, ["resume", "t"]).exits(1);
    ar(&repo, ["run", "--tag", "t"]).ok();
    assert_eq!(records(&repo, "t-2"), 3);

    let repo = with_session();
    repo.git(["reset", "--quiet", "--hard", "main"]);
    assert_eq!(next(&repo)[0], "ar doctor t shows how to move the branch back");
    ar(&repo, ["doctor"]).exits(6);
}

#[test]
fn slots_name_the_working_tree_that_has_the_users_branch_and_a_hint_that_works() {
    let repo = with_session();
    let there = repo.outside().join("there");
    repo.git(["worktree", "add", "--quiet", there.to_str().unwrap(), "main"]);
    let said = ar(&repo, ["run", "--slots", "1", "--max-experiments", "1"]).exits(1).stderr;
    let hint = format!(
        "as main is checked out in {}, run `git switch --detach`, then `ar run --tag t` with the same flags",
        there.display()
    );
    assert!(said.contains(&hint), "{said}");
    crate::hints::type_hint(&repo, &said, "git switch").ok();
    ar(&repo, ["run", "--tag", "t", "--slots", "1", "--max-experiments", "1"]).ok();
    assert_eq!(records(&repo, "t"), 3);
}

#[test]
fn a_kill_on_the_way_back_to_the_users_branch_is_recovered() {
    for point in BETWEEN_SESSIONS.iter().filter(|point| point.starts_with("home.")) {
        let repo = with_session();
        killed_at(&repo, &["run", "--slots", "1", "--max-experiments", "1"], point);
        let called = ar(&repo, ["run", "--slots", "1", "--tag", "t", "--max-experiments", "1"]).ok();
        let ended = (head(&repo), repo.status(), records(&repo, "t"));
        assert_eq!(ended, ("main".to_owned(), String::new(), 3), "{point}: {called:#?}");
        assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/saved"]), "", "{point}");
    }
}

#[test]
fn a_start_in_slots_that_fails_leaves_head_where_the_working_tree_is() {
    let repo = with_session();
    repo.write(".gitattributes", "*.bin filter=broken\n");
    repo.write("docs/large.bin", "large\n");
    for (key, value) in [("clean", "cat"), ("smudge", "false"), ("required", "true")] {
        repo.git(["config", &format!("filter.broken.{key}"), value]);
    }
    repo.commit_all("a filter");
    let own = repo.head();
    let refused = ar(&repo, ["run", "--slots", "1", "--max-experiments", "1"]);
    assert_ne!(refused.code, Some(0), "{refused:#?}");
    assert_eq!((head(&repo), repo.status()), ("main".to_owned(), String::new()), "{refused:#?}");
    assert_eq!((commit(&repo, "autoresearch/t"), repo.exists("docs/large.bin")), (own, false), "{refused:#?}");
    assert_eq!(repo.git(["branch", "--list", "autoresearch/*"]).lines().count(), 1);

    repo.git(["config", "filter.broken.smudge", "cat"]);
    let called = ar(&repo, ["run", "--slots", "1", "--tag", "t", "--max-experiments", "1"]).ok();
    assert_eq!((head(&repo), repo.status()), ("main".to_owned(), String::new()), "{called:#?}");
    assert_eq!(records(&repo, "t-2"), 2, "{called:#?}");
}
