//! `ar init --skill` and `--mcp`: instructions for agents that drive by themselves.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, TestRepo, ar, ar_command};

const FILES: [(&str, &str); 4] = [
    ("claude", ".claude/skills/autoresearch/SKILL.md"),
    ("codex", ".codex/skills/autoresearch/SKILL.md"),
    ("agents", "AGENTS.md"),
    ("cursor", ".cursor/rules/autoresearch.mdc"),
];

const ALL: [&str; 10] =
    ["init", "--skill", "claude", "--skill", "codex", "--skill", "agents", "--skill", "cursor", "--mcp"];

/// Every file and folder but git's, with its bytes.
fn tree(repo: &TestRepo) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![repo.path()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.file_name() != ".git") {
            let is_folder = entry.file_type().unwrap().is_dir();
            found.push((entry.path(), if is_folder { Vec::new() } else { fs::read(entry.path()).unwrap() }));
            folders.extend(is_folder.then(|| entry.path()));
        }
    }
    found.sort();
    found
}

/// A PATH on which this program comes first, as `ar` and as `autoresearch`.
fn path_with_ar(repo: &TestRepo) -> std::ffi::OsString {
    let bin = repo.outside().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for name in ["ar", "autoresearch"] {
        let _ = symlink(AR, bin.join(name));
    }
    env::join_paths([bin].into_iter().chain(env::split_paths(crate::support::path_without_agents()))).unwrap()
}

#[test]
fn without_a_form_the_instructions_are_for_any_agent() {
    let repo = training_repo();
    assert!(ar(&repo, ["init", "--skill"]).ok().stdout.starts_with("wrote AGENTS.md\n"));
    assert_eq!(repo.status(), "?? AGENTS.md");
}

#[test]
fn all_forms_are_written_once() {
    let repo = training_repo();
    let called = ar(&repo, ALL).ok();
    for (_, file) in FILES {
        assert!(called.stdout.contains(&format!("wrote {file}\n")), "{called:?}");
        let text = repo.read(file);
        assert!(text.contains("If `$AR_PROMPT` is set, follow it and do not call `ar try`."), "{text}");
    }
    assert!(!repo.exists("ar.toml") && repo.exists(".mcp.json"));
    assert!(called.stdout.contains("next: look at .claude/skills/autoresearch/SKILL.md, "), "{called:?}");
    let written = tree(&repo);

    let again = ar(&repo, ALL).ok();
    assert_eq!(again.stdout.matches("unchanged: ").count(), 5, "{again:?}");
    assert!(!again.stdout.contains("next:"), "{again:?}");
    assert_eq!(tree(&repo), written);
}

#[test]
fn text_and_servers_of_the_users_stay() {
    let repo = training_repo();
    repo.write(".cursor/rules/mine.mdc", "mine");
    repo.write("AGENTS.md", "# Mine\r\n\r\nno end of the line");
    repo.write(".mcp.json", "{\n\t\"mcpServers\": {\n\t\t\"files\": {\"command\": \"x\", \"limit\": 1.5}\n\t}\n}");
    let called = ar(&repo, ALL).ok();
    assert!(called.stdout.contains("updated AGENTS.md") && called.stdout.contains("updated .mcp.json"), "{called:?}");
    let agents = repo.read("AGENTS.md");
    assert!(agents.starts_with("# Mine\r\n\r\nno end of the line\r\n\r\n<!-- autoresearch:begin"), "{agents}");
    assert_eq!(agents.matches('\n').count(), agents.matches("\r\n").count());
    let servers: serde_json::Value = serde_json::from_str(&repo.read(".mcp.json")).unwrap();
    assert_eq!(servers["mcpServers"]["files"], serde_json::json!({"command": "x", "limit": 1.5}));
    assert_eq!(servers["mcpServers"]["autoresearch"]["args"], serde_json::json!(["mcp"]));
    assert_eq!(repo.read(".cursor/rules/mine.mdc"), "mine");
}

#[test]
fn a_file_of_the_users_is_never_overwritten() {
    let repo = training_repo();
    repo.write(".claude/skills/autoresearch/SKILL.md", "mine\n");
    let before = tree(&repo);
    let refused = ar(&repo, ALL).exits(1);
    let error = "error: .claude/skills/autoresearch/SKILL.md exists and was not written by `ar init`\nhint: move ";
    assert!(refused.stderr.starts_with(error), "{refused:?}");
    assert_eq!(tree(&repo), before, "nothing else was written either");

    repo.write("AGENTS.md", "<!-- autoresearch:begin\nno end\n");
    let refused = ar(&repo, ["init", "--skill", "agents"]).exits(1);
    assert!(refused.stderr.contains("AGENTS.md has markers of `ar init` that do not match"), "{refused:?}");
    repo.write(".mcp.json", "{\"mcpServers\": {},}");
    let refused = ar(&repo, ["init", "--mcp"]).exits(1);
    assert!(
        refused.stderr.contains(".mcp.json is not valid JSON: ") && refused.stderr.contains("line 1"),
        "{refused:?}"
    );
    fs::write(repo.file(".codex"), "a file").unwrap();
    let refused = ar(&repo, ["init", "--skill", "codex"]).exits(1);
    assert!(refused.stderr.contains("\nhint: move away what stands in the way of .codex/"), "{refused:?}");
}

#[test]
fn a_link_is_followed_within_the_repository_and_not_out_of_it() {
    let repo = training_repo();
    repo.write("CLAUDE.md", "# Mine\n");
    repo.symlink("CLAUDE.md", "AGENTS.md");
    ar(&repo, ["init", "--skill", "agents"]).ok();
    assert!(fs::symlink_metadata(repo.file("AGENTS.md")).unwrap().is_symlink());
    assert!(repo.read("CLAUDE.md").starts_with("# Mine\n\n<!-- autoresearch:begin"));

    let outside = repo.outside().join("shared");
    fs::create_dir(&outside).unwrap();
    repo.symlink(&outside, ".claude");
    let refused = ar(&repo, ["init", "--skill", "claude"]).exits(1);
    assert!(refused.stderr.contains("SKILL.md leads out of the working tree, to "), "{refused:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    fs::remove_file(repo.file("AGENTS.md")).unwrap();
    repo.symlink(".git/config", "AGENTS.md");
    let config = repo.read(".git/config");
    let refused = ar(&repo, ["init", "--skill", "agents"]).exits(1);
    assert!(refused.stderr.contains("AGENTS.md leads out of the working tree, to "), "{refused:?}");
    assert_eq!(repo.read(".git/config"), config);
    repo.symlink("missing", ".codex");
    let refused = ar(&repo, ["init", "--skill", "codex"]).exits(1);
    assert!(refused.stderr.contains("\nhint: remove the link "), "{refused:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named_with_what_to_do() {
    const NOBODY: u32 = 65534;
    let repo = training_repo();
    fs::create_dir(repo.file(".claude")).unwrap();
    fs::set_permissions(repo.file(".claude"), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = ar_command(&repo, &repo.path(), ["init", "--skill", "claude"]);
    if fs::create_dir(repo.file(".claude/probe")).is_ok() {
        // Root writes everywhere, so somebody else has to try.
        fs::remove_dir(repo.file(".claude/probe")).unwrap();
        let owner = format!("{NOBODY}:{NOBODY}");
        let given = Command::new("chown").args(["-R", &owner]).arg(repo.outside()).status().unwrap();
        assert!(given.success());
        command.uid(NOBODY).gid(NOBODY);
    }
    let refused = Called::from(command.output().unwrap()).exits(1);
    assert!(refused.stderr.contains("cannot write .claude/skills/autoresearch/SKILL.md: "), "{refused:?}");
    assert!(refused.stderr.contains("\nhint: make the folder writable: chmod u+w "), "{refused:?}");
    assert!(refused.stderr.ends_with("/.claude\n"), "{refused:?}");
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    let repo = training_repo();
    let refused = ar(&repo, ["init", "--skill", "claude", "--metric", "val_bpb"]).exits(2);
    assert!(refused.stderr.contains("write no settings, but --metric was given"), "{refused:?}");
    let outside = ar_command(&repo, repo.outside(), ["init", "--skill", "claude"]);
    let refused = Called::from({ outside }.output().unwrap()).exits(1);
    assert!(refused.stderr.contains("hint: cd into the repository, or make one: git init"), "{refused:?}");
    // In a folder of the repository, the file goes to its root.
    fs::create_dir(repo.file("sub")).unwrap();
    Called::from(ar_command(&repo, &repo.file("sub"), ["init", "--skill", "agents"]).output().unwrap()).ok();
    assert!(repo.exists("AGENTS.md"));
    assert_eq!(repo.status(), "?? AGENTS.md");
}

#[test]
fn the_entry_for_servers_has_the_name_that_the_path_leads_to() {
    let repo = training_repo();
    let own = path_with_ar(&repo);
    let mut command = ar_command(&repo, &repo.path(), ["init", "--mcp"]);
    Called::from(command.env("PATH", &own).output().unwrap()).ok();
    assert!(repo.read(".mcp.json").contains("\"command\": \"ar\""));
    let archiver = repo.outside().join("archiver");
    fs::create_dir(&archiver).unwrap();
    fs::write(archiver.join("ar"), "#!/bin/sh\necho GNU ar 2.46\n").unwrap();
    fs::set_permissions(archiver.join("ar"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = env::join_paths([archiver].into_iter().chain(env::split_paths(&own))).unwrap();
    let mut command = ar_command(&repo, &repo.path(), ["init", "--mcp"]);
    Called::from(command.env("PATH", path).output().unwrap()).ok();
    let text = repo.read(".mcp.json");
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(entry["mcpServers"]["autoresearch"], serde_json::json!({"command": "autoresearch", "args": ["mcp"]}));
}

#[test]
fn on_the_branch_of_a_session_the_user_is_told_where_the_file_would_go() {
    let repo = training_repo();
    repo.write("train.sh", repo.read("train.sh").replace("2.000000", "1.5"));
    ar(&repo, ["try", "-m", "first", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    let called = ar(&repo, ["init", "--skill", "claude"]).ok();
    assert!(called.stderr.contains("note: autoresearch/nov20 is checked out"), "{called:?}");
    assert!(!ar(&repo, ["init", "--skill", "claude"]).ok().stderr.contains("note:"));
}

/// Does what the skill says and nothing else: its commands, from its own text.
const FOLLOWER: &str = r#"
set -eu
commands() { sed -n 's/^    ar /ar /p' "$1"; }
first=$(commands "$1" | grep -e '--metric')
later=$(commands "$1" | grep -e '-m' | grep -v -e '--metric')
ar --version | grep -q '^ar (autoresearch)'
ar brief >/dev/null 2>&1 || echo no session yet
test -z "$(git status --porcelain)"
sed -i 's/2.000000/1.9/' train.py
eval "$first"
ar brief | grep -q val_bpb
sed -i 's/^VAL_BPB=.*/VAL_BPB=1.95/' train.py
eval "$later"
ar report >report.txt
"#;

#[test]
fn an_agent_that_follows_the_skill_alone_reaches_a_kept_experiment() {
    for (form, file) in FILES {
        let repo = training_repo();
        repo.git(["mv", "train.sh", "train.py"]);
        ar(&repo, ["init", "--skill", form]).ok();
        repo.commit_all("instructions");
        let path = path_with_ar(&repo);
        // The example of the skill calls `python`; here it reads a shell script.
        let python = repo.outside().join("bin/python");
        fs::write(&python, "#!/bin/sh\nexec sh \"$@\"\n").unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let mut agent = Command::new("sh");
        repo.environment(&mut agent);
        agent.env("PATH", path).args(["-c", FOLLOWER, "agent", file]).current_dir(repo.path());
        let done = Called::from(agent.output().unwrap()).ok();
        assert!(done.stdout.contains("   1  keep     1.9 "), "{form}: {done:?}");
        assert!(done.stdout.contains("   2  discard  1.95 "), "{form}: {done:?}");
        let outcomes: Vec<_> = ar(&repo, ["log", "--format", "json"]).ok().json()["experiments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|record| record["outcome"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(outcomes, ["keep", "keep", "discard"], "{form}");
        assert!(repo.exists(file), "{form}: the instructions survive a discard");
    }
}

/// Ten changes: the value of each, and its strategy. A value that is a word makes the run fail.
const NIGHT: &str = "1.9 1.95 nan 1.8 1.8 1.7 1.75 1.6 1.65 1.5";

/// Makes change `$1` of the night in `train.py`.
const EDIT: &str = r#"
value=$(echo "$NIGHT" | cut -d ' ' -f "$1")
sed -i "s/^VAL_BPB=.*/VAL_BPB=$value  # change $1/" train.py
"#;

/// Records without what differs from call to call: hashes, times, the agent.
fn ledger(repo: &TestRepo) -> Vec<serde_json::Value> {
    let log = ar(repo, ["log", "--format", "json"]).ok().json();
    let fields =
        ["id", "sequence", "outcome", "description", "direction", "reason", "failure", "metric", "diff", "guards"];
    let records = log["experiments"].as_array().unwrap().iter();
    records.map(|record| fields.iter().map(|field| (*field, record[field].clone())).collect()).collect()
}

#[test]
fn a_night_by_the_skill_alone_has_the_ledger_of_one_in_which_the_agent_is_called() {
    let begin = || {
        let repo = training_repo();
        repo.git(["mv", "train.sh", "train.py"]);
        repo.write("edit.sh", EDIT);
        ar(&repo, ["init", "--skill", "claude"]).ok();
        repo.commit_all("instructions");
        repo
    };
    let by_skill = begin();
    let follow = r#"
set -eu
first=$(sed -n 's/^    ar try/ar try/p' "$1" | grep -e --metric | sed 's/python/sh/; s/-m "[^"]*"/-m "change 1" --direction w1/')
later=$(sed -n 's/^    ar try/ar try/p' "$1" | grep -v -e --metric | sed 's/-m "[^"]*"/-m "change $n"/; s/schedule/w$n/')
sh edit.sh 1
eval "$first"
for n in 2 3 4 5 6 7 8 9 10; do
    ar brief >/dev/null
    sh edit.sh $n
    eval "$later"
done
"#;
    let mut agent = Command::new("sh");
    by_skill.environment(&mut agent);
    agent.env("PATH", path_with_ar(&by_skill)).env("NIGHT", NIGHT).env("AR_CLOCK", crate::support::CLOCK);
    agent.args(["-c", follow, "agent", FILES[0].1]).current_dir(by_skill.path());
    Called::from(agent.output().unwrap()).ok();

    let called = begin();
    let propose = "sh edit.sh $AR_EXPERIMENT && printf '{\"description\": \"change %s\", \"direction\": \"w%s\"}' \
                   $AR_EXPERIMENT $AR_EXPERIMENT >$AR_PROPOSAL";
    let mut command = ar_command(
        &called,
        &called.path(),
        ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.py", "--agent", propose, "--max-experiments", "10"],
    );
    Called::from(command.env("NIGHT", NIGHT).output().unwrap()).ok();

    let (one, other) = (ledger(&by_skill), ledger(&called));
    assert_eq!(one.len(), 11);
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one, other);
    }
    assert_eq!(one.len(), other.len());
    let kept = one.iter().filter(|record| record["outcome"] == "keep").count();
    assert_eq!(kept, 6, "{one:?}");
}

#[test]
fn every_command_of_the_instructions_exists() {
    let repo = training_repo();
    ar(&repo, ALL).ok();
    let help = ar(&repo, ["help"]).ok().stdout;
    let call = regex::Regex::new(r"`ar ([a-z]+)|^    ar ([a-z]+)").unwrap();
    for (form, file) in FILES {
        let text = repo.read(file);
        let named: Vec<&str> = text
            .lines()
            .flat_map(|line| call.captures_iter(line))
            .filter_map(|found| found.get(1).or(found.get(2)))
            .map(|name| name.as_str())
            .collect();
        assert!(named.len() > 8, "{form}: {named:?}");
        for name in named {
            assert!(help.contains(&format!("  {name} ")), "{form}: {name}");
        }
    }
}
