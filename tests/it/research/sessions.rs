//! What a score is compared with in a session.

use serde_json::{Value, json};

use super::{agent, claims, flags, record, repo, repo_with, scored, session};
use crate::support::{TestRepo, ar, ar_command};

/// What `ar score --format json` says with these variables.
fn scored_with(repo: &TestRepo, variables: &[(&str, &str)]) -> Value {
    let mut command = ar_command(repo, &repo.path(), ["score", "--format", "json"]);
    command.envs(variables.iter().copied());
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

#[test]
fn it_is_compared_with_the_kept_state_and_all_earlier_iterations() {
    let repo = repo();
    let lines = [
        claims("Memory", "Alpha bravo charlie.", "a", "a says", "a says"),
        // Below the threshold.
        claims("Memory", "Delta echo foxtrot.", "a", "", "a says")
            + "; sed -i 's|^## Memory$|&\\n- x.\\n- y.\\n- z.\\n- w.|' research_artifact.md",
        claims("Speed", "Delta echo foxtrot.", "b", "b says", "b says"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let called = session(&repo, &agent(&lines), 3, &flags()).ok();
    let outcomes = [1, 2, 3].map(|id| record(&repo, id)["outcome"].as_str().unwrap().to_owned());
    assert_eq!(outcomes[..2], ["keep", "discard"], "{called:?}");
    // The third claims what the second did, which was not kept.
    assert_eq!(record(&repo, 3)["metrics"]["novelty"], 0.0);

    // By hand, on the session's branch.
    let text = repo.read("research_artifact.md") + "- Golf hotel india. [@a \"a says\"]\n";
    repo.write("research_artifact.md", &text);
    let by_hand = scored(&repo);
    assert_eq!(by_hand["compared"]["session"], "t");
    assert_eq!((&by_hand["claims"]["new"], &by_hand["compared"]["earlier"]), (&json!(1), &json!(3)));
    // An experiment that is measured again is none of those before it, and neither are later ones.
    let own = scored_with(&repo, &[("AR_TAG", "t"), ("AR_EXPERIMENT", "2")]);
    assert_eq!((&own["compared"]["experiment"], &own["compared"]["earlier"]), (&json!(1), &json!(1)));
    // The variable comes before the branch, and outside of all sessions HEAD counts.
    repo.git(["stash", "--quiet"]);
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("research_artifact.md", &text);
    assert_eq!(scored(&repo)["compared"]["session"], json!(null));
    assert_eq!(scored_with(&repo, &[("AR_TAG", "t")])["compared"]["earlier"], 3);
    let named = ar(&repo, ["score", "t", "--format", "json"]).ok().json();
    assert_eq!(
        (&named["compared"]["session"], &named["compared"]["experiment"]),
        (&json!("t"), &by_hand["compared"]["experiment"])
    );
}

#[test]
fn a_run_in_a_slot_is_scored_like_one_in_place() {
    let repo = repo();
    let lines = [("Memory", "a"), ("Speed", "b")].map(|(topic, id)| {
        claims(topic, &format!("Alpha{id} bravo{id}."), id, &format!("{id} says"), &format!("{id} says"))
    });
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    session(&repo, &agent(&lines), 2, &[&flags()[..], &["--slots", "1"]].concat()).ok();
    // (1 + 0 + 0.3333 + 1) / 4 = 0.583325. The other one may run on it.
    let records = [1, 2].map(|id| record(&repo, id));
    let runs = records.iter().flat_map(|record| record["runs"].as_array().unwrap());
    let values: Vec<&Value> = runs.map(|run| &run["value"]).collect();
    assert!(values.contains(&&json!(0.5833)), "{records:?}");
    assert_eq!((repo.status().as_str(), repo.read("research_artifact.md").as_str()), ("", super::EMPTY));
}

#[test]
fn a_baseline_with_claims_has_nothing_new_and_its_claims_are_earlier_ones() {
    let repo = repo();
    repo.write("sources/a.md", super::source("a says"));
    repo.write("research_artifact.md", "## Memory\n- Alpha bravo. [@a \"a says\"]\n## Speed\n## Cost\n");
    repo.commit_all("a first claim");
    session(&repo, &agent(&[&claims("Speed", "Bravo alpha.", "b", "b says", "b says")]), 1, &flags()).ok();
    let baseline = record(&repo, 0);
    assert_eq!((&baseline["outcome"], &baseline["metric"]["value"]), (&json!("keep"), &json!(null)), "{baseline:#}");
    let first = record(&repo, 1);
    assert_eq!(
        (&first["metrics"]["topic_coverage"], &first["metrics"]["claim_density"]),
        (&json!(0.0), &json!(0.0)),
        "it repeats a kept claim"
    );
    assert_eq!(first["outcome"], "discard");
    assert!(first["metrics"]["novelty"].as_f64().unwrap() < 0.5, "{first:#}");
}

#[test]
fn the_contract_has_the_axes_of_the_terms_and_the_stop_rule_of_research() {
    let repo = repo_with(&format!("type = \"business\"\n{}", super::TERMS));
    session(&repo, &agent(&[&claims("Memory", "Alpha.", "a", "a says", "a says")]), 1, &flags()).ok();
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!(contract["composite"]["axes"]["claim_density"]["weight"], 0.35);
    assert_eq!(contract["stop_rules"], json!(["kill2", "plateau:30"]));
    assert_eq!(contract["artifact_form"], "weighted");
    // 0.35 × 1 + 0.30 × 0 + 0.20 × 0.3333 + 0.15 × 1 = 0.56666.
    assert_eq!(record(&repo, 1)["metric"]["raw"], "0.5667");

    // Terms that cannot be used are an error before anything starts.
    let repo = repo_with("question = \"Q\"\n");
    let called = session(&repo, "true", 1, &flags()).exits(1);
    assert!(called.stderr.contains("missing field `subtopics`") && called.stderr.contains("hint: "), "{called:?}");
    assert!(!repo.exists(".autoresearch"));
    repo.git(["rm", "--quiet", "research.toml"]);
    repo.git(["commit", "--quiet", "--message", "none"]);
    assert!(session(&repo, "true", 1, &flags()).exits(1).stderr.contains("has no research.toml"));
}

#[test]
fn every_twentieth_iteration_verifies_all_citations_anew() {
    let repo = repo();
    let first = claims("Memory", "Alpha.", "a", "a says", "a says")
        + "; sed -i 's|^## Speed$|&\\n- Beta. [@a \"gone\"]|' research_artifact.md";
    let more: Vec<String> = (2..=20)
        .map(|n| claims("Cost", &format!("Claim{n} word{n}."), &format!("s{n}"), "it says", "it says"))
        .collect();
    let lines: Vec<&str> = [first.as_str()].into_iter().chain(more.iter().map(String::as_str)).collect();
    let called = session(&repo, &agent(&lines), 20, &[&flags()[..], &["--stop-rule", "plateau:100"]].concat()).ok();
    let log = |id: u32| repo.read(format!(".autoresearch/t/runs/{id:05}/run.log"));
    assert!(record(&repo, 1)["outcome"] == "keep" && !log(19).contains("verified anew"), "{called:?}");
    assert!(log(20).contains("verified anew: 21 citations; 1 problem"), "{}", log(20));
    assert!(log(20).contains("\"gone\" is not in sources/a.md"));
}

#[test]
fn the_kept_ratio_is_of_sources_and_iterations_have_a_keep_rate() {
    let repo = repo();
    let says = |id: &str| format!("{id} says so");
    let claim = |topic: &str, claim: &str, id: &str| claims(topic, claim, id, &says(id), &says(id));
    // Three new claims of as many topics; a rewording with a source that nobody keeps; and one from a fifth source.
    let first = ["Memory", "Speed", "Cost"].iter().zip(["a", "b", "c"]);
    let first: Vec<String> = first.map(|(topic, id)| claim(topic, &format!("{topic} is {id}."), id)).collect();
    let lines =
        [first.join("; "), claim("Memory", "Memory is a, indeed.", "d"), claim("Cost", "Prices fell by half.", "e")];
    session(&repo, &agent(&lines.each_ref().map(String::as_str)), 3, &flags()).ok();
    let outcomes = [1, 2, 3].map(|id| record(&repo, id)["outcome"].clone());
    assert_eq!(outcomes, ["keep", "discard", "keep"], "{}", record(&repo, 2)["reason"]);
    let status = ar(&repo, ["status", "t", "--format", "json"]).ok().json()["sessions"][0].clone();
    // Of the sources a to e all but d are kept.
    assert_eq!((&status["kept_ratio"]["value"], &status["kept_ratio"]["band"]), (&json!(0.8), &json!([0.2, 0.35])));
    assert_eq!(status["keep_rate"], json!(2.0 / 3.0));
    let text = ar(&repo, ["status", "t"]).ok().stdout;
    assert!(text.contains("\nkept ratio   0.80 of the stored sources; 0.20 to 0.35 at convergence\n"), "{text}");
    assert!(text.contains("\nkeep rate "), "{text}");
}

#[test]
fn a_verifier_is_asked_once_about_what_is_kept() {
    let verify = "verify = \"cat > /dev/null; echo asked >> ../asked; echo true\"\n";
    let repo = repo_with(&format!("{}{verify}", super::TERMS));
    let lines = ["a", "b", "c", "d"]
        .map(|id| claims("Memory", &format!("Alpha{id} bravo{id}."), id, &format!("{id} says"), &format!("{id} says")));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let asked = || super::text_of(repo.outside().join("asked")).lines().count();
    session(&repo, &agent(&lines), 3, &flags()).ok();
    assert_eq!((asked(), &record(&repo, 3)["metrics"]["artifact_claim_density"]), (3, &json!(1.0)));
    // What was said in a run whose folder is gone is asked again.
    std::fs::remove_file(repo.file(".autoresearch/t/runs/00002/verdicts.json")).unwrap();
    std::fs::remove_file(repo.file(".autoresearch/t/runs/00003/verdicts.json")).unwrap();
    ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert_eq!((asked(), &record(&repo, 4)["metrics"]["artifact_claim_density"]), (3 + 3, &json!(1.0)));
}
