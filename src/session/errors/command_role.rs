//! The uses of a command line.

use std::path::Path;

/// The use of a command line of the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum CommandRole {
    /// It measures.
    Command,
    /// It changes the code.
    Agent,
    /// It checks a change.
    Guard,
    /// It reviews a change.
    Reviewer,
    /// It converts files for git.
    #[strum(to_string = "git filter")]
    Filter,
    /// It is told of events.
    #[strum(to_string = "command of --on-event")]
    OnEvent,
}

impl CommandRole {
    /// The folder that it is called in; `root` is that of the working tree. A command of `--on-event` has one of its own, from
    /// where no relative path leads anywhere.
    pub(crate) fn folder(self, root: &Path) -> &Path {
        match self {
            CommandRole::Command
            | CommandRole::Agent
            | CommandRole::Guard
            | CommandRole::Reviewer
            | CommandRole::Filter => root,
            CommandRole::OnEvent => Path::new("/"),
        }
    }
}
