//! A ledger in place of a session.

use std::path::Path;

use autoresearch::domain::Direction;
use autoresearch::ledger::{Ledger, Said, SourceError, read_file};

use super::args::{LedgerArgs, SaidArgs};
use super::error::CliError;
use super::output;

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
    let said = Said { metric: args.metric.as_deref(), direction, segment: args.segment };
    let ledger = read_file(path, &said)?;
    if output::manners().verbose {
        for (line, problem) in ledger.problems() {
            output::note(&format!("{}:{line}: {problem}", path.display()));
        }
    }
    Ok(ledger)
}

impl From<SourceError> for CliError {
    fn from(error: SourceError) -> Self {
        let hint = error.hint();
        if error.is_usage() { CliError::usage(error, hint) } else { CliError::new(error, Some(hint)) }
    }
}
