//! A reviewer of research audits the evidence of new claims.

use super::{agent, claims, flags, record, repo, session};

/// It reads nothing but its prompt: is what a claim quotes there what the source says?
const SCRIPT: &str = r####"
prompt=$(cat)
case $prompt in *"Paging wastes nothing at all."*"It quotes:"*"waste of under 4%"*"The source says:"*"a waste of under 4%, and fast"*)
    echo '{"verdict": "not_earned", "why": "research_artifact.md:5 says more than sources/a.md"}'; exit;;
esac
case $prompt in *"Under four percent is wasted"*"sources/b.md"*"b says under 4%"*)
    case $prompt in *"### research_artifact"*"Paging wastes"*) exit 1;; esac
    echo '{"verdict": "earned", "why": "sources/b.md says so"}';;
esac"####;

#[test]
fn the_reviewer_sees_new_claims_with_quotations_and_sources() {
    let repo = repo();
    let path = repo.outside().join("review.sh");
    std::fs::write(&path, SCRIPT).unwrap();
    let reviewer = format!("sh {}", path.display());
    let lines = [
        claims("Memory", "Paging wastes nothing at all.", "a", "a waste of under 4%, and fast", "waste of under 4%"),
        claims("Memory", "Under four percent is wasted.", "b", "b says under 4%", "under 4%"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let called = session(&repo, &agent(&lines), 2, &[&flags()[..], &["--reviewer", &reviewer]].concat()).ok();
    let ended = [1, 2].map(|id| {
        let record = record(&repo, id);
        (record["outcome"].as_str().unwrap().to_owned(), record["review"]["verdict"].as_str().unwrap_or("-").to_owned())
    });
    let expected = [("discard", "not_earned"), ("keep", "earned")];
    assert_eq!(ended, expected.map(|(outcome, verdict)| (outcome.to_owned(), verdict.to_owned())), "{called:#?}");
}
