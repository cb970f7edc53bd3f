//! `stop.json`: what `ar stop` asks of the loop that has the session.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::durable::{failed, read_json, write_json};
use super::{SessionFolder, StateError};
use crate::domain::FORMAT_VERSION;

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
    asked: Timestamp,
}

impl SessionFolder {
    /// Asks whoever has the session to stop. A stronger request that is still waiting stays.
    pub fn ask_to_stop(&self, when: StopWhen, asked: Timestamp) -> Result<(), StateError> {
        if self.stop_request() >= Some(when) {
            return Ok(());
        }
        // The folder may have been deleted under whoever is at work.
        fs::create_dir_all(self.root()).map_err(failed("create", self.root()))?;
        write_json(&self.stop_path(), &StopRequest { version: FORMAT_VERSION, when, asked })
    }

    /// The request that nobody has taken yet. One that cannot be understood is the milder one, so that
    /// `touch stop.json` is one too.
    pub fn stop_request(&self) -> Option<StopWhen> {
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

    fn stop_path(&self) -> PathBuf {
        self.root().join("stop.json")
    }
}
