//! What a kept run leaves beside its number.

use serde::{Deserialize, Serialize};

/// A file that a kept run wrote and `ar` saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its path, relative to the root of the working tree.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}
