//! Reports of the store and the working trees: events that are not published yet, and problems that need the user.

use std::mem::discriminant;
use std::path::{Path, PathBuf};

use super::writer::Store;
use crate::domain::{Actors, Escalation, Event, ExperimentId, Notice, StopReason, Trouble, list, with_causes};
use crate::report::{escalation_text, flag_text};
use crate::session::errors::SessionError;
use crate::state::{EscalationFiles, Journal, SessionFolder, StateError};

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
    pub(crate) fn note_once(&mut self, trouble: impl Into<Notice>) {
        let trouble = trouble.into();
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
                self.note_once(format!("lessons or ideas are not recorded: {}", with_causes(&error)));
                Ok(None)
            }
        }
    }
}

/// Says which files changed, if any.
pub(crate) fn note_changed(what: &'static str, who: &Actors, paths: Vec<PathBuf>, notices: &mut Notices) {
    if !paths.is_empty() {
        notices.note(format!("{what}, while {who} active: {}", list(&paths)));
    }
}

/// Notes that the session waits for no answer any more, and what is to be told; gives what it waited for.
pub(crate) fn close_escalation(store: &mut Store, why: &'static str) -> Option<Trouble> {
    let kind = store.journal.escalation.end()?;
    remove_report(&store.folder);
    store.note(Event::EscalationOver { kind, why });
    Some(kind)
}

/// Forgets what the session could not solve, now that something came of it.
pub(crate) fn forget_escalation(store: &mut Store) {
    if let Some(kind) = store.journal.escalation.solve() {
        remove_report(&store.folder);
        store.note(Event::EscalationOver { kind, why: "an experiment was recorded" });
    }
}

/// Notes that the session waits for no answer any more, as it stops. Whoever stopped it has seen what it could not solve;
/// where its time is over, the report stays, and says so.
pub(crate) fn end_wait(store: &mut Store, reason: &StopReason) {
    if let StopReason::Interrupted { .. } = reason {
        remove_flag_report(store);
    }
    let Some(escalation) = store.journal.escalation.stop(reason) else { return };
    if let StopReason::Interrupted { .. } = reason {
        return remove_report(&store.folder);
    }
    let report = write_report(&store.folder, store.repo.worktree(), &escalation);
    store.note(Notice::StillEscalated { escalation, report });
}

/// Notes what the session cannot solve outside of its folder, as the journal cannot be written.
pub(crate) fn note_escalation(store: &Store) {
    if let Some(open) = store.journal.escalation.last() {
        EscalationFiles::of(&store.folder).note(open, store.now());
    }
}

/// Forgets what the session could not solve. Of a loop that was killed while it waited for an answer it stays known, as
/// the next one may meet it again; an outage still goes on.
pub(crate) fn forget_solved(store: &mut Store) {
    let Journal { escalation, presence, .. } = &mut store.journal;
    if !escalation.reopen(presence.was_killed()) {
        remove_report(&store.folder);
    }
}

/// Writes the report of a flag; gives where it is.
pub(crate) fn write_flag_report(store: &mut Store, why: &str) -> Option<PathBuf> {
    let (tag, root) = (&store.contract.tag, store.repo.worktree());
    let text = flag_text(tag, root, (why, store.now()), &store.history, store.journal.ladder.told());
    // The journal has the flag, and the event tells of it.
    EscalationFiles::of(&store.folder).write_flag_report(&text)
}

/// Removes the report of a flag: a keep answers it.
pub(crate) fn remove_flag_report(store: &mut Store) {
    EscalationFiles::of(&store.folder).remove_flag_report();
}

/// Writes the report, and gives where it is; `root` is the working tree.
pub(crate) fn write_report(folder: &SessionFolder, root: &Path, escalation: &Escalation) -> Option<PathBuf> {
    EscalationFiles::of(folder).write_report(&escalation_text(folder.tag(), root, escalation))
}

/// Returns whether a report to the user exists.
pub(crate) fn is_reported(folder: &SessionFolder) -> bool {
    let files = EscalationFiles::of(folder);
    files.report().is_some() || files.has_flag_report()
}

/// Removes all reports: the user has seen them; the logs have the same.
pub(crate) fn remove_reports(folder: &SessionFolder) {
    remove_report(folder);
    EscalationFiles::of(folder).remove_flag_report();
}

/// Removes the report of what is over; the logs have it.
pub(crate) fn remove_report(folder: &SessionFolder) {
    EscalationFiles::of(folder).remove();
}
