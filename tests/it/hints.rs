//! What the user is told to type next, typed.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, TestRepo, ar};

const RUN: [&str; 8] = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];

/// Types the command between backticks that begins with `start`.
#[track_caller]
pub(crate) fn type_hint(repo: &TestRepo, said: &str, start: &str) -> Called {
    let hint = said.split('`').find(|part| part.starts_with(start)).unwrap_or_else(|| panic!("no {start}: {said}"));
    let mut command = Command::new("sh");
    repo.environment(&mut command);
    let path = std::env::var_os("PATH").unwrap();
    let folders = [Path::new(AR).parent().unwrap().to_owned()].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap()).args(["-c", hint]).current_dir(repo.path());
    command.output().unwrap().into()
}

#[test]
fn uncommitted_changes_of_a_session_are_adopted_by_the_command_that_is_named() {
    let repo = training_repo();
    ar(&repo, RUN).ok();
    repo.write("docs/a.txt", "mine\n");
    let said = ar(&repo, ["resume", "t"]).exits(1).stderr;
    assert!(
        said.contains("docs/a.txt\nhint: set them aside with `git stash`, or run `ar run --tag t --adopt`"),
        "{said}"
    );
    type_hint(&repo, &said, "ar run --tag t --adopt").ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
    repo.git(["switch", "--quiet", "main"]);
    repo.commit_all("else");
    repo.write("docs/a.txt", "mine\n");
    let said = ar(&repo, ["run", "--tag", "t", "--adopt"]).exits(1).stderr;
    assert!(said.contains("hint: commit them, or set them aside with `git stash`\n"), "{said}");
}

#[test]
fn a_required_filter_whose_program_is_absent_is_refused_before_anything_starts() {
    let repo = training_repo();
    repo.git(["config", "filter.big.clean", "git-absent-program clean -- %f"]);
    repo.git(["config", "filter.big.required", "true"]);
    ar(&repo, RUN).ok();
    let repo = training_repo();
    repo.write("d.bin", "pointer\n");
    repo.write(".gitattributes", "*.bin filter=big\n");
    repo.commit_all("a large file");
    repo.git(["config", "filter.big.clean", "git-absent-program clean -- %f"]);
    repo.git(["config", "filter.big.required", "true"]);
    for more in [&[][..], &["--slots", "2"]] {
        let said = ar(&repo, RUN.iter().chain(more)).exits(1).stderr;
        assert!(said.contains("cannot start the git filter: `git-absent-program` not found\nhint: install "), "{said}");
        assert!(repo.read("d.bin") == "pointer\n" && !repo.exists(".autoresearch"), "nothing is moved");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_refused_change_and_is_put_back() {
    for more in [&[][..], &["--slots", "2", "--calls", "1"]] {
        let repo = training_repo();
        repo.write("docs.txt", "a");
        repo.commit_all("a file");
        let agent = "[ $AR_EXPERIMENT = 1 ] && echo '# 1' >> train.sh && chmod 000 docs.txt || sed -i 's/^VAL_BPB=.*/VAL_BPB=0.5/' train.sh";
        let args = RUN.iter().copied().chain(["--agent", agent, "--max-experiments", "2"]);
        let called = ar(&repo, args.chain(more.iter().copied())).ok();
        // Root may read everything.
        if called.stdout.contains("docs.txt cannot be read") {
            assert!(called.stdout.contains("   1  refused  scope"), "{called:?}");
            assert!(called.stdout.contains("   2  keep     0.5"), "{called:?}");
            assert_eq!(repo.read("docs.txt"), "a");
        }
    }
}

#[test]
fn a_lock_file_that_uv_rewrites_is_named_with_what_to_do() {
    let repo = training_repo();
    repo.write("uv.lock", "old\n");
    repo.write("pyproject.toml", "[project]\nname = \"x\"\n");
    let uv = "#!/bin/sh\nh=$(cksum < pyproject.toml); [ \"$(cat uv.lock)\" = \"$h\" ] || echo \"$h\" > uv.lock\n";
    repo.write("uv.sh", uv);
    repo.commit_all("a project");
    let agent = "echo \"# $AR_EXPERIMENT\" >> pyproject.toml; sed -i \"s/^VAL_BPB=.*/VAL_BPB=0.$((9 - AR_EXPERIMENT))/\" train.sh";
    let command = ["--cmd", "sh uv.sh; sh train.sh", "--agent", agent, "--max-experiments", "2"];
    let called = ar(&repo, RUN[..4].iter().copied().chain(RUN[6..].iter().copied()).chain(command)).ok();
    let hint = "`uv run` rewrites uv.lock, which is older than its pyproject.toml: run `uv lock` and commit it";
    assert!(called.stderr.contains(hint), "{called:?}");
    assert!(called.stdout.contains("   1  keep     0.8") && called.stdout.contains("   2  keep     0.7"), "{called:?}");
    let scoped = ["--cmd", "sh uv.sh; sh train.sh", "--scope", "train.sh", "--tag", "u"];
    repo.git(["checkout", "-q", "main"]);
    let said = ar(&repo, RUN[..4].iter().copied().chain(scoped)).exits(3).stderr;
    assert!(said.contains("name uv.lock in --scope;") && said.contains(hint), "{said}");
}

#[test]
fn a_folder_at_the_path_of_the_metric_file_is_moved_before_the_next_run() {
    let repo = training_repo();
    repo.write(".gitignore", "m.json\n");
    repo.write("write.sh", "echo '{\"loss\": 1}' > m.json\n");
    repo.commit_all("a metric file");
    let agent = "[ $AR_EXPERIMENT = 1 ] && echo 'mkdir m.json' > write.sh || echo 'echo \"{\\\"loss\\\": 0.5}\" > m.json' > write.sh";
    let args = [
        "run",
        "--yes",
        "--tag",
        "t",
        "--metric",
        "loss",
        "--cmd",
        "rm -f m.json; sh write.sh",
        "--metric-file",
        "m.json:/loss",
        "--agent",
        agent,
        "--max-experiments",
        "2",
    ];
    let called = ar(&repo, args).ok();
    assert!(called.stdout.contains("   2  keep     0.5"), "{called:?}");
    assert!(
        called.stderr.contains("moved out of the working tree") || called.stdout.contains("moved out"),
        "{called:?}"
    );
}

#[test]
fn a_ledger_that_cannot_be_continued_is_moved_to_a_free_name() {
    const OTHER: &str = "commit\tval_bpb\tmemory_gb\n";
    let repo = training_repo();
    for (target, content) in [("results.tsv.old", "first"), ("results.tsv.old-2", "second")] {
        repo.write("results.tsv", format!("{OTHER}{content}\t1.0\t1.0\n"));
        let said = ar(&repo, RUN).exits(1).stderr;
        type_hint(&repo, &said, "mv ").ok();
        assert!(repo.read(target).contains(content));
    }
    assert!(repo.read("results.tsv.old").contains("first"));
    ar(&repo, RUN).ok();
    repo.write("results.tsv", OTHER);
    let said = ar(&repo, ["resume"]).exits(1).stderr;
    assert!(said.contains("results.tsv.old-3"), "{said}");
}

#[test]
fn a_missing_agent_is_told_with_what_sets_it() {
    let repo = training_repo();
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\ntag = \"t\"\n");
    repo.commit_all("settings");
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("no agent is set") && found.contains("set agent in ar.toml"), "{found}");
    ar(&repo, ["run", "--yes"]).ok();
    let next = &ar(&repo, ["status", "--format", "json"]).ok().json()["sessions"][0]["next"];
    assert_eq!(
        (&next[0], &next[1]),
        (&"ar try -m \"what it changes\" --tag t".into(), &"ar run --agent COMMAND --tag t".into())
    );
    let agent = "echo '# changed' >> train.sh";
    ar(&repo, ["run", "--agent", agent, "--tag", "t", "--max-experiments", "1"]).ok();
    assert_eq!(repo.read("results.tsv").lines().count(), 3);

    let repo = training_repo();
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\nagent = \"true\"\n");
    assert!(!ar(&repo, ["doctor"]).ok().stdout.contains("no agent"));
}

#[test]
fn a_loop_without_any_limit_says_so_once_and_names_the_limits() {
    let told = |tag: &str, more: &[&str]| {
        let repo = training_repo();
        let said = ar(&repo, [&RUN[..7], &[tag], more].concat()).stderr;
        said.matches("no limit is set, so the loop runs until you stop it").count()
    };
    assert_eq!(told("crashes", &["--agent", "true", "--max-crashes", "3"]), 1, "a loop without crashes has no end");
    assert_eq!(told("cap", &["--agent", "true", "--max-experiments", "0"]), 0);
    assert_eq!(told("goal", &["--agent", "true", "--goal", "9"]), 0);
    assert_eq!(told("baseline", &[]), 0, "without an agent there is no loop");
}

#[test]
fn a_number_that_is_none_is_named_with_what_is_allowed() {
    let repo = training_repo();
    for (args, allowed) in [
        (&["run", "--max-experiments", "ten"][..], "must be a whole number"),
        (&["run", "--max-tokens", "1.5"], "must be a whole number"),
        (&["run", "--max-experiments", "99999999999"], "is too large"),
        (&["run", "--max-crashes", "-1"], "must be a whole number"),
        (&["run", "--max-files", "0"], "must be a whole number from 1"),
        (&["idea", "drop", "first"], "must be a whole number from 1"),
        (&["log", "--top", "0"], "must be a whole number from 1"),
        (&["report", "--ledger", "x", "--segment", "-1"], "must be a whole number"),
        (&["review", "t"], "must be the number of an experiment, as in `ar review 3 --tag t`"),
        (&["finalize", "--without", "x"], "must be the number of an experiment"),
    ] {
        let said = ar(&repo, args).exits(2).stderr;
        let value = format!("invalid value '{}' for ", args.last().unwrap());
        assert!(said.contains(&value) && said.contains(allowed), "{args:?}: {said}");
    }
    repo.write("ar.toml", "max-experiments = \"ten\"\n");
    let said = ar(&repo, RUN).exits(1).stderr;
    assert!(said.contains("ar.toml: invalid value 'ten'") && said.contains("a whole number"), "{said}");
}

#[test]
fn a_second_finalize_names_the_way_to_see_the_branch_and_to_make_another() {
    let repo = training_repo();
    ar(
        &repo,
        [
            &RUN[..],
            &["--agent", "echo VAL_BPB=1.5 > train.sh; echo 'echo val_bpb: $VAL_BPB' >> train.sh"],
            &["--max-experiments", "1"],
        ]
        .concat(),
    )
    .ok();
    ar(&repo, ["finalize"]).ok();
    let said = ar(&repo, ["finalize"]).exits(1).stderr;
    assert!(said.contains("branch t-final already exists"), "{said}");
    type_hint(&repo, &said, "git log ").ok();
    assert!(said.contains("--branch t-final-2"), "{said}");
    ar(&repo, ["finalize", "--branch", "t-final-2"]).ok();
}

#[test]
fn a_cost_that_is_not_reported_is_unknown_and_told_once() {
    let repo = training_repo();
    let more = ["--agent", "echo '# changed' >> train.sh", "--max-experiments", "1", "--max-cost", "20"];
    let said = ar(&repo, [&RUN[..], &more].concat()).ok().stderr;
    assert_eq!(said.matches("--max-cost").count(), 1, "{said}");
    let text = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(text.contains("cost unknown, limit $20.00") && !text.contains("$0.00"), "{text}");
}

#[test]
fn init_names_the_flags_that_an_existing_file_does_not_take() {
    let repo = training_repo();
    repo.write("ar.toml", "metric = \"val_bpb\"\n");
    let said = ar(&repo, ["init", "--agent", "claude", "--lower", "--guard", "true"]).ok().stdout;
    assert!(said.contains("not applied: --lower, --agent, --guard; edit ar.toml to set them"), "{said}");
    assert!(said.ends_with("next: set cmd and agent in ar.toml, commit them, then `ar run`\n"), "{said}");
    let said = ar(&repo, ["init"]).ok().stdout;
    let next = "next: set cmd and agent in ar.toml, then `ar run`\n";
    assert!(!said.contains("not applied") && said.ends_with(next), "{said}");
    repo.rm("ar.toml");
    let said = ar(&repo, ["init", "--metric", "m", "--lower", "--agent", "true"]).ok().stdout;
    assert!(said.ends_with("next: look at ar.toml, commit it, then `ar run`\n"), "{said}");
}

#[test]
fn an_example_of_a_settings_file_is_shown() {
    let repo = training_repo();
    repo.write("ar.toml", "metric = [\n");
    let said = ar(&repo, RUN).exits(1).stderr;
    let shown = type_hint(&repo, &said, "cd ").ok().stdout;
    assert!(shown.contains("# cmd = ") && shown.contains("# agent = "), "{shown}");
}

#[test]
fn a_command_whose_script_is_missing_is_not_called_fine() {
    let repo = training_repo().without_walls();
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh trian.sh\"\nagent = \"true\"\n");
    let found = ar(&repo, ["doctor", "--format", "json"]).exits(1).json();
    let findings = found["findings"].as_array().unwrap();
    let of_command: Vec<&Value> = findings.iter().filter(|finding| finding["area"] == "command").collect();
    assert_eq!(of_command.len(), 1, "{of_command:#?}");
    assert_eq!(of_command[0]["level"], "error");
}

#[test]
fn a_session_beside_another_says_where_it_starts() {
    let repo = training_repo();
    assert!(!ar(&repo, RUN).ok().stderr.contains("started a new session"));
    repo.git(["switch", "--quiet", "main"]);
    fs::remove_file(repo.file("results.tsv")).unwrap();
    let said = ar(&repo, [&RUN[..6], &["--tag", "u"]].concat()).ok().stderr;
    let start = format!("started a new session from main at {}; ", &repo.git(["rev-parse", "main"])[..8]);
    assert!(said.contains(&start) && said.contains("`ar resume TAG`"), "{said}");
}

#[test]
fn init_lists_the_numbers_of_a_run_and_reads_names_in_scripts() {
    let repo = TestRepo::empty();
    repo.write("bench.sh", "#!/bin/bash\necho \"requests: 5, accuracy: 0.750\"\necho \"p99_ms=$(echo 1.25)\"\n");
    repo.commit_all("a benchmark");
    let said = ar(&repo, ["init"]).ok().stdout;
    for found in ["metric accuracy; set higher or lower\n", "further numbers: p99_ms\n", "command bash bench.sh\n"] {
        assert!(said.contains(&format!("found: {found}")), "{found}: {said}");
    }
    assert!(said.contains("next: set higher or lower and agent in ar.toml"), "{said}");
    // A run is asked for: its names are certain.
    repo.rm("ar.toml");
    repo.rm("bench.sh");
    let command = "echo val_loss: 0.4321; echo accuracy: 0.75; echo width: 3";
    let said = ar(&repo, ["init", "--probe", "--cmd", command]).ok().stdout;
    let rows: Vec<Vec<&str>> =
        said.lines().skip(2).take(3).map(|line| line.splitn(3, char::is_whitespace).collect()).collect();
    assert!(said.starts_with(&format!("`{command}` exited with 0 and printed 3 numbers\n")), "{said}");
    for row in [
        "val_loss  0.4321  lower is better",
        "accuracy    0.75  higher is better: say --higher",
        "width          3  say --higher or --lower",
    ] {
        assert!(said.lines().any(|line| line == row), "{row}: {rows:?}");
    }
    assert!(repo.read("ar.toml").contains("\nmetric = \"val_loss\"\n"), "{}", repo.read("ar.toml"));
    repo.rm("ar.toml");
    assert!(said.contains("\ntook val_loss, a quality on data that nothing was fitted to; further"), "{said}");
    assert!(
        said.contains("candidates for --metric: accuracy\n") && said.contains("found: decide confirmed\n"),
        "{said}"
    );
    // A run that failed suggests nothing.
    let said = ar(&repo, ["init", "--probe", "--cmd", "echo loss: 0 broken; exit 3"]).ok().stdout;
    assert!(said.contains("exited with 3, so nothing of what it printed is proposed: loss: 0 broken\n"), "{said}");
    assert!(!said.contains("found: metric") && !repo.read("ar.toml").contains("\nmetric = "), "{said}");
    repo.rm("ar.toml");
    // What it leaves is named, and so is the name that may be meant.
    let probe =
        ["init", "--probe", "--metric", "val_bbp", "--lower", "--cmd", "echo val_bpb: 1; echo x > a; echo x > b"];
    repo.write("a", "");
    let said = ar(&repo, probe).ok().stderr;
    assert!(said.contains("the run printed no val_bbp; did you mean `val_bpb`?"), "{said}");
    assert!(said.contains("the command left changes: a, b; undo them"), "{said}");
    repo.rm("ar.toml");
    // A number is read where a run's is.
    let command = "echo fold 2 val_acc: 0.9; echo \"{\\\"val_acc\\\": 0.75}\" > a";
    let probe = ["init", "--probe", "--metric", "val_acc", "--higher", "--cmd"];
    let said = ar(&repo, [&probe[..], &[command, "--metric-file", "a:/val_acc"]].concat()).ok();
    assert!(said.stdout.contains("\nval_acc   0.75  higher"), "{said:?}");
    let said = ar(&repo, [&probe[..], &[command, "--metric-file", "c:/val_acc"]].concat()).ok();
    assert!(said.stderr.contains("the metric file c does not exist"), "{said:?}");
    repo.rm("ar.toml");
    assert!(ar(&repo, ["init", "--probe"]).exits(2).stderr.contains("hint: pass --cmd COMMAND"));
}

#[test]
fn init_names_a_tracked_ledger_and_the_call_after_mcp() {
    let repo = TestRepo::new();
    repo.write("results.tsv", "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n");
    repo.commit_all("a fork with its rows");
    let next = ar(&repo, ["init", "--mcp"]).ok().stdout;
    assert!(next.contains("then set the terms with `ar init --metric NAME --cmd COMMAND`"), "{next}");
    let said = ar(&repo, ["init"]).ok().stdout;
    assert!(said.contains("found: results.tsv is tracked by git"), "{said}");
    type_hint(&repo, &said, "git rm ").ok();
    assert!(!ar(&repo, ["init"]).ok().stdout.contains("is tracked"));
    repo.rm(".mcp.json");
    assert!(!ar(&repo, ["init", "--mcp"]).ok().stdout.contains("ar init"), "ar.toml is there");
}
