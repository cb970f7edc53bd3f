//! Whose working tree an experiment is in.

/// Whose working tree an experiment is made, or run, in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Home {
    /// The user's: `HEAD` is the session's branch there, and it follows each record.
    UserTree,
    /// One that `ar` made: `HEAD` is detached there, and no branch follows it.
    OwnTree,
}

impl Home {
    /// Whether `ar` made it.
    pub fn is_own(self) -> bool {
        self == Home::OwnTree
    }
}
