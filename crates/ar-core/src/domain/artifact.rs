//! Files that a kept run leaves in addition to its value.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::RunRole;

/// A file that a kept run wrote and `ar` saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its path, relative to the root of the working tree.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The run that left an experiment's artifacts: the best of those that decided on it and left any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsRun {
    /// Its purpose.
    pub role: RunRole,
    /// Its seed; absent in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl fmt::Display for ArtifactsRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run", self.role)?;
        self.seed.map_or(Ok(()), |seed| write!(f, ", seed {seed}"))
    }
}
