//! The report of what a session cannot solve: in the state folder or, where that has no room, in the user's folder.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::guard_files::hashed;
use super::user_folder::user_folder;
use super::{Journal, SessionFolder, StateError, read_json, write_json};
use crate::domain::{Escalation, FORMAT_VERSION};
use crate::fs::{create_folder, write_atomic};

/// The file of the report in the state folder.
const REPORT: &str = "escalation.md";

/// The file of the escalation itself in the user's folder.
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

/// The files about what one session cannot solve.
#[derive(Debug, Clone)]
pub struct EscalationFiles {
    session: PathBuf,
    report: PathBuf,
    /// The folder of both files where the state folder has no room; none for a user without a folder.
    elsewhere: Option<PathBuf>,
}

impl EscalationFiles {
    /// Names the files of a session; creates nothing.
    pub fn of(folder: &SessionFolder) -> EscalationFiles {
        let session = folder.root().canonicalize().unwrap_or_else(|_| folder.root().to_owned());
        let name = format!("{}-{}", hashed(&session), folder.tag());
        let elsewhere = user_folder().map(|user| user.join("escalations").join(name));
        EscalationFiles { report: folder.state().join(REPORT), session, elsewhere }
    }

    /// Writes the report where there is room, and returns its path; nothing where there is none.
    pub fn write_report(&self, text: &str) -> Option<PathBuf> {
        if write_atomic(&self.report, text.as_bytes()).is_ok() {
            self.remove_elsewhere(REPORT);
            return Some(self.report.clone());
        }
        // An older one would tell of another trouble.
        let _ = fs::remove_file(&self.report);
        let folder = self.elsewhere.as_ref()?;
        let path = folder.join(REPORT);
        create_folder(folder).and_then(|()| write_atomic(&path, text.as_bytes())).is_ok().then_some(path)
    }

    /// The path of the report, if there is one.
    pub fn report(&self) -> Option<PathBuf> {
        let elsewhere = self.elsewhere.as_ref().map(|folder| folder.join(REPORT));
        [Some(self.report.clone()), elsewhere].into_iter().flatten().find(|path| path.exists())
    }

    /// Notes an escalation that the journal has no room for.
    ///
    /// # Errors
    ///
    /// There is no room in the user's folder either.
    pub fn note(&self, escalation: &Escalation, at: Timestamp) -> Result<(), StateError> {
        let Some(folder) = &self.elsewhere else { return Ok(()) };
        create_folder(folder)?;
        let noted =
            Noted { version: FORMAT_VERSION, session: self.session.clone(), at, escalation: escalation.clone() };
        write_json(&folder.join(NOTED), &noted)
    }

    /// Removes all of them.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.report);
        self.remove_elsewhere(REPORT);
        self.remove_elsewhere(NOTED);
        if let Some(folder) = &self.elsewhere {
            let _ = fs::remove_dir(folder);
        }
    }

    fn remove_elsewhere(&self, name: &str) {
        if let Some(folder) = &self.elsewhere {
            let _ = fs::remove_file(folder.join(name));
        }
    }

    /// The escalation that was noted, unless the journal was written since.
    fn noted_after(&self, last_seen: Timestamp) -> Option<Escalation> {
        // A file that cannot be read costs the report a line, not the session.
        let noted: Noted = read_json(&self.elsewhere.as_ref()?.join(NOTED)).ok()??;
        (noted.session == self.session && noted.at >= last_seen).then_some(noted.escalation)
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
            && let Some(noted) = EscalationFiles::of(self).noted_after(journal.last_seen)
        {
            journal.escalation = Some(noted);
        }
        Ok(journal)
    }
}
