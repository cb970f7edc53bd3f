//! Programs that git starts for the user while this process waits, and reasons to terminate them.

use std::time::Duration;

/// The task of such a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Program {
    /// It converts a file between working tree and repository.
    #[strum(to_string = "a git filter")]
    Filter,
    /// It signs a commit.
    #[strum(to_string = "the signing program")]
    Signing,
}

impl Program {
    /// The time limit of one: a filter may download a large file; a person may have to type a passphrase.
    pub(in crate::git) fn limit(self) -> Duration {
        match self {
            Program::Filter => Duration::from_secs(600),
            Program::Signing => Duration::from_secs(60),
        }
    }
}

/// The reason that a program was terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The user asked to stop.
    Asked,
    /// The time of the whole invocation is over.
    TimeOver,
    /// It ran into its own time limit.
    Late,
}
