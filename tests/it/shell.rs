//! At home in a shell: completions, manual pages, and the options that every command takes.

use std::fs;
use std::io::{self, Write};
use std::process::Command;

use crate::cli::listed_commands;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command};

/// A session `t` with a baseline and one experiment.
fn small_session() -> TestRepo {
    let repo = training_repo();
    let agent = "echo echo val_bpb: 0.5 > train.sh; echo halve it";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, [&args[..], &["--max-experiments", "1"]].concat()).ok();
    repo
}

/// What a script printed in a shell; nothing where the shell is not installed.
fn in_shell(repo: &TestRepo, shell: &[&str], script: &str) -> Option<String> {
    let mut command = Command::new(shell[0]);
    repo.environment(&mut command);
    let output = command.args(&shell[1..]).args(["-c", script]).current_dir(repo.path()).output();
    match output {
        Ok(output) => {
            let called = Called::from(output).ok();
            assert_eq!(called.stderr, "", "{called:#?}");
            Some(called.stdout)
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "skipped: {}: {error}", shell[0]);
            None
        }
    }
}

#[test]
fn shells_complete_commands_sessions_and_experiments() {
    let repo = small_session();
    let script = |shell: &str| {
        let path = repo.outside().join(format!("completions.{shell}"));
        fs::write(&path, ar(&repo, ["completions", shell]).ok().stdout).unwrap();
        path.display().to_string()
    };
    let ask = "ask() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
               _clap_complete_ar ar \"${COMP_WORDS[COMP_CWORD]}\" 2> /dev/null; echo ${COMPREPLY[@]}; }";
    let words = "ask ar rep; ask ar report ''; ask ar show ''";
    let said = in_shell(&repo, &["bash", "--norc"], &format!("source {}; {ask}; {words}", script("bash")));
    if let Some(said) = said {
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("report") && lines[1].starts_with("t ") && lines[2].starts_with("1 0 "), "{said}");
    }
    let words = "complete -C 'ar rep'; complete -C 'ar report '; complete -C 'ar show '";
    let said = in_shell(&repo, &["fish", "--no-config"], &format!("source {}; {words}", script("fish")));
    if let Some(said) = said {
        assert!(said.contains("report\t") && said.contains("\nt\n") && said.contains("1\tkeep: halve it\n"), "{said}");
    }
    let words = "autoload -Uz compinit; compinit -D -u";
    let said = in_shell(&repo, &["zsh", "-f"], &format!("{words}; source {}; echo $_comps[ar]", script("zsh")));
    if let Some(said) = said {
        assert_eq!(said, "_clap_dynamic_completer_ar\n");
    }
    // What the script for zsh asks.
    let mut asked = ar_command(&repo, &repo.path(), ["--", "ar", "show", ""]);
    asked.envs([("AR_COMPLETE", "zsh"), ("_CLAP_COMPLETE_INDEX", "2"), ("_CLAP_IFS", "\n")]);
    let said = Called::from(asked.output().unwrap()).ok().stdout;
    assert!(said.starts_with("1:keep") && said.contains("\n0:keep"), "{said}");
    let completed = |words: &[&str]| {
        let mut asked = ar_command(&repo, &repo.path(), ["--", "ar"].iter().chain(words));
        asked.env("AR_COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
        Called::from(asked.output().unwrap()).ok().stdout
    };
    assert_eq!(completed(&["diff", "0", "t/"]).lines().next(), Some("t/1:keep: halve it"));
    assert_eq!(completed(&["show", "t"]).trim_end(), "t/");
    assert!(completed(&["run", "--agent", "cl"]).starts_with("claude"), "{}", completed(&["run", "--agent", "cl"]));
    assert_eq!(completed(&["log", "--columns", "id,valu"]).trim_end(), "id,value");
    // What the answer has in the order of the numbers stays so.
    assert!(fs::read_to_string(script("zsh")).unwrap().contains("_describe -V 'values' other"));
    // Outside of a repository there are commands still.
    asked.current_dir(repo.outside());
    assert!(Called::from(asked.output().unwrap()).ok().stdout.contains("--tag"));
}

#[test]
fn each_command_has_a_manual_page_that_troff_can_read() {
    let repo = training_repo();
    let pages = repo.outside().join("man1");
    ar(&repo, ["man", "--dir", pages.to_str().unwrap()]).ok();
    for command in listed_commands(&repo) {
        let page = fs::read_to_string(pages.join(format!("ar-{command}.1"))).unwrap();
        assert_eq!(page, ar(&repo, ["man", &command]).ok().stdout);
        for section in ["EXAMPLES", "\"EXIT STATUS\"", "FILES"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{page}");
        }
        assert!(page.contains(&format!("ar {command}")) || page.contains(&format!("ar\\ {command}")), "{page}");
    }
    // The archiver's page is called `ar`.
    assert!(pages.join("autoresearch.1").is_file() && !pages.join("ar.1").exists());
    let read = format!(
        "set -e; command -v man > /dev/null; for page in {}/*; do man -l $page > /dev/null; done",
        pages.display()
    );
    if Command::new("man").arg("--version").output().is_ok() {
        in_shell(&repo, &["sh"], &read);
    }
    let hint = ar(&repo, ["man", "nosuch"]).exits(2).stderr;
    assert!(hint.contains("unknown command `nosuch`") && hint.contains("hint: the commands are run, try,"), "{hint}");
}

#[test]
fn colour_notes_and_details_are_as_asked() {
    let repo = small_session().without_walls();
    let error = |more: &[&str]| ar(&repo, [&["show", "99"], more].concat()).exits(1).stderr;
    assert!(!error(&[]).contains('\u{1b}'), "a pipe has no colours");
    assert!(error(&["--color", "always"]).contains("\u{1b}[1m\u{1b}[31merror:"), "{}", error(&["--color", "always"]));
    assert!(error(&["-q"]).starts_with("error: "), "errors are told however quiet it is");
    let agent = "echo echo val_bpb: 0.4 > train.sh; echo quarter it";
    let said = ar(&repo, ["resume", "--agent", agent, "--max-experiments", "1", "-v"]).ok().stdout;
    assert!(said.contains("   2  -        calling the agent\n"), "{said}");
    assert!(said.contains(" runs, log .autoresearch/t/runs/00002/run.log\n"), "{said}");
    let agent = "echo echo val_bpb: 0.3 > train.sh; rm -r .autoresearch; echo fifth";
    let loud = ar(&repo, ["resume", "--agent", agent, "--max-experiments", "1"]).ok();
    assert!(loud.stderr.contains("note: "), "{loud:?}");
    let agent = "echo echo val_bpb: 0.2 > train.sh; rm -r .autoresearch; echo sixth";
    let quiet = ar(&repo, ["resume", "--agent", agent, "--max-experiments", "1", "--quiet"]).ok();
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.contains("   4  keep "), "{quiet:?}");
    ar(&repo, ["log", "-q", "-v"]).exits(2);
}

#[test]
fn an_answer_that_does_not_fit_is_an_error_and_one_that_nobody_wants_is_none() {
    let repo = small_session();
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    for args in [&["report", "--format", "html"][..], &["log", "--format", "json"], &["log"]] {
        let mut command = ar_command(&repo, &repo.path(), args);
        let called = Called::from(command.stdout(full.try_clone().unwrap()).output().unwrap()).exits(1);
        assert!(called.stderr.starts_with("error: the output is incomplete: "), "{called:?}");
    }
    let mut command = ar_command(&repo, &repo.path(), ["log"]);
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    Called::from(command.stdout(writer).output().unwrap()).ok();
}
