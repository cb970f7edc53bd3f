//! Research: `ar init --research`, `ar score`, and sessions that go by it.

mod cheats;
mod commands;
mod init;
mod keyless;
// Pauses are real ones without debug assertions.
#[cfg(debug_assertions)]
mod night;
mod prompts;
mod reviewed;
mod score;
mod sessions;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Called, TestRepo, ar};

/// What makes a session of research with the sub-topics Memory and Speed.
const INIT: [&str; 9] = [
    "init",
    "--research",
    "How do servers\nmanage memory?",
    "--subtopic",
    "Memory",
    "--subtopic",
    "Speed",
    "--type",
    "technical",
];

/// Terms with the sub-topics Memory, Speed and Cost.
const TERMS: &str = "question = \"How?\"\nsubtopics = [\"Memory\", \"Speed\", \"Cost\"]\n";

/// An artifact without claims.
const EMPTY: &str = "# How?\n\n## Memory\n\n## Speed\n\n## Cost\n";

/// A repository with terms and an artifact without claims, committed.
fn repo() -> TestRepo {
    repo_with(TERMS)
}

fn repo_with(terms: &str) -> TestRepo {
    let repo = TestRepo::empty();
    repo.write("research.toml", terms);
    repo.write("research_artifact.md", EMPTY);
    repo.write("sources/.gitkeep", "");
    repo.commit_all("terms");
    repo
}

/// A source that says this.
fn source(text: &str) -> String {
    format!(
        "---\nurl: https://example.com\ntitle: T\norganisation: O\nmedium: paper\npublished: 2023-09-12\n---\n{text}\n"
    )
}

/// Writes sources a, b and c, which say `a says 1`, `a says 2` …
fn write_sources(repo: &TestRepo) {
    for id in ["a", "b", "c"] {
        let text: Vec<String> = (1..=9).map(|n| format!("{id} says {n}.")).collect();
        repo.write(format!("sources/{id}.md"), source(&text.join("\n")));
    }
}

/// The lines after what explains them, without their names, but for that of the artifact, which is the last.
fn numbers(called: &Called) -> Vec<String> {
    const NAMES: [&str; 5] = ["claim_density", "source_diversity", "topic_coverage", "novelty", "composite"];
    let lines: Vec<&str> = called.stdout.lines().collect();
    assert!(lines[lines.len() - 1].starts_with("artifact_composite: "), "{called:?}");
    let last = &lines[lines.len() - 6..lines.len() - 1];
    let number = |(name, line): (&str, &&str)| line.strip_prefix(&format!("{name}: ")).unwrap().to_owned();
    NAMES.into_iter().zip(last).map(number).collect()
}

/// What `ar score --format json` says.
fn scored(repo: &TestRepo) -> Value {
    ar(repo, ["score", "--format", "json"]).ok().json()
}

/// What is said of problems, each with its place.
fn problems(scored: &Value) -> Vec<String> {
    let problems = scored["problems"].as_array().unwrap();
    let text = |problem: &Value| {
        format!("{}:{}: {}", problem["file"].as_str().unwrap(), problem["line"], problem["what"].as_str().unwrap())
    };
    problems.iter().map(text).collect()
}

/// An agent that at its nth call does what the nth line says.
fn agent(lines: &[&str]) -> String {
    let cases: String = (1..).zip(lines).map(|(n, line)| format!("{n}) {line};; ")).collect();
    format!("cat > /dev/null; case $AR_EXPERIMENT in {cases} esac; echo call $AR_EXPERIMENT")
}

/// A line of an agent that stores source `id`, which says this, and claims something with this quotation.
fn claims(topic: &str, claim: &str, id: &str, says: &str, quotation: &str) -> String {
    let front = "---\\nurl: u\\ntitle: t\\n---\\n";
    format!(
        "[ -e sources/{id}.md ] || printf -- '{front}%s\\n' '{says}' > sources/{id}.md; \
         sed -i 's|^## {topic}$|&\\n\\n- {claim} [@{id} \"{quotation}\"]|' research_artifact.md"
    )
}

/// A record of session `t`.
fn record(repo: &TestRepo, id: u32) -> Value {
    let body = repo.git(["for-each-ref", "--format=%(contents:body)", &format!("refs/autoresearch/t/{id:05}")]);
    serde_json::from_str(&body).unwrap()
}

/// Runs session `t` with this agent for so many experiments.
fn session(repo: &TestRepo, agent: &str, count: usize, flags: &[&str]) -> Called {
    let count = count.to_string();
    let args = ["run", "--yes", "--tag", "t", "--agent", agent, "--max-experiments", &count];
    ar(repo, args.into_iter().chain(flags.iter().copied()))
}

/// The flags of a session that no `ar.toml` describes.
const FLAGS: [&str; 7] = ["--metric", "composite", "--higher", "--cmd", "ar score", "--keep-above", "0.45"];

/// What a scope of artifact and sources is as flags.
const SCOPE: [&str; 6] =
    ["--scope", "research_artifact.md", "--scope", "sources/**/*.md", "--scope", "sources/.gitkeep"];

fn flags() -> Vec<&'static str> {
    [&FLAGS[..], &SCOPE[..]].concat()
}

fn text_of(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}
