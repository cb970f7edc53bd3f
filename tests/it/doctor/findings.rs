//! What is found, and that looking changes nothing.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::session::{cut, doctor, edit, session, state};
use crate::bad_input::harness::files;
use crate::interrupt::wait_for_runs;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// What the doctor says, without paths and hashes that differ.
fn shown(repo: &TestRepo, said: &str) -> String {
    let root = repo.path();
    let text = said.replace(root.to_str().unwrap(), "/repo").replace(env!("CARGO_MANIFEST_DIR"), "/ar");
    let lines = text.lines().map(|line| match line {
        line if line.contains(" disk ") => "(disk)\n".to_owned(),
        line if line.contains(" presets installed: ") => "(presets)\n".to_owned(),
        line => format!("{line}\n"),
    });
    let is_shown =
        |line: &String| !line.trim_start().starts_with("hint: df ") && !line.contains("jobs run behind walls");
    lines.filter(is_shown).collect()
}

#[test]
fn a_session_that_is_in_order_is_said_to_be() {
    let repo = session();
    let before = files(&repo.path());
    insta::assert_snapshot!("healthy", shown(&repo, &doctor(&repo, &[], 0)));
    let json = ar(&repo, ["doctor", "--format", "json"]).ok().json();
    assert_eq!(
        (&json["version"], &json["health"], &json["sessions"]),
        (&1.into(), &"ok".into(), &serde_json::json!(["t"]))
    );
    let mut areas: Vec<&str> =
        json["findings"].as_array().unwrap().iter().filter_map(|finding| finding["area"].as_str()).collect();
    areas.dedup();
    assert_eq!(areas, ["repository", "refs", "session", "ledger", "journal", "disk", "command", "agent", "guardian"]);
    assert!(
        doctor(&repo, &["--format", "csv"], 0).starts_with("area,session,level,what,hint\nrepository,,ok,HEAD is on")
    );
    assert!(doctor(&repo, &["--format", "md"], 0).starts_with("| area | session | level | what | hint |\n"));
    assert_eq!(files(&repo.path()), before, "looking changes nothing");
}

#[test]
fn a_session_that_is_badly_broken_is_said_to_be() {
    let repo = session();
    repo.git(["update-ref", "-d", "refs/autoresearch/t/00001"]);
    repo.write(".git/refs/autoresearch/t/00003", "");
    repo.write(".git/index", "no index");
    repo.write(".git/index.lock", "ar holds the index\n");
    repo.write(".git/MERGE_HEAD", format!("{}\n", repo.git(["rev-parse", "main"])));
    cut(&repo, "results.tsv", 3);
    cut(&repo, &state("progress.json"), 3);
    cut(&repo, &state("contract.json"), 3);
    cut(&repo, ".autoresearch/t/logs/work.jsonl", 3);
    repo.rm(state("findings.jsonl"));
    fs::remove_dir_all(repo.file(".autoresearch/t/runs")).unwrap();
    let before = files(&repo.path());
    let said = shown(&repo, &doctor(&repo, &[], 6));
    // Tag objects hold how long the runs took.
    let is_object = |word: &str| word.len() == 41 && word.starts_with(|c: char| c.is_ascii_hexdigit());
    let words = said.split_inclusive([' ', '\n']).map(|word| match word {
        word if is_object(word.trim_end()) => "(object); ",
        word => word,
    });
    let text: String = words.collect();
    let lines = text.lines().map(|line| match line.split_once(" killed ar, ") {
        Some((start, _)) => format!("{start} killed ar, (age)\n"),
        None => format!("{line}\n"),
    });
    insta::assert_snapshot!("broken", lines.collect::<String>());
    assert_eq!(files(&repo.path()), before, "looking changes nothing");
}

/// Says one thing with one hint.
#[track_caller]
fn finds(repo: &TestRepo, code: i32, level: &str, what: &str, hint: &str) {
    let found = ar(repo, ["doctor", "--format", "json"]).exits(code).json();
    let found: Vec<&Value> =
        found["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] != "ok").collect();
    let is_it = |finding: &&&Value| {
        finding["level"] == level
            && finding["what"].as_str().is_some_and(|text| text.contains(what))
            && finding["hint"].as_str().unwrap_or_default().contains(hint)
    };
    assert!(found.iter().find(is_it).is_some(), "no {level} `{what}` with `{hint}` in {found:#?}");
}

#[test]
fn what_hinders_a_session_is_found_with_the_command_that_mends_it() {
    let repo = session();
    repo.git(["switch", "--quiet", "main"]);
    finds(&repo, 0, "warning", "HEAD is on main, not on the session's branch", "ar resume t");
    repo.git(["switch", "--quiet", "--detach", "main"]);
    finds(&repo, 0, "warning", "HEAD is at ", "ar resume t");
    repo.git(["switch", "--quiet", "autoresearch/t"]);

    let tip = repo.head();
    repo.git(["commit", "--quiet", "--allow-empty", "--message", "by hand"]);
    finds(
        &repo,
        0,
        "warning",
        "commits of yours after its last keep",
        "run `ar run --tag t` to begin session t-2 with them",
    );
    repo.git(["reset", "--quiet", "--hard", &tip]);

    repo.git(["switch", "--quiet", "main"]);
    let there = repo.outside().join("there");
    repo.git(["worktree", "add", "--quiet", there.to_str().unwrap(), "autoresearch/t"]);
    finds(&repo, 0, "warning", "autoresearch/t is checked out in ", "continue it there: cd ");
    repo.git(["worktree", "remove", there.to_str().unwrap()]);
    repo.git(["switch", "--quiet", "autoresearch/t"]);

    repo.write(".git/CHERRY_PICK_HEAD", format!("{tip}\n"));
    finds(&repo, 1, "error", "a cherry-pick is in progress", "git cherry-pick --abort");
    repo.rm(".git/CHERRY_PICK_HEAD");

    repo.write(".git/index.lock", "");
    finds(&repo, 0, "warning", "index.lock belongs to another program", "rm ");
    let lock = fs::File::options().write(true).open(repo.file(".git/index.lock")).unwrap();
    lock.set_modified(SystemTime::now() - Duration::from_secs(90)).unwrap();
    finds(&repo, 1, "error", "index.lock belongs to another program", "rm ");
    doctor(&repo, &["--repair"], 1);
    assert!(repo.exists(".git/index.lock"), "a lock of others stays");
    repo.rm(".git/index.lock");

    let index = fs::read(repo.file(".git/index")).unwrap();
    repo.write(".git/index", "no index");
    finds(&repo, 1, "error", "reading the index failed", "git reset --quiet");
    repo.write(".git/index", index);

    let head = repo.read(".git/HEAD");
    repo.write(".git/HEAD", "");
    finds(&repo, 1, "error", "reading HEAD failed", "ar doctor --repair");
    repo.write(".git/HEAD", head);

    repo.git(["add", "--force", "results.tsv"]);
    finds(&repo, 1, "error", "results.tsv is tracked by git", "git rm -r --quiet --cached results.tsv");
    repo.git(["reset", "--quiet"]);
    doctor(&repo, &[], 0);
}

#[test]
fn a_ledger_that_is_not_the_sessions_and_rows_that_say_something_else() {
    let repo = session();
    let rows = repo.read("results.tsv");
    repo.write("results.tsv", rows.replacen("rejected", "improved", 1));
    finds(
        &repo,
        0,
        "warning",
        "line 4 of results.tsv contradicts the record of experiment 2 of t",
        "ar show 2 --tag t",
    );
    repo.write("results.tsv", rows.replace("val_bpb", "loss"));
    finds(&repo, 1, "error", "results-val_bpb.tsv is missing", "ar doctor --repair");
    doctor(&repo, &["--repair"], 0);
    assert_eq!(repo.read("results-val_bpb.tsv"), rows);
    repo.rm("results-val_bpb.tsv");
    repo.rm("results.tsv");
    fs::create_dir(repo.file("results.tsv")).unwrap();
    finds(&repo, 1, "error", "results.tsv` is not a regular file", "move it aside");
}

#[test]
fn what_a_newer_ar_wrote_is_left_to_it() {
    let repo = session();
    let newer = "use the newer ar that wrote it";
    for name in ["contract.json", "progress.json"] {
        let old = repo.read(state(name));
        edit(&repo, &state(name), |file| file["version"] = 9.into());
        finds(&repo, 1, "error", "has format version 9", newer);
        doctor(&repo, &["--repair"], 1);
        assert!(repo.read(state(name)).contains("\"version\":9"));
        repo.write(state(name), old);
    }
    let record = repo.git(["cat-file", "-p", "refs/autoresearch/t/00001"]).replace("{\"version\":1", "{\"version\":2");
    repo.write("../tag", record + "\n");
    let newer_record = repo.git(["hash-object", "-t", "tag", "-w", "../tag"]);
    repo.git(["update-ref", "refs/autoresearch/t/00001", &newer_record]);
    finds(&repo, 1, "error", "refs/autoresearch/t/00001 has format version 2", newer);
}

#[test]
fn a_session_whose_baseline_is_not_measured_yet_is_in_order() {
    let repo = TestRepo::new();
    repo.write("train.sh", "until [ -e ../go ]; do sleep 0.02; done; echo val_bpb: 1\n");
    repo.commit_all("waits");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let mut child = ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || repo.exists(".autoresearch/t/runs/00000/started.json").then_some(()));
    doctor(&repo, &[], 0);
    child.kill().unwrap();
    child.wait().unwrap();
    finds(
        &repo,
        0,
        "warning",
        "experiment 0 is open (running) and its run continues without an active ar",
        "ar resume t",
    );
    assert!(!doctor(&repo, &["--repair"], 0).contains("repaired: "));
    fs::write(repo.outside().join("go"), "").unwrap();
    ar(&repo, ["resume", "t"]).ok();
    doctor(&repo, &[], 0);
}

#[test]
fn something_else_where_the_folder_should_be() {
    let repo = session();
    for make in ["touch .autoresearch", "ln -s nowhere .autoresearch"] {
        fs::rename(repo.file(".autoresearch"), repo.outside().join("kept")).unwrap();
        Command::new("sh").args(["-c", make]).current_dir(repo.path()).status().unwrap();
        finds(&repo, 1, "error", "/.autoresearch is ", ".autoresearch.old`; then ar doctor --repair");
        doctor(&repo, &["--repair"], 1);
        let error = ar(&repo, ["resume", "t"]).exits(1).stderr;
        assert!(error.contains("hint: run `ar doctor` to see the damage and the fix"), "{make}: {error}");
        repo.rm(".autoresearch");
        fs::rename(repo.outside().join("kept"), repo.file(".autoresearch")).unwrap();
    }
}

#[test]
fn commands_that_are_not_there_also_before_a_session() {
    let repo = TestRepo::new();
    finds(&repo, 1, "error", "a new session needs --metric", "write an ar.toml with `ar init`");
    repo.write("ar.toml", "[composite.axes.accuracy]\nbest = 1\n");
    finds(&repo, 1, "error", "unknown field `best`", "write a table for each axis");
    repo.write("ar.toml", "cmd = \"no-such-trainer --fast\"\nagent = \"no-such-agent\"\n");
    finds(&repo, 1, "error", "cannot start the command: `no-such-trainer` not found", "command -v no-such-trainer");
    finds(&repo, 1, "error", "cannot start the agent: `no-such-agent` not found", "command -v no-such-agent");
    let repo = session();
    edit(&repo, &state("contract.json"), |terms| terms["agent"] = "no-such-agent -p".into());
    finds(&repo, 1, "error", "cannot start the agent: `no-such-agent` not found", "or name another agent");
}

#[test]
fn where_there_is_no_repository_or_none_to_work_in() {
    let repo = TestRepo::empty();
    let hint = "git add -A && git commit --allow-empty -m baseline";
    finds(&repo, 1, "error", "refs/heads/main has no commit yet", hint);
    let mut typed = Command::new("sh");
    repo.environment(&mut typed);
    assert!(typed.args(["-c", hint]).current_dir(repo.path()).output().unwrap().status.success());
    let there = repo.outside().join("bare");
    repo.git(["init", "--quiet", "--bare", there.to_str().unwrap()]);
    let said = Called::from(ar_command(&repo, &there, ["doctor"]).output().unwrap()).exits(1).stdout;
    assert!(said.contains("is a bare repository") && said.contains("hint: run `git worktree add"), "{said}");
    let said = Called::from(ar_command(&repo, repo.outside(), ["doctor"]).output().unwrap()).exits(1).stdout;
    assert!(
        said.contains("no git repository at or above") && said.contains("hint: cd into a git repository and retry"),
        "{said}"
    );
    let repo = TestRepo::new();
    assert!(ar(&repo, ["doctor", "t9"]).exits(1).stderr.contains("no session `t9` found"));
}

/// Starts a session and waits until the run of its first experiment goes on; it ends when `go` is there.
fn in_a_run(repo: &TestRepo) -> Child {
    let child = begin(repo).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || repo.outside().join("there").exists().then_some(()));
    child
}

/// The command that starts a session whose first experiment's run ends when `go` is there.
fn begin(repo: &TestRepo) -> Command {
    repo.write(
        "train.sh",
        "echo val_bpb: $(cat value); [ ! -e slow ] || { : > ../there; until [ -e ../go ]; do sleep 0.02; done; }\n",
    );
    repo.write("value", "2.0\n");
    repo.commit_all("a script that waits");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let mut command = ar_command(repo, &repo.path(), args);
    command.args(["--agent", "touch slow; echo 1.0 > value", "--max-experiments", "1"]);
    command
}

#[test]
fn an_ar_that_is_at_work_is_named_and_not_disturbed() {
    let repo = TestRepo::new();
    let child = in_a_run(&repo);
    let said = doctor(&repo, &[], 0);
    let holder = format!("an ar is active: process {} with session t", child.id());
    assert!(said.contains(&holder) && said.contains("experiment 1 is open (running)\n"), "{said}");
    let tip = repo.git(["rev-parse", "--short=8", "autoresearch/t"]);
    assert!(said.contains(&format!("t: autoresearch/t at {}\n", tip.trim())), "{said}");
    let rows = repo.read("results.tsv");
    repo.write("results.tsv", rows.trim_end());
    let error = ar(&repo, ["doctor", "--repair"]).exits(5).stderr;
    assert!(
        error.contains(&format!("process {}", child.id())) && error.contains("hint: wait until it ends"),
        "{error}"
    );
    assert_eq!(repo.read("results.tsv"), rows.trim_end());
    fs::write(repo.outside().join("go"), "").unwrap();
    Called::from(child.wait_with_output().unwrap()).ok();
    doctor(&repo, &["--repair"], 0);
}

#[test]
fn a_run_that_goes_on_alone_is_named_and_a_lost_journal_does_not_deny_it() {
    let repo = TestRepo::new();
    let mut child = in_a_run(&repo);
    child.kill().unwrap();
    child.wait().unwrap();
    finds(
        &repo,
        0,
        "warning",
        "experiment 1 is open (running) and its run continues without an active ar",
        "ar resume t",
    );

    fs::rename(repo.file(state("progress.json")), repo.outside().join("journal")).unwrap();
    let started: Value = serde_json::from_str(&repo.read(".autoresearch/t/runs/00001/started.json")).unwrap();
    let end = format!("end it: kill {}; then ar doctor --repair", started["pid"]);
    finds(&repo, 1, "error", "a run of experiment 1 is still going that the journal does not know", &end);
    let open = "its commit is at the tip of the branch and was not recorded";
    finds(&repo, 1, "error", open, "ar doctor --repair");
    doctor(&repo, &["--repair"], 1);
    assert!(!repo.exists(state("progress.json")), "the journal is not written while that run goes on");
    fs::rename(repo.outside().join("journal"), repo.file(state("progress.json"))).unwrap();

    fs::write(repo.outside().join("go"), "").unwrap();
    until("the end of the run and of who watches over it", || {
        let folder = repo.file(".autoresearch/t/runs/00001");
        let lock = fs::File::open(folder.join("lock")).ok()?;
        (folder.join("exit.json").exists() && lock.try_lock_shared().is_ok()).then_some(())
    });
    finds(&repo, 0, "warning", "experiment 1 is open (running), but no ar is active", "ar resume t");
    repo.write(".autoresearch/t/runs/00001/exit.json", "{\"version\"");
    let exit = repo.file(".autoresearch/t/runs/00001/exit.json");
    finds(&repo, 1, "error", &format!("cannot parse {}", exit.display()), "ar doctor --repair");
    assert!(doctor(&repo, &["--repair"], 0).contains("exit.json.damaged; the run counts as lost"));
    ar(&repo, ["resume", "t"]).ok();
    doctor(&repo, &[], 0);
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
}

#[test]
fn a_run_that_goes_on_without_its_folder_is_named_and_no_journal_written_under_it() {
    let repo = TestRepo::new();
    let mut child = in_a_run(&repo);
    child.kill().unwrap();
    child.wait().unwrap();
    let started: Value = serde_json::from_str(&repo.read(".autoresearch/t/runs/00001/started.json")).unwrap();
    // The shim of the run restores what it needs.
    until("all to be gone", || fs::remove_dir_all(repo.file(".autoresearch")).ok());
    let end = format!("end it: kill {}; then ar doctor --repair", started["pid"]);
    let what = "a run of experiment 1 is still going that the journal does not know";
    finds(&repo, 6, "error", what, &end);
    doctor(&repo, &["--repair"], 6);
    assert!(!repo.exists(state("progress.json")));
    finds(&repo, 6, "error", what, &end);
    assert!(
        ar(&repo, ["stop"]).ok().stdout.contains("a run of experiment 1 is still going that its journal does not know")
    );
    Command::new("kill").arg(started["pid"].to_string()).status().unwrap();
    until("its end", || (!doctor(&repo, &[], 6).contains(what)).then_some(()));
}

#[test]
fn what_a_deleted_folder_means_for_an_open_experiment_is_said_and_not_guessed() {
    let repo = TestRepo::new();
    let mut child = in_a_run(&repo);
    let tip = repo.git(["rev-parse", "autoresearch/t~"]);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(repo.outside().join("go"), "").unwrap();
    until("the end of the run", || repo.exists(".autoresearch/t/runs/00001/exit.json").then_some(()));
    repo.git(["clean", "--quiet", "-fdx"]);
    let open = "its commit is at the tip of the branch and was not recorded";
    finds(&repo, 6, "error", open, "decide about the damage first, then run `ar doctor --repair`");
    let said = doctor(&repo, &["--repair"], 6);
    let back = format!("git reset --keep {}", &tip[..12]);
    let hint = format!(
        "run `ar run --adopt` to measure it in this session; or name it with `git branch NAME`, then move the branch \
         back with `{back}`"
    );
    assert!(said.contains("which is not an experiment: ") && said.contains(&hint), "{said}");
    // What is to be decided does not depend on how often it is asked, nor on whether the session was refused.
    assert!(doctor(&repo, &["--repair"], 6).contains(open));
    let called = ar(&repo, ["resume", "t"]).exits(1);
    assert!(called.stderr.contains("`ar run --adopt` to measure it") && called.stderr.contains(&back), "{called:?}");
    assert!(doctor(&repo, &[], 6).contains(&hint));
    repo.git(["reset", "--quiet", "--keep", &tip]);
    doctor(&repo, &["--repair"], 0);
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3);

    repo.rm(state("progress.json"));
    repo.write("value", "0.5\n");
    finds(
        &repo,
        1,
        "error",
        "the uncommitted changes may be those of an experiment that was open",
        "ar doctor --repair",
    );
    doctor(&repo, &["--repair"], 1);
    assert_eq!(repo.read("value"), "0.5\n");
}

#[test]
fn a_commit_that_an_open_experiment_left_is_saved_where_its_journal_is_lost() {
    let points = [("committing.branch_advanced:1", true), ("job.started:3", false)];
    for ((point, is_dirty), is_repaired) in points.into_iter().zip([true, false]).chain([(points[1], true)]) {
        let repo = TestRepo::new();
        let mut killed = begin(&repo);
        killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", point);
        fs::write(repo.outside().join("go"), "").unwrap();
        assert!(!killed.output().unwrap().status.success(), "{point}");
        match is_repaired {
            true => cut(&repo, &state("progress.json"), 20),
            false => repo.rm(state("progress.json")),
        }
        assert_eq!(!repo.git(["status", "--porcelain"]).is_empty(), is_dirty, "{point}");
        let commit = repo.git(["rev-parse", "autoresearch/t^{tree}"]);
        let open = "its commit is at the tip of the branch and was not recorded";
        finds(&repo, 1, "error", open, "ar doctor --repair");
        assert!(!doctor(&repo, &[], 1).contains("not an experiment: "));
        if is_repaired {
            let said = doctor(&repo, &["--repair"], 0);
            assert!(
                said.contains("from the records, with experiment 1 open") && said.contains("ar resume t"),
                "{said}"
            );
        }
        let called = ar(&repo, ["resume", "t"]).ok();
        let saved = "refs/autoresearch/t/saved/00000";
        assert!(
            called.stderr.contains(&format!("saved the unfinished change of experiment 1 as {saved}")),
            "{called:?}"
        );
        assert_eq!(repo.git(["rev-parse", &format!("{saved}^{{tree}}")]), commit);
        assert_eq!(repo.read("results.tsv").lines().count(), 3, "the baseline and experiment 1");
        doctor(&repo, &[], 0);
    }
}

#[test]
fn commits_that_no_journal_knows_can_be_adopted() {
    let repo = session();
    repo.write("value", "0.5\n");
    repo.commit_all("mine");
    repo.rm(state("progress.json"));
    let called = ar(&repo, ["resume", "t", "--max-experiments", "9"]).exits(1);
    assert!(called.stderr.contains("`ar run --adopt` to measure it"), "{called:?}");
    ar(&repo, ["run", "--adopt", "--max-experiments", "0"]).ok();
    assert!(repo.read("results.tsv").lines().last().unwrap().contains("mine"), "{}", repo.read("results.tsv"));
    doctor(&repo, &[], 0);
}

#[test]
fn an_experiment_that_is_recorded_and_not_settled_is_not_said_to_be_unrecorded() {
    let repo = session();
    repo.git(["reset", "--quiet", "--hard", "refs/autoresearch/t/00003^{commit}"]);
    finds(&repo, 6, "damaged", "is at the last experiment, which was not kept", "git reset --keep ");
    fs::remove_dir_all(repo.file(".autoresearch")).unwrap();
    finds(&repo, 1, "error", "the last experiment is recorded, but its change is not undone yet", "ar resume t");
    assert!(!doctor(&repo, &["--repair"], 1).contains("not an experiment: "));
    assert!(!repo.exists(state("progress.json")), "a journal without an open experiment would deny it");
}

#[test]
fn what_is_left_of_a_first_try_is_found_when_its_folder_is_gone_and_can_be_had_back() {
    let repo = training_repo();
    repo.write(
        "train.sh",
        "echo run >> ../runs; until [ -e ../go ]; do sleep 0.02; done; echo val_bpb: $(cat value)\n",
    );
    repo.write("value", "2.0\n");
    repo.commit_all("waits");
    repo.write("value", "1.5\n");
    repo.write("new", "staged\n");
    repo.git(["add", "new"]);
    let args = ["try", "-m", "x", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let mut child = ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_runs(&repo, 1);
    child.kill().unwrap();
    child.wait().unwrap();
    // The shim puts its files back meanwhile.
    until("the deletion", || fs::remove_dir_all(repo.file(".autoresearch")).ok());
    assert_eq!((repo.read("value").as_str(), repo.exists("new")), ("2.0\n", false));
    let error = ar(&repo, args).exits(1).stderr;
    assert!(error.contains("run `ar doctor` to see whether a session left work of yours there"), "{error}");

    let found = ar(&repo, ["doctor", "--format", "json"]).exits(6).json();
    let hint = |what: &str| {
        let findings = found["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["what"].as_str().unwrap().starts_with(what));
        finding.unwrap_or_else(|| panic!("no `{what}` in {found:#}"))["hint"].as_str().unwrap().to_owned()
    };
    let commands = |hint: &str| -> Vec<String> { hint.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let call = |line: &str| {
        assert!(Command::new("sh").args(["-c", line]).current_dir(repo.path()).status().unwrap().success())
    };
    let end = hint("a run of the baseline is still going that the journal does not know");
    let end = end.split(&[':', ';']).nth(1).unwrap();
    call(end);
    let process = format!("/proc/{}/cwd", end.trim().strip_prefix("kill ").unwrap());
    until("the end of the run", || fs::read_link(&process).is_err().then_some(()));
    let back =
        hint("only the branch autoresearch/t and saved work remain of session t: refs/autoresearch/t/saved/00000");
    doctor(&repo, &["t", "--repair"], 6);
    assert!(!repo.exists(".autoresearch/t/state"));
    for line in commands(&back) {
        call(&line.replace("NEW-NAME", "left"));
    }
    assert_eq!((repo.read("value").as_str(), repo.read("new").as_str()), ("1.5\n", "staged\n"));
    fs::write(repo.outside().join("go"), "").unwrap();
    // The name is free, and what was saved stays until somebody forgets it.
    finds(&repo, 1, "warning", "session t no longer exists; its saved work is in", "git update-ref -d refs/");
    assert!(ar(&repo, args).ok().stdout.contains("   1  keep     "));
    assert_eq!(repo.git(["diff", "--name-only", "left", "autoresearch/t"]), "new\nvalue");
    doctor(&repo, &[], 0);
    repo.git(["switch", "--quiet", "--create", "autoresearch/mine"]);
    finds(&repo, 6, "damaged", "the branch autoresearch/mine has neither terms nor records", "git branch -m ");
}

#[test]
fn files_that_command_and_guards_name_and_that_do_not_exist_are_found() {
    let repo = training_repo();
    repo.write(
        "ar.toml",
        "metric = \"loss\"\ncmd = \"sh train.sh --config conf/a.yaml --out new.json > b.txt\"\n\
         guard = [\"python3 tests/check.py\", \"sh tool.sh\"]\n",
    );
    let found = ar(&repo, ["doctor"]).exits(1).stdout;
    for line in [
        "warning  command     the command names conf/a.yaml, which does not exist",
        "error    command     the guard names tests/check.py, which does not exist",
        "create tests/check.py, or correct the guard",
    ] {
        assert!(found.contains(line), "{line}: {found}");
    }
    assert_eq!(found.matches("which does not exist").count(), 2, "{found}");
    repo.write("conf/a.yaml", "");
    repo.write("tests/check.py", "");
    ar(&repo, ["doctor"]).ok();
}
