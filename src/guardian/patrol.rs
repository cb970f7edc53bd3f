//! One patrol: look at each session, decide, act, and leave a beat.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::GuardianError;
use super::acts::{nudge, restart, said_by_resume};
use super::ensure::ensure_resident;
use super::facts::look;
use super::service_error::ServiceError;
use super::sessions::{all_sessions, sessions_at};
use crate::domain::{Clock, FORMAT_VERSION, Tag, exact_time, with_causes};
use crate::fs::{create_folder, failed, is_disk_full, lock_within, write_atomic};
use crate::rules::{GuardianAction, Health, PatrolVerdict, Thresholds, patrol};
use crate::state::{GuardianFiles, GuardianLine, StateError, guardian_folder};

/// Time that a patrol waits for another one, which may have to terminate a hanging agent.
const TURN: Duration = Duration::from_secs(60);

/// The outcome of a patrol for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patrolled {
    /// The main worktree of its repository.
    pub repository: PathBuf,
    /// The session.
    pub tag: Tag,
    /// Its state, and what was done.
    pub verdict: PatrolVerdict,
}

/// The outcome of a patrol.
#[derive(Debug)]
pub struct PatrolReport {
    /// The sessions, in the order in which they were looked at.
    pub sessions: Vec<Patrolled>,
    /// Success if the resident guard runs or none is wanted; otherwise the reason.
    pub resident: Result<(), ServiceError>,
    /// Success if the patrol could write its record; otherwise the reason, such as a full disk. On failure, it did nothing
    /// that it had to record first.
    pub noted: Result<(), StateError>,
}

/// A patrol that can be made.
#[derive(Debug, Clone)]
pub struct Patrol {
    /// The user's folder.
    pub user: PathBuf,
    /// When a session is stalled or stuck.
    pub thresholds: Thresholds,
    /// The command of nudges; the loop's own agent where absent, and nobody for sessions driven by hand.
    pub nudge: Option<String>,
    /// The time of day.
    pub clock: Clock,
}

impl Patrol {
    /// Patrols the sessions of the repositories at `paths`, or without any all that are registered. Then starts the resident
    /// guard again, if one is wanted and gone.
    ///
    /// # Errors
    ///
    /// Another patrol does not end, a path is in no repository, or the guardians' own files cannot be written, but for lack of
    /// room. What is wrong with one session stands in its verdict.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O enabled.
    pub async fn make(&self, paths: &[PathBuf]) -> Result<PatrolReport, GuardianError> {
        let folder = guardian_folder(&self.user);
        let begun = create_folder(&folder).map_err(|error| StateError::from(error).into());
        let (_turn, no_room) = match begun.and_then(|()| take_turn(&folder)) {
            Ok(turn) => (Some(turn), None),
            // Without a turn nothing is done that another patrol might do as well.
            Err(GuardianError::State(error)) if is_disk_full(&error) => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let can_act = no_room.is_none();
        let sessions = if paths.is_empty() { all_sessions(&self.user)? } else { sessions_at(paths)? };
        let mut patrolled = Vec::new();
        for (repository, tag) in sessions {
            if let Some(verdict) = self.see_to(&repository, &tag, can_act).await {
                patrolled.push(Patrolled { repository, tag, verdict });
            }
        }
        let resident = if can_act { ensure_resident().map(drop) } else { Ok(()) };
        // The beat is the last act: whoever reads it knows that the rest was done.
        let beat = json!({"version": FORMAT_VERSION, "at": exact_time(self.clock.now())});
        // On one line, for shell scripts.
        let noted = match no_room {
            Some(error) => Err(error),
            None => write_atomic(&folder.join("patrol.json"), format!("{beat}\n").as_bytes()).map_err(StateError::from),
        };
        match noted {
            Err(error) if !is_disk_full(&error) => Err(error.into()),
            noted => Ok(PatrolReport { sessions: patrolled, resident, noted }),
        }
    }

    /// Looks at one session and does what is to be done; `None` for one that is only being opened.
    async fn see_to(&self, repository: &Path, tag: &Tag, can_act: bool) -> Option<PatrolVerdict> {
        let now = self.clock.now();
        let seen = match look(repository, tag, self.nudge.as_deref(), now) {
            Ok(Some(seen)) => seen,
            Ok(None) => return None,
            Err(error) => return Some(unreadable(&with_causes(&error))),
        };
        let files = GuardianFiles::new(&self.user, repository, tag);
        let before = match files.memory() {
            Ok(memory) => memory,
            Err(error) => return Some(unnoted(&with_causes(&error))),
        };
        let mut memory = before.clone();
        let mut verdict = patrol(&seen.watched, self.thresholds, &mut memory);
        if verdict.state == Health::Dead
            && !before.deaths.is_empty()
            && let Some(said) = said_by_resume(&files)
        {
            verdict.detail += &format!("; the last restart said: {said}");
        }
        let remembered = match memory != before {
            true if !can_act => Err(None),
            true => files.remember(&memory, line(&verdict, now).as_ref()).map_err(Some),
            false => Ok(()),
        };
        match remembered {
            Ok(()) => {}
            Err(Some(error)) if !is_disk_full(&error) => return Some(unnoted(&with_causes(&error))),
            Err(_) => return Some(without_room(verdict)),
        }
        let done = match verdict.action {
            GuardianAction::Restart => restart(&seen, tag, &files),
            GuardianAction::Nudge => nudge(&seen, tag, &files, &verdict.detail).await,
            GuardianAction::None | GuardianAction::Redirect => Ok(()),
        };
        if let Err(why) = done {
            verdict.detail += &format!("; {why}");
            verdict.needs_person = true;
        }
        Some(verdict)
    }
}

/// The line about what is done, if anything is.
fn line(verdict: &PatrolVerdict, ts: Timestamp) -> Option<GuardianLine> {
    let action = verdict.action;
    let line = || GuardianLine { version: FORMAT_VERSION, ts, action, detail: verdict.detail.clone() };
    (action != GuardianAction::None).then(line)
}

/// The verdict on a session whose files cannot be read.
fn unreadable(why: &str) -> PatrolVerdict {
    let detail = format!("cannot be read: {why}; run `ar doctor`");
    PatrolVerdict { state: Health::Stuck, action: GuardianAction::None, needs_person: true, detail }
}

/// The verdict on a session about which nothing can be read or noted among the guardians' own files: nothing is done, as it
/// might be done again and again.
fn unnoted(why: &str) -> PatrolVerdict {
    let detail = format!("the guard's own files: {why}; remove what is named there");
    PatrolVerdict { state: Health::Stuck, action: GuardianAction::None, needs_person: true, detail }
}

/// The verdict where nothing can be noted for lack of room: nothing is done.
fn without_room(verdict: PatrolVerdict) -> PatrolVerdict {
    match verdict.action {
        GuardianAction::None => verdict,
        action => PatrolVerdict {
            action: GuardianAction::None,
            detail: format!("{}; no {action}: the disk of the guard's own files is full", verdict.detail),
            ..verdict
        },
    }
}

/// Waits until no other patrol is active; the turn ends with the file.
fn take_turn(folder: &Path) -> Result<File, GuardianError> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let file = file.map_err(failed("open", &path)).map_err(StateError::from)?;
    match lock_within(&file, TURN).map_err(failed("lock", &path)).map_err(StateError::from)? {
        true => Ok(file),
        false => Err(GuardianError::Busy(path)),
    }
}
