//! Refuses globs of artifacts that match what is no artifact.

use std::path::Path;

use crate::domain::Contract;
use crate::git::Repo;
use crate::rules::{ArtifactGlobs, FileTerms};
use crate::session::errors::SessionError;
use crate::state::Matching;

/// Refuses globs of artifacts that match what is no artifact: a file that git has, a protected one, or one of `ar`'s own.
pub(crate) fn refuse_artifacts(repo: &Repo, contract: &Contract, terms: &FileTerms) -> Result<(), SessionError> {
    let globs = ArtifactGlobs::of(&contract.artifacts)?;
    if globs.is_empty() {
        return Ok(());
    }
    let refused = |path: &Path, what| {
        let glob = globs.matched(path).unwrap_or_default().to_owned();
        Err(SessionError::NoArtifact { glob, path: path.to_owned(), what })
    };
    if let Some(own) = OWN.iter().map(Path::new).find(|own| globs.matched(own).is_some()) {
        return refused(own, "one of ar's own files");
    }
    // Experiments kept since the start may have added files.
    let tip = repo.refs.branch(&contract.tag.branch_ref())?;
    for commit in [&contract.start].into_iter().chain(&tip) {
        if let Some(tracked) = repo.objects.files_at(commit, |path| globs.matched(path).is_some())?.first() {
            return refused(tracked, "tracked by git");
        }
    }
    let found = Matching::below(repo.worktree(), &globs);
    let mut paths = found.files.keys().chain(&found.odd);
    match paths.find(|path| terms.is_named_protected(path)) {
        Some(protected) => refused(protected, "protected"),
        None => Ok(()),
    }
}

/// Names that no glob of artifacts may match.
const OWN: [&str; 6] =
    ["results.tsv", "run.log", "autoresearch-lessons.md", ".autoresearch", ".autoresearch/t", ".git"];
