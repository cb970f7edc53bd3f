//! The room on a disk.

/// What a file system still takes from this user, and what it can hold. What it does not tell is 0 in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
    /// Files that can still be made, however small.
    pub free_files: u64,
    /// All files that there can be.
    pub total_files: u64,
}
