//! Disk space.

use serde::{Deserialize, Serialize};

/// The space available to this user, and the total. Both are 0 for anything that the file system does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
    /// Files that can still be created.
    pub free_files: u64,
    /// The most files possible.
    pub total_files: u64,
}
