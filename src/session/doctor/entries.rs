//! Traces of a crash in git's own folder: a torn `HEAD`, and odd entries of linked working trees.

use super::facts::Facts;
use crate::domain::{Area, Finding, shell_word};
use crate::git::{HeadTarget, LinkedEntry, Oddity, Repo};
use crate::session::errors::SessionError;

/// Lists odd entries. Git and sessions skip most of them.
pub(crate) fn inspect(repo: &Repo) -> Result<Vec<Finding>, SessionError> {
    let entries = repo.linked_entries()?.into_iter();
    let finding = |entry: LinkedEntry| Some(finding(repo, &entry, entry.oddity?));
    let mut found = entries.filter_map(finding).collect::<Result<Vec<_>, _>>()?;
    let all = repo.common_dir().join("worktrees");
    if all.symlink_metadata().is_ok() && !all.is_dir() {
        let what = format!("{} is not a folder", all.display());
        found.push(Finding::warning(Area::Repository, what).hint(format!("remove it: rm {}", shell_word(&all))));
    }
    Ok(found)
}

fn finding(repo: &Repo, entry: &LinkedEntry, oddity: Oddity) -> Result<Finding, SessionError> {
    let path = entry.path.display();
    Ok(match oddity {
        Oddity::NoFolder => {
            let what = format!("{path} is not a folder; git would prune it");
            Finding::warning(Area::Repository, what).hint("git worktree prune")
        }
        Oddity::NoPlace if entry.is_locked => {
            let what = format!("{path} is locked and names no working tree; git keeps it");
            let hint = format!(
                "git worktree repair PATH, with the path of its working tree; if that no longer exists: rm -r {}",
                shell_word(&entry.path)
            );
            Finding::warning(Area::Repository, what).hint(hint)
        }
        Oddity::NoPlace => {
            let what = format!("{path} names no working tree; git would prune it");
            let hint =
                "git worktree repair PATH, with the path of its working tree; if that is gone: git worktree prune";
            Finding::warning(Area::Repository, what).hint(hint)
        }
        Oddity::NoCommonDir => {
            let what = format!("{path}/commondir does not lead to {}", repo.common_dir().display());
            let hint = format!("echo ../.. > {}", shell_word(&entry.path.join("commondir")));
            Finding::error(Area::Repository, what).hint(hint)
        }
        Oddity::NoHead => {
            let head = match repo.refs.logged_head_at(&entry.path)? {
                Some(HeadTarget::Branch(name)) => format!("ref: {name}"),
                Some(HeadTarget::Detached(commit)) => commit.to_string(),
                None => "ref: refs/heads/BRANCH".to_owned(),
            };
            let what = format!("{path}/HEAD names neither branch nor commit");
            let hint = format!("echo '{head}' > {}", shell_word(&entry.path.join("HEAD")));
            Finding::error(Area::Repository, what).hint(hint)
        }
    })
}

/// The target to which a torn `HEAD` is restored: the last one in its log, else the branch of the only session that was
/// active in this working tree.
pub(crate) fn head_before<'a>(
    repo: &Repo,
    sessions: impl Iterator<Item = &'a Facts>,
) -> Result<Option<HeadTarget>, SessionError> {
    if let Some(at) = repo.refs.logged_head()? {
        return Ok(Some(at));
    }
    let is_active = |facts: &&Facts| facts.known_journal().is_some_and(|it| it.is_active_in(repo.worktree()));
    let mut active = sessions.filter(is_active);
    let branch = active.next().map(|facts| facts.tag.branch_ref()).filter(|_| active.next().is_none());
    let branch = branch.filter(|branch| repo.refs.has_ref(branch).unwrap_or(false));
    Ok(branch.map(HeadTarget::Branch))
}

/// Restores a torn `HEAD`.
pub(crate) fn repair_head<'a>(
    repo: &Repo,
    sessions: impl Iterator<Item = &'a Facts>,
    done: &mut Vec<String>,
) -> Result<(), SessionError> {
    if let Some(torn) = repo.refs.torn_head()
        && let Some(at) = head_before(repo, sessions)?
    {
        let aside = repo.refs.repair_head(&torn, &at)?;
        done.push(format!("put HEAD back to {at}; what it was is in {}", aside.display()));
    }
    Ok(())
}
