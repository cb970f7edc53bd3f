//! Sub-topics that the artifact of a new session has no heading for: no claim could count for them.

use super::scoring::{artifact_at, read_terms};
use crate::domain::{Contract, few};
use crate::git::Repo;
use crate::rules::is_research;
use crate::session::errors::SessionError;

/// A notice that names them, for a session of research.
pub(crate) fn missing_headings(repo: &Repo, contract: &Contract) -> Result<Option<String>, SessionError> {
    if !is_research(contract) {
        return Ok(None);
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let headed = artifact_at(repo, &contract.start, &terms)?.headed;
    let topics = (0..).zip(&terms.topics).filter(|(place, _)| !headed.contains(place));
    let missing: Vec<String> = topics.map(|(_, topic)| format!("## {topic}")).collect();
    let artifact = terms.artifact.display();
    let notice =
        || format!("{artifact} lacks headings, and claims count below these alone: {}", few(&missing).join(", "));
    Ok((!missing.is_empty()).then(notice))
}
