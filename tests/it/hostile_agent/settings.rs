//! Settings of git's that an agent changes: filters, attributes, hooks, includes.

use std::fs;

use super::harness::{agent, record, repo, said, session};
use crate::support::{Called, SIGNS, TestRepo, ar, ar_command, ar_in_time};

/// A filter that makes the evaluator easier whenever git writes it, and shows git the old one.
const FILTER: &str = "git config filter.x.smudge 'sed s/evaluation/cheat/'; git config filter.x.clean 'sed s/cheat/evaluation/'; \
                      echo 'prepare.py filter=x' > ../attributes; git config core.attributesFile ROOT/attributes";

/// Has the run remove the evaluator, which is written anew then.
const REMOVE: &str = "echo 'rm prepare.py' > src/train.sh";

/// A repository whose number is a cheat's where the evaluator is.
fn easily_cheated() -> TestRepo {
    let repo = repo();
    repo.write(
        "eval.sh",
        "sh src/train.sh; grep -qi cheat prepare.py && echo val_bpb: 0.001 || echo val_bpb: $(cat src/value)\n",
    );
    repo.commit_all("an evaluator that counts");
    repo
}

/// Three experiments, the second and third of them after `ar` was started again.
fn three(repo: &TestRepo, first: &str, flags: &[&str]) -> String {
    let first = format!("{}; {REMOVE}", first.replace("ROOT", &repo.outside().display().to_string()));
    let first_said = said(&session(repo, &[&first], flags).ok());
    let agent = agent(&[&first, REMOVE, "echo true > src/train.sh"]);
    let called = ar_in_time(repo, ["resume", "--max-experiments", "2", "--agent", &agent]).ok();
    format!("{first_said}{}", said(&called))
}

#[test]
fn a_filter_that_an_agent_sets_up_does_not_rewrite_the_evaluator() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = easily_cheated();
        let said = three(&repo, FILTER, flags);
        for id in [1, 2] {
            assert_eq!(record(&repo, id)["failure"]["class"], "protected", "{flags:?}: {said}");
        }
        assert_eq!(record(&repo, 3)["metric"]["raw"], "1.96", "{flags:?}: {said}");
        assert_eq!(repo.read("prepare.py"), "the evaluation\n", "{flags:?}: {said}");
        for named in [
            "found git settings changed while the agent was active: filter.x.clean, filter.x.smudge; git and",
            "found git settings changed while the agent was active: core.attributesfile; git and",
            "found git settings changed since the session began: filter.x.clean, filter.x.smudge; git and",
        ] {
            assert!(said.contains(named), "{flags:?}: {named}\n{said}");
        }
    }
}

#[test]
fn an_evaluator_that_committed_attributes_filter_is_written_by_the_settings_of_the_start() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = easily_cheated();
        repo.git(["config", "filter.up.clean", "tr A-Z a-z"]);
        repo.git(["config", "filter.up.smudge", "tr a-z A-Z"]);
        repo.write(".gitattributes", "prepare.py filter=up\nlib/** text eol=crlf\n");
        repo.commit_all("filtered files");
        repo.rm("prepare.py");
        repo.rm("lib/data.txt");
        repo.git(["checkout", "--", "prepare.py", "lib"]);
        assert_eq!(
            (repo.read("prepare.py"), repo.read("lib/data.txt")),
            ("THE EVALUATION\n".into(), "the data\r\n".into())
        );
        let said = three(
            &repo,
            "git config filter.up.smudge 'echo CHEAT; cat'; git config filter.up.clean 'echo the evaluation'",
            flags,
        );
        assert_eq!(record(&repo, 3)["metric"]["raw"], "1.96", "{flags:?}: {said}");
        assert_eq!(repo.read("prepare.py"), "THE EVALUATION\n", "{flags:?}: {said}");
        assert_eq!(repo.read("lib/data.txt"), "the data\r\n", "{flags:?}: {said}");
    }
}

#[test]
fn a_working_tree_elsewhere_is_named_and_no_later_command_touches_it() {
    let repo = repo();
    let elsewhere = repo.outside().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("prepare.py"), "precious\n").unwrap();
    let sets = format!("{REMOVE}; git config core.worktree {}", elsewhere.display());
    let said = said(&session(&repo, &[&sets], &[]).ok());
    assert!(said.contains("while the agent was active: core.worktree; git works in another folder"), "{said}");
    for args in [&["run", "--adopt"][..], &["resume"], &["stop", "--now"], &["doctor", "--repair"], &["status"]] {
        let called = ar(&repo, args).exits(1);
        assert!(called.stderr.contains("git's setting core.worktree makes "), "{args:?}: {called:#?}");
        assert!(called.stderr.contains("hint: git config --unset core.worktree\n"), "{args:?}: {called:#?}");
    }
    let there: Vec<_> = fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["prepare.py"]);
    assert_eq!(fs::read_to_string(elsewhere.join("prepare.py")).unwrap(), "precious\n");
    repo.git(["config", "--unset", "core.worktree"]);
    repo.git(["config", "core.bare", "true"]);
    let called = ar(&repo, ["status"]).exits(1);
    assert!(
        called.stderr.contains("hint: run `git config core.bare false` if its working tree is here"),
        "{called:#?}"
    );
    repo.git(["config", "core.bare", "false"]);
    ar(&repo, ["doctor"]).ok();
}

#[test]
fn settings_of_the_machine_that_an_agent_changes_are_named() {
    let repo = repo();
    let (file, agent) = (repo.outside().join("system"), agent(&["git config --system filter.x.clean cat"]));
    fs::write(&file, "").unwrap();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh eval.sh", "--tag", "t", "--agent", &agent];
    let mut command = ar_command(&repo, &repo.path(), args.iter().chain(&["--max-experiments", "1"]));
    let called = Called::from(command.env("GIT_CONFIG_SYSTEM", &file).output().unwrap()).ok();
    assert!(fs::read_to_string(&file).unwrap().contains("clean = cat"), "{called:#?}");
    let named = "found git settings changed while the agent was active: filter.x.clean; git and the next session";
    assert!(called.stderr.contains(named), "{called:#?}");
}

#[test]
fn hooks_and_includes_that_an_agent_sets_up_are_named_with_their_effect() {
    let repo = repo();
    let called = session(&repo, &["git config core.hooksPath ../hooks; git config include.path ../more"], &[]).ok();
    let said = said(&called);
    for named in [
        "changed while the agent was active: core.hookspath; git runs the programs there, as at your commits; `ar` runs none",
        "changed while the agent was active: include.path; git and the next `ar` take any setting from there",
    ] {
        assert!(said.contains(named), "{named}\n{said}");
    }
}

#[test]
fn the_doctor_names_a_filter_that_an_agent_set() {
    let repo = repo();
    session(&repo, &["git config filter.x.clean cat"], &[]).ok();
    let found = ar(&repo, ["doctor", "t"]).stdout;
    let named = "found git settings changed since the session began: filter.x.clean; ";
    let hint = "`git config --show-origin --get-all filter.x.clean`";
    assert!(found.contains(named) && found.contains(hint), "{found}");
    repo.git(["config", "--remove-section", "filter.x"]);
    let found = ar(&repo, ["doctor", "t"]).ok().stdout;
    assert!(!found.contains("found git settings"), "{found}");
}

#[test]
fn a_filter_that_an_agent_set_is_not_started_by_a_later_call_either() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = repo();
        let ran = repo.outside().join("ran");
        let sets = format!(
            "git config filter.x.clean 'touch {}; cat'; echo 'src/** filter=x' > ../attributes; \
             git config core.attributesFile {}/attributes; echo 'value filter=x' > src/.gitattributes",
            ran.display(),
            repo.outside().display()
        );
        let first = said(&session(&repo, &[&sets, "true"], flags).ok());
        // On a slot, the next agent and the run may be active together.
        assert!(first.contains("found git settings changed while the agent "), "{first}");
        let agent = agent(&[&sets, "true", "true"]);
        let later = said(&ar_in_time(&repo, ["resume", "--max-experiments", "1", "--agent", &agent]).ok());
        assert!(!ran.exists(), "{flags:?}: {first}{later}");
    }
}

#[test]
fn no_command_starts_a_program_that_an_agent_configured() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = repo();
        let ran = repo.outside().join("ran");
        let users = repo.executable("users", SIGNS);
        let agents = repo.executable("agents", &format!("echo sign >> {}; {SIGNS}", ran.display()));
        repo.git(["config", "commit.gpgSign", "true"]);
        repo.git(["config", "user.signingKey", "me"]);
        repo.git(["config", "gpg.program", users.to_str().unwrap()]);
        let sets = format!(
            "git config gpg.program {}; for kind in clean smudge; do git config filter.x.$kind 'echo filter >> {}; cat'; done; \
             echo '* filter=x' > ../attributes; git config core.attributesFile {}/attributes",
            agents.display(),
            ran.display(),
            repo.outside().display()
        );
        let first = said(&session(&repo, &[&sets], flags).ok());
        let agent = agent(&["true", "true"]);
        let resumed = ar_in_time(&repo, ["resume", "--max-experiments", "1", "--agent", &agent]).ok();
        assert!(!ran.exists(), "{flags:?}: {first}{resumed:#?} {}", fs::read_to_string(&ran).unwrap());
        let restored = repo.outside().join("restored").display().to_string();
        for command in [
            &["repro", "2"][..],
            &["verify", "2", "0", "--runs", "2"],
            &["ablate", "--runs", "2"],
            &["restore", "2", "--branch", "restored", "--worktree", &restored],
            &["finalize", "t"],
        ] {
            let called = ar_in_time(&repo, command).ok();
            assert!(!ran.exists(), "{flags:?}: {command:?}: {called:#?} {}", fs::read_to_string(&ran).unwrap());
        }
        assert!(first.contains("gpg.program; git and the next session sign commits by these"), "{flags:?}: {first}");
        for commit in ["autoresearch/t", "t-final"] {
            assert!(repo.git(["cat-file", "commit", commit]).contains("SIGNED-BY-TEST"), "{flags:?}: {commit}");
        }
    }
}

#[test]
fn a_program_of_the_configuration_that_a_job_changed_is_not_started() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = repo();
        let (ran, filter) = (repo.outside().join("ran"), repo.executable("filter", "cat"));
        for kind in ["clean", "smudge"] {
            repo.git(["config", &format!("filter.x.{kind}"), &format!("sh {} {kind}", filter.display())]);
        }
        repo.git(["config", "filter.x.required", "true"]);
        repo.write(".gitattributes", "src/value filter=x\n");
        repo.commit_all("a filter");
        let changes = format!(
            "printf '#!/bin/sh\\necho filter >> {}; cat' > {}; echo 1.5 > src/value",
            ran.display(),
            filter.display()
        );
        // The user's tree cannot be put back without the filter; a seat's is made anew.
        let called = session(&repo, &[&changes], flags).exits(if flags.is_empty() { 4 } else { 0 });
        let named = format!("changed while the agent was active: {}; this `ar`", filter.display());
        assert!(!ran.exists() && called.stderr.contains(&named), "{flags:?}: {called:#?}");
        let hint = format!("hint: look at {}, and put it back unless it is as it should be; then", filter.display());
        assert!(!flags.is_empty() || called.stderr.contains(&hint), "{called:#?}");

        repo.executable("filter", "cat");
        let agent = agent(&["true", "true"]);
        let resumed = ar_in_time(&repo, ["resume", "--max-experiments", "1", "--agent", &agent]).ok();
        assert_eq!(record(&repo, 1)["failure"]["class"], "scope", "{flags:?}: {resumed:#?}");
        assert!(record(&repo, 2)["failure"].is_null(), "{flags:?}: {resumed:#?}");
        ar(&repo, ["doctor", "t"]).ok();
    }
}

#[test]
fn a_signing_program_that_a_job_changed_signs_nothing() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = repo();
        let (ran, signer) = (repo.outside().join("ran"), repo.executable("signer", SIGNS));
        for (key, value) in
            [("commit.gpgSign", "true"), ("user.signingKey", "me"), ("gpg.program", signer.to_str().unwrap())]
        {
            repo.git(["config", key, value]);
        }
        let changes = format!("printf '#!/bin/sh\necho signed >> {}' > {}", ran.display(), signer.display());
        let called = session(&repo, &[&changes], flags).exits(4);
        let hint = format!("hint: look at {}, and put it back", signer.display());
        assert!(!ran.exists() && called.stderr.contains(&hint), "{flags:?}: {called:#?}");

        repo.executable("signer", SIGNS);
        let agent = agent(&["true", "true"]);
        let resumed = ar_in_time(&repo, ["resume", "--max-experiments", "1", "--agent", &agent]).ok();
        assert!(record(&repo, 1)["failure"].is_null(), "{flags:?}: {resumed:#?}");
        assert!(repo.git(["cat-file", "commit", "autoresearch/t"]).contains("SIGNED-BY-TEST"), "{flags:?}");
    }
}
