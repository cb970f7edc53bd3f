//! `ar status`: sessions as people see them, together with the commits on their branches that belong to no experiment.

use std::path::{Path, PathBuf};

use crate::domain::{Clock, Tag, with_causes};
use crate::git::Repo;
use crate::report::SessionStatus;
use crate::rules::{Activity, UnrecordedTip};
use crate::session::errors::SessionError;
use crate::session::files::{Choice, choose_session, session_tags};
use crate::session::plan::unrecorded_tip;
use crate::session::view::StatusReader;
use crate::state::SessionFolder;

/// Looks at the session that `tag` names, or else the one of HEAD's branch; without either at all there are.
///
/// # Errors
///
/// When there is no session, or git cannot read its refs. Damaged state files and records are none: the result names them.
pub fn inspect_sessions(dir: &Path, tag: Option<Tag>, clock: Clock) -> Result<Vec<SessionStatus>, SessionError> {
    let repo = Repo::discover(dir)?;
    let chosen = choose_session(&repo, tag)?;
    let tags = match chosen.choice {
        Choice::Active(_) | Choice::Newest(_) => session_tags(&repo)?,
        Choice::Named | Choice::Head | Choice::Only => vec![chosen.tag],
    };
    tags.iter().map(|tag| StatusWatcher::new(&repo, tag.clone(), clock).look()).collect()
}

/// Reads the status of sessions in several repositories, named by main worktree and tag. Skips unreadable ones, and returns
/// a sentence about each as the second part.
pub fn inspect_all(sessions: Vec<(PathBuf, Tag)>, clock: Clock) -> (Vec<(PathBuf, SessionStatus)>, Vec<String>) {
    let (mut seen, mut troubles) = (Vec::new(), Vec::new());
    for (repository, tag) in sessions {
        let looked = Repo::discover(&repository)
            .map_err(SessionError::from)
            .and_then(|repo| StatusWatcher::new(&repo, tag.clone(), clock).look());
        match looked {
            Ok(status) => seen.push((repository, status)),
            Err(error) => {
                troubles.push(format!("skipped session {tag} in {}: {}", repository.display(), with_causes(&error)));
            }
        }
    }
    (seen, troubles)
}

/// Looks at one session again and again.
pub struct StatusWatcher<'a> {
    repo: &'a Repo,
    reader: StatusReader<'a>,
}

impl<'a> StatusWatcher<'a> {
    /// Prepares to look at a session; looks at nothing yet.
    pub fn new(repo: &'a Repo, tag: Tag, clock: Clock) -> StatusWatcher<'a> {
        StatusWatcher { repo, reader: StatusReader::new(repo, tag, clock) }
    }

    /// Reads the current status.
    ///
    /// # Errors
    ///
    /// Git cannot read the session's refs. Damaged state files and records are not errors: the result names them.
    pub fn look(&mut self) -> Result<SessionStatus, SessionError> {
        let mut status = self.reader.read()?;
        match self.unrecorded_tip(&status) {
            Ok(tip) => status.unrecorded_tip = tip,
            Err(error) => status.damage.push(with_causes(&error)),
        }
        Ok(status)
    }

    /// Classifies the commits at the tip of an idle session's branch that belong to no experiment, if there are any.
    fn unrecorded_tip(&self, status: &SessionStatus) -> Result<Option<UnrecordedTip>, SessionError> {
        let Some(contract) = &status.contract else { return Ok(None) };
        if status.activity != Activity::Idle || contract.imported {
            return Ok(None);
        }
        let folder = SessionFolder::new(&self.repo.main_worktree(), &status.tag);
        // An unreadable journal is among the damage already.
        let Ok(Some(journal)) = folder.journal() else { return Ok(None) };
        unrecorded_tip(self.repo, contract, &journal, &status.history)
    }

    /// Returns whether the session still exists. An unreadable one counts as existing.
    pub fn is_there(&self) -> bool {
        self.reader.is_there()
    }

    /// The last lines of a log as a terminal would show them, without escapes; none where there is no log.
    pub fn last_lines(&self, log: &Path) -> Vec<String> {
        self.reader.last_lines(log)
    }
}
