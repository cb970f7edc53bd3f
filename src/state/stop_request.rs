//! `stop.json`: the request of `ar stop` to the active loop; `stopping.json`: the request that the loop received.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::{read_json, write_json};
use super::{Owner, OwnerLock, SessionFolder, StateError};
use crate::domain::{FORMAT_VERSION, StopWhen};
use crate::fs::failed;

/// The largest valid request, in bytes: ten times one with the longest tag.
const LARGEST: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct StopRequest {
    version: u32,
    when: StopWhen,
    #[serde(with = "crate::domain::millis")]
    asked: Timestamp,
    /// The addressee, by its own description.
    #[serde(default)]
    to: Option<String>,
}

impl SessionFolder {
    /// Asks `owner`, which holds the session, to stop. A stronger waiting request stays.
    pub fn ask_to_stop(&self, when: StopWhen, asked: Timestamp, owner: &Owner) -> Result<(), StateError> {
        if self.stop_request() >= Some(when) && self.stop_request_is_to(&owner.said) {
            return Ok(());
        }
        // The folder may have been deleted while the loop is active.
        fs::create_dir_all(self.root()).map_err(failed("create", self.root()))?;
        write_json(
            &self.stop_path(),
            &StopRequest { version: FORMAT_VERSION, when, asked, to: Some(owner.said.clone()) },
        )
    }

    /// The request that no loop has received yet. An invalid one counts as the milder one, so `touch stop.json` works.
    pub fn stop_request(&self) -> Option<StopWhen> {
        request_in(&self.stop_path())
    }

    /// The strongest request that the active loop received.
    pub fn heard_stop(&self) -> Option<StopWhen> {
        request_in(&self.heard_path())
    }

    /// The request to the active loop, received or not.
    pub fn stopping(&self) -> Option<StopWhen> {
        // This order misses no request that is received meanwhile.
        self.stop_request().max(self.heard_stop())
    }

    /// Receives the request: its disappearance tells the requester, and others find it as the received one. This needs
    /// no disk space.
    pub fn hear_stop_request(&self) -> Option<StopWhen> {
        let request = self.stop_request()?;
        let is_kept = self.heard_stop() < Some(request) && fs::rename(self.stop_path(), self.heard_path()).is_ok();
        if !is_kept {
            self.take_stop_request();
        }
        Some(request)
    }

    /// Removes the request.
    pub fn take_stop_request(&self) {
        // A request that cannot be removed counts as received.
        let _ = fs::remove_file(self.stop_path());
    }

    /// Removes requests received before `lock` held the session, and a waiting one for another process, which is gone.
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
        let lock = folder.lock(dir.path(), true).unwrap();
        let owner = folder.owner(dir.path()).unwrap().unwrap();
        let another = Owner { said: "process 1 with session t".to_owned(), since: None };
        for (to, left) in [(&owner, Some(StopWhen::Now)), (&another, None)] {
            folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, to).unwrap();
            folder.drop_old_stop_request(&lock);
            assert_eq!(folder.stop_request(), left, "{to:?}");
        }
        // A request that waits for another process is not the same.
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &another).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.stop_request(), Some(StopWhen::Experiment));
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &owner).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.hear_stop_request(), Some(StopWhen::Now));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        // A milder request that comes later changes nothing; the next process that opens the session has no request.
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.hear_stop_request(), Some(StopWhen::Experiment));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        folder.drop_old_stop_request(&lock);
        assert_eq!(folder.stopping(), None);
    }
}
