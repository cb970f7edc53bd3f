//! A clock that a test moves.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{CLOCK, TestRepo};

/// The time of day of what a test starts. It stands still until the test, a run or an agent moves it: a night of hours ends
/// when the test says so, and no machine is too slow for it.
#[derive(Debug)]
pub(crate) struct MovableClock {
    path: PathBuf,
}

impl MovableClock {
    /// The clock beside a repository, at the moment at which all sessions of the tests begin.
    pub(crate) fn new(repo: &TestRepo) -> MovableClock {
        let clock = MovableClock { path: repo.outside().join("clock") };
        clock.move_to(CLOCK);
        clock
    }

    /// Has a command go by it.
    pub(crate) fn show_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("AR_CLOCK", &self.path)
    }

    /// Moves it.
    pub(crate) fn move_to(&self, moment: &str) {
        let new = self.path.with_extension("new");
        fs::write(&new, moment).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    /// A shell command that moves it.
    pub(crate) fn moving_to(&self, moment: &str) -> String {
        format!("{{ echo {moment} > {0}.$$; mv {0}.$$ {0}; }}", self.path.display())
    }
}
