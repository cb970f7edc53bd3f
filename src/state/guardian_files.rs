//! Files of guardians: under `guard/` in the user's folder, and never in a session.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::json::{read_json, write_json};
use super::user_folder::user_folder;
use super::{StateError, lines};
use crate::domain::{FORMAT_VERSION, Resident, Tag};
use crate::fs::create_folder;
use crate::rules::{GuardianAction, PatrolMemory, is_beat_missing};

/// The number of bytes of a path's hash that name a folder.
const NAME: usize = 8;

/// The file in that folder that says that a resident guard is wanted.
pub const RESIDENT: &str = "resident.json";

/// Returns whether a guard watches this user's sessions: a resident guard is wanted, or the last patrol is recent.
pub fn has_guardian(now: Timestamp) -> bool {
    user_folder().map(|user| guardian_folder(&user)).is_some_and(|folder| {
        let is_wanted = fs::symlink_metadata(folder.join(RESIDENT)).is_ok();
        is_wanted || !is_beat_missing(last_patrol(&folder), now, Duration::ZERO, Resident::BEAT)
    })
}

/// The record that each patrol writes at its end.
#[derive(Deserialize)]
struct Beat {
    at: Timestamp,
}

/// Returns when the last patrol ended; `None` if none ever did, or if its record cannot be parsed. `folder` is
/// [`guardian_folder`].
pub fn last_patrol(folder: &Path) -> Option<Timestamp> {
    read_json::<Beat>(&folder.join("patrol.json")).ok().flatten().map(|beat| beat.at)
}

/// The folder of all guardians in the folder of a user.
pub fn guardian_folder(user: &Path) -> PathBuf {
    user.join("guard")
}

/// The beginning of the hash of a path, as a name.
pub(super) fn hashed(path: &Path) -> String {
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    hash.iter().take(NAME).map(|byte| format!("{byte:02x}")).collect()
}

/// A line about what a guardian did about a session. The session copies it into its own log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardianLine {
    /// The format's version.
    pub version: u32,
    /// When it was done.
    #[serde(with = "crate::domain::millis")]
    pub ts: Timestamp,
    /// The action.
    pub action: GuardianAction,
    /// The reason, as a clause.
    pub detail: String,
}

/// The memory of guardians about a session.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    version: u32,
    repository: PathBuf,
    tag: Option<Tag>,
    memory: PatrolMemory,
}

/// The files of guardians about one session.
#[derive(Debug, Clone)]
pub struct GuardianFiles {
    folder: PathBuf,
    repository: PathBuf,
    tag: Tag,
}

impl GuardianFiles {
    /// Names the files of the session `tag`, whose main worktree is `repository`; creates nothing.
    pub fn new(user: &Path, repository: &Path, tag: &Tag) -> GuardianFiles {
        let folder = guardian_folder(user).join("sessions").join(format!("{}-{tag}", hashed(repository)));
        GuardianFiles { folder, repository: repository.to_owned(), tag: tag.clone() }
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the memory of earlier patrols. Treats an unparsable file as empty: the patrol may then repeat an action,
    /// but does not fail.
    pub fn memory(&self) -> Result<PatrolMemory, StateError> {
        match read_json::<Remembered>(&self.folder.join("memory.json")) {
            Ok(remembered) => Ok(remembered.unwrap_or_default().memory),
            Err(StateError::Json { .. }) => Ok(PatrolMemory::default()),
            Err(error) => Err(error),
        }
    }

    /// Notes what was done, before it is done: a patrol that is killed in between does it at most once. The line of a redirect
    /// is what is done, so it comes first: a second one does no harm.
    pub fn remember(&self, memory: &PatrolMemory, line: Option<&GuardianLine>) -> Result<(), StateError> {
        create_folder(&self.folder)?;
        // Nothing is done that could not be noted.
        self.lines()?;
        let (repository, tag) = (self.repository.clone(), Some(self.tag.clone()));
        let remembered = Remembered { version: FORMAT_VERSION, repository, tag, memory: memory.clone() };
        let (first, then) = match line {
            Some(line) if line.action == GuardianAction::Redirect => (Some(line), None),
            line => (None, line),
        };
        self.append(first)?;
        write_json(&self.folder.join("memory.json"), &remembered)?;
        self.append(then)
    }

    fn append(&self, line: Option<&GuardianLine>) -> Result<(), StateError> {
        line.map_or(Ok(()), |line| lines::add(&self.lines_path(), line))
    }

    /// All lines about the session, in order; empty ones where a line cannot be parsed, so that the count stays right.
    pub fn lines(&self) -> Result<Vec<Option<GuardianLine>>, StateError> {
        let text = lines::content(&self.lines_path())?;
        Ok(lines::lines(&text).map(|line| serde_json::from_slice(line).ok()).collect())
    }

    fn lines_path(&self) -> PathBuf {
        self.folder.join("lines.jsonl")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_beat_that_can_be_read_is_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_patrol(folder.path()), None);
        let path = folder.path().join("patrol.json");
        for (text, is_beat) in [
            (r#"{"version":1,"at":"2026-11-20T22:00:00.000Z"}"#, true),
            (r#"{"version":1,"at":"2026-11-20T23:00:00+01:00","more":[1]}"#, true),
            (r#"{"version":1,"at":"yesterday"}"#, false),
            (r#"{"version":1}"#, false),
            (r#"{"version":1,"at":"2026-11-2"#, false),
            ("\0\0\0", false),
            ("", false),
        ] {
            fs::write(&path, text).unwrap();
            let at = "2026-11-20T22:00:00Z".parse().ok().filter(|_| is_beat);
            assert_eq!(last_patrol(folder.path()), at, "{text}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(last_patrol(folder.path()), None);
    }
}
