//! The rows of `results.tsv`.

use crate::crash;
use crate::domain::{CommitId, ExperimentId};
use crate::ledger::Entry;
use crate::session::errors::SessionError;
use crate::session::files::exclude_own;
use crate::session::store::Store;

impl Store {
    /// Performs [`Act::Row`](crate::machine::Act::Row): appends the row of an experiment, or replaces that of an earlier commit.
    pub(super) fn write_row(
        &mut self,
        id: ExperimentId,
        from: Option<u64>,
        replaces: Option<&CommitId>,
    ) -> Result<(), SessionError> {
        let Some(record) = self.history.get(id) else { return Ok(()) };
        let name = self.ledger.name();
        self.ledger.give_way();
        // A row of the same commit before that is another session's.
        if let Some(from) = from
            && self.ledger.has_row(&record.commit, from)?
        {
            return Ok(());
        }
        match replaces {
            Some(old) => self.ledger.replace(old, &Entry::of(record), &self.folder.state())?,
            None => self.ledger.append(&Entry::of(record))?,
        }
        if self.ledger.name() != name {
            exclude_own(&self.repo, &[self.ledger.name()])?;
        }
        crash::point("settling.row_appended");
        Ok(())
    }
}
