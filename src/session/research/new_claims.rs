//! The claims that a change adds to a research artifact, with their evidence as its commit has it.

use std::collections::BTreeSet;
use std::path::Path;

use super::files::LARGEST_TEXT;
use super::scoring::{artifact_at, read_terms};
use crate::agent::{Evidence, NewClaim};
use crate::domain::{CommitId, Contract};
use crate::git::{Repo, Stored};
use crate::rules::calls_score;
use crate::score::{Catalogue, Citation, as_text};
use crate::session::errors::SessionError;

/// The most claims that are listed.
const CLAIMS: usize = 50;

/// Bytes of a source to show before and after the quoted place.
const AROUND: usize = 700;

/// The claims that `commit` has and `base` has not, in their order; none in a session without an artifact.
pub(crate) fn new_claims(
    repo: &Repo,
    contract: &Contract,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Vec<NewClaim>, SessionError> {
    if !calls_score(&contract.command) {
        return Ok(Vec::new());
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let known: BTreeSet<String> = artifact_at(repo, base, &terms)?.claims.into_iter().map(|claim| claim.key).collect();
    let sources = Catalogue::of(repo.objects.files_below(commit, &terms.sources)?);
    let claims = artifact_at(repo, commit, &terms)?.claims.into_iter().filter(|claim| !known.contains(&claim.key));
    let told = claims.take(CLAIMS).map(|claim| {
        let evidence = claim.citations.iter().map(|citation| evidence(repo, commit, &sources, citation));
        Ok(NewClaim {
            text: claim.text,
            place: format!("{}:{}", terms.artifact.display(), claim.line),
            evidence: evidence.collect::<Result<_, SessionError>>()?,
        })
    });
    told.collect()
}

/// Finds the source of a citation, with an excerpt around the quotation.
fn evidence(
    repo: &Repo,
    commit: &CommitId,
    sources: &Catalogue,
    citation: &Citation,
) -> Result<Evidence, SessionError> {
    let path = sources.files.iter().find(|(id, _)| *id == citation.id).map(|(_, path)| path.clone());
    let stored = path.as_deref().map(|path: &Path| repo.objects.read_at(commit, path, LARGEST_TEXT)).transpose()?;
    let text = match &stored {
        Some(Stored::File(bytes)) => as_text(bytes).unwrap_or_default(),
        _ => "",
    };
    let excerpt = around(text, citation.quotation.as_deref().unwrap_or_default()).to_owned();
    Ok(Evidence { id: citation.id.clone(), quotation: citation.quotation.clone(), path, excerpt })
}

/// The part of a text around a quotation; its beginning where it does not have that word for word.
fn around<'a>(text: &'a str, quotation: &str) -> &'a str {
    let at = text.find(quotation).unwrap_or_default();
    let from = (0..=at.saturating_sub(AROUND)).rev().find(|place| text.is_char_boundary(*place)).unwrap_or_default();
    let end = (at + quotation.len() + AROUND).min(text.len());
    let end = (from..=end).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(from);
    &text[from..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_that_is_quoted_is_shown_and_else_the_beginning() {
        let text = format!("{}é the words é{}", "a".repeat(2000), "b".repeat(2000));
        let found = around(&text, "the words");
        assert!(found.contains("é the words é") && found.len() < 2 * AROUND + 20, "{found}");
        assert!(around(&text, "other words").starts_with("aaa"));
        assert_eq!([around("short", ""), around("", "x"), around("é", "é")], ["short", "", "é"]);
    }
}
