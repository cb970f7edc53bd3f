//! `ar score` by hand: what it prints, and what it says of bad input.

use std::fs::File;

use serde_json::json;

use super::{EMPTY, TERMS, numbers, problems, repo, repo_with, scored, source, write_sources};
use crate::support::{TestRepo, ar};

/// An artifact with two claims: one verified, one not.
const CLAIMS: &str =
    "# How?\n\n## Memory\n\n- First. [@a \"a says 1\"] [@b]\n## speed\n- Second. [@b \"c says 1\"]\n## Cost\n";

#[test]
fn the_numbers_come_last_and_after_what_explains_them() {
    let repo = repo();
    write_sources(&repo);
    repo.write("research_artifact.md", CLAIMS);
    let called = ar(&repo, ["score"]).ok();
    // 1 of 2; one supporting citation; 1 of 3; nothing earlier: (0.5 + 0 + 0.3333 + 1) / 4 = 0.458325.
    assert_eq!(numbers(&called), ["0.5000", "0.0000", "0.3333", "1.0000", "0.4583"]);
    let place = |text: &str| called.stdout.find(text).unwrap_or_else(|| panic!("{text}: {called:?}"));
    assert!(place("\n  source_diversity 0.0000: ") < place("\n  topic_coverage 0.3333: "), "the worst one first");
    assert!(place("weighted = 0.4583, multiplicative = 0.0000, v2 = 0.0000") < place("\nclaim_density: "));
    place("research_artifact.md:7: \"c says 1\" is not in sources/b.md, but in [@c]\n");
    let json = scored(&repo);
    assert_eq!(json["version"], 1);
    assert_eq!(
        json["axes"],
        json!({"claim_density": 0.5, "source_diversity": 0.0, "topic_coverage": 0.3333, "novelty": 1.0})
    );
    assert_eq!(
        (&json["composite"], &json["form"], &json["worst"]),
        (&json!(0.4583), &json!("weighted"), &json!("source_diversity"))
    );
    assert_eq!(json["claims"], json!({"new": 2, "verified": 1, "repeats": 0}));
    assert_eq!(
        json["topics"],
        json!({"addressed": ["Memory"], "added": ["Memory"], "new": ["Memory"], "open": ["Speed", "Cost"]})
    );
    // Outside of a session an iteration that reaches 0.45 is as good as kept, and its novelty the only one.
    let artifact = json!({"axes": {"claim_density": 0.5, "source_diversity": 0.0, "topic_coverage": 0.3333, "novelty": 1.0},
        "composite": 0.4583, "form": "weighted"});
    assert_eq!(json["artifact"], artifact);
    assert!(called.stdout.ends_with("\ncomposite: 0.4583\nartifact_composite: 0.4583\n"), "{called:?}");
    let csv = ar(&repo, ["score", "--format", "csv"]).ok().stdout;
    assert!(csv.starts_with("axis,value\nclaim_density,0.5000\n"), "{csv}");

    // Once it is committed, nothing is new.
    repo.commit_all("claims");
    assert_eq!(numbers(&ar(&repo, ["score"]).ok()), ["nan", "nan", "0.0000", "nan", "nan"]);
    assert_eq!(scored(&repo)["composite"], json!(null));
    // Below a folder of the repository it is the same.
    repo.write("research_artifact.md", format!("{CLAIMS}- Third. [@c \"c says 3\"]\n"));
    assert_eq!(scored(&repo)["claims"], json!({"new": 1, "verified": 1, "repeats": 0}));
    assert_eq!(scored(&repo)["compared"]["earlier"], 1);
}

#[test]
fn an_artifact_that_cannot_be_read_is_the_only_failure() {
    let repo = repo();
    for (bytes, why) in [
        (&b"# How?\n\0"[..], "it holds a NUL byte, on line 2"),
        (b"# How?\n\n- \xff\n", "it is not valid UTF-8, on line 3"),
    ] {
        repo.write("research_artifact.md", bytes);
        let called = ar(&repo, ["score"]).exits(1);
        let error = format!("error: cannot read the artifact research_artifact.md: {why}\n");
        assert!(called.stderr.starts_with(&error) && called.stdout.is_empty(), "{called:?}");
    }
    repo.rm("research_artifact.md");
    assert!(ar(&repo, ["score"]).exits(1).stderr.contains("hint: "));
    repo.symlink("research.toml", "research_artifact.md");
    assert!(ar(&repo, ["score"]).exits(1).stderr.contains("it is a link"));
    repo.rm("research_artifact.md");
    File::create(repo.file("research_artifact.md")).unwrap().set_len(100_000_000).unwrap();
    assert!(ar(&repo, ["score"]).exits(1).stderr.contains("at most 5.0 MB are read"));
    repo.write("research_artifact.md", EMPTY);
    ar(&repo, ["score"]).ok();
    repo.write("research.toml", format!("{TERMS}colour = 1\n"));
    let called = ar(&repo, ["score"]).exits(1);
    assert!(called.stderr.contains("unknown field `colour`") && called.stderr.contains("hint: "), "{called:?}");
    repo.rm("research.toml");
    assert!(ar(&repo, ["score"]).exits(1).stderr.contains("the working tree has no research.toml"));
    ar(&repo, ["score", "--tag", "nov01"]).exits(1);
}

#[test]
fn bad_sources_are_named_and_verify_nothing() {
    let repo = repo();
    write_sources(&repo);
    repo.write("sources/sub/b.md", source("b says 1."));
    repo.write("sources/C.md", source("c says 1."));
    repo.write("sources/nul.md", b"---\nurl: u\ntitle: t\n---\nnul \0 says");
    repo.write("sources/latin.md", b"---\nurl: u\ntitle: t\n---\n\xe9 says");
    repo.write("sources/open.md", "---\nurl: u\n");
    repo.write("sources/yaml.md", "---\nurl: u\ntitle: [a\n---\nyaml says\n");
    repo.symlink("../research.toml", "sources/link.md");
    repo.write(".gitignore", "sources/hidden.md\n");
    repo.write("sources/hidden.md", source("hidden says."));
    File::create(repo.file("sources/large.md")).unwrap().set_len(100_000_000).unwrap();
    let ids = ["a", "b", "c", "nul", "latin", "open", "yaml", "link", "hidden", "large", "none"];
    let claims: String = ids.iter().map(|id| format!("- About {id}. [@{id} \"says\"]\n")).collect();
    repo.write("research_artifact.md", format!("## Memory\n{claims}"));
    let scored = scored(&repo);
    assert_eq!(scored["claims"], json!({"new": 11, "verified": 1, "repeats": 0}));
    let problems = problems(&scored);
    let is_told = |what: &str| problems.iter().any(|problem| problem.starts_with(what));
    for what in [
        "research_artifact.md:12: [@none] has no source; store it as sources/none.md",
        "research_artifact.md:3: the source of [@b] is unusable",
        "sources/b.md:1: several sources have the id b: sources/b.md, sources/sub/b.md",
        "sources/C.md:1: several sources have the id c: sources/C.md, sources/c.md",
        "sources/nul.md:5: it holds a NUL byte",
        "sources/latin.md:5: it is not valid UTF-8",
        "sources/open.md:1: its front matter has no closing `---`",
        "sources/yaml.md:",
        "sources/link.md:1: it is not a regular file",
        "sources/hidden.md:1: git ignores it, so no commit has it",
        "sources/large.md:1: it has 100 MB, and at most 5.0 MB are read; store excerpts",
    ] {
        assert!(is_told(what), "{what}: {problems:#?}");
    }
}

#[test]
fn sources_behind_a_link_are_none() {
    let repo = repo();
    write_sources(&repo);
    std::fs::rename(repo.file("sources"), repo.outside().join("elsewhere")).unwrap();
    repo.symlink("../elsewhere", "sources");
    repo.write("research_artifact.md", CLAIMS);
    let scored = scored(&repo);
    assert_eq!(scored["claims"], json!({"new": 2, "verified": 0, "repeats": 0}));
    assert!(problems(&scored).contains(&"sources:1: the folder is a link, so no commit has what is in it".to_owned()));
}

#[test]
fn odd_weights_and_few_axes_are_warned_of() {
    let repo = repo_with(&format!(
        "{TERMS}[composite.axes.novelty]\nweight = 2\n[composite.axes.freshness]\nweight = 2\nrange = [2020, 2025]\n"
    ));
    write_sources(&repo);
    repo.write("research_artifact.md", "## Memory\n- First. [@a \"a says 1\"]\n");
    let scored = scored(&repo);
    // 12 September 2023 is day 255: 2023 + 254 / 365 = 2023.6959; of 2020 to 2025: 0.73918; with novelty: 0.86959.
    assert_eq!((&scored["axes"]["freshness"], &scored["composite"]), (&json!(2023.6959), &json!(0.8696)));
    let warnings = scored["warnings"].as_array().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("sum to 4") && warnings.len() == 2, "{warnings:?}");
}

#[test]
fn a_folder_that_is_no_repository_and_one_without_a_commit() {
    let repo = TestRepo::empty();
    repo.write("research.toml", TERMS);
    repo.write("research_artifact.md", "## Memory\n- First. [@a \"a says 1\"]\n");
    write_sources(&repo);
    let called = ar(&repo, ["score"]).ok();
    assert_eq!(numbers(&called), ["1.0000", "0.0000", "0.3333", "1.0000", "0.5833"]);
    assert!(called.stdout.contains("\ncompared with nothing, outside of a session\n"), "{called:?}");
    std::fs::remove_dir_all(repo.file(".git")).unwrap();
    assert!(ar(&repo, ["score"]).exits(1).stderr.contains("repository"));
}
