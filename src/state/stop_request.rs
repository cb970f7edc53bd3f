//! `stop.json`: what `ar stop` asks of the loop that has the session.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::durable::{failed, read_json, write_json};
use super::{Owner, OwnerLock, SessionFolder, StateError};
use crate::domain::FORMAT_VERSION;

/// How large a request is that can be understood, in bytes: ten times one with the longest tag.
const LARGEST: u64 = 4096;

/// When a loop is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWhen {
    /// After the experiment that is open.
    Experiment,
    /// At once: its run is ended and rolled back.
    Now,
}

#[derive(Serialize, Deserialize)]
struct StopRequest {
    version: u32,
    when: StopWhen,
    #[serde(with = "crate::domain::millis")]
    asked: Timestamp,
    /// Who was asked, in its own words.
    #[serde(default)]
    to: Option<String>,
}

impl SessionFolder {
    /// Asks `owner`, who has the session, to stop. A stronger request that is still waiting stays.
    pub fn ask_to_stop(&self, when: StopWhen, asked: Timestamp, owner: &Owner) -> Result<(), StateError> {
        if self.stop_request() >= Some(when) && self.stop_request_is_to(&owner.said) {
            return Ok(());
        }
        // The folder may have been deleted under whoever is at work.
        fs::create_dir_all(self.root()).map_err(failed("create", self.root()))?;
        write_json(
            &self.stop_path(),
            &StopRequest { version: FORMAT_VERSION, when, asked, to: Some(owner.said.clone()) },
        )
    }

    /// The request that nobody has taken yet. One that cannot be understood is the milder one, so that
    /// `touch stop.json` is one too.
    pub fn stop_request(&self) -> Option<StopWhen> {
        if fs::symlink_metadata(self.stop_path()).is_ok_and(|meta| meta.is_file() && meta.len() > LARGEST) {
            return Some(StopWhen::Experiment);
        }
        match read_json::<StopRequest>(&self.stop_path()) {
            Ok(None) | Err(StateError::Io { .. }) => None,
            Ok(Some(request)) => Some(request.when),
            Err(_) => Some(StopWhen::Experiment),
        }
    }

    /// Takes the request away; its disappearance tells who asked that it was heard.
    pub fn take_stop_request(&self) -> Option<StopWhen> {
        let request = self.stop_request()?;
        // A request that cannot be taken away is heard all the same.
        let _ = fs::remove_file(self.stop_path());
        Some(request)
    }

    /// Removes a request unless it is one to `lock`, which has the session: whoever it was meant for is gone.
    pub fn drop_old_stop_request(&self, lock: &OwnerLock) {
        if !self.stop_request_is_to(lock.said()) {
            self.take_stop_request();
        }
    }

    fn stop_request_is_to(&self, owner: &str) -> bool {
        let request = read_json::<StopRequest>(&self.stop_path()).ok().flatten();
        request.is_some_and(|request| request.to.as_deref() == Some(owner))
    }

    fn stop_path(&self) -> PathBuf {
        self.root().join("stop.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_who_has_the_session_outlives_its_opening_and_one_to_another_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SessionFolder::new(dir.path(), &"t".parse().unwrap());
        folder.create().unwrap();
        let lock = folder.lock(dir.path()).unwrap();
        let owner = folder.owner(dir.path()).unwrap().unwrap();
        let another = Owner { said: "process 1 with session t".to_owned(), since: None };
        for (to, left) in [(&owner, Some(StopWhen::Now)), (&another, None)] {
            folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, to).unwrap();
            folder.drop_old_stop_request(&lock);
            assert_eq!(folder.stop_request(), left, "{to:?}");
        }
        // One that is still waiting for somebody else is not the same.
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &another).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.stop_request(), Some(StopWhen::Experiment));
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &owner).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.take_stop_request(), Some(StopWhen::Now));
    }
}
