//! The roles of runs of the measuring command.

use serde::{Deserialize, Serialize};

/// The purpose of a run. Further runs of an experiment are in folders beside its first, each named by role and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RunRole {
    /// The baseline, on each slot.
    Baseline,
    /// The first run of a change. It decides alone with `--decide once`.
    Screen,
    /// A fresh run of a change that its first run selected.
    Confirm,
    /// A rerun of the incumbent, or of the baseline, of which nothing is recorded.
    Check,
    /// A rerun of the experiment to beat, before a change is kept that beat it in one run.
    Control,
    /// A train, or one winner by itself.
    Trial,
    /// A rerun beside the session.
    Repro,
    /// A fresh run of a recorded experiment beside another one.
    Verify,
}

impl RunRole {
    /// The folder of a further run, such as `check-1`.
    pub fn folder(self, number: u32) -> String {
        format!("{self}-{number}")
    }

    /// Returns whether a further run has a folder of this name. Earlier versions named them `check` and `slot-1`.
    pub fn is_folder(name: &str) -> bool {
        let Some((role, number)) = name.rsplit_once('-') else { return name == "check" };
        let is_role = role == "slot" || role.parse::<RunRole>().is_ok();
        is_role && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The seed of the run of this number, counted from 1. All experiments have the same list, so that runs of one seed can be
    /// compared: 1 for a change's first run, 2 and up for those that confirm it, 1 and up for the baseline and for trains.
    /// `None` for runs that repeat a recorded one or have fresh seeds: whoever starts them says which.
    pub fn seed(self, number: u32) -> Option<u64> {
        match self {
            RunRole::Baseline | RunRole::Screen | RunRole::Trial => Some(number.into()),
            RunRole::Confirm => Some(u64::from(number) + 1),
            RunRole::Check | RunRole::Control | RunRole::Repro | RunRole::Verify => None,
        }
    }

    /// Returns whether an attempt begins with a run of this role.
    pub fn begins_attempt(self) -> bool {
        matches!(self, RunRole::Baseline | RunRole::Screen | RunRole::Trial)
    }

    /// Returns whether the run ends with the process that waits for it, so that no other process picks it up.
    pub fn is_tied(self) -> bool {
        matches!(self, RunRole::Check | RunRole::Repro | RunRole::Verify)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_further_runs_are_told_from_others() {
        let folder = RunRole::Baseline.folder(2);
        for name in [&folder, "check-1", "trial-10", "confirm-4", "check", "slot-3"] {
            assert!(RunRole::is_folder(name), "{name}");
        }
        for name in ["artifacts", "search-1", "baseline-", "baseline-x", "check-1.moved", "slot", "-1", ""] {
            assert!(!RunRole::is_folder(name), "{name}");
        }
    }
}
