//! The sessions of a repository: which one a command is about, which are active here or on another host, and the folder of
//! all of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;
use std::{fs, io};

use jiff::Timestamp;
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::{
    SESSIONS, is_session, no_session, parse_record, read_records, readable_refs, record_id, session_of_head,
    session_tags,
};
use crate::domain::{ExperimentId, Notice, Record, Tag, with_causes};
use crate::exec::{Executor, host_name};
use crate::fs::{FileStamp, age, free_beside, free_name, move_to};
use crate::git::Repo;
use crate::rules::{DriverClaim, OtherHost, Ownership, SessionSign, ownership, session_meant};
use crate::session::errors::SessionError;
use crate::state::{Journal, PROGRESS, Presence, SESSIONS_FOLDER, SessionFolder, StateError};

/// The reason why a session was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// It was named.
    Named,
    /// It is that of HEAD's branch.
    Head,
    /// There is no other.
    Only,
    /// Among this many sessions, an `ar` holds it.
    Active(usize),
    /// Among this many sessions, it has the latest activity.
    Newest(usize),
}

/// A session, and the reason why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its tag.
    pub tag: Tag,
    /// The reason.
    pub choice: Choice,
}

impl Chosen {
    /// Returns a notice about the choice if the user may have meant another session.
    pub fn notice(&self) -> Option<String> {
        let (why, of) = match self.choice {
            Choice::Named | Choice::Head | Choice::Only => return None,
            Choice::Active(of) => ("the active one", of),
            Choice::Newest(of) => ("the newest", of),
        };
        Some(format!("using session {}, {why} of {of}; pass --tag for another", self.tag))
    }
}

/// The session named, else that of HEAD's branch, else the active one, else the newest.
pub fn choose_session(repo: &Repo, tag: Option<Tag>) -> Result<Chosen, SessionError> {
    if let Some(tag) = tag {
        return if is_session(repo, &tag)? {
            Ok(Chosen { tag, choice: Choice::Named })
        } else {
            Err(no_session(repo, &tag))
        };
    }
    if let Some(tag) = session_of_head(&repo.refs.head()?)
        && is_session(repo, &tag)?
    {
        return Ok(Chosen { tag, choice: Choice::Head });
    }
    let mut tags = session_tags(repo)?;
    let of = tags.len();
    if of == 1 {
        return Ok(Chosen { tag: tags.remove(0), choice: Choice::Only });
    }
    let signs: Vec<SessionSign> = tags.iter().map(|tag| sign(repo, tag)).collect();
    let Some(place) = session_meant(&signs) else { return Err(SessionError::NoSession { tag: None, there: tags }) };
    let choice = if signs[place].is_active { Choice::Active(of) } else { Choice::Newest(of) };
    Ok(Chosen { tag: tags.remove(place), choice })
}

/// The same without the reason.
pub fn find_session(repo: &Repo, tag: Option<Tag>) -> Result<Tag, SessionError> {
    Ok(choose_session(repo, tag)?.tag)
}

/// The session that an invocation without a name is about, if there is any.
pub(crate) fn session_there(repo: &Repo) -> Result<Option<Tag>, SessionError> {
    match find_session(repo, None) {
        Err(SessionError::NoSession { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Gathers the signs of activity in a session. Unreadable data counts as no activity; the code that needs it reports the
/// error.
fn sign(repo: &Repo, tag: &Tag) -> SessionSign {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let journal = Journal::read(&folder.state()).ok().flatten();
    let presence = journal.as_ref().map(|journal| &journal.presence);
    let is_elsewhere = || driven_elsewhere(&folder, presence?).filter(|other| !other.is_missed());
    let shown = presence.map(Presence::last_seen);
    let recorded = || {
        let refs = repo.refs.refs_under(&tag.ref_prefix()).ok()?;
        let (_, name) = refs.iter().filter_map(|(name, _)| Some((record_id(name, tag)?, name))).max()?;
        let newest = repo.refs.record(name).ok()??;
        Some(parse_record(&newest.name, &newest.message).ok()?.origin.finished)
    };
    SessionSign {
        is_active: folder.owner(repo.git_dir()).is_ok_and(|owner| owner.is_some()) || is_elsewhere().is_some(),
        last_activity: shown.max(recorded()),
    }
}

/// Poll interval for signs of life of another host.
const LOOK: Duration = Duration::from_secs(10);

/// The other host on which a session was opened last, whether or not a process is still active there. `presence` is that of
/// its journal.
pub(crate) fn opened_elsewhere(folder: &SessionFolder, presence: &Presence) -> Option<OtherHost> {
    let claim = DriverClaim { is_active: true, ..presence.claim(Duration::ZERO) };
    other_host(folder, presence, claim)
}

/// The other host on which a process may drive a session whose lock nobody holds here.
pub(crate) fn driven_elsewhere(folder: &SessionFolder, presence: &Presence) -> Option<OtherHost> {
    other_host(folder, presence, presence.claim(Duration::ZERO))
}

fn other_host(folder: &SessionFolder, presence: &Presence, claim: DriverClaim<'_>) -> Option<OtherHost> {
    let here = host_name();
    // The age is asked for only where it matters.
    if ownership(false, &claim, &here) == Ownership::Free {
        return None;
    }
    // The clocks of two hosts differ, so the one of the file system decides.
    let by_clocks = || Timestamp::now().duration_since(presence.last_seen()).try_into().unwrap_or_default();
    let seen = age(&folder.state().join(PROGRESS)).unwrap_or_else(by_clocks);
    match ownership(false, &DriverClaim { seen, ..claim }, &here) {
        Ownership::Elsewhere(other) => Some(other),
        Ownership::Free | Ownership::Held => None,
    }
}

/// Refuses a session that a process of another host may drive, unless it missed its signs of life or the user says to
/// `take_over`. Returns the host that it is taken over from. Call it once nobody holds the lock here.
pub(crate) fn refuse_elsewhere(folder: &SessionFolder, take_over: bool) -> Result<Option<OtherHost>, SessionError> {
    // The code that needs an unreadable journal reports it.
    let journal = Journal::read(&folder.state()).ok().flatten();
    let other = journal.and_then(|journal| driven_elsewhere(folder, &journal.presence));
    match other {
        Some(other) if !take_over && !other.is_missed() => {
            Err(SessionError::Elsewhere { tag: folder.tag().clone(), other })
        }
        other => Ok(other),
    }
}

/// Waits until no process of another host may drive a session any more, as its signs of life tell. Calls `tell` with that host first.
pub fn await_other_host(repo: &Repo, tag: &Tag, tell: impl Fn(&OtherHost)) {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let mut is_told = false;
    while let Err(SessionError::Elsewhere { other, .. }) = refuse_elsewhere(&folder, false) {
        if !is_told {
            tell(&other);
            is_told = true;
        }
        sleep(other.wait.min(LOOK));
    }
}

/// Returns whether a process drives a session, on this host or, as far as its signs of life tell, on another one.
///
/// # Errors
///
/// A lock cannot be read.
pub(crate) fn is_driven(repo: &Repo, folder: &SessionFolder) -> Result<bool, StateError> {
    Ok(folder.owner(repo.git_dir())?.is_some() || refuse_elsewhere(folder, false).is_err())
}

/// The folders of all sessions that have one, deleted ones included.
pub(crate) fn session_folders(repo: &Repo) -> impl Iterator<Item = SessionFolder> {
    let folders = fs::read_dir(repo.main_worktree().join(SESSIONS_FOLDER)).into_iter().flatten().flatten();
    let tags = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<Tag>().ok());
    tags.map(|tag| SessionFolder::new(repo.main_worktree(), &tag))
}

/// The sessions as they were at one moment.
#[derive(Debug)]
pub(crate) struct HeldSessions {
    /// For each session, whether a process held it, and the stamp of its lock file.
    sessions: BTreeMap<Tag, (bool, Option<FileStamp>)>,
}

impl HeldSessions {
    /// Looks at all that have a folder.
    pub(crate) fn look(repo: &Repo) -> Self {
        let look = |folder: SessionFolder| {
            let seen = (is_held(repo, &folder), FileStamp::of(&folder.lock_path()));
            (folder.tag().clone(), seen)
        };
        HeldSessions { sessions: session_folders(repo).map(look).collect() }
    }

    /// Returns whether a session has been idle since that moment: its lock was not held then, is not held now, and was not
    /// touched meanwhile.
    pub(crate) fn was_nobodys(&self, repo: &Repo, tag: &Tag) -> bool {
        let folder = SessionFolder::new(repo.main_worktree(), tag);
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
                        Ok(record) if record.origin.imported.is_some() => {}
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
    let is_record = record.is_some_and(|record| record.tag == *tag);
    // The session's own process may have deleted it by now.
    Ok(!is_record && readable_refs(repo, &tag.ref_prefix())?.iter().any(|(known, _)| known == name))
}

/// The former state of the folder: its path, link target and entries.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    path: PathBuf,
    /// The target, if a symlink was at the path: the user may keep the sessions elsewhere.
    link: Option<PathBuf>,
    names: Vec<OsString>,
}

/// Returns whether this process seems to be a job behind a wall: the folder of sessions is read-only. Variables prove
/// nothing, and a read-only disk looks the same.
pub fn is_behind_wall(repo: &Repo) -> bool {
    let folder = repo.main_worktree().join(SESSIONS_FOLDER);
    statvfs(folder).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
}

impl OwnFolder {
    /// Looks at it.
    pub(crate) fn look(path: PathBuf) -> OwnFolder {
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        OwnFolder { link: fs::read_link(&path).ok(), names: entries.map(|entry| entry.file_name()).collect(), path }
    }

    /// Returns whether another link or a file is at the path now.
    fn is_replaced(&self) -> bool {
        let now = fs::symlink_metadata(&self.path);
        now.is_ok_and(|now| !now.is_dir() && (!now.is_symlink() || fs::read_link(&self.path).ok() != self.link))
    }

    /// Restores the folder if a link or a file replaced it, and moves back its entries that are where the new link leads.
    /// Returns where the new link led, or the path to which the file was moved.
    pub(crate) fn restore(&self) -> io::Result<Option<PathBuf>> {
        if !self.is_replaced() {
            return Ok(None);
        }
        let led = self.path.canonicalize().ok().filter(|led| *led != self.path);
        let aside = free_beside(&self.path, ".replaced");
        fs::rename(&self.path, &aside)?;
        match &self.link {
            Some(link) => std::os::unix::fs::symlink(link, &self.path)?,
            None => fs::create_dir(&self.path)?,
        }
        // Entries that cannot be moved back are rebuilt from this process's memory.
        for name in self.names.iter().filter(|_| led.is_some()) {
            let (from, to) = (led.as_ref().unwrap_or(&aside).join(name), self.path.join(name));
            if fs::symlink_metadata(&to).is_err() && fs::symlink_metadata(&from).is_ok() {
                let _ = move_to(&from, &to);
            }
        }
        if fs::symlink_metadata(&aside)?.is_symlink() {
            fs::remove_file(&aside)?;
            return Ok(Some(led.unwrap_or(aside)));
        }
        // A file beside the folder would be a part of the change.
        let kept = free_name(&self.path.join("replaced"));
        move_to(&aside, &kept)?;
        Ok(Some(kept))
    }
}
