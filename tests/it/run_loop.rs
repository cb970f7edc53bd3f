//! `ar run`: the loop, judged by git and by what stands on disk.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use autoresearch::domain::CommitId;
use autoresearch::git::Repo;
use serde_json::Value;

use crate::support::{Called, Template, TestRepo, ar, ar_command, until};

/// The fixtures of the project.
pub(crate) const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

/// A repository whose training script prints the number it is told to print.
pub(crate) fn training_repo() -> TestRepo {
    static TRAINING: Template = Template::new();
    TRAINING.copy(|| {
        let repo = TestRepo::empty();
        copy(Path::new(FIXTURES).join("train/loop").as_path(), &repo.path());
        repo.commit_all("a training script");
        repo
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The scripted agent that makes these steps.
pub(crate) fn agent(steps: &str) -> String {
    format!("sh {FIXTURES}/agents/steps.sh {steps}")
}

/// Runs these steps of the scripted agent, one experiment each.
fn run_steps(repo: &TestRepo, steps: &str, more: &[&str]) -> Called {
    let count = steps.split_whitespace().count().to_string();
    let agent = agent(steps);
    let mut args = vec!["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    args.extend(["--agent", &agent, "--max-experiments", &count]);
    args.extend(more);
    ar(repo, args)
}

/// The records of session `t` as plain git reads them, in order.
fn records(repo: &TestRepo) -> Vec<Value> {
    let text = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t"]);
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn field<'a>(record: &'a Value, pointer: &str) -> &'a str {
    record.pointer(pointer).and_then(Value::as_str).unwrap_or("-")
}

const STEPS: &str = "better worse equal crash nan silent oom idle commit-better new-worse new-better delete-worse \
                     delete-better rename-worse rename-better executable-worse executable-better symlink-worse \
                     symlink-better typechange-worse typechange-better folder-worse folder-better binary-worse \
                     binary-better unicode-worse unicode-better space-worse space-better odd-worse odd-better \
                     commit-worse killed empty syntax import";

#[test]
fn every_kind_of_experiment_is_kept_or_put_back_and_recorded() {
    let repo = training_repo().without_walls();
    let start = repo.head();
    run_steps(&repo, STEPS, &[]).ok();

    let steps: Vec<&str> = STEPS.split_whitespace().collect();
    let records = records(&repo);
    assert_eq!(records.len(), steps.len() + 1);
    let mut kept = vec![start.clone()];
    let mut tip_value = 2.0;
    for (n, (record, step)) in records.iter().skip(1).zip(&steps).enumerate() {
        let n = n + 1;
        let (outcome, class) = match *step {
            "crash" | "syntax" | "import" | "oom" | "nan" | "silent" | "empty" | "killed" => {
                let class = match *step {
                    "syntax" => "syntax_error",
                    "import" => "import_error",
                    "silent" => "no_metric",
                    "empty" => "no_output",
                    other => other,
                };
                ("crash", class)
            }
            step if step == "equal" || step.ends_with("worse") => ("discard", "-"),
            _ => ("keep", "-"),
        };
        assert_eq!((record["id"].as_u64(), field(record, "/outcome")), (Some(n as u64), outcome), "{step}: {record}");
        assert_eq!(field(record, "/failure/class"), class, "{record}");
        if *step != "equal" {
            assert_eq!(field(record, "/description"), format!("{n}: {step}"));
        }
        // Its base is the last one kept, and its commit is one commit on that base.
        let (base, commit) = (field(record, "/base"), field(record, "/commit"));
        assert_eq!(base, kept.last().unwrap(), "{step}");
        assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), base, "{step}");
        assert_eq!(repo.git(["rev-parse", &format!("refs/autoresearch/t/{n:05}^{{commit}}")]), commit);
        // The discarded code is there to be had.
        assert!(repo.git(["show", &format!("{commit}:train.sh")]).contains("VAL_BPB="), "{step}");
        if outcome == "keep" {
            kept.push(commit.to_owned());
            tip_value -= 0.1;
            let value = record["metric"]["value"].as_f64().unwrap();
            assert!((value - tip_value).abs() < 1e-9, "{step}: {value} and {tip_value}");
        }
        assert_eq!(record["metric"]["value"].is_null(), outcome == "crash", "{record}");
    }
    // The branch has the kept experiments and nothing else; the user's branch has none.
    kept.reverse();
    let history = repo.git(["rev-list", "--first-parent", "autoresearch/t"]);
    assert_eq!(history.lines().collect::<Vec<_>>(), kept);
    assert_eq!(repo.git(["rev-parse", "main"]), start);
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/t");
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["diff", "HEAD"]), "");
    let fsck = repo.try_git(["fsck", "--strict", "--no-dangling"]);
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
    // An agent's own commits that were folded into one are still there.
    let commits = repo.git(["log", "--all", "--format=%s"]);
    assert_eq!(commits.lines().filter(|line| *line == "first half").count(), 2, "{commits}");
}

#[test]
fn rows_are_exact_in_both_dialects() {
    for (dialect, hash, expected) in [
        (
            "ar",
            8,
            "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n\
             #\t2.000000\t14.3\timproved\tbaseline\n\
             #\t1.900000\t14.3\timproved\t1: better\n\
             #\t2.000000\t14.3\trejected\t2: worse\n\
             #\tnan\toom\tfailed\t3: oom\n\
             #\tnan\t14.3\tfailed\t4: nan\n\
             #\tnan\t14.3\tfailed\t5: silent\n",
        ),
        (
            "karpathy",
            7,
            "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n\
             #\t2.000000\t14.3\tkeep\tbaseline\n\
             #\t1.900000\t14.3\tkeep\t1: better\n\
             #\t2.000000\t14.3\tdiscard\t2: worse\n\
             #\t0.000000\t0.0\tcrash\t3: oom\n\
             #\t0.000000\t0.0\tcrash\t4: nan\n\
             #\t0.000000\t0.0\tcrash\t5: silent\n",
        ),
    ] {
        let repo = training_repo();
        run_steps(&repo, "better worse oom nan silent", &["--ledger", dialect]).ok();
        let records = records(&repo);
        let mut commits = records.iter().map(|record| &field(record, "/commit")[..hash]);
        let mut lines = expected.lines();
        let mut filled = format!("{}\n", lines.next().unwrap());
        for line in lines {
            filled += &format!("{}\n", line.replacen('#', commits.next().unwrap(), 1));
        }
        assert_eq!(repo.read("results.tsv"), filled);
    }
}

#[test]
fn a_ledger_that_is_there_is_continued_in_its_own_dialect() {
    let repo = training_repo();
    let before = "commit\tval_bpb\tmemory_gb\tstatus\tdescription\nbaseline\t2.5\t44.0\tkeep\tby \"hand\n";
    repo.write("results.tsv", before);
    run_steps(&repo, "better", &[]).ok();
    let after = repo.read("results.tsv");
    let rows = after.strip_prefix(before).unwrap();
    assert!(rows.ends_with("\t1.900000\t14.3\tkeep\t1: better\n"), "{rows}");
    assert_eq!(repo.status(), "");
}

#[test]
fn every_decision_is_a_sentence_with_the_numbers_in_it() {
    let repo = training_repo();
    let printed = run_steps(&repo, "better worse equal oom", &[]).ok().stdout;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "val_bpb: lower is better");
    assert_eq!(lines[1], "starting autoresearch/t");
    assert_eq!(lines[2], "   0  keep     2.000000  baseline: val_bpb is 2.000000, the number to beat");
    let better = "val_bpb 1.900000 is better than 2.000000 of experiment 0 by 0.100000 (5.0%)";
    assert_eq!(lines[3], format!("   1  keep     1.900000  1: better: {better}"));
    let worse = "val_bpb 2.000000 is worse than 1.900000 of experiment 1 by 0.100000 (5.3%)";
    assert_eq!(lines[4], format!("   2  discard  2.000000  2: worse: {worse}"));
    assert_eq!(
        lines[5],
        "   3  discard  1.900000  train.sh: 1 file changed, +1 -1: val_bpb 1.900000 equals experiment 1"
    );
    assert!(lines[6].starts_with("   4  crash    oom       4: oom: out of memory (exit 1 after "), "{}", lines[6]);
    assert_eq!(lines[7], "      next: refine: one concrete change within the strategy");
    assert_eq!(lines[8], "stopped: the night reached its limit of 4 experiments");
}

#[test]
fn a_session_is_continued_by_its_stored_terms_and_ends_at_once_at_its_cap() {
    let repo = training_repo();
    run_steps(&repo, "better worse", &[]).ok();
    let rows = repo.read("results.tsv");
    ar(&repo, ["resume"]).ok();
    assert_eq!(repo.read("results.tsv"), rows, "a night at its cap goes no further");
    ar(&repo, ["run", "--max-experiments", "1", "--agent", &agent("x x better")]).ok();
    assert_eq!(records(&repo).len(), 4);
    assert_eq!(repo.read("results.tsv").lines().count(), 5);
}

#[test]
fn without_an_agent_the_baseline_is_measured_and_the_way_on_is_said() {
    let repo = training_repo();
    let said = ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok().stdout;
    assert!(said.contains("   0  keep     2.000000  baseline"), "{said}");
    assert!(said.contains("ar run --agent") && said.contains("ar try -m"), "{said}");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/nov20");
    let again = ar(&repo, ["run"]).ok().stdout;
    assert!(!again.contains("   0  keep"), "the baseline is measured once: {again}");
    repo.git(["switch", "--quiet", "main"]);
    ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/nov20-2");
}

#[test]
fn an_adopted_change_is_the_first_experiment_and_no_part_of_the_baseline() {
    let repo = training_repo();
    repo.write("train.sh", repo.read("train.sh").replace("2.000000", "1.5"));
    repo.write("notes.txt", "untracked");
    let call = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let refused = ar(&repo, call).exits(1);
    assert!(refused.stderr.contains("train.sh") && refused.stderr.contains("--adopt"), "{refused:?}");
    ar(&repo, call.into_iter().chain(["--adopt"])).ok();
    let records = records(&repo);
    let values: Vec<_> = records.iter().map(|record| field(record, "/metric/raw")).collect();
    assert_eq!(values, ["2.000000", "1.5"]);
    assert_eq!(field(&records[1], "/outcome"), "keep");
    assert_eq!(repo.status(), "?? notes.txt");
    assert!(repo.read("train.sh").contains("VAL_BPB=1.5"));
}

#[test]
fn what_a_run_leaves_behind_is_no_part_of_the_next_change() {
    let repo = training_repo();
    run_steps(&repo, "litter better", &[]).ok();
    assert!(repo.exists("samples.txt"));
    let changed = repo.git(["diff", "--name-only", "main", "autoresearch/t"]);
    assert_eq!(changed, "train.sh");
    assert_eq!(repo.status(), "?? samples.txt");
}

#[test]
fn changes_that_a_run_makes_to_tracked_files_are_saved_and_put_back() {
    let repo = training_repo();
    repo.write("counter.txt", "0\n");
    repo.commit_all("a counter");
    let command = "echo x >> counter.txt; sh train.sh";
    let agent = agent("better worse");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", command, "--tag", "t", "--agent", &agent];
    let called = ar(&repo, args.into_iter().chain(["--max-experiments", "2"])).ok();
    assert!(
        called.stderr.contains("saved uncommitted changes to counter.txt as refs/autoresearch/t/saved/00000"),
        "{called:?}"
    );
    assert_eq!(repo.read("counter.txt"), "0\n");
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:counter.txt"]), "0\nx");
    let changed = repo.git(["diff", "--name-only", "main", "autoresearch/t"]);
    assert_eq!(changed, "train.sh");
    // The records read as before, whatever else stands below the session's refs.
    assert_eq!(records(&repo).len(), 3);
}

#[test]
fn an_agent_that_leaves_the_branch_is_brought_back() {
    let repo = training_repo();
    let edit = "sed -i 's/^VAL_BPB=.*/VAL_BPB=1.5/' train.sh";
    for (tag, agent) in [
        ("a", format!("git switch -q main; {edit}")),
        ("b", format!("git checkout -q --detach; {edit}; git commit -qam detached")),
        ("c", format!("git branch -qm gone; {edit}")),
        ("d", format!("{edit}; git commit -qam one; git switch -qc other; git reset -q --hard HEAD~; {edit}")),
    ] {
        repo.git(["switch", "--quiet", "main"]);
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", tag, "--agent", &agent];
        let called = ar(&repo, args.into_iter().chain(["--max-experiments", "1"])).ok();
        assert!(called.stdout.contains("   1  keep"), "{tag}: {called:?}");
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]), format!("refs/heads/autoresearch/{tag}"));
        assert_eq!(repo.git(["rev-parse", "HEAD^"]), repo.git(["rev-parse", "main"]), "{tag}");
        assert!(repo.read("train.sh").contains("VAL_BPB=1.5"), "{tag}");
        assert_eq!(repo.status(), "", "{tag}");
    }
}

#[test]
fn an_agent_that_stops_changing_anything_stops_the_loop() {
    let repo = training_repo();
    let agent = "[ $AR_EXPERIMENT != 1 ] || { echo '# 1' >> train.sh; exit; }; echo what now?";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let called = ar(&repo, args).exits(4);
    assert!(called.stdout.contains("changed nothing in 10 calls in a row"), "{called:?}");
    let notice =
        "changed nothing twice in a row; calling it again after pauses of up to 5 minutes, and stopping after 10";
    assert_eq!(called.stderr.matches(notice).count(), 1, "{called:?}");
    let log = called.stderr.lines().find_map(|line| line.strip_prefix("note: the agent's output is in "));
    assert_eq!(fs::read_to_string(log.unwrap()).unwrap(), "what now?\n".repeat(10));
    assert_eq!(records(&repo).len(), 2, "such a call is no experiment");
    let log = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    assert_eq!(log.lines().count(), 11, "{log}");
    assert!(log.contains("what now?"), "{log}");
}

#[test]
fn an_agent_that_may_not_write_stops_the_loop_after_three_calls() {
    for (more, calls) in [(&[][..], 3), (&["--slots", "2", "--calls", "1"], 3), (&["--max-idle", "4"], 4)] {
        let repo = training_repo();
        let agent = "echo call >> ../calls; echo 'I was not allowed to edit the file.'";
        let agent = agent.replace("../calls", repo.outside().join("calls").to_str().unwrap());
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
        let called = ar(&repo, args.iter().chain(more)).exits(4);
        assert_eq!(repo.read("../calls").lines().count(), calls, "{called:?}");
        assert!(called.stdout.contains("it last said: I was not allowed to edit the file.\n"), "{called:?}");
        let root = if more.contains(&"--slots") { repo.path().join(".autoresearch/t/trees") } else { repo.path() };
        let hint = format!("check that it may write in {}; then run `ar resume` to continue", root.display());
        assert!(called.stdout.contains(&hint), "{called:?}");
    }
}

#[test]
fn max_idle_sets_after_how_many_calls_without_a_change_the_loop_stops() {
    let idle_then = |calls: u32| {
        format!(
            "echo call >> ../calls; [ $(wc -l < ../calls) -le {calls} ] || sed -i 's/^VAL_BPB=.*/VAL_BPB=0.5/' train.sh"
        )
    };
    let run = |repo: &TestRepo, agent: &str, limit: &str| {
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
        ar(repo, args.into_iter().chain(["--max-experiments", "1", "--max-idle", limit]))
    };
    let repo = training_repo();
    let called = run(&repo, &idle_then(99), "3").exits(4);
    assert!(called.stdout.contains("changed nothing in 3 calls in a row"), "{called:?}");

    let repo = training_repo();
    run(&repo, &idle_then(12), "0").ok();
    assert_eq!((repo.read("../calls").lines().count(), records(&repo).len()), (13, 2), "0 never ends a night");
}

#[test]
fn status_names_the_calls_without_a_change_between_which_the_loop_pauses() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", "true"];
    let mut command = ar_command(&repo, &repo.path(), args);
    command.env_remove("AR_NO_PAUSES").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let paused = "between two experiments, after 2 calls in a row without a change";
    until(paused, || ar(&repo, ["status", "t"]).stdout.contains(paused).then_some(()));
    ar(&repo, ["stop", "t"]).ok();
    assert!(child.wait().unwrap().success());
}

#[test]
fn events_are_one_json_document_a_line() {
    let repo = training_repo();
    let events = run_steps(&repo, "better nan", &["--format", "json"]).ok().json_lines();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let experiment = ["agent_started", "agent_finished", "run_started", "experiment_finished"];
    let mut expected = vec!["session_started", "run_started", "experiment_finished"];
    expected.extend(experiment);
    expected.extend(experiment);
    expected.push("session_stopped");
    let names: Vec<_> = names.into_iter().filter(|name| *name != "run_progress").collect();
    assert_eq!(names, expected);
    assert!(events.iter().all(|event| event["version"] == 1 && event["ts"].is_string()));
    let last = events.iter().rfind(|event| event["event"] == "experiment_finished").unwrap();
    assert_eq!((&last["record"]["id"], &last["record"]["failure"]["class"]), (&2.into(), &"nan".into()));
    assert_eq!(last["incumbent"][1]["raw"], "1.900000");
}

#[test]
fn all_state_files_are_there_and_hold_what_they_should() {
    let repo = training_repo();
    run_steps(&repo, "better worse", &[]).ok();
    let state = |name: &str| repo.read(format!(".autoresearch/t/{name}"));
    let json = |name: &str| serde_json::from_str::<Value>(&state(name)).unwrap();
    let progress = json("state/progress.json");
    assert_eq!(
        (&progress["version"], &progress["iteration"], &progress["stale_count"]),
        (&3.into(), &2.into(), &1.into())
    );
    assert_eq!((field(&progress, "/status"), field(&progress, "/phase")), ("stopped", "idle"));
    assert_eq!(field(&json("state/contract.json"), "/metric/name"), "val_bpb");
    assert!(state("state/task_spec.md").contains("lower is better"));
    assert_eq!(json("state/directions_tried.json")["directions"][0]["direction"], "better");
    assert_eq!(state("state/findings.jsonl"), "");
    assert_eq!(state("state/iteration_log.jsonl").lines().count(), 2);
    for log in ["work", "orchestrator", "heartbeat"] {
        let text = state(&format!("logs/{log}.jsonl"));
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        for key in ["ts", "source", "level", "event", "detail"] {
            assert!(line[key].is_string(), "{log}: {key} in {line}");
        }
        assert!(line["data"].is_object() && line["ts"].as_str().unwrap().len() == "2026-11-20T22:00:00.000Z".len());
    }
    for file in ["run.log", "exit.json", "prompt.md", "agent.log"] {
        assert!(repo.exists(format!(".autoresearch/t/runs/00001/{file}")), "{file}");
    }
    assert!(repo.exists(".autoresearch/t/runs/00001/proposal.json"));
    let prompt = state("runs/00002/prompt.md");
    assert!(prompt.contains("incumbent: 1.900000 (experiment 1"), "{prompt}");
    assert_eq!(repo.read("run.log"), state("runs/00002/run.log"));
    // The terms are in git as well.
    assert_eq!(field(&records(&repo)[0], "/contract/command"), "sh train.sh");
}

#[test]
fn a_session_in_a_linked_worktree_writes_to_the_main_ones_ledger() {
    let repo = training_repo();
    let linked = repo.outside().join("linked");
    repo.git(["worktree", "add", "--quiet", "--detach", linked.to_str().unwrap()]);
    let agent = agent("better worse");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let output = ar_command(&repo, &linked, args.into_iter().chain(["--max-experiments", "2"])).output().unwrap();
    Called::from(output).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 4);
    assert!(repo.exists(".autoresearch/t/state/contract.json"));
    assert!(!linked.join("results.tsv").exists() && !linked.join(".autoresearch").exists());
    assert!(fs::read_to_string(linked.join("run.log")).unwrap().contains("val_bpb"));
    let output = repo.try_git_in(&linked, ["status", "--porcelain", "--branch"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "## autoresearch/t\n");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(repo.status(), "");
}

#[test]
fn the_goal_and_the_minimum_are_kept_to() {
    let repo = training_repo();
    let agent = agent("better better better better");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let called = ar(&repo, args.into_iter().chain(["--goal", "1.8"])).ok();
    assert!(called.stdout.contains("stopped: the goal of 1.8 is reached"), "{called:?}");
    assert_eq!(records(&repo).len(), 3);

    let repo = training_repo();
    let called = run_steps(&repo, "better", &["--min-delta", "0.1"]).ok();
    assert!(called.stdout.contains("which is not more than the minimum of 0.1"), "{called:?}");
    assert_eq!(field(&records(&repo)[1], "/outcome"), "discard");
}

#[test]
fn a_run_that_outlives_its_deadline_is_ended() {
    let repo = training_repo();
    let agent = agent("hang");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    ar(&repo, args.into_iter().chain(["--max-experiments", "0"])).ok();
    ar(&repo, ["resume", "--max-experiments", "1", "--timeout", "300ms", "--grace", "200ms"]).ok();
    let records = records(&repo);
    assert_eq!(field(&records[1], "/failure/class"), "timeout");
    assert!(field(&records[1], "/reason").starts_with("the deadline passed (ended by ar after "), "{}", records[1]);
}

#[test]
fn the_metric_can_stand_in_a_file_and_an_old_file_does_not_count() {
    let repo = training_repo();
    repo.write(".gitignore", "*.ckpt\nout.json\n");
    repo.write("train.sh", "[ -e skip ] || echo '{\"final\": {\"loss\": 1.50}}' > out.json; echo trained\n");
    repo.commit_all("writes its metric to a file");
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", "touch skip"];
    let more = ["--metric-file", "out.json:/final/loss", "--max-experiments", "1"];
    ar(&repo, args.into_iter().chain(more)).ok();
    let records = records(&repo);
    assert_eq!(field(&records[0], "/metric/raw"), "1.50");
    assert_eq!(field(&records[1], "/failure/class"), "no_metric", "{}", records[1]);
    assert!(
        field(&records[1], "/reason").starts_with("the run did not write the metric file out.json ("),
        "{}",
        records[1]
    );
}

#[test]
fn the_newest_file_of_a_pattern_counts_if_the_run_wrote_it() {
    let repo = training_repo();
    repo.write(".gitignore", "*.ckpt\nout/\n");
    repo.write("value", "1.5\n");
    let write = "{ mkdir -p out/z$value; printf 'epoch,loss\\n1,9\\n2,%s\\n3,\\n' $value > out/z$value/m.csv; }";
    repo.write("train.sh", format!("value=$(cat value); [ -e skip ] || {write}; echo trained\n"));
    repo.commit_all("writes a table to a folder of each run");
    let agent = "[ $AR_EXPERIMENT = 1 ] && echo 1.25 > value || touch skip";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, args.into_iter().chain(["--metric-file", "out/*/m.csv", "--max-experiments", "2"])).ok();
    let records = records(&repo);
    assert_eq!([0, 1].map(|id| field(&records[id], "/metric/raw")), ["1.5", "1.25"]);
    assert_eq!(field(&records[2], "/failure/class"), "no_metric", "{}", records[2]);
}

#[test]
fn a_number_before_the_deadline_or_a_crash_counts_where_asked_for() {
    let agent = "[ $AR_EXPERIMENT = 1 ] && echo 'sleep 60' > end || echo 'exit 3' > end; echo 1.$AR_EXPERIMENT > value";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let more = ["--timeout", "3s", "--grace", "200ms", "--lower", "--max-experiments", "2"];
    for partial in [&["--count-partial"][..], &[]] {
        let repo = training_repo();
        repo.write("train.sh", "echo \"loss: $(cat value)\"; . ./end\n");
        repo.write("value", "1.5\n");
        repo.write("end", "exit 0\n");
        repo.commit_all("prints, then ends as told");
        let called = ar(&repo, args.into_iter().chain(more).chain(partial.iter().copied())).ok();
        let (records, rows, report) = (records(&repo), repo.read("results.tsv"), ar(&repo, ["report"]).ok().stdout);
        let partial_rows = rows.lines().filter(|row| row.ends_with(" (partial)")).count();
        if partial.is_empty() {
            let reasons = [1, 2].map(|id| field(&records[id], "/reason").to_owned());
            assert!(
                reasons[0].contains("; printed 1.1 before the deadline (`--count-partial` would count it)"),
                "{reasons:?}"
            );
            assert!(
                reasons[1].contains("; printed 1.2 before it failed (`--count-partial` would count it)"),
                "{reasons:?}"
            );
            assert_eq!((partial_rows, report.contains("partial number")), (0, false), "{rows}{report}");
            continue;
        }
        assert_eq!([1, 2].map(|id| field(&records[id], "/outcome")), ["keep", "discard"], "{called:?}");
        assert!(records[1]["runs"][0]["partial"] == true && records[0]["runs"][0].get("partial").is_none());
        assert_eq!(
            (partial_rows, report.contains("partial numbers, of runs that did not finish: 1 and 2")),
            (2, true),
            "{rows}{report}"
        );
    }
}

#[test]
fn a_change_with_a_huge_file_is_refused_and_recorded_and_the_night_goes_on() {
    let repo = training_repo();
    let agent = "if [ $AR_EXPERIMENT = 1 ]; then truncate -s 101M big.bin; fi; \
                 sed -i \"s/^VAL_BPB=.*/VAL_BPB=1.$AR_EXPERIMENT/\" train.sh";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let called = ar(&repo, args.into_iter().chain(["--max-experiments", "2"])).ok();
    assert!(called.stdout.contains("   1  refused  too_large train.sh"), "{called:?}");
    assert!(called.stdout.contains("the change is too large (big.bin has 106 MB)"), "{called:?}");
    assert!(called.stdout.contains("   2  keep"), "{called:?}");
    let refused = &records(&repo)[1];
    assert_eq!((field(refused, "/outcome"), field(refused, "/failure/class")), ("crash", "too_large"));
    assert_eq!(refused["runs"], serde_json::json!([]));
    assert!(repo.read("results.tsv").lines().nth(2).unwrap().contains("\tnan\tnan\tfailed\t"));
    // What is too large to keep is left where it is.
    assert_eq!(repo.status(), "?? big.bin");
}

#[test]
fn the_file_that_its_own_output_goes_to_is_no_part_of_a_change() {
    let repo = training_repo();
    let agent = agent("better worse");
    let args = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let night = fs::File::create(repo.path().join("my [night].log")).unwrap();
    let mut command = ar_command(&repo, &repo.path(), args);
    command.args(["--max-experiments", "2", "--format", "json"]).stdout(night);
    Called::from(command.output().unwrap()).ok();
    assert!(repo.read("my [night].log").contains("agent_started"));
    let changed = repo.git(["log", "--all", "--name-only", "--format="]);
    assert!(changed.contains("train.sh") && !changed.contains("night"), "{changed}");
}

#[test]
fn numbers_may_have_gaps_and_the_order_of_recording_may_not() {
    let repo = training_repo();
    run_steps(&repo, "better worse", &[]).ok();
    let places = |repo: &TestRepo| -> Vec<(Value, Value)> {
        records(repo).into_iter().map(|record| (record["id"].clone(), record["sequence"].clone())).collect()
    };
    assert_eq!(places(&repo), [(0.into(), 0.into()), (1.into(), 1.into()), (2.into(), 2.into())]);
    // Experiments 3 and 4 were opened beside 5, and given up.
    let git = Repo::discover(&repo.path()).unwrap();
    let mut record = records(&repo).pop().unwrap();
    (record["id"], record["sequence"]) = (5.into(), 3.into());
    let commit = CommitId::new(field(&record, "/commit"));
    git.refs.write_record("refs/autoresearch/t/00005", &commit, &format!("try 5\n\n{record}\n")).unwrap();
    let more = ["--agent", "echo \"# $AR_EXPERIMENT\" >> train.sh"];
    ar(&repo, [&["resume", "--max-experiments", "1"][..], &more].concat()).ok();
    assert_eq!(places(&repo)[3..], [(5.into(), 3.into()), (6.into(), 4.into())]);
    assert!(!ar(&repo, ["doctor"]).stdout.contains("has no record"));

    repo.git(["update-ref", "-d", "refs/autoresearch/t/00002"]);
    let refused = ar(&repo, [&["resume", "--max-experiments", "5"][..], &more].concat()).exits(6);
    assert!(refused.stderr.contains("no record of experiment 2"), "{refused:?}");
    assert!(ar(&repo, ["doctor"]).stdout.contains("experiment 2 has no record, but a later one does"));
}

#[test]
fn the_refs_of_many_records_are_packed_while_the_session_goes_on() {
    let repo = training_repo();
    run_steps(&repo, "better worse", &[]).ok();
    let git = Repo::discover(&repo.path()).unwrap();
    let [_, _, model]: [Value; 3] = records(&repo).try_into().unwrap();
    for id in 3..=62 {
        let mut record = model.clone();
        record["id"] = id.into();
        let commit = CommitId::new(field(&record, "/commit"));
        let message = format!("try {id}\n\n{record}\n");
        git.refs.write_record(&format!("refs/autoresearch/t/{id:05}"), &commit, &message).unwrap();
    }
    let loose = || {
        let files = fs::read_dir(repo.file(".git/refs/autoresearch/t")).unwrap();
        files.filter(|file| file.as_ref().unwrap().file_name() != "saved").count()
    };
    assert_eq!(loose(), 63);
    ar(&repo, ["resume", "--max-experiments", "2", "--agent", "echo \"# $AR_EXPERIMENT\" >> train.sh"]).ok();
    assert_eq!(loose(), 1, "the first 64 are packed, and the next one is not yet");
    assert_eq!(records(&repo).len(), 65);
    repo.git(["fsck", "--strict"]);
}
