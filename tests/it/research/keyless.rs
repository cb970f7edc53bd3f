//! The script that searches arXiv and Wikipedia, on recorded answers.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::INIT;
use crate::support::{TestRepo, ar};

/// An address under which a recorded answer is read.
fn recorded(name: &str) -> String {
    format!("file://{}/fixtures/search/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the script with these answers of arXiv and Wikipedia, in a folder of its own as `ar` does.
fn searched(script: &Path, answers: [&str; 2], words: &[&str], question: &str) -> Output {
    let [arxiv, wikipedia] = answers.map(recorded);
    let asked = script.with_extension("question");
    std::fs::write(&asked, question).unwrap();
    let mut command = Command::new("python3");
    command.arg(script).args(words).stdin(std::fs::File::open(asked).unwrap());
    command.env("AR_SEARCH_ARXIV", arxiv).env("AR_SEARCH_WIKIPEDIA", wikipedia).output().unwrap()
}

#[test]
fn init_writes_a_search_that_needs_no_key_where_it_is_asked_for() {
    let repo = TestRepo::empty();
    let called = ar(&repo, INIT).ok();
    assert!(called.stderr.contains("note: no search command; `--keyless-search` also writes one"), "{called:?}");
    assert!(!repo.exists("search.py") && !repo.read("program.md").contains("search.py"));

    let repo = TestRepo::empty();
    let called = ar(&repo, INIT.into_iter().chain(["--keyless-search"])).ok();
    assert!(called.stdout.contains("ar.toml, search.py\n") && !called.stderr.contains("no search"), "{called:?}");
    assert!(repo.read("ar.toml").contains("\nsearch = ["), "{}", repo.read("ar.toml"));
    assert!(repo.read("program.md").contains("`python3 search.py WORDS` searches arXiv and Wikipedia."));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // It is in no scope, so that no agent changes it.
    assert!(!repo.read("ar.toml").lines().any(|line| line.starts_with("scope") && line.contains("search.py")));
    ar(&repo, ["run", "--research", "Q", "--keyless-search"]).exits(2);
}

#[test]
fn what_both_interfaces_say_is_read_and_a_failure_of_one_keeps_the_other() {
    let repo = TestRepo::empty();
    ar(&repo, INIT.into_iter().chain(["--keyless-search"])).ok();
    let script = repo.file("search.py");
    let question = r#"{"version": 1, "question": "How do servers\nmanage memory?", "tried": []}"#;
    let found = searched(&script, ["arxiv.xml", "wikipedia.json"], &[], question);
    assert!(found.status.success(), "{found:?}");
    let lines = String::from_utf8(found.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts = [
        "A first paper on the memory of servers (2023): It measures what is lost < 4% of the time.",
        "Memory paging: In operating systems, memory paging is \"a scheme\"",
        "A second paper (2024): It says less.",
        "C++ & caches: Short.",
    ];
    assert_eq!(lines.iter().map(|line| line["text"].as_str().unwrap()).collect::<Vec<_>>(), texts);
    assert_eq!(lines[0]["url"], "https://arxiv.org/abs/0001.00001v1");
    assert_eq!(lines[3]["url"], "https://en.wikipedia.org/wiki/C%2B%2B_%26_caches");
    assert_eq!(
        lines.iter().map(|line| line["score"].clone()).collect::<Vec<_>>(),
        [1.0, 0.75, 0.5, 0.25].map(|it| json!(it))
    );

    // For a person, or an agent that asks by itself, without JSON.
    let found = searched(&script, ["arxiv.xml", "wikipedia_error.json"], &["memory", "of", "servers"], "");
    let (out, err) = (String::from_utf8(found.stdout).unwrap(), String::from_utf8(found.stderr).unwrap());
    assert!(found.status.success() && out.starts_with(&format!("{}\n  https://arxiv.org/", texts[0])), "{out}");
    assert!(err.contains("search.py: wikipedia: You've exceeded your rate limit."), "{err}");

    // Nothing found is no answer, and so is a question without words.
    let none = searched(&script, ["arxiv_error.xml", "missing"], &["memory"], "");
    assert!(!none.status.success() && none.stdout.is_empty(), "{none:?}");
    assert!(String::from_utf8(none.stderr).unwrap().contains("search.py: nothing found"));
    for question in ["{\"question\": \"What is it?\"}", "", "[1"] {
        assert!(!searched(&script, ["arxiv.xml", "wikipedia.json"], &[], question).status.success(), "{question}");
    }
}
