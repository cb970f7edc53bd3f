//! Acts: changes of refs and rows as data. After a kill all acts of a step are performed again, in their order.

use crate::domain::{CommitId, ExperimentId, Replay, Tag};

/// A change of what outlives the process. Performing one that is done changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Makes a ref lead to a commit, whatever it leads to. Done: it leads there.
    PutRef {
        /// Its full name.
        name: String,
        /// The commit.
        to: CommitId,
    },
    /// Deletes a ref. Done: it is gone.
    DropRef {
        /// Its full name.
        name: String,
    },
    /// Brings the session's branch, which no working tree follows, to a commit. A commit at its tip that is neither `known` nor
    /// an experiment's is saved first. Done: it is there.
    MoveBranch {
        /// The commit.
        to: CommitId,
        /// Commits that may leave its tip without being saved.
        known: Vec<CommitId>,
        /// The reason, for the reflog.
        why: String,
    },
    /// Makes the ref of a record lead to its tag: from then on the experiment counts. Done: it leads there.
    PlaceRecord {
        /// The experiment.
        id: ExperimentId,
        /// The tag object, in hexadecimal.
        tag: String,
        /// The tag object that the ref led to before; absent for a new ref.
        replaces: Option<String>,
    },
    /// Writes the row of a record. Done: a row of its commit follows the first `from` bytes of the ledger.
    Row {
        /// The experiment.
        id: ExperimentId,
        /// The length of the ledger before the record, in bytes; absent where no process can have written the row.
        from: Option<u64>,
        /// The commit whose row it replaces; absent for a new row.
        replaces: Option<CommitId>,
    },
}

impl Act {
    /// Keeps the commits that an experiment had, or was measured as, on other bases than that of its `commit`.
    pub fn keep_replays(tag: &Tag, id: ExperimentId, replays: &[Replay], commit: &CommitId) -> Vec<Act> {
        let merged = tag.merged_ref(id);
        let others = replays.iter().filter(|replay| replay.commit != *commit);
        let put = |(replay, number): (&Replay, u32)| {
            let name = if number == 1 { merged.clone() } else { format!("{merged}-{number}") };
            Act::PutRef { name, to: replay.commit.clone() }
        };
        others.zip(1..).map(put).collect()
    }
}

/// A commit to be kept under a saved ref.
#[derive(Debug, Clone, PartialEq)]
pub struct Save {
    /// The commit.
    pub commit: CommitId,
    /// The description of the saved ref, one line; absent for uncommitted changes.
    pub subject: Option<String>,
    /// The experiment that it belongs to, if its record or an idea names the ref.
    pub of: Option<ExperimentId>,
    /// True if another commit with the same tree and parents counts as saved.
    pub or_equal: bool,
}

impl Save {
    /// A commit that nothing else names.
    pub fn new(commit: &CommitId) -> Self {
        Save { commit: commit.clone(), subject: None, of: None, or_equal: false }
    }

    /// A commit with a description.
    pub fn described(commit: &CommitId, subject: String) -> Self {
        Save { subject: Some(subject), ..Save::new(commit) }
    }

    /// A commit of an experiment, which its record or an idea names.
    pub fn of(id: ExperimentId, what: &str, commit: &CommitId) -> Self {
        Save { of: Some(id), ..Save::described(commit, format!("experiment {id}, {what}")) }
    }

    /// A change; an equal commit counts as saved.
    pub fn change(commit: &CommitId) -> Self {
        Save { or_equal: true, ..Save::new(commit) }
    }
}
