//! The session that a command is about, and a note where another one may have been meant.

use autoresearch::domain::{ExperimentName, Record, Tag};
use autoresearch::git::Repo;
use autoresearch::session::{Chosen, SessionView, choose_session};

use super::error::CliError;
use super::output;
use super::process::current_dir;

/// Reads the session that is named, or is meant without a name.
pub(super) fn open(tag: Option<Tag>) -> Result<SessionView, CliError> {
    let view = SessionView::open(&current_dir()?, tag)?;
    tell(&view.chosen());
    Ok(view)
}

/// Reads the session of an experiment, and which one it is.
pub(super) fn open_at(name: &ExperimentName, tag: Option<Tag>) -> Result<(SessionView, Record), CliError> {
    let (view, record) = SessionView::open_at(&current_dir()?, name, tag)?;
    tell(&view.chosen());
    Ok((view, record))
}

/// Finds the session without reading it.
pub(super) fn find(repo: &Repo, tag: Option<Tag>) -> Result<Tag, CliError> {
    let chosen = choose_session(repo, tag)?;
    tell(&chosen);
    Ok(chosen.tag)
}

pub(super) fn tell(chosen: &Chosen) {
    if let Some(notice) = chosen.notice() {
        output::note(&notice);
    }
}
