//! A program that git starts for the user while this process waits, and why it was terminated.

use std::fmt;
use std::time::Duration;

/// What such a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// It converts a file between working tree and repository.
    Filter,
    /// It signs a commit.
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

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Filter => "a git filter",
            Program::Signing => "the signing program",
        })
    }
}

/// Why a program was terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The user asked to stop.
    Asked,
    /// The time of the whole invocation is over.
    TimeOver,
    /// It ran into its own time limit.
    Late,
}
