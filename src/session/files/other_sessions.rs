//! The other sessions of the repository: their records, as far as they can be read, and whether anybody is at work on them.

use std::collections::BTreeMap;
use std::fs;

use super::ownership::refuse_elsewhere;
use super::reading::{SESSIONS, parse_record, read_records, readable_refs, session_tags};
use crate::domain::{ExperimentId, Notice, Record, Tag, with_causes};
use crate::exec::Executor;
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::session::errors::SessionError;
use crate::state::{SESSIONS_FOLDER, SessionFolder};

/// The sessions as they were at one moment.
#[derive(Debug)]
pub(crate) struct HeldSessions {
    /// For each session, whether a process held it, and the stamp of its lock file.
    sessions: BTreeMap<Tag, (bool, Option<FileStamp>)>,
}

impl HeldSessions {
    /// Looks at all that have a folder.
    pub(crate) fn look(repo: &Repo) -> Self {
        let folders = fs::read_dir(repo.main_worktree().join(SESSIONS_FOLDER)).into_iter().flatten().flatten();
        let tags = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<Tag>().ok());
        let look = |tag: Tag| {
            let folder = SessionFolder::new(&repo.main_worktree(), &tag);
            let seen = (is_held(repo, &folder), FileStamp::of(&folder.lock_path()));
            (tag, seen)
        };
        HeldSessions { sessions: tags.map(look).collect() }
    }

    /// Returns whether a session has been idle since that moment: its lock was not held then, is not held now, and was not
    /// touched meanwhile.
    pub(crate) fn was_nobodys(&self, repo: &Repo, tag: &Tag) -> bool {
        let folder = SessionFolder::new(&repo.main_worktree(), tag);
        let (was_held, stamp) = self.sessions.get(tag).copied().unwrap_or_default();
        !was_held && FileStamp::of(&folder.lock_path()) == stamp && !is_held(repo, &folder)
    }
}

/// Returns whether a process holds a session, in any working tree or on another host. A session whose lock is unreadable counts as held.
fn is_held(repo: &Repo, folder: &SessionFolder) -> bool {
    let Ok(git_dirs) = repo.git_dirs() else { return true };
    git_dirs.iter().any(|git_dir| !matches!(folder.owner(git_dir), Ok(None)))
        || refuse_elsewhere(folder, false).is_err()
}

/// Returns whether a run, an agent or a guard of a session is still running.
pub(crate) fn has_job(folder: &SessionFolder) -> bool {
    Executor::of_any().busy_in(&folder.runs()).next().is_some()
}

/// The session in the name of a ref.
pub(crate) fn tag_of(name: &str) -> Option<Tag> {
    name.strip_prefix(SESSIONS)?.strip_prefix('/')?.split_once('/')?.0.parse().ok()
}

/// The records of other sessions.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// Those that can be read.
    pub(crate) sessions: Vec<(Tag, Vec<Record>)>,
    /// Notices about unreadable records. They affect no decision here; `ar doctor` examines them in their own session.
    pub(crate) troubles: Vec<Notice>,
}

/// The records of all sessions but `own`, without those that were imported.
pub(crate) fn other_records(repo: &Repo, own: &Tag) -> Result<Others, SessionError> {
    let mut others = Others::default();
    for tag in session_tags(repo)?.into_iter().filter(|tag| tag != own) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        match read_records(repo, &tag) {
            Ok(records) => {
                for record in records {
                    match record {
                        // Its row is in a ledger of others.
                        Ok(record) if record.imported.is_some() => {}
                        Ok(record) => good.push(record),
                        Err(error) => bad.push(error),
                    }
                }
            }
            Err(error) => bad.push(error),
        }
        let words = |error| Notice::RecordSkipped { tag: tag.clone(), why: with_causes(&error) };
        others.troubles.extend(bad.into_iter().map(words));
        others.sessions.push((tag, good));
    }
    Ok(others)
}

/// Returns whether a ref of another session is unexpected. Expected are a record of that session under its number, and
/// saved, open and merged commits, and what fresh runs said.
pub(crate) fn is_odd_ref(repo: &Repo, tag: &Tag, name: &str) -> Result<bool, SessionError> {
    let rest = name.strip_prefix(&format!("{}/", tag.ref_prefix())).unwrap_or(name);
    if let Some(number) = ["saved/", "open/", "merged/"].iter().find_map(|folder| rest.strip_prefix(folder)) {
        // An experiment may have several commits that were merged: `00012-2`.
        let number = number.split_once('-').filter(|_| rest.starts_with("merged/")).map_or(number, |(id, _)| id);
        return Ok(number.parse::<ExperimentId>().is_err());
    }
    if ["verified/", "ablated/"].iter().any(|folder| rest.starts_with(folder)) {
        return Ok(false);
    }
    let record = repo.refs.record(name).ok().flatten().and_then(|it| parse_record(name, &it.message).ok());
    let is_record = record.is_some_and(|record| record.tag == *tag && tag.record_ref(record.id) == name);
    // The session's own process may have deleted it by now.
    Ok(!is_record && readable_refs(repo, &tag.ref_prefix())?.iter().any(|(known, _)| known == name))
}
