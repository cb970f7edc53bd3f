//! The session that a command is about, with a note where another one may have been meant, or a ledger in its place.

use std::path::Path;

use autoresearch::domain::{Direction, ExperimentName, Record, Tag};
use autoresearch::git::Repo;
use autoresearch::ledger::{Ledger, ReadOptions, read_file};
use autoresearch::session::{Chosen, SessionView, choose_session};

use super::{CliError, LedgerArgs, SaidArgs, current_dir, output};

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

/// Reads the ledger, where one is said, and tells which lines of it cannot be read if that is asked for.
pub(super) fn read(args: &LedgerArgs) -> Result<Option<Ledger>, CliError> {
    args.file.as_deref().map(|path| read_from(path, &args.said)).transpose()
}

/// Does the same with a ledger that is always said.
pub(super) fn read_from(path: &Path, args: &SaidArgs) -> Result<Ledger, CliError> {
    let direction = match (args.lower, args.higher) {
        (true, _) => Some(Direction::Lower),
        (false, true) => Some(Direction::Higher),
        (false, false) => None,
    };
    let said = ReadOptions { metric: args.metric.as_deref(), direction, segment: args.segment };
    let ledger = read_file(path, &said)?;
    if output::manners().verbose {
        for (line, problem) in ledger.problems() {
            output::note(&format!("{}:{line}: {problem}", path.display()));
        }
    }
    Ok(ledger)
}
