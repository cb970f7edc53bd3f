//! Sessions of which only the refs are here, as a clone that fetched them has them.

use crate::domain::{ExperimentId, Tag};
use crate::git::Repo;
use crate::state::SessionFolder;

use super::layout::OWN_FILES;
use crate::session::errors::SessionError;

/// Returns whether a session was only fetched: its folder is missing, and nothing shows that it was ever opened in this
/// repository. If its branch exists, an `ar` that created the folder would have excluded its files from git.
pub(crate) fn is_fetched(repo: &Repo, tag: &Tag) -> Result<bool, SessionError> {
    if SessionFolder::new(&repo.main_worktree(), tag).root().exists()
        || repo.refs.record(&tag.record_ref(ExperimentId::BASELINE))?.is_none()
    {
        return Ok(false);
    }
    Ok(repo.refs.branch(&tag.branch_ref())?.is_none() || !repo.excludes(OWN_FILES)?)
}
