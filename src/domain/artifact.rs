//! Files that a kept run leaves in addition to its value.

use serde::{Deserialize, Serialize};

/// A file that a kept run wrote and `ar` saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its path, relative to the root of the working tree.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}
