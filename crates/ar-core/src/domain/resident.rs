//! The settings of the resident guard.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, seconds};

/// The settings of the resident guard, as `resident.json` stores them. The file's existence says that one is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// The version of the format.
    pub version: u32,
    /// The age of the last patrol at which it calls one; in seconds.
    #[serde(with = "seconds")]
    pub beat: Duration,
    /// The time between two looks; in seconds.
    #[serde(with = "seconds")]
    pub wake: Duration,
    /// The command line of an emergency patrol; by default, it calls `ar guard`.
    pub patrol: Option<String>,
    /// The arguments of that `ar guard`.
    pub arguments: Vec<String>,
}

impl Resident {
    /// The default of `beat`: two patrols of an hourly guard did not come.
    pub const BEAT: Duration = Duration::from_secs(2 * 3600);

    /// The default of `wake`.
    pub const WAKE: Duration = Duration::from_secs(60);
}

impl Default for Resident {
    fn default() -> Self {
        Resident {
            version: FORMAT_VERSION,
            beat: Resident::BEAT,
            wake: Resident::WAKE,
            patrol: None,
            arguments: Vec::new(),
        }
    }
}
