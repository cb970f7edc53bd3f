//! The repository itself: its folders, `HEAD`, index, locks, and entries of linked working trees.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::facts::{Facts, REPAIR, finding_of};
use crate::domain::{Area, Finding, shell_word, with_causes};
use crate::fs::move_command;
use crate::git::{GitError, Head, HeadTarget, LinkedEntry, LockFile, LockOwner, Oddity, Repo};
use crate::ledger::RESULTS;
use crate::session::errors::SessionError;
use crate::session::files::{TEMPORARY, is_behind_wall, refuse_tracked};
use crate::session::handlers::{command_worktrees, worktree_mark};
use crate::state::SESSIONS_FOLDER;

/// The age from which on a lock of another program is taken for one that was left behind.
const OLD: Duration = Duration::from_secs(60);

/// Looks at the repository.
pub(crate) fn inspect(repo: &Repo, sessions: &[Facts]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut take = |area, looked: Result<Vec<Finding>, SessionError>| match looked {
        Ok(findings) => found.extend(findings),
        Err(error) => found.push(finding_of(area, &error)),
    };
    take(Area::Repository, head(repo, sessions));
    take(Area::Repository, operation(repo));
    take(Area::Repository, index(repo));
    take(Area::Repository, packed_refs(repo));
    take(Area::Repository, repo.working_tree.refuse_odd_files().map(|()| Vec::new()).map_err(SessionError::from));
    take(Area::Repository, locks(repo));
    take(Area::Repository, Ok(folders(repo)));
    take(Area::Repository, inspect_entries(repo));
    take(
        Area::Repository,
        command_worktrees(repo, true)
            .map(|left| left.iter().map(|(git_dir, dir)| left_worktree(git_dir, dir)).collect()),
    );
    if found.is_empty() {
        let at = match repo.refs.head() {
            Ok(Head::Branch { name, commit }) => {
                format!("HEAD is on {} at {}", name.trim_start_matches("refs/heads/"), commit.short(8))
            }
            Ok(Head::Detached { commit }) => format!("HEAD is at {}", commit.short(8)),
            _ => "HEAD is readable".to_owned(),
        };
        found.push(Finding::ok(Area::Repository, at));
    }
    found
}

fn head(repo: &Repo, sessions: &[Facts]) -> Result<Vec<Finding>, SessionError> {
    match repo.refs.head() {
        Ok(Head::Unborn { name }) if sessions.iter().all(|facts| facts.tag.branch_ref() != name) => {
            Err(GitError::Unborn(name).into())
        }
        // A branch of a session that is lost or torn is found with its refs.
        Err(_) if sessions.iter().any(|facts| !facts.broken.is_empty()) => Ok(Vec::new()),
        Err(error) if repo.refs.torn_head().is_some() && head_before(repo, sessions.iter())?.is_some() => {
            Ok(vec![Finding::error(Area::Repository, with_causes(&error)).hint(REPAIR)])
        }
        Err(error) => {
            let branch = sessions.first().map_or("refs/heads/BRANCH".to_owned(), |facts| facts.tag.branch_ref());
            let head = repo.git_dir().join("HEAD");
            Ok(vec![
                Finding::error(Area::Repository, with_causes(&error))
                    .hint(format!("echo 'ref: {branch}' > {}", shell_word(&head))),
            ])
        }
        Ok(_) => Ok(Vec::new()),
    }
}

fn operation(repo: &Repo) -> Result<Vec<Finding>, SessionError> {
    match repo.operation_name()? {
        Some(name) => Err(GitError::InProgress(name).into()),
        None => Ok(Vec::new()),
    }
}

fn index(repo: &Repo) -> Result<Vec<Finding>, SessionError> {
    match repo.check_index() {
        Ok(()) => {}
        Err(error @ GitError::Git { .. }) => {
            let aside = move_command(&repo.index.path(), ".damaged");
            let finding = Finding::error(Area::Repository, with_causes(&error));
            return Ok(vec![finding.hint(format!("rebuild it from HEAD: {aside} && git reset --quiet"))]);
        }
        Err(error) => return Err(error.into()),
    }
    refuse_tracked(repo, [RESULTS.into()]).map(|()| Vec::new())
}

fn packed_refs(repo: &Repo) -> Result<Vec<Finding>, SessionError> {
    let Some(line) = repo.refs.broken_packed_line()? else { return Ok(Vec::new()) };
    let path = repo.common_dir().join("packed-refs");
    let what = format!("line {line} of {} does not name a ref", path.display());
    let look = format!("look with `sed -n {line}p {}`, and decide what that line should be", shell_word(&path));
    Ok(vec![Finding::damaged(Area::Repository, what).hint(look)])
}

fn locks(repo: &Repo) -> Result<Vec<Finding>, SessionError> {
    let finding = |lock: LockFile| {
        let path = lock.path.display();
        let age = lock.age.map(|age| format!(", {} s old", age.as_secs())).unwrap_or_default();
        match lock.owner {
            LockOwner::Dead => {
                Finding::error(Area::Repository, format!("{path} was left behind by a killed ar{age}")).hint(REPAIR)
            }
            LockOwner::Alive => Finding::ok(Area::Repository, format!("an active ar holds {path}")),
            LockOwner::Other => {
                let hint =
                    format!("wait for the git process that made it; if there is none: rm {}", shell_word(&lock.path));
                let what = format!("{path} belongs to another program{age}");
                let is_old = lock.age.is_none_or(|age| age >= OLD);
                let finding = if is_old { Finding::error } else { Finding::warning };
                finding(Area::Repository, what).hint(hint)
            }
        }
    };
    Ok(repo.locks()?.into_iter().map(finding).collect())
}

/// Returns whether a mark is a command with `--holdout` whose words are tags and experiments.
fn is_fresh(mark: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || " :._-/".contains(c);
    ["verify ", "ablate "].iter().any(|command| mark.starts_with(command)) && mark.chars().all(is_word)
}

fn left_worktree(git_dir: &Path, dir: &Path) -> Finding {
    let what = format!("a killed `ar repro`, `verify` or `ablate` left the working tree {} behind", dir.display());
    Finding::warning(Area::Repository, what).hint(match worktree_mark(git_dir).as_str() {
        TEMPORARY => REPAIR.to_owned(),
        "" => format!("git worktree remove --force {}", shell_word(dir)),
        command if is_fresh(command) => format!("repeat `ar {command} --holdout`, which goes on"),
        // Somebody else wrote it.
        _ => "repeat `ar verify --holdout` for the same pair, which goes on".to_owned(),
    })
}

fn own_folder(repo: &Repo) -> PathBuf {
    repo.main_worktree().join(SESSIONS_FOLDER)
}

/// A non-directory at the path of `.autoresearch`.
pub(crate) fn in_the_way(repo: &Repo) -> Option<Finding> {
    let own = own_folder(repo);
    let meta = fs::symlink_metadata(&own).ok().filter(|_| !own.is_dir())?;
    let what = if meta.is_symlink() { "is a link that does not lead to a folder" } else { "is not a folder" };
    let hint = format!("move it aside with `{}`; then {REPAIR}", move_command(&own, ".old"));
    Some(Finding::error(Area::Repository, format!("{} {what}", own.display())).hint(hint))
}

/// The folders that must be folders and be written to.
fn folders(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut dirs: Vec<PathBuf> =
        vec![repo.git_dir().to_owned(), repo.common_dir().join("objects"), repo.worktree().to_owned()];
    match in_the_way(repo) {
        Some(finding) => found.push(finding),
        // In a job of a loop it is read-only, and the working tree is not.
        None => dirs.extend(Some(own_folder(repo)).filter(|own| own.exists() && !is_behind_wall(repo))),
    }
    for dir in dirs {
        // A file without a name: nothing is to be seen of it.
        if let Err(error) = tempfile::tempfile_in(&dir) {
            let what = format!("{} cannot be written to: {error}", dir.display());
            found.push(
                Finding::error(Area::Repository, what)
                    .hint(format!("run `ls -ld {}` to see the owner", shell_word(&dir))),
            );
        }
    }
    let link = repo.worktree().join("run.log");
    if fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_symlink()) && !link.exists() {
        let what = "run.log leads to a missing log; the next run replaces it";
        found.push(Finding::warning(Area::Repository, what));
    }
    found
}

/// Lists odd entries. Git and sessions skip most of them.
pub(crate) fn inspect_entries(repo: &Repo) -> Result<Vec<Finding>, SessionError> {
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
