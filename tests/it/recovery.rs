//! What happens around a session while nobody looks: kills, hang-ups, other hands in the repository.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, hears_hang_ups, until};

pub(crate) fn runs(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("runs")).map_or(0, |text| text.lines().count())
}

/// A script that notes each run, runs `before`, and with a file `slow` waits for the file `go` beside the repository.
pub(crate) fn scripted(before: &str) -> TestRepo {
    let repo = training_repo();
    let script = format!(
        "echo run >> {0}/runs\n{before}\nif [ -e slow ]; then until [ -e {0}/go ]; do sleep 0.02; done; fi\n\
         echo val_bpb: $(cat value)\n",
        repo.outside().display()
    );
    repo.write("train.sh", script);
    repo.write("value", "2.0\n");
    repo.commit_all("a script that waits");
    repo
}

pub(crate) fn go(repo: &TestRepo) {
    fs::write(repo.outside().join("go"), "").unwrap();
}

/// Starts a loop and waits until its second run, that of experiment 1, goes on.
pub(crate) fn loop_in_its_second_run(repo: &TestRepo) -> Child {
    let agent = "touch slow; echo 1.$AR_EXPERIMENT > value; echo slower";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let child = ar_command(repo, &repo.path(), args)
        .args(["--max-experiments", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the second run", || (runs(repo) == 2).then_some(()));
    child
}

#[test]
fn a_run_outlives_its_loop_and_is_picked_up_and_measured_once() {
    for signal in ["-HUP", "-KILL"] {
        if signal == "-HUP" && !hears_hang_ups() {
            continue;
        }
        let repo = scripted("");
        let mut child = loop_in_its_second_run(&repo);
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
        let resumed = ar_command(&repo, &repo.path(), ["resume"]).stdout(Stdio::piped()).spawn().unwrap();
        go(&repo);
        let called = Called::from(resumed.wait_with_output().unwrap()).ok();
        assert!(
            called.stdout.contains("   1  keep     1.1       slower: val_bpb 1.1 is better than 2.0"),
            "{called:?}"
        );
        assert_eq!(runs(&repo), 2, "{signal}: the baseline and experiment 1, once each");
        assert_eq!(repo.status(), "");
        assert_eq!(repo.read("results.tsv").lines().count(), 3);
    }
}

#[test]
fn another_session_does_not_touch_the_files_under_a_run_that_goes_on() {
    let repo = scripted("");
    let mut child = loop_in_its_second_run(&repo);
    child.kill().unwrap();
    child.wait().unwrap();
    repo.git(["switch", "--quiet", "main"]);
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "other"];
    let called = ar(&repo, args).exits(1);
    assert!(called.stderr.contains("experiment 1 of session t is still open"), "{called:?}");
    assert!(
        called
            .stderr
            .contains("hint: run `ar resume t` to continue it, or `ar stop t --now` to save its change and close it"),
        "{called:?}"
    );
    go(&repo);
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t");
    assert_eq!(repo.status(), "");
    ar(&repo, args).ok();
}

#[test]
fn a_baseline_that_is_started_again_has_log_files_and_machine_for_itself() {
    let repo = training_repo();
    let ready = repo.outside().join("ready");
    let script = format!(
        "if [ ! -e {0} ]; then echo val_bpb: 0.5; echo $$ > {0}.new; mv {0}.new {0}; sleep 60; fi\n\
         grep -qs . /proc/$(cat {0})/cmdline && echo val_bpb: 0.1\n\
         grep -q mine tool.sh && echo val_bpb: 0.2\necho no number this time\n",
        ready.display()
    );
    repo.write("train.sh", script);
    repo.commit_all("prints its number only once");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let mut child = ar_command(&repo, &repo.path(), args).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || ready.exists().then_some(()));
    let started: Value = serde_json::from_str(&repo.read(".autoresearch/t/runs/00000/started.json")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    Command::new("kill").args(["-KILL", &started["pid"].to_string()]).status().unwrap();
    repo.write("tool.sh", "echo mine\n");
    let called = ar(&repo, ["resume", "t"]).exits(3);
    assert!(called.stderr.contains("the run printed no val_bpb"), "{called:?}");
    assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:tool.sh"]), "echo mine");
}

#[test]
fn a_lost_run_is_started_again_and_not_held_against_the_idea() {
    let repo = scripted("");
    let child = loop_in_its_second_run(&repo);
    let pid = || {
        let started = fs::read_to_string(repo.file(".autoresearch/t/runs/00001/started.json")).ok()?;
        serde_json::from_str::<Value>(&started).ok()?["pid"].as_u64()
    };
    let shim = pid().unwrap();
    Command::new("kill").args(["-KILL", &shim.to_string()]).status().unwrap();
    go(&repo);
    Called::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(runs(&repo), 3, "the lost one and another one");
    assert!(repo.read("results.tsv").contains("\t1.1\t"), "{}", repo.read("results.tsv"));
}

#[test]
fn a_run_that_is_lost_each_time_is_recorded_as_lost_and_counts_for_nothing() {
    let repo = scripted("");
    // The parent of the shell is the shim.
    let command =
        "[ $AR_EXPERIMENT != 1 ] || { git rev-parse HEAD >> ../lost; kill -KILL $PPID; sleep 60; }; sh train.sh";
    let agent = "cp $AR_PROMPT ../prompt-$AR_EXPERIMENT; cp $AR_STATE_DIR/progress.json ../journal-$AR_EXPERIMENT; \
                 echo 1.$AR_EXPERIMENT > value; echo slower";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", command, "--agent", agent];
    let called = ar(&repo, args.into_iter().chain(["--max-experiments", "2", "--max-crashes", "1"])).ok();
    let outside = |name: &str| fs::read_to_string(repo.outside().join(name)).unwrap();
    let commits = outside("lost");
    assert_eq!((commits.lines().count(), commits.matches(commits.lines().next().unwrap()).count()), (3, 3));
    let record: Value =
        serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]))
            .unwrap();
    assert_eq!((&record["outcome"], &record["failure"]["class"]), (&"crash".into(), &"lost".into()), "{record}");
    assert_eq!(record["metric"]["value"], Value::Null);
    let rows = repo.read("results.tsv");
    assert!(rows.contains(&format!("{}\tnan\tnan\tfailed\tslower\n", &commits[..8])), "{rows}");
    let rung = |n: u32| {
        let journal: Value = serde_json::from_str(&outside(&format!("journal-{n}"))).unwrap();
        journal["rung"].clone()
    };
    assert_eq!(rung(1), rung(2));
    let told = outside("prompt-2");
    assert!(told.contains("The machine died under the run, which is not the idea's fault"), "{told}");
    assert!(called.stdout.contains("   2  keep     1.2       slower: val_bpb 1.2 is better than 2.0"), "{called:?}");
}

#[test]
fn a_branch_and_a_head_that_were_moved_during_a_run_are_put_back_and_nothing_is_lost() {
    for hands in ["git switch -q main", "git switch -q main; echo 9 > value", "git commit -q --allow-empty -m mine"] {
        let repo = scripted("");
        let child = loop_in_its_second_run(&repo);
        let mut shell = Command::new("sh");
        repo.environment(&mut shell);
        assert!(shell.args(["-c", hands]).current_dir(repo.path()).status().unwrap().success());
        go(&repo);
        Called::from(child.wait_with_output().unwrap()).ok();
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t", "{hands}");
        assert_eq!(repo.status(), "", "{hands}");
        let record: Value =
            serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00001"]))
                .unwrap();
        let target = if record["outcome"] == "keep" { &record["commit"] } else { &record["base"] };
        assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), target.as_str().unwrap(), "{hands}: {record}");
        assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "a script that waits");
        let all = repo.git(["log", "--all", "--format=%s"]);
        assert_eq!(all.contains("mine"), hands.contains("mine"), "{all}");
    }
}

#[test]
fn a_plain_first_try_saves_nothing_and_warns_of_nothing() {
    let repo = scripted("");
    repo.write("value", "1.5\n");
    let called = ar(&repo, ["try", "-m", "a\n\nb", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    assert!(!called.stderr.contains("saved"), "{called:?}");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/nov20/saved"]).lines().count(), 1, "the change itself");
    assert_eq!(repo.git(["for-each-ref", "--format=%(subject)", "refs/autoresearch/nov20/00001"]), "a b");
}

#[test]
fn a_metric_file_that_the_run_does_not_write_is_no_result() {
    let repo = training_repo();
    repo.write("out.json", "{\"v\": 2.0}\n");
    repo.write("train.sh", "[ -e skip ] || { sleep 0.01; echo '{\"v\": 1.5}' > out.json; }\n");
    repo.commit_all("a tracked metric file");
    repo.write("out.json", "{\"v\": 0.001}\n");
    repo.write("skip", "");
    repo.git(["add", "skip"]);
    let file = ["--metric-file", "out.json:/v"];
    let call = ["try", "-m", "fake", "--metric", "v", "--lower", "--cmd", "sh train.sh", "--exit-code"];
    let called = ar(&repo, call.into_iter().chain(file)).exits(20);
    assert!(called.stdout.contains("   1  crash    no_metric fake: "), "{called:?}");
    repo.write("skip", "");
    repo.write("out.json", "{\"v\": 0.001}\n");
    let touched = Command::new("touch").args(["-d", "+1 hour"]).arg(repo.file("out.json")).status().unwrap();
    assert!(touched.success());
    repo.git(["add", "skip"]);
    ar(&repo, ["try", "-m", "fake again", "--exit-code"]).exits(20);
}

#[test]
fn a_command_that_begins_the_log_anew_is_measured_by_what_it_says_then() {
    let repo = training_repo();
    repo.write("quick.sh", "echo val_bpb: 7 is what it was; sleep 1.2; echo 'val_bpb: 2.5' > run.log\n");
    repo.commit_all("redirects into run.log by itself");
    ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh quick.sh", "--tag", "t"]).ok();
    assert!(repo.read("results.tsv").contains("\t2.5\t"), "{}", repo.read("results.tsv"));
}

#[test]
fn the_only_session_is_meant_where_no_terms_are_given() {
    let repo = scripted("");
    ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    repo.git(["switch", "--quiet", "main"]);
    ar(&repo, ["run"]).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t");
    assert_eq!(repo.read("results.tsv").lines().count(), 2);
}

#[test]
fn a_session_that_cannot_begin_leaves_nothing_behind_and_a_full_one_takes_no_more() {
    let repo = scripted("");
    repo.write("value", "1.5\n");
    let call = ["try", "-m", "x", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments"];
    ar(&repo, call.into_iter().chain(["0"])).exits(1);
    assert_eq!(repo.git(["for-each-ref", "refs/heads"]).lines().count(), 1);
    assert_eq!(repo.status(), " M value");
    ar(&repo, call.into_iter().chain(["1"])).ok();
    repo.write("value", "1.4\n");
    let called = ar(&repo, ["try", "-m", "one too many"]).exits(1);
    assert!(called.stderr.contains("the session reached its limit of 1 experiment"), "{called:?}");
    assert_eq!(repo.status(), " M value");
}
