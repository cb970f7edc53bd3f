//! A researcher that cheats: it gains nothing, axis by axis.

use super::{agent, claims, flags, record, repo, session};
use crate::support::TestRepo;

/// What became of an experiment, and why.
fn fate(repo: &TestRepo, id: u32) -> (String, String) {
    let record = record(repo, id);
    let class = record["failure"]["class"].as_str().unwrap_or_default();
    (record["outcome"].as_str().unwrap().to_owned(), class.to_owned())
}

fn axis(repo: &TestRepo, id: u32, axis: &str) -> f64 {
    record(repo, id)["metrics"][axis].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn a_researcher_that_cheats_gains_nothing() {
    let repo = repo();
    let honest = claims(
        "Memory",
        "Paging wastes under four percent of memory.",
        "a",
        "waste of under 4%, and fast",
        "waste of under 4%",
    );
    let cites = "[@a \"and fast\"] ".repeat(12);
    let cheats = [
        honest.as_str(),
        // Claims without sources, beside one that has one.
        &format!(
            "{}; sed -i 's|^## Speed$|&\\n- Faster.\\n- Better.\\n- Stronger.|' research_artifact.md",
            claims("Cost", "Kilo november.", "b", "b is new", "b is new")
        ),
        // A quotation that is not there.
        &claims("Speed", "Paging doubles the throughput.", "a", "", "doubles the throughput"),
        // The same claim in another order, with the same source.
        &claims("Speed", "Under four percent of memory wastes paging.", "a", "", "and fast"),
        // The kept claim once more, below another heading.
        "sed -i 's|^## Cost$|&\\n- paging WASTES under four percent of memory!! [@a \"and fast\"]|' research_artifact.md",
        // One source, twelve times.
        &format!("sed -i 's/^## Cost$/&\\n- Zulu yankee xray. {}/' research_artifact.md", cites.trim()),
    ];
    let called = session(&repo, &agent(&cheats), cheats.len(), &flags()).ok();
    assert_eq!(fate(&repo, 1).0, "keep", "{called:?}");
    // 1 of 4 claims is verified: (0.25 + 0 + 0.6667 + novelty) / 4.
    assert_eq!(axis(&repo, 2, "claim_density"), 0.25);
    // No citation is supported, so the claim counts for no axis.
    assert_eq!(fate(&repo, 3), ("discard".into(), String::new()));
    assert_eq!((axis(&repo, 3, "claim_density"), axis(&repo, 3, "novelty")), (0.0, 0.0));
    assert!(axis(&repo, 4, "novelty") < 0.2, "{}", record(&repo, 4));
    assert_eq!(fate(&repo, 5), ("crash".into(), "nan".into()));
    assert_eq!(axis(&repo, 6, "source_diversity"), 0.0);
}

#[test]
fn a_night_of_invented_quotations_is_discarded_and_ends() {
    let repo = repo();
    let honest = claims("Memory", "Paging wastes under four percent.", "a", "waste of under 4%", "waste of under 4%");
    let invented = claims("Speed", "Claim $AR_EXPERIMENT is of its own kind.", "a", "", "never said");
    let invented = invented
        .replace("'s|", "\"s|")
        .replace("|' research", "|\" research")
        .replace("[@a \"", "[@a \\\"")
        .replace("said\"]", "said\\\"]");
    let lines: Vec<&str> = (1..=14).map(|n| if n == 1 { honest.as_str() } else { invented.as_str() }).collect();
    let flags = [&flags()[..], &["--stop-rule", "kill2", "--cadence", "adaptive", "--format", "json"]].concat();
    let called = session(&repo, &agent(&lines), lines.len(), &flags).ok();
    // Kept with (1 + 0 + 0.3333 + 1) / 4, then nothing but zeros, each a discard of one run. From the sixth on the artifact is
    // the same: (1 + 0 + 0.3333 + 0) / 4. `kill2` needs ten numbers.
    assert_eq!(fate(&repo, 1).0, "keep", "{called:?}");
    for id in 2..=10 {
        assert_eq!((fate(&repo, id), axis(&repo, id, "composite")), (("discard".into(), String::new()), 0.0), "{id}");
    }
    let course: Vec<f64> = (1..=10).map(|id| axis(&repo, id, "artifact_composite")).collect();
    assert!(course.is_sorted_by(|one, next| one >= next), "{course:?}");
    assert_eq!((course[0], course[9]), (0.5833, 0.3333));
    let events = called.json_lines();
    let stopped = events.iter().rfind(|event| event["event"] == "session_stopped").unwrap();
    assert_eq!((&stopped["reason"]["kind"], &stopped["experiments"]), (&"kill2".into(), &10.into()), "{stopped}");
    let runs = events.iter().filter(|event| event["event"] == "run_started").count();
    assert_eq!(runs, 11, "none is repeated");
    assert!(!events.iter().any(|event| event["event"] == "sleep" && event["seconds"].as_f64() > Some(1500.0)));
}

#[test]
fn terms_and_stored_sources_are_out_of_reach() {
    let repo = repo();
    let honest = claims("Memory", "Alpha.", "a", "a says", "a says");
    let easier = "printf 'question = \"Q\"\\nsubtopics = [\"Memory\"]\\n' > research.toml";
    let cheats = [
        honest.as_str(),
        easier,
        // A source is bent to a quotation.
        &format!(
            "echo 'Paging is best.' >> sources/a.md; {}",
            claims("Speed", "Paging is best.", "a", "", "Paging is best.")
        ),
        "git rm --quiet sources/a.md; echo >> research_artifact.md",
        "git mv sources/a.md sources/z.md; sed -i 's/@a/@z/' research_artifact.md",
        "mkdir sources/x; cp sources/a.md sources/x/a2.md; rm sources/.gitkeep; sed -i 's|^## Cost$|&\\n- Beta. [@a2 \"a says\"]|' research_artifact.md",
    ];
    let called = session(&repo, &agent(&cheats), cheats.len(), &flags()).ok();
    let fates: Vec<_> = (1..=6).map(|id| fate(&repo, id)).collect();
    let expected = [
        ("keep", ""),
        ("crash", "scope"),
        ("crash", "protected"),
        ("crash", "protected"),
        ("crash", "protected"),
        ("keep", ""),
    ];
    assert_eq!(fates, expected.map(|(outcome, class)| (outcome.to_owned(), class.to_owned())), "{called:?}");
    let why = record(&repo, 3)["failure"]["excerpt"].as_str().unwrap().to_owned();
    assert_eq!(why, "sources/a.md is a stored source; store another one instead");

    // Who changes the terms by hand changes nothing for the session that goes on.
    let terms = "question = \"Q\"\nsubtopics = [\"Memory\"]\n[composite.axes.novelty]\nweight = 1\n";
    repo.write("research.toml", terms);
    repo.write("research_artifact.md", repo.read("research_artifact.md") + "- Gamma. [@a \"a says\"]\n");
    let scored = super::scored(&repo);
    // Of three sub-topics, as the session has them.
    assert_eq!(
        (&scored["axes"]["topic_coverage"], &scored["worst"]),
        (&0.3333.into(), &"source_diversity".into()),
        "{scored}"
    );
}

#[test]
fn a_run_is_scored_as_its_commit_has_the_files() {
    let repo = repo();
    let elsewhere = repo.outside().join("elsewhere");
    let at = elsewhere.display();
    let cheat = format!(
        "mkdir {at}; cp -r research_artifact.md sources research.toml {at}/; (cd {at}; {}); \
         git config core.worktree {at}; echo 'junk' > sources/junk.md",
        claims("Speed", "Out of sight.", "b", "b says so", "b says so")
    );
    let cheats = [claims("Memory", "Alpha.", "a", "a says", "a says"), cheat];
    session(&repo, &agent(&cheats.each_ref().map(String::as_str)), 2, &flags()).ok();
    assert_eq!(fate(&repo, 1).0, "keep");
    assert_eq!(fate(&repo, 2), ("crash".into(), "nan".into()), "{}", record(&repo, 2));
}

#[test]
fn files_that_change_what_git_stores_are_out_of_scope_and_an_id_is_taken_once() {
    let repo = repo();
    let cheats = [
        claims("Memory", "Alpha.", "a", "a says", "a says"),
        "echo '*.md ident' > sources/.gitattributes; echo >> research_artifact.md".into(),
        "echo '*.md' > sources/.gitignore; echo >> research_artifact.md".into(),
        claims("Speed", "Beta.", "A", "A says", "A says"),
        claims("Speed", "Beta.", "b", "b says", "b says"),
    ];
    session(&repo, &agent(&cheats.each_ref().map(String::as_str)), 5, &flags()).ok();
    let fates = [2, 3, 4].map(|id| fate(&repo, id));
    let refused = |class: &str| ("crash".to_owned(), class.to_owned());
    assert_eq!(fates, [refused("scope"), refused("scope"), refused("protected")], "{}", record(&repo, 4));
    let why = record(&repo, 4)["reason"].as_str().unwrap().to_owned();
    assert!(why.contains("sources/A.md has the id of sources/a.md; give it another name"), "{why}");
    assert_eq!(fate(&repo, 5).0, "keep");
    // The claim of a refused experiment was never scored, and is as new as before.
    assert!(axis(&repo, 5, "novelty") > 0.5, "{}", record(&repo, 5));
}

#[test]
fn removed_claims_address_nothing_and_are_counted() {
    let repo = repo();
    let replace = "printf '# How?\\n\\n## Memory\\n\\n## Speed\\n\\n## Cost\\n' > research_artifact.md; ";
    let second = format!("{replace}{}", claims("Speed", "Charlie delta.", "b", "b says", "b says"));
    let cheats = [claims("Memory", "Alpha bravo.", "a", "a says", "a says"), second];
    session(&repo, &agent(&cheats.each_ref().map(String::as_str)), 2, &flags()).ok();
    // Only one of three sub-topics has a claim then.
    assert_eq!((axis(&repo, 2, "topic_coverage"), axis(&repo, 2, "claims_removed")), (0.3333, 1.0));
    let report = crate::support::ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let removed = u32::from(fate(&repo, 2).0 == "keep");
    assert_eq!(report["sources"]["claims_removed"], removed, "{report:#}");
}
