//! The reports of what a session cannot solve and of its flag: in the state folder or, where that has no room, in the user's
//! folder, else in memory.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::guardian_files::hashed;
use super::user_folder::user_folder;
use super::volatile_folder::{is_private, make_private, volatile_folders};
use super::{Journal, SessionFolder, StateError, read_json, write_json};
use crate::domain::{Escalation, FORMAT_VERSION};
use crate::fs::{create_folder, write_atomic};

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
