//! `stop.json`: what `ar stop` asks of the loop that has the session; `stopping.json`: what that loop has heard of it.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::{read_json, write_json};
use super::{Owner, OwnerLock, SessionFolder, StateError};
use crate::domain::{FORMAT_VERSION, StopWhen};
use crate::fs::failed;

/// How large a request is that can be understood, in bytes: ten times one with the longest tag.
const LARGEST: u64 = 4096;

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
        request_in(&self.stop_path())
    }

    /// The strongest request that whoever has the session has heard.
    pub fn heard_stop(&self) -> Option<StopWhen> {
        request_in(&self.heard_path())
    }

    /// What whoever has the session is asked to do, heard or not.
    pub fn stopping(&self) -> Option<StopWhen> {
        // In this order none is missed that is heard meanwhile.
        self.stop_request().max(self.heard_stop())
    }

    /// Hears the request: its disappearance tells who asked, and whoever looks at the session finds it as the one that was
    /// heard. That takes no room on the disk.
    pub fn hear_stop_request(&self) -> Option<StopWhen> {
        let request = self.stop_request()?;
        let is_kept = self.heard_stop() < Some(request) && fs::rename(self.stop_path(), self.heard_path()).is_ok();
        if !is_kept {
            self.take_stop_request();
        }
        Some(request)
    }

    /// Takes the request away.
    pub fn take_stop_request(&self) {
        // A request that cannot be taken away is heard all the same.
        let _ = fs::remove_file(self.stop_path());
    }

    /// Removes what was heard before `lock` had the session, and a request unless it is one to `lock`: whoever it was meant
    /// for is gone.
    pub fn drop_old_stop_request(&self, lock: &OwnerLock) {
        let _ = fs::remove_file(self.heard_path());
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

    fn heard_path(&self) -> PathBuf {
        self.root().join("stopping.json")
    }
}

fn request_in(path: &Path) -> Option<StopWhen> {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > LARGEST) {
        return Some(StopWhen::Experiment);
    }
    match read_json::<StopRequest>(path) {
        Ok(None) | Err(StateError::File(_)) => None,
        Ok(Some(request)) => Some(request.when),
        Err(_) => Some(StopWhen::Experiment),
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
        assert_eq!(folder.hear_stop_request(), Some(StopWhen::Now));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        // A milder one that comes later is heard and changes nothing; who opens the session next was asked nothing.
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.hear_stop_request(), Some(StopWhen::Experiment));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        folder.drop_old_stop_request(&lock);
        assert_eq!(folder.stopping(), None);
    }
}
