//! `verify` and `novelty`: commands that decide in place of quotations and of the built-in measure.

use serde_json::{Value, json};

use super::{TERMS, numbers, problems, repo_with, scored, text_of, write_sources};
use crate::support::{TestRepo, ar, ar_in_time};

/// A repository whose kept artifact has one claim, and the working tree three more.
fn repo(commands: &str) -> TestRepo {
    let repo = repo_with(&format!("{commands}{TERMS}"));
    write_sources(&repo);
    let kept = "## Memory\n- Kept. [@a \"a says 1\"]\n";
    repo.write("research_artifact.md", kept);
    repo.commit_all("kept");
    repo.write(
        "research_artifact.md",
        format!("{kept}- One. [@a \"a says 2\"]\n## Speed\n- Two. [@b \"invented\"] [@c]\n- Three. [@missing]\n"),
    );
    repo
}

#[test]
fn a_verifier_judges_each_citation_by_itself() {
    let repo = repo(
        "verify = \"\"\"\necho warning >&2; n=$$; cat > ../asked-$n\n\
         grep -q '\"claim\":\"Two' ../asked-$n && grep -q '\"id\":\"c\"' ../asked-$n && echo false && exit\necho ' true '\"\"\"\n",
    );
    let scored = scored(&repo);
    // One and Two are verified: Two by its first citation. Three is not, and is not asked about.
    assert_eq!(scored["claims"], json!({"new": 3, "verified": 2, "repeats": 0}));
    // ln 2 / ln 3: a and b of a, b and c.
    assert_eq!(scored["axes"]["source_diversity"], 0.6309);
    let expected = [
        "research_artifact.md:5: `verify` says that sources/c.md does not support this claim",
        "research_artifact.md:6: [@missing] has no source; store it as sources/missing.md",
    ];
    assert_eq!(problems(&scored), expected);
    let asked: Vec<Value> = std::fs::read_dir(repo.outside())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("asked-"))
        .map(|entry| serde_json::from_str(&text_of(entry.path())).unwrap())
        .collect();
    // The artifact has the kept one, too, of which nothing was said yet.
    assert_eq!(asked.len(), 4, "{asked:?}");
    let two = asked.iter().find(|it| it["source"]["id"] == "b").unwrap();
    assert_eq!((&two["claim"], &two["quotation"]), (&json!("Two."), &json!("invented")));
    assert!(two["source"]["text"].as_str().unwrap().contains("b says 9.") && two["source"]["title"] == "T", "{two}");
}

#[test]
fn kept_claims_address_their_sub_topic_where_the_verifier_says_so() {
    for (verdict, addressed) in [("true", json!(["Memory", "Speed"])), ("false", json!(["Speed"]))] {
        let repo = repo(&format!("verify = \"grep -q Kept && echo {verdict} || echo true\"\n"));
        let artifact = repo.read("research_artifact.md").replace("- One. [@a \"a says 2\"]\n", "");
        repo.write("research_artifact.md", artifact);
        assert_eq!(scored(&repo)["topics"]["addressed"], addressed);
    }
}

#[test]
fn a_verifier_that_gives_no_answer_gives_no_number() {
    for (command, why) in [
        ("echo maybe", "`echo maybe` printed `maybe`, not `true` or `false`"),
        ("echo true; echo true", "`echo true; echo true` printed `true true`, not `true` or `false`"),
        (":", "`:` printed nothing, not `true` or `false`"),
        ("echo true; exit 4", "`echo true; exit 4` ended with exit 4"),
        ("no-such-verifier", "`no-such-verifier` ended with exit 127: "),
        ("kill -KILL $$", "`kill -KILL $$` was ended by a signal"),
    ] {
        let repo = repo(&format!("verify = '''{command}'''\n"));
        let called = ar(&repo, ["score"]).ok();
        let found = numbers(&called);
        // Novelty needs no verifier.
        assert_eq!([&found[0], &found[1], &found[2], &found[4]], ["nan"; 4], "{command}");
        assert_ne!(found[3], "nan");
        assert!(called.stdout.contains(&format!("\nresearch.toml:1: verify: {why}")), "{command}: {called:?}");
    }
}

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    for key in ["verify", "novelty"] {
        let repo = repo(&format!(
            "{key} = \"echo > ../called; trap '' TERM; (setsid sleep 323.75 & sleep 323.75)\"\ncommand_timeout = \"1s\"\n"
        ));
        let called = ar_in_time(&repo, ["score"]).ok();
        assert!(
            called.stdout.contains(&format!("research.toml:1: {key}: "))
                && called.stdout.contains("was not done after 1s")
        );
        assert!(repo.outside().join("called").exists());
        assert_eq!(numbers(&called)[4], "nan");
        assert_eq!(repo.processes(), Vec::<String>::new(), "{key}");
    }
}

#[test]
fn a_novelty_command_gets_both_lists_and_answers_with_a_number() {
    let repo = repo("novelty = \"cat > ../asked; echo 0.25\"\n");
    assert_eq!(scored(&repo)["axes"]["novelty"], 0.25);
    let asked: Value = serde_json::from_str(&text_of(repo.outside().join("asked"))).unwrap();
    // What no source supports is not new.
    assert_eq!(asked, json!({"claims": ["One."], "earlier": ["Kept."]}));
    // In a first iteration there is nothing to ask about.
    std::fs::remove_file(repo.outside().join("asked")).unwrap();
    repo.git(["rm", "--quiet", "--cached", "research_artifact.md"]);
    repo.git(["commit", "--quiet", "--message", "without"]);
    assert_eq!(scored(&repo)["axes"]["novelty"], 1.0);
    assert!(!repo.outside().join("asked").exists());
}

#[test]
fn a_novelty_command_that_lies_gives_no_number() {
    for said in ["nan", "-0.1", "1.5", "inf", "", "0.5 of 1", "1e400"] {
        let repo = repo(&format!("novelty = \"echo {said}\"\n"));
        let scored = scored(&repo);
        assert_eq!((&scored["axes"]["novelty"], &scored["composite"]), (&json!(null), &json!(null)), "{said}");
        let shown = if said.is_empty() { "nothing".to_owned() } else { format!("`{said}`") };
        let expected = format!("research.toml:1: novelty: `echo {said}` printed {shown}, not a number from 0 to 1");
        assert!(problems(&scored).contains(&expected), "{said}: {scored}");
    }
}
