//! What the agent of a session of research is told.

use std::fs;

use super::{INIT, session};
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
    let search = format!("cat > {}; echo found", question.display());
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
    let directive = fs::read_to_string(question).unwrap();
    assert!(directive.contains("Look for other evidence") && !OF_TRAINING.iter().any(|it| directive.contains(it)));
    for words in ["a field that asks the same", "Take nothing out of the text", "claim from them together"] {
        assert!(all.iter().any(|prompt| prompt.contains(words)), "{words}");
    }
    assert!(ar(&repo, ["brief"]).ok().stdout.contains("An axis has no number"));
}
