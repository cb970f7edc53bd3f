//! Files of the user's in the working tree of a session: what `ar try` refuses stays, and `ar.toml` is the user's alone.

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// An agent that makes one change that is better each time.
const BETTER: &str =
    "now=$(sed -n s/^VAL_BPB=//p train.sh); sed -i s/^VAL_BPB=.*/VAL_BPB=$(awk \"BEGIN{print $now-0.1}\")/ train.sh";

/// Begins session `t`.
fn begin(repo: &TestRepo, agent: &str, more: &[&str]) {
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", agent];
    ar(repo, args.into_iter().chain(more.iter().copied())).ok();
}

fn record(repo: &TestRepo, id: u32) -> Value {
    let text = repo.git(["for-each-ref", "--format=%(contents:body)", &format!("refs/autoresearch/t/{id:05}")]);
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn what_a_try_refuses_stays_in_the_working_tree_without_the_protected_files() {
    let repo = training_repo();
    begin(&repo, BETTER, &["--max-experiments", "1", "--protect", "docs/**", "--protect", "new/eval.txt"]);
    let (tip, eval) = (repo.head(), repo.read("docs/a.txt"));
    repo.write("docs/a.txt", "easier\n");
    repo.write("train.sh", repo.read("train.sh") + "# mine\n");
    repo.write("new.txt", "new\n");
    repo.write("new/eval.txt", "new, too\n");
    repo.commit_all("mine");
    let called = ar(&repo, ["try", "-m", "mine"]).ok();
    assert!(called.stdout.contains("your change is still in the working tree"), "{called:#?}");
    let refused = record(&repo, 2);
    assert_eq!(refused["failure"]["class"], "protected", "{refused}");
    assert_eq!(repo.git(["show", "refs/autoresearch/t/00002:docs/a.txt"]), "easier");
    assert_eq!((repo.head(), repo.read("docs/a.txt")), (tip, eval));
    assert!(repo.read("train.sh").ends_with("# mine\n"));
    assert_eq!([repo.read("new.txt"), repo.read("new/eval.txt")], ["new\n", "new, too\n"]);

    let dirty = ar(&repo, ["run"]).exits(1);
    assert!(dirty.stderr.contains("new.txt") && dirty.stderr.contains("train.sh"), "{dirty:#?}");
    assert!(dirty.stderr.contains("`git stash`"), "{dirty:#?}");
    repo.git(["rm", "-q", "-r", "-f", "new"]);
    ar(&repo, ["try", "-m", "the rest"]).ok();
    let rest = record(&repo, 3);
    assert_eq!(rest["failure"], Value::Null, "{rest}");
    assert_eq!(rest["diff"]["files"], 2, "{rest}");
}

#[test]
fn a_changed_ar_toml_is_left_as_it_is() {
    let repo = training_repo();
    repo.write("ar.toml", "max_experiments = 1\n");
    repo.commit_all("settings");
    let mine = "max_experiments = 2\n# mine\n";
    repo.write("ar.toml", mine);
    let worse = "echo '# worse' >> train.sh; sed -i s/^VAL_BPB=.*/VAL_BPB=9/ train.sh";
    begin(&repo, &format!("if [ $AR_EXPERIMENT = 1 ]; then {BETTER}; else {worse}; fi"), &[]);
    let outcomes = [1, 2].map(|id| record(&repo, id)["outcome"].clone());
    assert_eq!(outcomes, ["keep", "discard"]);
    assert_eq!((repo.read("ar.toml").as_str(), repo.status().as_str()), (mine, " M ar.toml"));
    for name in ["refs/autoresearch/t/00001", "refs/autoresearch/t/00002"] {
        assert_eq!(repo.git(["show", &format!("{name}:ar.toml")]), "max_experiments = 1");
    }
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/saved"]), "");
    // Staged, it is none either.
    repo.git(["add", "ar.toml"]);
    repo.write("train.sh", repo.read("train.sh") + "# by hand\n");
    ar(&repo, ["try", "-m", "by hand"]).ok();
    assert_eq!(record(&repo, 3)["diff"]["files"], 1);
    assert_eq!(repo.read("ar.toml"), mine);
}

#[test]
fn an_agent_that_changes_ar_toml_is_refused_and_the_users_text_stays() {
    let repo = training_repo().without_walls();
    repo.write("ar.toml", "max_experiments = 1\n");
    repo.commit_all("settings");
    let mine = "max_experiments = 1\n# mine\n";
    repo.write("ar.toml", mine);
    begin(&repo, &format!("{BETTER}; echo 'max_cost = 999' >> ar.toml"), &[]);
    let refused = record(&repo, 1);
    assert_eq!(refused["failure"]["class"], "protected", "{refused}");
    assert_eq!(repo.read("ar.toml"), mine);
}

/// Settings as the user has changed them since the last commit.
const MINE: &str = "max_experiments = 1\n# mine\n";

/// What an agent or a run adds to them.
const MORE: &str = "max_cost = 999\n";

/// A repository with these settings.
fn with_changed_settings() -> TestRepo {
    let repo = training_repo();
    repo.write("ar.toml", "max_experiments = 1\n");
    repo.commit_all("settings");
    repo.write("ar.toml", MINE);
    repo
}

/// An agent that adds to the settings in its first call and then does something else, and later makes a better change.
fn greedy(then: &str) -> String {
    format!("if [ -e ../asked ]; then {BETTER}; else touch ../asked; echo 'max_cost = 999' >> ar.toml; {then}; fi")
}

/// Checks that the settings are the user's, and that those found are in the session's folder, which was said.
#[track_caller]
fn assert_settings_are_back(repo: &TestRepo, called: &Called) {
    assert_eq!(repo.read("ar.toml"), MINE, "{called:#?}");
    assert_eq!(repo.read(".autoresearch/t/aside/00001/ar.toml"), format!("{MINE}{MORE}"));
    assert!(called.stderr.contains("restored protected files: ar.toml"), "{called:#?}");
    assert!(called.stderr.contains(".autoresearch/t/aside/00001/ar.toml"), "{called:#?}");
}

#[test]
fn what_an_agent_adds_to_ar_toml_is_undone_where_its_call_ends_in_an_outage() {
    let repo = with_changed_settings().without_walls();
    let agent = "echo 'max_cost = 999' >> ar.toml; echo 'Credit balance is too low'; exit 1";
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", agent];
    let called = ar(&repo, args.into_iter().chain(["--outage-limit", "100ms"])).exits(4);
    assert_settings_are_back(&repo, &called);
}

/// Calls `ar` and kills it at a named moment.
#[cfg(debug_assertions)]
#[track_caller]
fn killed_at(repo: &TestRepo, point: &str, args: &[&str]) {
    let mut killed = ar_command(repo, &repo.path(), args);
    killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", point);
    assert_eq!(Called::from(killed.output().unwrap()).code, None, "{point}");
}

#[cfg(debug_assertions)]
#[test]
fn what_an_agent_adds_to_ar_toml_is_undone_after_a_kill_and_an_edit_of_the_users_since_then_stays() {
    for edited in [false, true] {
        let repo = with_changed_settings().without_walls();
        let agent = greedy("true");
        let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", &agent];
        killed_at(&repo, "proposing.agent_over:1", &args);
        assert_eq!(repo.read("ar.toml"), format!("{MINE}{MORE}"));
        let mine = "# edited after the kill\n";
        if edited {
            repo.write("ar.toml", mine);
        }
        let called = ar(&repo, ["resume", "t"]).ok();
        match edited {
            true => assert_eq!(repo.read("ar.toml"), mine, "{called:#?}"),
            false => assert_settings_are_back(&repo, &called),
        }
        assert_eq!(record(&repo, 1)["outcome"], "keep", "{called:#?}");
    }
}

/// An agent whose change makes each run add to the settings.
const GREEDY_RUN: &str =
    "sed -i s/^VAL_BPB=.*/VAL_BPB=1.5/ train.sh; echo 'echo \"max_cost = 999\" >> ar.toml' >> train.sh";

/// Checks that what a run added to the settings is named, with where they are as they were.
#[track_caller]
fn assert_settings_are_named(repo: &TestRepo, called: &Called) {
    assert_eq!(repo.read("ar.toml"), format!("{MINE}{MORE}"));
    assert_eq!(repo.read(".autoresearch/t/aside/00001/ar.toml"), MINE, "{called:#?}");
    assert!(called.stderr.contains("left ar.toml, which changed while the run was active"), "{called:#?}");
    assert!(called.stderr.contains(".autoresearch/t/aside/00001/ar.toml"), "{called:#?}");
    assert_eq!(record(repo, 1)["outcome"], "keep");
}

#[test]
fn what_a_run_adds_to_ar_toml_is_named() {
    let repo = with_changed_settings();
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", GREEDY_RUN];
    let called = ar(&repo, args).ok();
    assert_settings_are_named(&repo, &called);
}

#[cfg(debug_assertions)]
#[test]
fn what_a_run_adds_to_ar_toml_is_named_after_a_kill() {
    let repo = with_changed_settings();
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", GREEDY_RUN];
    killed_at(&repo, "job.started:3", &args);
    let called = ar(&repo, ["resume", "t"]).ok();
    assert_settings_are_named(&repo, &called);
}

#[test]
fn a_run_that_leaves_ar_toml_alone_names_nothing() {
    let repo = with_changed_settings();
    let args = ["run", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh train.sh", "--agent", BETTER];
    let called = ar(&repo, args).ok();
    assert!(!called.stderr.contains("left ar.toml"), "{called:#?}");
    assert!(!repo.exists(".autoresearch/t/aside") && !repo.exists(".autoresearch/t/state/settings_before.json"));
}

/// A session with one keep, and a change of the user's that touches a protected file.
fn with_refused_change() -> TestRepo {
    let repo = training_repo();
    begin(&repo, BETTER, &["--max-experiments", "1", "--protect", "docs/**"]);
    repo.write("docs/a.txt", "easier\n");
    repo.write("train.sh", repo.read("train.sh") + "# mine\n");
    repo.write("new.txt", "new\n");
    repo.git(["add", "new.txt"]);
    repo
}

/// Checks that the loop ended without a call, and that the rest of the change is where it was.
#[track_caller]
fn assert_rest_stays(repo: &TestRepo, ended: &Called, eval: &str) {
    assert_eq!(ended.code, Some(4), "{ended:#?}");
    assert!(ended.stderr.contains("is still in the working tree: new.txt, train.sh"), "{ended:#?}");
    assert!(ended.stderr.contains("`git stash`"), "{ended:#?}");
    assert_eq!(record(repo, 2)["failure"]["class"], "protected");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/00003"]), "");
    assert_eq!([&*repo.read("docs/a.txt"), &*repo.read("new.txt")], [eval, "new\n"]);
    assert!(repo.read("train.sh").ends_with("# mine\n"));
    repo.git(["stash", "--quiet"]);
    ar(repo, ["resume", "t", "--max-experiments", "1"]).ok();
    assert_eq!(record(repo, 3)["outcome"], "keep");
    ar(repo, ["doctor"]).ok();
}

#[test]
fn what_is_refused_of_an_adopted_change_stays_in_the_working_tree() {
    let repo = with_refused_change();
    let eval = repo.git(["show", "HEAD:docs/a.txt"]) + "\n";
    let ended = ar(&repo, ["run", "--adopt", "--max-experiments", "2"]);
    assert_rest_stays(&repo, &ended, &eval);
}

#[cfg(debug_assertions)]
#[test]
fn what_a_killed_try_refuses_stays_in_the_working_tree_when_a_loop_finishes_it() {
    for point in ["recording.entered", "recording.recorded", "settling.branch_moved", "settling.put_back"] {
        let repo = with_refused_change();
        let eval = repo.git(["show", "HEAD:docs/a.txt"]) + "\n";
        let mut killed = ar_command(&repo, &repo.path(), ["try", "-m", "mine"]);
        killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:1"));
        assert_eq!(Called::from(killed.output().unwrap()).code, None, "{point}");
        let ended = ar(&repo, ["resume", "t", "--max-experiments", "2"]);
        assert_rest_stays(&repo, &ended, &eval);
    }
}
