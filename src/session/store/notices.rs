//! Events of the store and the working trees that are not published yet.

use std::mem::discriminant;
use std::path::PathBuf;

use crate::domain::{Actors, Event, ExperimentId, Notice, with_causes};
use crate::session::errors::SessionError;
use crate::state::StateError;

/// Events of the store and the workspace that are not yet reported.
#[derive(Default)]
pub(crate) struct Notices {
    events: Vec<Event>,
    /// Problems that were noted once and do not affect the loop.
    troubles: Vec<Notice>,
}

impl Notices {
    /// Notes what is to be told.
    pub(crate) fn note(&mut self, what: impl Into<Event>) {
        self.events.push(what.into());
    }

    /// Notes a problem that does not affect the loop, once instead of before each experiment.
    pub(crate) fn note_once(&mut self, trouble: Notice) {
        if !self.troubles.contains(&trouble) {
            self.troubles.push(trouble.clone());
            self.note(trouble);
        }
    }

    /// Notes the first notice of its kind only.
    pub(crate) fn note_first(&mut self, notice: Notice) {
        if !self.troubles.iter().any(|known| discriminant(known) == discriminant(&notice)) {
            self.note_once(notice);
        }
    }

    /// Gives what is to be told, in order.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns whether there are events to report.
    pub(crate) fn is_any(&self) -> bool {
        !self.events.is_empty()
    }

    /// Says that artifacts could not be settled, if so.
    pub(crate) fn or_unsettled(&mut self, id: ExperimentId, settled: Result<(), StateError>) {
        if let Err(error) = settled {
            self.note_once(Notice::ArtifactsUnsettled { id, why: with_causes(&error) });
        }
    }

    /// The outcome of a write that the night does not depend on. For want of room it is done again later, with the rest of its
    /// step.
    pub(crate) fn or_unrecorded<T>(&mut self, written: Result<T, StateError>) -> Result<Option<T>, SessionError> {
        match written.map_err(SessionError::from) {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.is_disk_full() => Err(error),
            Err(error) => {
                self.note_once(Notice::NotRecorded(with_causes(&error)));
                Ok(None)
            }
        }
    }
}

/// Says which files changed, if any.
pub(crate) fn note_changed(what: &'static str, who: &Actors, paths: Vec<PathBuf>, notices: &mut Notices) {
    if !paths.is_empty() {
        notices.note(Notice::Changed { what, who: who.clone(), paths });
    }
}
