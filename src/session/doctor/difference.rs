//! A difference between what the records tell and what is there, with the repair that removes it.

use std::path::PathBuf;

use super::facts::REPAIR;
use crate::domain::{CommitId, Contract, ExperimentId, Finding};
use crate::git::BrokenRef;

/// What `ar doctor --repair` writes into a session; it needs no guess.
#[derive(Debug)]
pub(crate) enum Repair {
    /// The object that a torn ref named.
    Ref { broken: BrokenRef, object: String },
    /// The missing branch of the session, at this commit.
    Branch(CommitId),
    /// The contract, from the baseline's record.
    Contract(Box<Contract>),
    /// The journal, from the records, with no experiment open.
    Journal,
    /// A memory file from the records, or an event log without its damaged lines.
    Memory(PathBuf),
    /// A damaged file of a run that is over goes.
    RunFile(PathBuf),
    /// The commit under the ref `name` of an experiment that is neither open nor recorded is saved.
    Save { id: ExperimentId, name: String, commit: CommitId },
    /// A linked working tree in which nothing is open goes.
    Tree(PathBuf),
}

/// A finding, and its repair; nothing where the user must decide.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) finding: Finding,
    pub(crate) repair: Option<Repair>,
}

impl Difference {
    /// Creates one that is removed without a guess.
    pub(crate) fn new(finding: Finding, repair: Repair) -> Self {
        let finding = if finding.hint.is_some() { finding } else { finding.hint(REPAIR) };
        Difference { finding, repair: Some(repair) }
    }
}

impl From<Finding> for Difference {
    fn from(finding: Finding) -> Self {
        Difference { finding, repair: None }
    }
}
