//! `ar run` without an agent in its settings, with programs of known names on the PATH.

use serde_json::Value;

use crate::presets::{call, command, install};
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo};

/// The bare line of a first night.
const RUN: [&str; 8] = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];

/// A repository with these agents installed.
fn repo_with(agents: &[&str]) -> TestRepo {
    let repo = training_repo();
    for agent in agents {
        install(&repo, agent);
    }
    repo
}

/// The bare line and more.
fn run(repo: &TestRepo, more: &[&str]) -> Called {
    call(repo, &[&RUN[..], more].concat())
}

fn contract(repo: &TestRepo) -> Value {
    serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap()
}

/// The number of rows without the header.
fn rows(repo: &TestRepo) -> usize {
    repo.read("results.tsv").lines().count() - 1
}

#[test]
fn the_only_installed_agent_is_taken_named_and_stored() {
    let repo = repo_with(&["opencode"]);
    let called = run(&repo, &["--max-experiments", "1"]).ok();
    assert!(called.stderr.contains("took opencode, the only agent installed"), "{called:?}");
    assert_eq!((contract(&repo)["agent_preset"].as_str(), rows(&repo)), (Some("opencode"), 2));
    // What is stored is not named again.
    let called = call(&repo, &["resume", "--max-experiments", "1"]).ok();
    assert!(!called.stderr.contains("took opencode") && rows(&repo) == 3, "{called:?}");
}

#[test]
fn a_session_that_try_opened_gets_the_only_installed_agent_from_run_but_not_from_resume() {
    let repo = repo_with(&[]);
    repo.write("train.sh", repo.read("train.sh") + "# by hand\n");
    call(&repo, &["try", "-m", "by hand", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    install(&repo, "claude");
    let called = call(&repo, &["resume"]).ok();
    let first = called.stderr.lines().next().unwrap_or_default();
    assert!(first.contains("no agent is set") && first.contains("installed: claude"), "{called:?}");
    assert!(contract(&repo)["agent"].is_null() && rows(&repo) == 2);
    call(&repo, &["resume", "--for", "1h"]).exits(2);

    let called = call(&repo, &["run", "--max-experiments", "1"]).ok();
    assert!(called.stderr.contains("took claude"), "{called:?}");
    assert_eq!((contract(&repo)["agent_preset"].as_str(), rows(&repo)), (Some("claude"), 3));
}

#[test]
fn a_loop_that_is_asked_for_without_an_agent_is_refused_before_the_baseline() {
    let wishes: [&[&str]; 7] = [
        &["--for", "8h"],
        &["--until", "07:00"],
        &["--max-experiments", "5"],
        &["--max-cost", "20"],
        &["--max-tokens", "1000"],
        &["--slots", "2"],
        &["--ahead", "0"],
    ];
    for agents in [&[][..], &["aider", "codex"]] {
        let repo = repo_with(agents);
        for wish in wishes {
            let said = run(&repo, wish).exits(2).stderr;
            let asks = format!("no agent is set, but {} asks for a loop", wish[0]);
            assert!(said.contains(&asks), "{said}");
            let (there, agent) = match agents {
                [] => ("no known agent is installed", "COMMAND"),
                _ => ("installed: aider, codex", "aider"),
            };
            assert!(said.contains(there), "{said}");
            let line = format!(
                "`ar run --yes --metric val_bpb --cmd 'sh train.sh' --tag t {} --agent {agent}`",
                wish.join(" ")
            );
            assert!(said.contains(&line), "{said}");
        }
        assert!(!repo.exists(".autoresearch") && !repo.exists("results.tsv"), "nothing was started");
        assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    }
}

#[test]
fn the_bare_line_without_an_agent_says_first_that_only_the_baseline_is_measured_and_last_how_to_go_on() {
    for (agents, there, agent) in
        [(&[][..], "no known agent is installed", "COMMAND"), (&["aider", "codex"], "installed: aider, codex", "aider")]
    {
        let repo = repo_with(agents);
        let called = run(&repo, &[]).ok();
        let first = format!("note: no agent is set, so only the baseline will be measured; {there}");
        assert_eq!(called.stderr.lines().next(), Some(&*first), "{called:?}");
        let last: Vec<&str> = called.stdout.lines().rev().take(2).collect();
        assert!(last[1].contains(&format!("`ar run --agent {agent}`")), "{called:?}");
        assert!(last[0].contains("`ar try -m \"what it changes\"`"), "{called:?}");
        assert_eq!(rows(&repo), 1);
    }
}

#[test]
fn no_agent_is_taken_inside_another_agents_session() {
    for variable in ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCODE", "CURSOR_AGENT", "AI_AGENT"] {
        let repo = repo_with(&["claude"]);
        let within = |more: &[&str]| {
            Called::from(command(&repo, &[&RUN[..], more].concat()).env(variable, "1").output().unwrap())
        };
        let said = within(&["--for", "8h"]).exits(2).stderr;
        assert!(
            said.contains(&format!(
                "installed: claude, but `ar` takes none inside another agent's session ({variable}"
            ))
        );
        assert!(said.contains("--for 8h --agent claude`"), "{said}");
    }
    let repo = repo_with(&["claude"]);
    let mut bare = command(&repo, &RUN);
    let called = Called::from(bare.env("CLAUDECODE", "1").output().unwrap()).ok();
    assert!(called.stderr.starts_with("note: no agent is set, so only the baseline"), "{called:?}");
    assert!(contract(&repo)["agent"].is_null() && rows(&repo) == 1);
}

#[test]
fn none_is_an_agent_that_stays_none() {
    let repo = repo_with(&["claude"]);
    let called = run(&repo, &["--agent", "none"]).ok();
    assert!(called.stderr.starts_with("note: the agent is `none`, so only the baseline"), "{called:?}");
    // The session remembers it.
    call(&repo, &["run"]).ok();
    let said = call(&repo, &["run", "--agent", "none", "--for", "8h"]).exits(2).stderr;
    assert!(said.contains("hint: run `ar run --for 8h --agent claude`"), "{said}");
    assert_eq!(rows(&repo), 1);
    call(&repo, &["run", "--agent", "claude", "--max-experiments", "1"]).ok();
    assert_eq!((contract(&repo)["agent_preset"].as_str(), rows(&repo)), (Some("claude"), 2));
}

#[test]
fn no_experiments_are_the_baseline_alone_and_need_no_agent() {
    for (agents, more) in [
        (&["claude"][..], &["--max-experiments", "0"][..]),
        (&[], &["--max-experiments", "0", "--for", "8h"]),
        (&[], &["--max-experiments", "0", "--agent", "claude"]),
        (&[], &["--max-experiments", "0", "--slots", "2"]),
    ] {
        let repo = repo_with(agents);
        let called = run(&repo, more).ok();
        assert!(!called.stderr.contains("no agent") && !called.stdout.contains("--agent"), "{called:?}");
        assert_eq!(rows(&repo), 1);
        assert_eq!(contract(&repo)["agent"].is_null(), !more.contains(&"--agent"));
    }
}

#[test]
fn init_ends_with_the_agent_to_set() {
    let last = |agents: &[&str], args: &[&str]| {
        let repo = repo_with(agents);
        let said = call(&repo, args).ok().stdout;
        let again = call(&repo, &["init"]).ok().stdout;
        [said, again].map(|said| said.lines().last().unwrap_or_default().to_owned())
    };
    let terms = ["init", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    for agents in [&[][..], &["aider", "claude"]] {
        assert_eq!(
            last(agents, &terms),
            ["next: set agent in ar.toml, commit them, then `ar run`", "next: set agent in ar.toml, then `ar run`"]
        );
    }
    let [said, again] = last(&["claude"], &terms);
    assert!(!said.contains("set agent") && !again.contains("set agent"), "{said} {again}");
}

#[test]
fn init_takes_no_agent_inside_another_agents_session() {
    let repo = repo_with(&["claude"]);
    let mut command = command(&repo, &["init", "--metric", "val_bpb", "--cmd", "sh train.sh"]);
    let said = Called::from(command.env("CLAUDECODE", "1").output().unwrap()).ok().stdout;
    assert!(!repo.read("ar.toml").lines().any(|line| line.starts_with("agent")), "{}", repo.read("ar.toml"));
    let found = "found: agent claude, but `ar` takes none inside another agent's session (CLAUDECODE is set)\n";
    assert!(said.contains(found), "{said}");
    let next =
        "next: set agent in ar.toml, as no agent is taken inside another agent's session, commit them, then `ar run`\n";
    assert!(said.ends_with(next), "{said}");
    // One that is named is taken.
    repo.rm("ar.toml");
    let mut command =
        self::command(&repo, &["init", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", "claude"]);
    let said = Called::from(command.env("CLAUDECODE", "1").output().unwrap()).ok().stdout;
    assert!(repo.read("ar.toml").contains("\nagent = \"claude\"\n") && !said.contains("CLAUDECODE"), "{said}");
}

#[test]
fn init_asks_for_the_direction_as_run_does() {
    let repo = repo_with(&[]);
    let [by_run, by_init] = [&["run", "--metric", "fps", "--cmd", "sh train.sh"][..], &["init", "--metric", "fps"]]
        .map(|args| call(&repo, args).exits(2).stderr);
    assert!(by_init.contains("cannot tell whether a higher or a lower `fps` is better"), "{by_init}");
    assert_eq!(by_init, by_run);
    assert!(!repo.exists("ar.toml") && !repo.exists("program.md"));
    for name in ["gizmo", "mIoU", "ops/s"] {
        let said = call(&repo, &["try", "-m", "x", "--metric", name, "--cmd", "sh train.sh"]).exits(2).stderr;
        assert!(said.contains(&format!("`{name}`")) && said.contains("--higher or --lower"), "{said}");
    }
    let said = call(&repo, &["init", "--metric", "fps", "--higher"]).ok().stdout;
    assert!(said.starts_with("fps: higher is better\n"), "{said}");
    assert!(repo.read("ar.toml").contains("\nhigher = true\n"));
}

#[test]
fn the_doctor_says_what_run_would_refuse() {
    for (agents, settings, code, found) in [
        (
            &["claude"][..],
            "metric = \"fps\"\ncmd = \"sh train.sh\"",
            1,
            "cannot tell whether a higher or a lower `fps`",
        ),
        (&["claude"], "metric = \"val_bpb\"", 1, "a new session needs --cmd"),
        (&["claude"], "cmd = \"sh train.sh\"", 1, "a new session needs --metric"),
        (&["claude"], "", 1, "a new session needs --metric"),
        (&["claude"], "metric = \" \"\ncmd = \"sh train.sh\"", 1, "a new session needs --metric"),
        (
            &[],
            "metric = \"val_bpb\"\ncmd = \"sh train.sh\"",
            0,
            "no agent is set, so only the baseline will be measured",
        ),
        (&["aider", "codex"], "metric = \"val_bpb\"\ncmd = \"sh train.sh\"", 0, "measured; installed: aider, codex"),
        (
            &["aider", "codex"],
            "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\nfor = \"8h\"",
            1,
            "no agent is set, but --for asks for a loop; installed: aider, codex",
        ),
        (&["codex"], "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\nfor = \"8h\"", 0, "`ar run` takes codex, the only"),
    ] {
        let repo = repo_with(agents);
        repo.write("ar.toml", settings);
        let said = call(&repo, &["doctor"]).exits(code).stdout;
        assert_eq!(said.matches(found).count(), 1, "{found}: {said}");
        if code == 1 {
            call(&repo, &["run", "--yes"]).exits(2);
        }
        assert!(!repo.exists(".autoresearch") && !repo.exists("results.tsv"), "the doctor looks only");
    }
}

#[test]
fn the_doctor_says_what_run_would_refuse_in_a_session() {
    let begun = || {
        let repo = repo_with(&["claude"]);
        let line = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
        call(&repo, &[&line[..], &["--max-experiments", "0"]].concat()).ok();
        repo
    };
    type Break = fn(&TestRepo);
    let broken: [(Break, i32, &str); 2] = [
        (|repo| repo.write("train.sh", "echo val_bpb: 1\n"), 1, "train.sh"),
        (|repo| drop(repo.git(["worktree", "add", "-f", "../other", "autoresearch/t"])), 1, "checked out in"),
    ];
    for (number, (harm, code, found)) in broken.into_iter().enumerate() {
        let repo = begun();
        if number == 1 {
            repo.git(["switch", "-q", "main"]);
        }
        let named = || {
            let said = call(&repo, &["doctor"]).stdout;
            let is_trouble = |line: &&str| line.starts_with("error ") || line.starts_with("warning ");
            said.lines().filter(is_trouble).filter(|line| line.contains(found)).count()
        };
        assert_eq!(named(), 0, "{found}");
        harm(&repo);
        assert_eq!(named(), 1, "{found}");
        let refused = call(&repo, &["run", "--yes"]).exits(code).stderr;
        assert!(refused.contains(found), "{found}: {refused}");
    }
}

#[test]
fn the_doctor_knows_the_agent_of_the_session_that_run_would_continue() {
    let repo = repo_with(&[]);
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\n");
    repo.git(["add", "ar.toml"]);
    repo.git(["commit", "-q", "-m", "set up ar"]);
    let agent = "echo echo val_bpb: 0.5 > train.sh";
    let line = ["run", "--yes", "--slots", "1", "--max-experiments", "0", "--agent", agent];
    call(&repo, &line).ok();
    let found = call(&repo, &["doctor"]).ok().stdout;
    assert!(!found.contains("no agent is set"), "{found}");
    let continued = call(&repo, &["run", "--yes", "--max-experiments", "1"]).ok();
    assert!(continued.stderr.contains("which began from here"), "{continued:?}");
}
