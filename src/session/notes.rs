//! Notes of people on experiments. They are git's own notes, beside the records and outside the refs that a session holds.

use std::collections::BTreeMap;

use super::error::SessionError;
use super::reading::SessionView;
use crate::domain::{Clock, Note, Record};

impl SessionView {
    /// The notes on these experiments, by number; those without one are left out.
    pub fn notes<'a>(
        &self,
        records: impl IntoIterator<Item = &'a Record> + Clone,
    ) -> Result<BTreeMap<u32, Vec<Note>>, SessionError> {
        let texts = self.repo.notes(records.clone().into_iter().map(|record| &record.commit))?;
        let read = |record: &Record| {
            let text = texts.get(&record.commit)?;
            Some((record.id, Note::read_all(text, &self.tag, record.id)))
        };
        Ok(records.into_iter().filter_map(read).filter(|(_, notes)| !notes.is_empty()).collect())
    }

    /// Adds a note to an experiment, also while a loop is at work on the session.
    pub fn add_note(&self, record: &Record, text: &str, clock: Clock) -> Result<(), SessionError> {
        SessionView::require_commit(record)?;
        let by = self.repo.committer_name()?;
        let line = Note::line(clock.now(), &self.tag, record.id, &by, text);
        Ok(self.repo.add_to_note(&record.commit, &line)?)
    }
}
