//! What the command line says: help, hints, and lines about what happened.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// The folder of the project.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// All files below a folder.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The sources of the program and its crates.
pub(crate) fn program_sources() -> Vec<PathBuf> {
    ["src", "crates"].iter().flat_map(|folder| sources(&Path::new(ROOT).join(folder))).collect()
}

/// The words after `start` in a text, as far as they look like commands; bytes of a file format are none.
fn commands_after<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).filter(|(at, _)| !text[..*at].ends_with('b')).filter_map(move |(at, _)| {
        let word = text[at + start.len()..].split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
        (!word.is_empty()).then_some(word)
    })
}

/// The commands that the help lists.
pub(crate) fn listed_commands(repo: &TestRepo) -> Vec<String> {
    let help = ar(repo, ["--help"]).ok().stdout;
    let list = help.split_once("\nOptions:\n").unwrap().0;
    let words = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    words.map(str::to_owned).collect()
}

#[test]
fn no_hint_and_no_page_names_a_command_that_is_not_there() {
    let repo = training_repo();
    let listed = listed_commands(&repo);
    let mut known: Vec<&str> = listed.iter().map(String::as_str).collect();
    assert!(known.contains(&"run") && known.contains(&"resume"), "{known:?}");
    // A call of the archiver, as pages quote it.
    known.push("rcs");
    let mut pages = program_sources();
    pages.extend(["README.md", "program.md"].map(|page| Path::new(ROOT).join(page)));
    let mut found = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for command in commands_after(&text, "`ar ").chain(commands_after(&text, "\"ar ")) {
            found += 1;
            assert!(known.contains(&command), "{} names `ar {command}`", page.display());
        }
    }
    assert!(found > 20, "only {found} found");
}

/// The calls of the program that a text quotes, by how it quotes them.
fn quoted_calls<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let (quote, end) = (start.chars().next().unwrap(), ['\n', '|', '&', ';']);
    text.match_indices(start).filter(|(at, _)| !text[..*at].ends_with('b')).filter_map(move |(at, _)| {
        let call = text[at + 1..].split(quote).next()?;
        Some(call.split(end).next().unwrap_or(call))
    })
}

#[test]
fn no_hint_and_no_page_gives_a_command_an_option_that_it_does_not_have() {
    let repo = training_repo();
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut help = |words: &[&str]| {
        let help = || ar(&repo, ["help"].iter().chain(words)).stdout;
        helps.entry(words.join(" ")).or_insert_with(help).clone()
    };
    let mut pages = program_sources();
    pages.extend(["README.md", "program.md"].map(|page| Path::new(ROOT).join(page)));
    let next_line = Regex::new(r"\\\n\s*").unwrap();
    let quoted = Regex::new(r#"\\?"[^"]*"|'[^']*'"#).unwrap();
    let mut found = 0;
    for page in pages {
        // A literal goes on in the next line of the source; what a call quotes is not the program's own.
        let text = fs::read_to_string(&page).unwrap();
        let text = next_line.replace_all(&text, "");
        for call in quoted_calls(&text, "`ar ").chain(quoted_calls(&text, "\"ar ")) {
            let call = quoted.replace_all(call, "");
            let words: Vec<&str> = call.split_whitespace().skip(1).collect();
            let is_command = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
            let of: Vec<&str> = words.iter().take_while(is_command).take(2).copied().collect();
            let [command, ..] = of[..] else { continue };
            let nested = help(&of);
            let known = if nested.is_empty() { help(&[command]) } else { nested };
            let is_option = |word: &&str| word.starts_with("--") && word.len() > 2;
            for option in words.iter().copied().filter(is_option) {
                let name: String = option.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
                let has_it = known.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == name);
                assert!(has_it, "{} names `ar {command}` with {name}: {call}", page.display());
                found += 1;
            }
        }
    }
    assert!(found > 100, "only {found} found");
}

#[test]
fn only_the_programs_own_help_names_the_archiver() {
    let repo = training_repo();
    let names_it = |args: &[&str]| ar(&repo, args).ok().stdout.contains("archiver calls go to:");
    assert!(names_it(&["--help"]) && names_it(&["--version"]));
    for command in ["run", "try", "report", "init"] {
        assert!(!names_it(&[command, "--help"]), "{command}");
    }
}

#[test]
fn help_and_version_are_commands() {
    let repo = training_repo();
    let said = |args: &[&str]| ar(&repo, args).ok().stdout;
    assert_eq!(said(&["help"]), said(&["--help"]));
    assert_eq!(said(&["version"]), said(&["--version"]));
    assert_eq!(said(&["help", "run"]), said(&["run", "--help"]));
    assert_eq!(said(&["help", "idea", "add"]), said(&["idea", "add", "--help"]));
}

#[test]
fn help_is_in_groups_with_examples() {
    let repo = training_repo();
    let headings = |args: &[&str]| -> Vec<String> {
        let help = ar(&repo, args).ok().stdout;
        help.lines()
            .filter_map(|line| line.strip_suffix(':'))
            .filter(|line| !line.starts_with(' '))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        headings(&["--help"]),
        [
            "Run experiments",
            "Read results",
            "Check results",
            "Watch over sessions",
            "Move results",
            "Setup and help",
            "Options",
            "Global options",
            "Examples"
        ]
    );
    assert_eq!(
        headings(&["run", "--help"]),
        [
            "Options",
            "Measuring",
            "Agent",
            "Keeping",
            "Changes",
            "Stopping",
            "Slots and GPUs",
            "Session",
            "Global options",
            "Examples"
        ]
    );
    for command in listed_commands(&repo).iter().filter(|command| *command != "help") {
        assert!(ar(&repo, ["help", command]).ok().stdout.contains("\nExamples:\n  "), "{command}");
    }
}

#[test]
fn options_may_stand_before_the_command() {
    let repo = training_repo();
    ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]).ok();
    let said = |args: &[&str]| ar(&repo, args).ok().stdout;
    assert!(said(&["-q", "status"]).starts_with("session      t on branch"));
    assert!(said(&["--no-pager", "-v", "status"]).starts_with("session      t on branch"));
    assert_eq!(said(&["--format", "json", "log"]), said(&["log", "--format", "json"]));
    assert_eq!(said(&["--tag", "t", "-q", "report"]), said(&["report", "t"]));
    assert_eq!(said(&["--format", "json", "idea", "list"]), said(&["idea", "list", "--format", "json"]));
}

#[test]
fn a_word_that_is_no_command_gets_the_nearest_one() {
    let repo = training_repo();
    for (word, meant) in
        [("statsu", "status"), ("rnu", "run"), ("lgo", "log"), ("rpeort", "report"), ("initialise", "init")]
    {
        let error = ar(&repo, [word]).exits(2).stderr;
        assert!(error.contains(&format!("'{word}'")) && error.contains(&format!("'{meant}'")), "{error}");
    }
    assert!(ar(&repo, ["-q", "statsu"]).exits(2).stderr.contains("'status'"));
    for (word, meant) in [("list", "log"), ("ls", "log"), ("history", "log"), ("start", "run")] {
        let error = ar(&repo, [word]).exits(2).stderr;
        assert!(error.contains(&format!("'{word}'")) && error.contains(&format!("`ar {meant}`")), "{error}");
    }
}

#[test]
fn flags_of_other_programs_name_the_flag_here() {
    let repo = training_repo();
    for (args, meant) in [
        (&["status", "--json"][..], "'--format json'"),
        (&["log", "--csv"], "'--format csv'"),
        (&["report", "--html"], "'--format html'"),
        (&["report", "--markdown"], "'--format md'"),
        (&["run", "--json"], "'--format json'"),
        (&["log", "-n", "5"], "'--top'"),
        (&["run", "-n", "5"], "'--max-experiments'"),
    ] {
        let said = ar(&repo, args).exits(2).stderr;
        assert!(said.contains(meant), "{args:?}: {said}");
    }
    // It does not name what the command lacks.
    let said = ar(&repo, ["log", "--html"]).exits(2).stderr;
    assert!(!said.contains("--format html"), "{said}");
}

#[test]
fn the_short_help_shows_what_people_use_and_the_long_one_everything() {
    let repo = training_repo();
    let flags = |help: &str| -> Vec<String> {
        let said = ar(&repo, ["run", help]).ok().stdout;
        let words = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
        words.map(|word| word.trim_end_matches(',').to_owned()).collect()
    };
    let (short, long) = (flags("-h"), flags("--help"));
    assert!(short.len() <= 45 && long.len() > 70, "{} {}", short.len(), long.len());
    for flag in
        ["--metric", "--cmd", "--agent", "--for", "--max-experiments", "--slots", "--yes", "--adopt", "--format"]
    {
        assert!(short.iter().any(|shown| shown == flag), "{flag}: {short:?}");
    }
    for flag in ["--metric-regex", "--search-timeout", "--max-idle"] {
        assert!(!short.iter().any(|shown| shown == flag) && long.iter().any(|shown| shown == flag), "{flag}");
    }
    let said = ar(&repo, ["run", "-h"]).ok().stdout;
    assert!(said.contains("\nMeasuring:\n") && said.contains("`ar run --help` lists all settings"), "{said}");
}

#[test]
fn near_misses_are_suggested() {
    let repo = training_repo();
    let hint = |args: &[&str]| {
        let called = ar(&repo, args);
        assert_ne!(called.code, Some(0), "{called:?}");
        called.stderr
    };
    let run = |metric: &'static str, more: &[&'static str]| {
        [&["run", "--yes", "--lower", "--metric", metric, "--cmd", "sh train.sh", "--tag", "t"], more].concat()
    };
    let said = hint(&run("val_bpb", &["--agent", "claud"]));
    assert!(said.contains("hint: did you mean --agent claude?"), "{said}");
    let said = hint(&run("val_bbp", &[]));
    assert!(said.contains("hint: did you mean --metric val_bpb?"), "{said}");
    repo.write("ar.toml", "metrik = \"val_bpb\"\n");
    let said = hint(&["init"]);
    assert!(said.contains("did you mean `metric`?"), "{said}");
    repo.rm("ar.toml");
    ar(&repo, run("val_bpb", &[])).ok();
    let said = hint(&["show", "bset"]);
    assert!(said.contains("did you mean best?"), "{said}");
    let said = hint(&["log", "--columns", "valeu"]);
    assert!(said.contains("did you mean `value`?"), "{said}");
}

#[test]
fn an_import_error_of_the_baseline_is_called_that() {
    let repo = training_repo();
    let traceback = "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n    import torch\n\
                     ModuleNotFoundError: No module named 'torch.nn'\n";
    repo.write("traceback", traceback);
    repo.write("train.sh", "cat traceback; exit 1\n");
    repo.commit_all("needs torch");
    let said = ar(&repo, ["run", "--metric", "val_bpb", "--cmd", "sh train.sh"]).exits(3).stderr;
    assert!(said.contains("hint: the command's Python has no module `torch`: install it there"), "{said}");
    assert!(said.contains("uv run train.py"), "{said}");
}

#[test]
fn a_quiet_loop_prints_its_experiments_alone() {
    let repo = training_repo();
    let agent = "echo echo val_bpb: 0.5 > train.sh; echo halve it";
    let args = ["-q", "run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", agent, "--max-experiments", "1"];
    let said = ar(&repo, args).ok();
    let words: Vec<_> = said.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((words, said.stderr.as_str()), (vec!["0", "1", "stopped:"], ""), "{}", said.stdout);
}

#[test]
fn the_help_of_try_speaks_of_one_experiment() {
    let repo = training_repo();
    let help = ar(&repo, ["try", "--help"]).ok().stdout;
    assert!(!help.contains("each event") && help.contains("as one JSON document on one line"), "{help}");
}

#[test]
fn an_agent_that_fails_is_reported_once_with_its_status_its_last_words_and_its_log() {
    let repo = training_repo();
    let agent = "echo call >> ../calls; echo no idea at all; [ $(wc -l < ../calls) -gt 3 ] || exit 3; touch new";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let called = ar(&repo, [&args[..], &["--max-experiments", "1"]].concat()).ok();
    let line = "   1  -        the agent failed: exit 3: no idea at all\n      \
                | .autoresearch/t/runs/00001/agent.log\n      waiting until ";
    assert!(called.stdout.contains(line), "{called:#?}");
    let (_, after) = called.stdout.split_once("\n      the agent is available again after ").unwrap();
    assert!(after.lines().nth(1).unwrap().starts_with("   1  discard"), "{called:#?}");
    assert_eq!(called.stdout.matches("the agent failed").count(), 1, "{called:#?}");
    assert!(repo.read(".autoresearch/t/runs/00001/agent.log").contains("no idea at all\n"));
}

#[test]
fn events_have_the_status_and_the_last_words_of_the_agent() {
    let repo = training_repo();
    let mut command = ar_command(&repo, &repo.path(), ["run", "--metric", "val_bpb", "--cmd", "sh train.sh"]);
    let agent = "echo looks good; echo VAL_BPB=1.5 >> train.sh; echo said; exit 2";
    let output = command.args(["--agent", agent, "--max-experiments", "1", "--format", "json"]).output().unwrap();
    let events = Called::from(output).ok().json_lines();
    let finished = events.iter().find(|event| event["event"] == "agent_finished").unwrap();
    assert_eq!((&finished["exit"], &finished["said"]), (&2.into(), &"said".into()));
}

#[test]
fn lines_in_a_pipe_are_never_cut() {
    let repo = training_repo();
    let description = "a long description ".repeat(30);
    repo.write("train.sh", "echo val_bpb: 1.0\n");
    let args = ["try", "-m", &description, "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let mut command = ar_command(&repo, &repo.path(), args);
    let called = Called::from(command.env("COLUMNS", "40").output().unwrap()).ok();
    assert!(called.stdout.contains(description.trim_end()) && !called.stdout.contains('…'), "{called:?}");
}

#[test]
fn numbers_and_counts_read_as_people_write_them() {
    let repo = training_repo();
    repo.write("train.sh", "echo steps: 6785; echo lr: 1.5e-7\n");
    repo.commit_all("scientific");
    let agent = "echo 'echo steps: 6785; echo lr: 1.25e-7' > train.sh";
    let args = ["run", "--metric", "lr", "--lower", "--cmd", "sh train.sh", "--agent", agent, "--max-experiments", "1"];
    let called = ar(&repo, args).ok();
    assert!(
        called.stdout.contains("lr 1.25e-7 is better than 1.5e-7 of experiment 0 by 0.000000025 (17%)"),
        "{called:?}"
    );
    assert!(called.stdout.contains("stopped: the night reached its limit of 1 experiment\n"), "{called:?}");
    assert!(ar(&repo, ["log"]).ok().stdout.contains("+0.000000025"));
    let shown = ar(&repo, ["show", "1"]).ok().stdout;
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["steps", "6785"])), "{shown}");
    let report = ar(&repo, ["report"]).ok().stdout;
    assert!(!report.contains("per hour"), "nothing to say of a session of a moment: {report}");
    let called = ar(&repo, ["run", "--max-experiments", "2"]).exits(4);
    assert!(
        called.stdout.starts_with("lr: lower is better\ncontinuing autoresearch/nov20 after 1 experiment\n"),
        "{called:?}"
    );
}

#[test]
fn a_baseline_that_fails_says_what_to_do_about_it() {
    let repo = training_repo();
    let run = |cmd: &str, more: &[&str]| {
        let args = [&["run", "--metric", "val_bpb", "--cmd", cmd, "--tag", "t"], more].concat();
        ar(&repo, args).exits(3).stderr
    };
    let said = run("echo starting; sleep 60", &["--timeout", "300ms"]);
    assert!(said.contains("the deadline passed") && said.contains("hint: ") && said.contains("--timeout 1h"), "{said}");
    let said = run("exit 7", &[]);
    assert!(said.contains("\nerror: the baseline failed: exit 7 after ") && said.contains("printed nothing"), "{said}");
}

#[test]
fn a_wrong_call_is_told_that_there_are_options() {
    let repo = TestRepo::new();
    let called = ar(&repo, ["resume", "nov20", "--tag", "nov21"]).exits(2);
    assert!(called.stderr.contains("Usage: ar resume [OPTIONS] [TAG]"), "{called:#?}");
    let called = ar(&repo, ["idea", "add", "--nosuch"]).exits(2);
    assert!(called.stderr.contains("Usage: ar idea add "), "{called:#?}");
}
