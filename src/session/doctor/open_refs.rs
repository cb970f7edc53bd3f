//! Remains of experiments that were open at the same time: refs of their commits, and linked working trees.

use std::fs;
use std::path::{Path, PathBuf};

use super::difference::{Difference, Repair};
use super::facts::{Facts, REPAIR};
use super::repository;
use super::sessions::finding_of;
use crate::domain::{Area, CommitId, ExperimentId, Finding, Phase, experiment_name};
use crate::git::Repo;
use crate::session::attempt::review_tree;
use crate::session::errors::SessionError;
use crate::state::Journal;

/// Lists commits and working trees that are no longer needed. The repair saves the commits to refs. Finds nothing while
/// the session is active or its journal is unreadable.
pub(crate) fn inspect(repo: &Repo, facts: &Facts) -> Vec<Difference> {
    if facts.holder.is_some() || repository::in_the_way(repo).is_some() || !facts.has_files() {
        return Vec::new();
    }
    let looked = left_refs(repo, facts).and_then(|refs| Ok((refs, left_trees(repo, facts)?)));
    let (refs, trees) = match looked {
        Ok(found) => found,
        Err(error) => return vec![finding_of(Area::Journal, &error).into()],
    };
    let refs = refs.into_iter().map(|(id, name, commit)| {
        let what = format!("{name} keeps a commit of {}, which is neither open nor recorded", experiment_name(id));
        let finding = Finding::warning(Area::Refs, what).hint(format!("{REPAIR} moves it to the saved work"));
        Difference::new(finding, Repair::Save { id, name, commit })
    });
    let trees = trees.into_iter().map(|tree| {
        let what = format!("the working tree {} was left behind; nothing is open in it", tree.display());
        Difference::new(Finding::warning(Area::Journal, what), Repair::Tree(tree))
    });
    refs.chain(trees).collect()
}

/// The refs of attempts that the journal does not have, each with its experiment and commit.
fn left_refs(repo: &Repo, facts: &Facts) -> Result<Vec<(ExperimentId, String, CommitId)>, SessionError> {
    let Some(open) = facts.known_journal().map(Journal::open_ids) else { return Ok(Vec::new()) };
    let prefix = format!("{}/open", facts.tag.ref_prefix());
    let found = repo.refs.readable_refs_under(&prefix)?.into_iter().filter_map(|(name, object)| {
        let id: ExperimentId = name.strip_prefix(&prefix)?.strip_prefix('/')?.parse().ok()?;
        let is_known = open.contains(&id) || facts.refs.iter().any(|it| it.id == id);
        let commit = CommitId::new(object);
        // One that is lost has no commit that could be moved.
        (!is_known && repo.objects.has_commit(&commit)).then_some((id, name, commit))
    });
    Ok(found.collect())
}

/// The linked working trees in the session's folder, registered or not, in whose slot or seat no attempt is open.
fn left_trees(repo: &Repo, facts: &Facts) -> Result<Vec<PathBuf>, SessionError> {
    let Some(journal) = facts.known_journal() else { return Ok(Vec::new()) };
    let above = facts.folder.trees();
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let mut trees: Vec<PathBuf> =
        fs::read_dir(&above).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    trees.retain(|path| is_folder(path));
    let real = above.canonicalize().unwrap_or_else(|_| above.clone());
    let registered = repo.linked_worktrees()?.into_iter().map(|(_, root)| root);
    // Git still lists a tree after its folder was deleted.
    trees.extend(registered.filter_map(|root| {
        let name = root.strip_prefix(&above).or_else(|_| root.strip_prefix(&real)).ok()?;
        Some(above.join(name))
    }));
    trees.sort();
    trees.dedup();
    let used: Vec<PathBuf> = journal
        .steps()
        .filter_map(|(phase, open)| match phase {
            Phase::Proposing => open.seat.map(|seat| facts.folder.seat(seat)),
            Phase::Running | Phase::Guarding | Phase::Confirming => {
                open.beside.slot.map(|slot| facts.folder.slot(slot))
            }
            Phase::Reviewing => Some(review_tree(&facts.folder, open.id)),
            _ => None,
        })
        .collect();
    trees.retain(|tree| !used.contains(tree));
    Ok(trees)
}
