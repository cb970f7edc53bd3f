//! A session in which the agent, or the training, does something else beside its work.

use std::fs;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar_in_time};

/// A repository with an evaluator that reads what the files to work on say, with findings and directions in its memory.
pub(super) fn repo() -> TestRepo {
    let repo = training_repo().without_walls();
    repo.write("prepare.py", "the evaluation\n");
    repo.write("lib/data.txt", "the data\n");
    repo.write("eval.sh", "echo run >> ../runs; sh src/train.sh; echo val_bpb: $(cat src/value)\n");
    repo.write("src/value", "2.0\n");
    repo.write("src/train.sh", "true\n");
    repo.commit_all("an evaluator of its own");
    repo
}

/// The value that experiment `n` has when all is well: every second one is kept.
fn value(n: usize) -> String {
    if n % 2 == 1 { format!("1.{}", 99 - n) } else { format!("2.{n}") }
}

/// What an agent does in each experiment: an attack, then its work.
pub(super) fn agent(attacks: &[&str]) -> String {
    let cases: String =
        (1..).zip(attacks).map(|(n, attack)| format!("{n}) {attack}\n echo {} > src/value;;\n", value(n))).collect();
    format!(
        "cat > /dev/null; R=refs/autoresearch/t; S=$AR_STATE_DIR; case $AR_EXPERIMENT in\n{cases}esac\n\
         [ -p $AR_PROPOSAL ] || [ -s $AR_PROPOSAL ] || echo '{{\"description\":\"number '$AR_EXPERIMENT'\",\"direction\":\"d\",\"findings\":[\"f'$AR_EXPERIMENT'\"]}}' \
         > $AR_PROPOSAL; echo number $AR_EXPERIMENT"
    )
}

/// Runs a session of as many experiments as there are attacks.
pub(super) fn session(repo: &TestRepo, attacks: &[&str], flags: &[&str]) -> Called {
    let (agent, count) = (agent(attacks), attacks.len().to_string());
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--scope", "src/**"];
    let more = ["--protect", "lib", "--grace", "200ms", "--max-experiments", &count, "--agent", &agent];
    ar_in_time(repo, args.into_iter().chain(more).chain(flags.iter().copied()))
}

/// All that is measured and decided: records, rows, terms, branch, journal and memory, without times.
pub(super) fn measured(repo: &TestRepo) -> String {
    let mut text = String::new();
    for reference in repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t"]).lines() {
        if !reference.contains("/saved/") {
            let record: Value =
                serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", reference])).unwrap();
            let tree = repo.git(["rev-parse", &format!("{reference}^{{tree}}")]);
            text += &format!("{reference} {tree}");
            for field in ["outcome", "metric", "failure", "description", "reason", "metrics", "diff"] {
                text += &format!(" {}", record[field]);
            }
            text += "\n";
        }
    }
    for row in repo.read("results.tsv").lines() {
        text += &format!("{}\n", row.split_once('\t').unwrap().1);
    }
    text += &repo.git(["log", "--format=%T %s", "autoresearch/t"]);
    text += &format!("\n{}\n{}\n", repo.git(["symbolic-ref", "HEAD"]), repo.status());
    for file in ["contract.json", "progress.json", "directions_tried.json", "iteration_log.jsonl", "findings.jsonl"] {
        text += &timeless(&repo.read(format!(".autoresearch/t/state/{file}")));
    }
    text += &repo.read(".autoresearch/t/state/task_spec.md");
    text
}

/// State files without times, and without what the agent did beside its work.
fn timeless(text: &str) -> String {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>().map(|document| {
        let mut document = document.unwrap();
        let fields = document.as_object_mut().unwrap();
        // What the last call did by itself is told to the next, and named.
        for name in
            ["step", "ts", "last_seen", "worktree", "created", "agent", "hash", "last_call", "agent_trains", "process"]
        {
            fields.shift_remove(name);
        }
        format!("{document}\n")
    });
    documents.collect()
}

/// Checks that a session with these attacks comes to what an honest one comes to, each run once, and that each attack is
/// named; gives the session.
#[track_caller]
pub(super) fn assert_undone(attacks: &[(&str, &str)]) -> (TestRepo, Called) {
    assert_undone_with(&[], attacks)
}

/// The same with more flags.
#[track_caller]
pub(super) fn assert_undone_with(flags: &[&str], attacks: &[(&str, &str)]) -> (TestRepo, Called) {
    let honest = repo();
    session(&honest, &vec!["true"; attacks.len()], flags).ok();
    let hostile = repo();
    let lines: Vec<&str> = attacks.iter().map(|(attack, _)| *attack).collect();
    let called = session(&hostile, &lines, flags).ok();
    assert_eq!(measured(&hostile), measured(&honest), "{called:#?}");
    assert_eq!(runs(&hostile), attacks.len() + 1, "{called:#?}");
    let stderr = said(&called);
    for (attack, named) in attacks {
        assert!(stderr.contains(named), "{attack} is not named: {named}\n{stderr}");
    }
    (hostile, called)
}

/// What was said on standard error and output, on lines that are not broken.
pub(super) fn said(called: &Called) -> String {
    format!("{}{}", called.stdout, called.stderr)
}

/// How often the command ran.
pub(super) fn runs(repo: &TestRepo) -> usize {
    fs::read_to_string(repo.outside().join("runs")).unwrap().lines().count()
}

/// The record of an experiment.
pub(super) fn record(repo: &TestRepo, id: u32) -> Value {
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", &format!("refs/autoresearch/t/{id:05}")]);
    serde_json::from_str(&body).unwrap()
}
