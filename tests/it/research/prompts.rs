//! What the agent of a session of research is told.

use std::fs;

use serde_json::Value;

use super::{INIT, agent, claims, session, text_of};
use crate::support::{TestRepo, ar};

/// Words that fit a program under training, and no text. `ar` says them to agents of other sessions.
const OF_TRAINING: [&str; 11] = [
    "You improve a program",
    "Read the code",
    "architecture",
    "optimiser",
    "Of two programs",
    "one idea at a time",
    "settings that worked",
    "safe region",
    "structure of the program",
    "part that seems necessary",
    "prints the metric",
];

#[test]
fn an_agent_of_research_is_told_of_claims_and_sources_and_not_of_programs() {
    let repo = TestRepo::empty();
    ar(&repo, INIT).ok();
    // No new claim is ever made, so that each experiment is without a number and the ladder climbs past two pivots.
    let agent = "cp \"$AR_PROMPT\" ../prompt-$AR_EXPERIMENT; echo \"<!-- $AR_EXPERIMENT -->\" >> research_artifact.md; \
                 echo '{\"direction\": \"gaps\"}' > \"$AR_PROPOSAL\"";
    let question = repo.outside().join("question");
    let search = format!("cat > {}-$AR_EXPERIMENT; echo found", question.display());
    session(&repo, agent, 21, &["--search", &search, "--allow-search"]).ok();
    let prompt = |n: u32| fs::read_to_string(repo.outside().join(format!("prompt-{n}"))).unwrap();
    let all: Vec<String> = (1..=21).map(prompt).collect();
    for (n, prompt) in (1..).zip(&all) {
        assert!(
            prompt.starts_with("# Research protocol\n\nYou add to a text that answers a question"),
            "{n}: {prompt}"
        );
        assert!(prompt.contains("\n# Research: How do servers manage memory?\n"), "{n}: {prompt}");
        for words in OF_TRAINING {
            assert!(!prompt.contains(words), "{n}: {words}: {prompt}");
        }
    }
    // What a claim and a source are is said once, by the repository's program.md.
    for words in ["2 to 6 claims", "word for word", "never changed or removed", "ideas from outside the repository"] {
        assert!(all[0].matches(words).count() <= 1, "{words}: {}", all[0]);
    }
    assert!(all[1].contains("An axis has no number: find in the log which one"), "{}", all[1]);
    assert!(all[5].contains("Pivot. Abandon the strategy \"gaps\". Look for other evidence"), "{}", all[5]);
    assert!(all[5].contains("look for who disputes it"), "{}", all[5]);
    let directive = fs::read_to_string(question.with_extension("").with_file_name("question-11")).unwrap();
    assert!(directive.contains("Look for other evidence") && !OF_TRAINING.iter().any(|it| directive.contains(it)));
    for words in ["a field that asks the same", "Take nothing out of the text", "claim from them together"] {
        assert!(all.iter().any(|prompt| prompt.contains(words)), "{words}");
    }
    assert!(ar(&repo, ["brief"]).ok().stdout.contains("An axis has no number"));
}

#[test]
fn each_experiment_begins_with_sources_for_the_least_covered_sub_topic() {
    for every in [1_u32, 2, 0] {
        let repo = TestRepo::empty();
        ar(&repo, INIT).ok();
        repo.write(
            "research.toml",
            repo.read("research.toml").replace("search_every = 1", &format!("search_every = {every}")),
        );
        repo.git(["commit", "--quiet", "--all", "--allow-empty", "--message", "every"]);
        let lines = [
            claims("Memory", "Paging wastes little.", "a", "a waste of under 4%", "waste of under 4%"),
            claims("Speed", "Paging doubles the throughput.", "a", "", "doubles the throughput"),
            claims("Speed", "Batches share weights.", "b", "weights are shared", "weights are shared"),
        ];
        let agent = agent(&lines.each_ref().map(String::as_str)).replace("cat >", "tee ../prompt-$AR_EXPERIMENT >");
        let search = format!(
            "cat > {}/question-$AR_EXPERIMENT; echo '{{\"text\": \"Paper '$AR_EXPERIMENT'\", \"url\": \"https://e.org\"}}'",
            repo.outside().display()
        );
        session(&repo, &agent, 3, &["--search", &search]).ok();
        let question = |n: u32| fs::read_to_string(repo.outside().join(format!("question-{n}"))).ok();
        let asked: Vec<u32> = (1..=3).filter(|n| question(*n).is_some()).collect();
        assert_eq!(asked, [&[][..], &[1, 2, 3], &[1, 3]][every as usize], "every {every}");
        for n in asked {
            let question: Value = serde_json::from_str(&question(n).unwrap()).unwrap();
            // Those that are covered as little as each other take turns; an invented quotation covers nothing.
            assert_eq!(question["question"], "Speed: How do servers manage memory?", "{n}");
            let prompt = text_of(repo.outside().join(format!("prompt-{n}")));
            let found =
                prompt.split_once("## What a search found\n\nCandidates that search commands printed").unwrap().1;
            assert!(
                found.contains(&format!("Paper {n}")) && prompt.contains("## A source from the backlog"),
                "{prompt}"
            );
        }
        let prompt = text_of(repo.outside().join("prompt-3"));
        let covered = "| sub-topic | supported claims |\n|---|---|\n| Speed | 0 |\n| Memory | 1 |\n";
        // All of the second is 0; the text has one claim from one source on one of two, and a novelty of (1 + 0) / 2.
        let axes = "| axis | experiment 2 | kept text | what raises it |\n|---|---|---|---|\n\
                    | claim_density | 0.0000 | 1.0000 | quote for each claim what a stored source says |\n\
                    | novelty | 0.0000 | 0.5000 | claim what no earlier claim says |\n";
        assert!(prompt.contains(&format!("## What is covered\n\n{covered}\n{axes}")), "{prompt}");
        assert!(text_of(repo.outside().join("prompt-2")).contains("\n| source_diversity | 0.0000 | 0.0000 | cite"));
        assert!(ar(&repo, ["brief"]).ok().stdout.contains("| Memory | 1 |"));
    }
}
