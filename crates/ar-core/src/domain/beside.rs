//! The part of a record that concerns other experiments open at the same time.

use serde::{Deserialize, Serialize};

use super::{CommitId, ExperimentId, Record};

/// An experiment's relation to others open at the same time; empty for one made *in place*.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
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
