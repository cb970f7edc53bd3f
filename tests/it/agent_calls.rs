//! Calls of the agent that bring nothing on: questions, no change, too long; and what the next call is told of them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar};

/// Calls `ar run` with an agent that does these steps, call for call, and keeps the prompts of all its calls.
fn run(repo: &TestRepo, steps: &[&str], experiments: u32, more: &[&str]) -> Called {
    let cases: String = (1..).zip(steps).map(|(call, step)| format!("{call}) {step} ;; ")).collect();
    let agent = format!(
        "call=$(ls .. | grep -c prompt-); call=$((call + 1)); cp \"$AR_PROMPT\" ../prompt-$call; \
         change() {{ echo \"# $call\" >> train.sh; }}; case $call in {cases} esac"
    );
    let experiments = experiments.to_string();
    let mut args = vec!["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    args.extend(["--agent", &agent, "--max-experiments", &experiments]);
    args.extend(more);
    ar(repo, args)
}

/// What the agent was told in a call, from the place on where the session stands.
fn told(repo: &TestRepo, call: usize) -> String {
    let prompt = fs::read_to_string(repo.outside().join(format!("prompt-{call}"))).unwrap();
    prompt.split_once("## Where the session stands").unwrap().1.to_owned()
}

/// The iterations with how each of them stalled.
fn stalls(repo: &TestRepo) -> Vec<String> {
    let log = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| format!("{} {}", line["experiment"], line["stall"].as_str().unwrap_or("-"))).collect()
}

#[test]
fn a_question_is_answered_by_the_next_prompt_and_so_is_no_change() {
    let repo = training_repo();
    let steps = [
        "echo 'I looked around. Should I raise the **learning rate**?'",
        "change; echo '续费吗？我改了一处，可以吗？'",
        "echo 'nothing to do'",
        "change; echo 'raised the rate'",
        "change; echo 'lowered it'",
    ];
    run(&repo, &steps, 3, &[]).ok();
    let nobody = "Nobody will answer: decide yourself and log why.";
    assert!(!told(&repo, 1).contains("Nobody"), "{}", told(&repo, 1));
    let asked = format!("The last call asked: \"Should I raise the **learning rate**?\" {nobody}");
    assert!(told(&repo, 2).contains(&asked) && told(&repo, 2).contains("The last call changed no file."));
    let measured =
        "The last call asked: \"我改了一处，可以吗？\" Its change was measured all the same. Nobody will answer";
    assert!(told(&repo, 3).contains(measured) && !told(&repo, 3).contains("changed no file"), "{}", told(&repo, 3));
    assert!(told(&repo, 4).contains("The last call changed no file.") && !told(&repo, 4).contains("asked"));
    assert!(!told(&repo, 5).contains("The last"), "{}", told(&repo, 5));
    assert_eq!(stalls(&repo), ["null question", "1 question", "null no_change", "2 -", "3 -"]);
    assert_eq!(repo.read("results.tsv").lines().count(), 5);
}

#[test]
fn what_was_asked_survives_the_end_of_the_loop() {
    let repo = training_repo();
    run(&repo, &["change; echo 'May I go on?'"], 1, &[]).ok();
    let brief = ar(&repo, ["brief"]).ok().stdout;
    assert!(brief.contains("The last call asked: \"May I go on?\""), "{brief}");
    run(&repo, &["", "change"], 1, &[]).ok();
    assert!(told(&repo, 2).contains("The last call asked: \"May I go on?\""), "{}", told(&repo, 2));
    let brief = ar(&repo, ["brief"]).ok().stdout;
    assert!(!brief.contains("The last call"), "{brief}");
}

#[test]
fn a_call_that_takes_too_long_is_ended_with_all_that_it_started_and_its_change_is_measured() {
    let repo = training_repo();
    let stubborn = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >> ../stubborn; sleep 60' & sleep 60; sleep 60";
    let steps = [format!("change; {stubborn}"), stubborn.to_owned(), "change".to_owned()];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let called = run(&repo, &steps, 2, &["--agent-timeout", "3s", "--grace", "100ms"]).ok();
    assert!(called.stdout.contains("   1  discard"), "{called:#?}");
    let cut = "   1  -        the agent reached its time limit; measuring what it changed\n   1  discard";
    assert!(called.stdout.contains(cut), "{called:#?}");
    let idle = "   2  -        the agent reached its time limit and changed nothing\n";
    assert!(called.stdout.contains(idle), "{called:#?}");
    let ended = "The last call was terminated after 3s, the time limit for a call. ";
    let measured =
        format!("{ended}What it had changed by then was measured. Make a change that you can finish in time.");
    assert!(told(&repo, 2).contains(&measured), "{}", told(&repo, 2));
    assert!(told(&repo, 3).contains(&format!("{ended}Make a change")), "{}", told(&repo, 3));
    assert!(told(&repo, 3).contains("The last call changed no file."), "{}", told(&repo, 3));
    for pid in fs::read_to_string(repo.outside().join("stubborn")).unwrap().lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} is still running");
    }
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!(contract["agent_timeout"], 3.0);
}

#[test]
fn the_protocol_comes_first_and_program_md_after_it_as_goals_and_constraints() {
    let repo = training_repo();
    let own = "# Tuning\n\nMake it small. LOOP FOREVER: commit, run, log, reset.";
    repo.write("program.md", own);
    repo.commit_all("goals");
    run(&repo, &["change", "change"], 2, &[]).ok();
    let prompt = fs::read_to_string(repo.outside().join("prompt-1")).unwrap();
    let places: Vec<_> = [
        "# Research protocol\n",
        "\n# Goals and constraints of this repository\n",
        "disagrees with the protocol above, the protocol holds",
        own,
        "\n## The contract\n",
        "\n## Where the session stands\n",
        "\nMake the change for experiment 1, then exit.",
    ]
    .iter()
    .map(|part| prompt.find(part).unwrap_or_else(|| panic!("{part}: {prompt}")))
    .collect();
    assert!(places[0] == 0 && places.is_sorted(), "{places:?}: {prompt}");

    // The protocol is not repeated where the repository has taken it over, and what is added to it counts.
    let protocol = include_str!("../../program.md");
    for (program, goals) in [(protocol.to_owned(), false), (format!("{protocol}\nMake it small.\n"), true)] {
        let repo = training_repo();
        repo.write("program.md", program);
        repo.commit_all("goals");
        run(&repo, &["change"], 1, &[]).ok();
        let prompt = fs::read_to_string(repo.outside().join("prompt-1")).unwrap();
        assert_eq!(prompt.matches("# Research protocol").count(), 1, "{prompt}");
        assert_eq!(prompt.contains("# Goals and constraints"), goals, "{prompt}");
    }
}

#[test]
fn several_commits_of_one_call_are_one_change_and_the_next_prompt_says_so() {
    let repo = training_repo();
    let commit = "change; git commit --quiet --all -m one; echo '# more' >> train.sh; git commit --quiet --all -m two";
    run(&repo, &[commit, "change; git commit --quiet --all -m three", "change"], 3, &[]).ok();
    let words = "The last call made 2 commits. They counted as one change: make one change, and do not commit.";
    assert!(told(&repo, 2).contains(words), "{}", told(&repo, 2));
    assert!(!told(&repo, 3).contains("The last call made"), "{}", told(&repo, 3));
    assert_eq!(repo.read("results.tsv").lines().count(), 5);
}

#[test]
fn a_change_that_the_agent_commits_and_resets_is_measured_and_others_are_kept() {
    let repo = training_repo();
    let commit = "git commit --quiet --all -m";
    let reset = "git reset --quiet --hard HEAD~1";
    let steps = [
        format!("change; {commit} 'an idea'; {reset}"),
        format!("echo '# first' >> train.sh; {commit} first; {reset}; change; {commit} second; {reset}"),
        format!("echo '# third' >> train.sh; {commit} third; {reset}; change"),
        "change".to_owned(),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let called = run(&repo, &steps, 4, &[]).ok();
    for (n, subject) in [(1, "an idea"), (2, "second")] {
        let record = format!("refs/autoresearch/t/{n:05}^{{commit}}");
        assert_eq!(repo.git(["log", "-1", "--format=%s", &record]), subject, "{called:#?}");
        assert!(repo.git(["show", &format!("{record}:train.sh")]).ends_with(&format!("# {n}")), "{called:#?}");
    }
    let saved = repo.git(["log", "--no-walk", "--format=%s", "--glob=refs/autoresearch/t/saved"]);
    for subject in ["first", "third"] {
        assert!(saved.contains(subject) && !saved.contains("second"), "{saved}");
    }
    assert!(told(&repo, 2).contains("The last call committed its change and reset it."), "{}", told(&repo, 2));
    assert!(told(&repo, 3).contains("The last call made 2 commits."), "{}", told(&repo, 3));
    assert!(!told(&repo, 4).contains("and reset it."), "{}", told(&repo, 4));
    assert_eq!((repo.read("results.tsv").lines().count(), repo.status()), (6, String::new()));
}

#[test]
fn an_agent_that_was_called_for_one_change_is_told_to_exit_and_not_to_drive() {
    let repo = training_repo();
    let ar_itself = env!("CARGO_BIN_EXE_ar");
    let step =
        format!("change; {ar_itself} brief > ../brief; {ar_itself} try -m x 2> ../refused; echo $? >> ../refused");
    run(&repo, &[&step], 1, &[]).ok();
    let read = |name: &str| fs::read_to_string(repo.outside().join(name)).unwrap();
    assert!(read("brief").ends_with("Make the change for experiment 1, then exit.\n"), "{}", read("brief"));
    let expected = "error: cannot call `ar try` inside experiment 1 of the loop\n\
                    hint: edit the files, describe the change in $AR_PROPOSAL, then exit: `ar` does the rest\n1\n";
    assert_eq!(read("refused"), expected);
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
}

#[test]
fn an_idea_is_not_offered_to_the_experiment_that_it_comes_from() {
    let repo = training_repo();
    let idea = "echo '{\"ideas\": [\"warm restarts\"]}' > \"$AR_PROPOSAL\"";
    run(&repo, &[idea, "change", "change"], 2, &[]).ok();
    let is_offered = |call: usize| {
        fs::read_to_string(repo.outside().join(format!("prompt-{call}"))).unwrap().contains("warm restarts")
    };
    assert_eq!([1, 2, 3].map(is_offered), [false, false, true]);
}
