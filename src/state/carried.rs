//! What runs leave in the user's working tree for later runs, as the session knows it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The file of the state folder with [`Carried`].
pub const CARRIED: &str = "carried.json";

/// `state/carried.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The format's version.
    pub version: u32,
    /// When the session's first run in this tree was made ready.
    #[serde(with = "crate::domain::millis")]
    pub since: Timestamp,
    /// The folders without tracked files that were there then; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folders: Option<BTreeSet<PathBuf>>,
    /// The files and folders that are set aside before each run.
    pub aside: BTreeSet<PathBuf>,
    /// Those that make no difference, or that the command needs.
    pub stays: BTreeSet<PathBuf>,
    /// True from the first run of a loop on until what it set aside of the user's is back.
    pub begun: bool,
}

impl Carried {
    /// Returns whether a folder without tracked files is older than the session's runs.
    pub fn is_older(&self, folder: &Path) -> bool {
        self.folders.as_ref().is_none_or(|folders| folders.contains(folder))
    }
}
