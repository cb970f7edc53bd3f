//! Agents that are called by name, with programs of these names that write down how they were called.

use std::path::Path;
use std::process::Command;

use autoresearch::agent;
use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar_command, path_without_agents};

/// Every preset, and a part of what its program must be told.
const PRESETS: [(&str, &str); 7] = [
    ("agy", "-p "),
    ("aider", "--yes-always --message-file "),
    ("claude", "-p --dangerously-skip-permissions --output-format stream-json --verbose"),
    ("codex", "exec --json --sandbox workspace-write --add-dir "),
    ("copilot", "-s --no-ask-user --allow-all-tools --add-dir "),
    ("gemini", "--approval-mode yolo --skip-trust --output-format stream-json"),
    ("opencode", "run --auto --format json"),
];

/// Puts a program of this name on the PATH that writes its arguments and its input beside the repository, leaves what
/// aider leaves, and improves the number.
pub(crate) fn install(repo: &TestRepo, name: &str) {
    let program = Path::new("../bin").join(name);
    let script = format!(
        "#!/bin/sh\nprintf '%s ' \"$@\" > ../{name}.args\ncat > ../{name}.input\nmkdir -p .aider.tags.cache.v4\n\
         touch .aider.chat.history.md .aider.tags.cache.v4/cache.db\n\
         sed -i \"s/^VAL_BPB=.*/VAL_BPB=1.$((100 - AR_EXPERIMENT))/\" train.sh\necho \"{name} did it\"\n"
    );
    repo.write(&program, script);
    repo.chmod(&program, true);
}

/// Calls `ar` with nothing but the system's programs and those that were installed on the PATH.
pub(crate) fn call(repo: &TestRepo, args: &[&str]) -> Called {
    Called::from(command(repo, args).output().unwrap())
}

/// The same, not started yet.
pub(crate) fn command(repo: &TestRepo, args: &[&str]) -> Command {
    let mut command = ar_command(repo, &repo.path(), args);
    let bin = repo.outside().join("bin");
    let path = format!("{}:{}", bin.display(), path_without_agents().to_str().unwrap());
    command.env("PATH", path).env("A_KEY", "as the user has it");
    command
}

fn contract(repo: &TestRepo) -> Value {
    serde_json::from_str(&repo.read(".autoresearch/nov20/state/contract.json")).unwrap()
}

#[test]
fn every_preset_is_called_as_documented_with_the_prompt() {
    let repo = training_repo();
    let start = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments", "0"];
    call(&repo, &start).ok();
    for (number, (name, told)) in PRESETS.into_iter().enumerate() {
        install(&repo, name);
        let id = (number + 1).to_string();
        call(&repo, &["run", "--yes", "--agent", name, "--max-experiments", "1"]).ok();
        let args = repo.read(format!("../{name}.args"));
        assert!(args.starts_with(told), "{args}");
        let prompt = if name == "agy" { args } else { repo.read(format!("../{name}.input")) };
        assert!(prompt.contains(&format!("Make the change for experiment {id}, then exit.")), "{name}: {prompt}");
        let contract = contract(&repo);
        assert_eq!(contract["agent_preset"], name);
        let record: Value = serde_json::from_str(&repo.git([
            "for-each-ref",
            "--format=%(contents:body)",
            &format!("refs/autoresearch/nov20/0000{id}"),
        ]))
        .unwrap();
        assert_eq!(record["agent"]["command"], contract["agent"], "the record has the command line");
        assert_eq!(record["description"], format!("{name} did it"));
        assert_eq!((&record["outcome"], &record["diff"]["files"]), (&"keep".into(), &1.into()), "{record}");
    }
    assert_eq!(repo.status(), "", "what an agent writes for itself is no part of a change");
    call(&repo, &["run", "--yes", "--agent", "../bin/claude -p", "--max-experiments", "5"]).ok();
    let contract = contract(&repo);
    assert_eq!((&contract["agent"], &contract["agent_preset"]), (&"../bin/claude -p".into(), &Value::Null));
}

#[test]
fn a_preset_that_is_not_installed_is_refused_before_the_start_with_how_to_install_it() {
    let repo = training_repo();
    for (name, _) in PRESETS {
        let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", name];
        let said = call(&repo, &args).exits(1).stderr;
        assert!(said.contains(&format!("cannot start the agent: `{name}` not found")), "{said}");
        assert!(
            ["npm install -g ", "python3 -m pip install ", "curl -fsSL "]
                .iter()
                .any(|how| said.contains(&format!("hint: {how}"))),
            "{said}"
        );
        assert!(said.contains("; it needs "), "{said}");
    }
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert!(!repo.exists(".autoresearch"), "nothing was started");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", "cloud"];
    let said = call(&repo, &args).exits(1).stderr;
    assert!(said.contains("or one of agy, aider, claude, codex, copilot, gemini, opencode"), "{said}");
}

#[test]
fn the_doctor_says_which_presets_are_there_and_init_what_one_runs() {
    let repo = training_repo();
    install(&repo, "opencode");
    install(&repo, "aider");
    let said = call(&repo, &["doctor"]).exits(1).stdout;
    assert!(
        said.contains("presets installed: aider, opencode; not installed: agy, claude, codex, copilot, gemini\n"),
        "{said}"
    );

    call(&repo, &["init", "--agent", "claude"]).ok();
    let text = repo.read("ar.toml");
    assert!(
        text.contains("\n# claude is claude -p --dangerously-skip-permissions --output-format stream-json --verbose\n"),
        "{text}"
    );
    assert!(text.contains("\nagent = \"claude\"\n"), "{text}");
    let said = call(&repo, &["doctor"]).exits(1).stdout;
    assert!(said.contains("cannot start the agent: `claude` not found"), "{said}");
    assert!(said.contains("npm install -g @anthropic-ai/claude-code"), "{said}");
    install(&repo, "claude");
    let said = call(&repo, &["doctor"]).ok().stdout;
    assert!(
        said.contains("agent       claude -p --dangerously-skip-permissions --output-format stream-json --verbose\n"),
        "{said}"
    );
}

#[test]
fn the_page_of_agents_shows_every_line_that_a_preset_runs() {
    let page = include_str!("../../docs/guide/agents.md").replace("\\\n", " ");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for preset in &agent::PRESETS {
        assert!(page.contains(&format!("{} # {}", preset.command, preset.name)), "{}", preset.command);
    }
}
