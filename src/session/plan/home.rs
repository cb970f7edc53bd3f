//! The user's own branch while a session has slots: which session goes on there, and the way back to it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::terms::{Wanted, put, with_axes};
use crate::crash;
use crate::domain::{Asked, CommitId, Contract, Drift, Layout, Tag};
use crate::git::{Head, HeadTarget, Repo};
use crate::session::errors::SessionError;
use crate::session::files::{expected_tip, read_history, session_there, stored_contract};
use crate::session::store::Store;
use crate::session::tree::Workspace;
use crate::state::{Journal, SessionFolder, StateError, read_json, write_json};

/// The file in the state folder that says where `ar finalize` put what was kept.
const FINALIZED: &str = "finalized.json";

/// The branch that `ar finalize` created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Finalized {
    /// The branch, as a full ref name.
    branch: String,
    /// The incumbent of the session at that time.
    incumbent: CommitId,
}

/// Notes that a branch has what a session kept, up to its incumbent.
pub(crate) fn note_finalized(folder: &SessionFolder, branch: &str, incumbent: &CommitId) -> Result<(), StateError> {
    let finalized = Finalized { branch: branch.to_owned(), incumbent: incumbent.clone() };
    write_json(&folder.state().join(FINALIZED), &finalized)
}

/// Returns whether a branch contains everything that a session kept.
fn is_finalized(repo: &Repo, contract: &Contract) -> Result<bool, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), &contract.tag);
    let Some(finalized) = read_json::<Finalized>(&folder.state().join(FINALIZED))? else { return Ok(false) };
    let history = read_history(repo, &contract.tag)?;
    let incumbent = expected_tip(contract, history.incumbent().map(|record| &record.commit));
    Ok(finalized.incumbent == incumbent && repo.refs.has_ref(&finalized.branch)?)
}

/// Returns whether a typed `ar run` with slots must not continue this session, because a branch contains all that it kept.
pub(crate) fn is_over_on_slots(repo: &Repo, wanted: &Wanted, contract: &Contract) -> Result<bool, SessionError> {
    Ok(has_slots(repo, wanted, &contract.tag) && is_finalized(repo, contract)?)
}

/// Returns whether a session has slots, or is to get some.
fn has_slots(repo: &Repo, wanted: &Wanted, tag: &Tag) -> bool {
    wanted.all().layout(None).is_some() || layout_before(repo, tag).is_some()
}

/// The slots that a session had last.
pub(crate) fn layout_before(repo: &Repo, tag: &Tag) -> Option<Layout> {
    let state = SessionFolder::new(&repo.main_worktree(), tag).state();
    Journal::read(&state).ok().flatten()?.layout
}

/// Returns whether a session's contract matches the requested terms.
pub(crate) fn has_terms(contract: &Contract, asked: &Asked) -> bool {
    let asked = put(asked, contract.clone());
    with_axes(asked).is_ok_and(|(asked, _)| Drift::all(contract, &asked).is_empty())
}

/// The newest session, where a typed `ar run` with slots continues it: it began at the very commit that HEAD's branch is at,
/// is not finalized, and has the terms that are asked for.
pub(crate) fn session_begun_here(repo: &Repo, wanted: &Wanted, head: &Head) -> Result<Option<Tag>, SessionError> {
    let Some(tag) = session_there(repo)? else { return Ok(None) };
    let Some(contract) = stored_contract(repo, &tag)?.filter(|contract| !contract.imported) else { return Ok(None) };
    let begun_here = match head {
        Head::Branch { name, commit } => contract.home() == (Some(name.as_str()), commit),
        Head::Detached { .. } | Head::Unborn { .. } => false,
    };
    if !begun_here || !has_slots(repo, wanted, &tag) || is_finalized(repo, &contract)? {
        return Ok(None);
    }
    Ok(has_terms(&contract, &wanted.all()).then_some(tag))
}

/// The branch to which the user's working tree goes back, so that a session can go on in slots whose branch, or the one
/// before it, is checked out; `None` where neither is, or where the branch is gone or used elsewhere. If it was begun, a kill
/// may have left it half done.
pub(crate) fn way_home(
    repo: &Repo,
    contract: &Contract,
    head: &Head,
    dirty: &[PathBuf],
    was_begun: bool,
) -> Result<Option<String>, SessionError> {
    let Head::Branch { name, .. } = head else { return Ok(None) };
    let former = contract.follows.as_ref().map(|follows| follows.tag.branch_ref());
    if *name != contract.tag.branch_ref() && Some(name) != former.as_ref() {
        return Ok(None);
    }
    if !dirty.is_empty() && !was_begun {
        return Err(SessionError::Dirty(dirty.to_vec()));
    }
    let Some(branch) = contract.home().0.map(str::to_owned) else { return Ok(None) };
    let is_there = repo.refs.branch(&branch)?.is_some() && repo.refs.checked_out_elsewhere(&branch)?.is_none();
    Ok(is_there.then_some(branch))
}

/// Switches the user's working tree back to their branch.
pub(crate) fn go_home(
    workspace: &mut Workspace,
    store: &mut Store,
    branch: Option<String>,
) -> Result<(), SessionError> {
    let at = match &branch {
        Some(branch) => store.repo.refs.branch(branch)?,
        None => None,
    };
    if let (Some(branch), Some(at)) = (branch, at) {
        store.journal.tree.go_home(Some(branch.clone()));
        store.write_journal()?;
        crash::point("home.noted");
        let head = workspace.repo.refs.head()?;
        workspace.restore(store, &at, head.commit().unwrap_or(&at))?;
        crash::point("home.put_back");
        workspace.repo.refs.point_head(&HeadTarget::Branch(branch))?;
        crash::point("home.head_pointed");
    }
    store.journal.tree.go_home(None);
    Ok(())
}
