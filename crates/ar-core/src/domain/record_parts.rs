//! Parts of a record: runs and their roles, controls, guards, artifacts, other experiments at the same time, the origin of an import.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::ended_text;
use super::{CommitId, ExperimentId, Failure, MetricValue, Metrics, Number, Record, Run, Unit, WallKind};

/// What the experiment to beat gave when it ran once more, in the same tree, before a change that had beaten it was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The experiment that ran again.
    pub experiment: ExperimentId,
    /// The value that was to beat until then.
    pub recorded: f64,
    /// The metric with the value that it gave; without one if that run failed.
    #[serde(flatten)]
    pub metric: MetricValue,
    /// True if the value moved by at least half of the claimed gain: the change is not kept, and this is the value to beat.
    pub moved: bool,
}

/// A file that a kept run wrote and `ar` saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its path, relative to the root of the working tree.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The run that left an experiment's artifacts: the best of those that decided on it and left any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsRun {
    /// Its purpose.
    pub role: RunRole,
    /// Its seed; absent in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl fmt::Display for ArtifactsRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run", self.role)?;
        self.seed.map_or(Ok(()), |seed| write!(f, ", seed {seed}"))
    }
}

/// The row of a foreign ledger from which a record was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The ledger's path as the user gave it.
    pub file: String,
    /// The row's line in it, from 1.
    pub line: u64,
    /// The outcome of the row: keep, discard, crash, baseline or other.
    pub status: String,
    /// The commit's cell, unchanged; absent if the ledger has no such column.
    pub commit_text: Option<String>,
    /// True if the repository has that commit. Otherwise the record's commit is all zeros. Its tag then points to the
    /// session's assumed starting commit, which says nothing about the experiment.
    pub commit_known: bool,
}

/// An experiment's relation to others open at the same time; empty for one made *in place*.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// The slot that its last run was executed in, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// The experiments whose runs went on when that run began: load is a confound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<ExperimentId>,
    /// The measurements of the change on other bases than the record's, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<Replay>,
    /// The train that it was kept with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Train>,
    /// The kept experiments whose changes its tree, put on top, removes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<ExperimentId>,
}

/// A tree with an experiment's change that was measured, or was to be, on another base than that of its record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The commit that the change was made on.
    pub base: CommitId,
    /// The commit that was measured.
    pub commit: CommitId,
    /// The value; absent if there is none that counts.
    pub value: Option<f64>,
    /// The purpose of the measurement, or its outcome.
    pub why: String,
}

/// The train that an experiment was kept with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Train {
    /// The last of them, whose record has the number of them all.
    pub last: ExperimentId,
    /// All of them, in the order in which they were put on top of each other.
    pub members: Vec<ExperimentId>,
}

impl Record {
    /// The experiment whose record has the number of this one: the last of the train that it was kept with. Absent for an
    /// experiment that has one of its own, or none at all.
    pub fn number_of(&self) -> Option<ExperimentId> {
        self.beside.train.as_ref().map(|train| train.last).filter(|last| *last != self.id)
    }
}

/// A finished run with a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run as records have it, with its value and the commit that it executed.
    pub run: Run,
    /// The number, as printed.
    pub number: Number,
    /// Every number that the log's summary gives.
    #[serde(flatten, with = "super::metric::with_digits")]
    pub metrics: Metrics,
    /// The units of those numbers whose names give none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The wall that the run had, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<WallKind>,
}

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

/// One execution of a guard command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardRun {
    /// The command line passed to `sh -c`.
    pub command: String,
    /// Its exit status; absent if a signal terminated it.
    pub exit: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// True if `ar` terminated it at its time limit.
    #[serde(default)]
    pub timed_out: bool,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// True if it exited with 0 without changing protected files.
    pub passed: bool,
    /// The last lines of its output if it failed, without escape sequences.
    #[serde(default)]
    pub excerpt: String,
}

impl GuardRun {
    /// Describes its end: `exit 1 after 0.3 s`.
    pub fn ended(&self) -> String {
        ended_text(self.exit, self.signal, self.timed_out, self.seconds)
    }
}

/// An earlier version of an experiment's change, which the agent reworked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Its commit, on the same base as the experiment's.
    pub commit: CommitId,
    /// The ref that keeps it.
    pub saved: String,
    /// The failure that led to the rework.
    pub failure: Option<Failure>,
    /// The reason in a sentence, with its values.
    pub reason: String,
    /// The measured value.
    pub value: Option<f64>,
    /// The results of its guards.
    #[serde(default)]
    pub guards: Vec<GuardRun>,
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
