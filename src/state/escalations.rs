//! Problems that a session cannot solve by itself: in the journal, and in reports in the state folder or, where that has no
//! room, in the user's folder, else in memory.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Journal, SessionFolder, StateError, read_json, write_json};
use super::{hashed, is_private, make_private, user_folder, volatile_folders};
use crate::domain::{Escalation, ExperimentId, FORMAT_VERSION, StopReason, Trouble, one_line};
use crate::fs::{create_folder, write_atomic};

/// The last problem that the session could not solve by itself, if any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Escalations(Option<Escalation>);

impl Escalations {
    /// Returns whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The last problem.
    pub fn last(&self) -> Option<&Escalation> {
        self.0.as_ref()
    }

    /// The last problem, if the session waits for an answer to it.
    pub fn open(&self) -> Option<&Escalation> {
        self.0.as_ref().filter(|open| open.waits)
    }

    /// Returns whether it waits for an answer to trouble of this kind.
    pub fn waits_for(&self, kind: Trouble) -> bool {
        self.open().is_some_and(|open| open.kind == kind)
    }

    /// The number of times in a row that it met the last problem.
    pub fn times(&self) -> u32 {
        self.0.as_ref().map_or(1, |open| open.times)
    }

    /// Notes what the session cannot solve after an experiment, and gives it: a retry that fails is no new trouble. `waits` says
    /// that it waits for an answer.
    pub fn begin(
        &mut self,
        kind: Trouble,
        after: ExperimentId,
        (what, needed): (&str, &str),
        waits: bool,
        now: Timestamp,
    ) -> Escalation {
        let again = self.0.take().filter(|last| last.kind == kind && last.after == after);
        let escalation = Escalation {
            kind,
            what: one_line(what),
            needed: one_line(needed),
            since: again.as_ref().map_or(now, |last| last.since),
            after,
            times: again.map_or(1, |last| last.times.saturating_add(1)),
            waits,
        };
        self.0.insert(escalation).clone()
    }

    /// Notes one that was noted elsewhere.
    pub(super) fn set(&mut self, escalation: Escalation) {
        self.0 = Some(escalation);
    }

    /// Notes that the session waits no more, and tries again what it waited for, which it gives.
    pub fn suspend(&mut self) -> Option<Trouble> {
        let open = self.0.as_mut().filter(|open| open.waits)?;
        open.waits = false;
        Some(open.kind)
    }

    /// Does the same, and forgets an outage, which is over by then.
    pub fn end(&mut self) -> Option<Trouble> {
        let kind = self.suspend()?;
        self.0.take_if(|_| kind == Trouble::Outage);
        Some(kind)
    }

    /// Counts what comes next as the first of its kind, since the user answered.
    pub fn answered(&mut self) {
        if let Some(open) = &mut self.0 {
            open.times = 0;
        }
    }

    /// Forgets what was tried again, now that something came of it; gives it, unless the user answered before.
    pub fn solve(&mut self) -> Option<Trouble> {
        self.0.take_if(|open| !open.waits).filter(|solved| solved.times > 0).map(|solved| solved.kind)
    }

    /// Notes that the session stops while it waits, and gives what for. The user who stops it has seen that, also while it
    /// tries again, so it is forgotten.
    pub fn stop(&mut self, reason: &StopReason) -> Option<Escalation> {
        if let StopReason::Interrupted { .. } = reason {
            return self.0.take();
        }
        self.suspend()?;
        self.0.clone()
    }

    /// Forgets it.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Forgets what was not solved as the session is opened. Of a loop that was killed while it waited it stays known, as the
    /// next one may meet it again. Returns whether it waits on, as for the end of an outage.
    pub fn reopen(&mut self, was_killed: bool) -> bool {
        if !was_killed {
            self.forget();
        }
        if let Some(open) = &mut self.0 {
            open.waits &= open.kind == Trouble::Outage;
        }
        self.open().is_some()
    }
}

/// The file of the report.
const REPORT: &str = "escalation.md";

/// The file of the report of a flag.
const FLAGGED: &str = "flagged.md";

/// The file of the escalation itself outside of the state folder.
const NOTED: &str = "escalation.json";

/// An escalation that the journal has no room for.
#[derive(Serialize, Deserialize)]
struct Noted {
    version: u32,
    session: PathBuf,
    /// When it was written: a later journal knows better.
    #[serde(with = "crate::domain::millis")]
    at: Timestamp,
    escalation: Escalation,
}

/// The files about what one session cannot solve, and about its flag.
#[derive(Debug, Clone)]
pub struct EscalationFiles {
    session: PathBuf,
    state: PathBuf,
    /// The folders of these files where the state folder has no room, in the order in which they are tried.
    elsewhere: Vec<Elsewhere>,
}

/// A folder outside of the repository.
#[derive(Debug, Clone)]
struct Elsewhere {
    /// The folder in memory that it is in, if it is there. Others could have made it.
    private: Option<PathBuf>,
    folder: PathBuf,
}

impl Elsewhere {
    /// Returns whether only this user could have written there.
    fn is_trusted(&self) -> bool {
        self.private.as_ref().is_none_or(|private| is_private(private))
    }

    fn create(&self) -> bool {
        self.private.as_ref().is_none_or(|private| make_private(private)) && create_folder(&self.folder).is_ok()
    }
}

impl EscalationFiles {
    /// Names the files of a session; creates nothing.
    pub fn of(folder: &SessionFolder) -> EscalationFiles {
        let session = folder.root().canonicalize().unwrap_or_else(|_| folder.root().to_owned());
        let name = format!("{}-{}", hashed(&session), folder.tag());
        let below = |base: &Path| base.join("escalations").join(&name);
        let user = user_folder().map(|user| Elsewhere { private: None, folder: below(&user) });
        let memory = volatile_folders().into_iter();
        let memory = memory.map(|base| Elsewhere { folder: below(&base), private: Some(base) });
        EscalationFiles { state: folder.state(), session, elsewhere: user.into_iter().chain(memory).collect() }
    }

    /// Writes the report where there is room, and returns its path; nothing where there is none.
    pub fn write_report(&self, text: &str) -> Option<PathBuf> {
        self.write(REPORT, text)
    }

    /// Writes the report of a flag, as [`write_report`](Self::write_report) does.
    pub fn write_flag_report(&self, text: &str) -> Option<PathBuf> {
        self.write(FLAGGED, text)
    }

    /// The path of the report, if there is one.
    pub fn report(&self) -> Option<PathBuf> {
        self.find(REPORT)
    }

    /// Returns whether a report of a flag exists.
    pub fn has_flag_report(&self) -> bool {
        self.find(FLAGGED).is_some()
    }

    /// Notes an escalation that the journal has no room for; does nothing where no folder has room.
    pub fn note(&self, escalation: &Escalation, at: Timestamp) {
        let noted =
            Noted { version: FORMAT_VERSION, session: self.session.clone(), at, escalation: escalation.clone() };
        self.write_elsewhere(NOTED, |path| write_json(path, &noted).is_ok());
    }

    /// Removes the report and the note.
    pub fn remove(&self) {
        for name in [REPORT, NOTED] {
            self.remove_file(name);
        }
    }

    /// Removes the report of a flag.
    pub fn remove_flag_report(&self) {
        self.remove_file(FLAGGED);
    }

    fn write(&self, name: &str, text: &str) -> Option<PathBuf> {
        let path = self.state.join(name);
        if write_atomic(&path, text.as_bytes()).is_ok() {
            self.remove_elsewhere(name);
            return Some(path);
        }
        // An older one would tell of another trouble.
        let _ = fs::remove_file(&path);
        self.write_elsewhere(name, |path| write_atomic(path, text.as_bytes()).is_ok())
    }

    /// Writes a file into the first folder that has room, and removes it from the others.
    fn write_elsewhere(&self, name: &str, write: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let mut written = None;
        for place in &self.elsewhere {
            let path = place.folder.join(name);
            if written.is_none() && place.create() && write(&path) {
                written = Some(path);
            } else {
                place.remove(name);
            }
        }
        written
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let elsewhere = self.elsewhere.iter().filter(|place| place.is_trusted()).map(|place| place.folder.join(name));
        iter::once(self.state.join(name)).chain(elsewhere).find(|path| path.is_file())
    }

    fn remove_file(&self, name: &str) {
        let _ = fs::remove_file(self.state.join(name));
        self.remove_elsewhere(name);
    }

    fn remove_elsewhere(&self, name: &str) {
        self.elsewhere.iter().for_each(|place| place.remove(name));
    }

    /// The escalation that was noted, unless the journal was written since.
    fn noted_after(&self, last_seen: Timestamp) -> Option<Escalation> {
        // A file that cannot be read costs the report a line, not the session.
        let noted: Noted = read_json(&self.find(NOTED).filter(|path| !path.starts_with(&self.state))?).ok()??;
        (noted.session == self.session && noted.at >= last_seen).then_some(noted.escalation)
    }
}

impl Elsewhere {
    /// Removes a file, and the folder with the last one.
    fn remove(&self, name: &str) {
        if self.is_trusted() {
            let _ = fs::remove_file(self.folder.join(name));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

impl SessionFolder {
    /// The journal, with the escalation that it has no room for.
    ///
    /// # Errors
    ///
    /// It cannot be read or parsed.
    pub fn journal(&self) -> Result<Option<Journal>, StateError> {
        let mut journal = Journal::read(&self.state())?;
        if let Some(journal) = &mut journal
            && let Some(noted) = EscalationFiles::of(self).noted_after(journal.presence.last_seen())
        {
            journal.escalation.set(noted);
        }
        Ok(journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(kind: Trouble) -> Escalations {
        let mut escalations = Escalations::default();
        escalations.begin(kind, 3.into(), ("what\nhappened", "room"), true, Timestamp::UNIX_EPOCH);
        escalations
    }

    #[test]
    fn a_retry_that_fails_is_no_new_trouble() {
        let mut escalations = begun(Trouble::Disk);
        assert_eq!(escalations.suspend(), Some(Trouble::Disk));
        let later = Timestamp::from_second(9).unwrap();
        let again = escalations.begin(Trouble::Disk, 3.into(), ("x", "y"), true, later);
        assert_eq!((again.times, again.since), (2, Timestamp::UNIX_EPOCH));
        assert_eq!(escalations.begin(Trouble::Disk, 4.into(), ("x", "y"), true, later).times, 1, "another experiment");
        escalations.answered();
        assert_eq!((escalations.times(), escalations.solve(), escalations.suspend()), (0, None, Some(Trouble::Disk)));
        assert_eq!((escalations.solve(), escalations.is_none()), (None, true), "the user had answered");
    }

    #[test]
    fn what_was_met_again_is_solved_by_an_experiment_and_an_outage_by_its_end() {
        let mut escalations = begun(Trouble::Disk);
        assert_eq!((escalations.end(), escalations.solve()), (Some(Trouble::Disk), Some(Trouble::Disk)));
        let mut escalations = begun(Trouble::Outage);
        assert_eq!((escalations.end(), escalations.is_none()), (Some(Trouble::Outage), true));
    }

    #[test]
    fn only_a_killed_loop_leaves_what_it_could_not_solve() {
        for (kind, was_killed, is_known, waits) in [
            (Trouble::Disk, false, false, false),
            (Trouble::Disk, true, true, false),
            (Trouble::Outage, true, true, true),
        ] {
            let mut escalations = begun(kind);
            assert_eq!(escalations.reopen(was_killed), waits);
            assert_eq!((escalations.last().is_some(), escalations.open().is_some()), (is_known, waits));
        }
    }
}
