//! Open attempts as the loop has them. Nothing in them is optional that their step needs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OpenRun;
use super::act::Act;
use crate::domain::{
    AgentCall, CommitId, Concurrency, ExperimentId, Failure, Fingerprint, Outcome, Phase, Record, RunRole, Version,
};
use crate::rules::{Tested, Trial};

/// The number of an attempt, and what is known of it before there is a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AttemptHead {
    /// Its number.
    pub id: ExperimentId,
    /// The commit that its change is made on.
    pub base: CommitId,
    /// When it began.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// Its purpose, and who makes its change.
    #[serde(flatten)]
    pub origin: Origin,
    /// The description of its change; empty before there is one.
    #[serde(default)]
    pub description: String,
    /// The strategy that it belongs to.
    #[serde(default)]
    pub direction: Option<String>,
    /// The agent's proposal, without description and direction.
    #[serde(default)]
    pub proposal: Map<String, Value>,
    /// The reason why the proposal, or a part of it, was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_error: Option<String>,
    /// The agent's call.
    #[serde(default)]
    pub agent: Option<AgentCall>,
    /// The versions of its change that were run and reworked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Version>,
    /// Facts about it beside other experiments, such as its slot and its train.
    #[serde(flatten)]
    pub beside: Concurrency,
    /// The seat that an agent works on it in, from 0; absent *in place*, and while no agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<u32>,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

/// The purpose of an attempt, and who makes its change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "OriginDocument", into = "OriginDocument")]
pub enum Origin {
    /// The loop: a change of its agent, the baseline, or a rerun.
    #[default]
    Loop,
    /// The user, or an agent that drives by itself. If `ar` refuses the change, the rest of it stays in the working tree.
    Person {
        /// The object of the record that this version of an experiment is to replace.
        replaces: Option<String>,
    },
    /// The line of winners.
    Trial {
        /// The run that it asks for.
        trial: Trial,
        /// The commits of its train, one for each car, in their order; none for a winner's own tree.
        chain: Vec<CommitId>,
    },
}

/// The fields that the journal has for an origin.
#[derive(Default, Serialize, Deserialize)]
struct OriginDocument {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_hand: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial: Option<Trial>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chain: Vec<CommitId>,
}

impl From<OriginDocument> for Origin {
    fn from(OriginDocument { by_hand, replaces, trial, chain }: OriginDocument) -> Self {
        match trial {
            Some(trial) => Origin::Trial { trial, chain },
            None if by_hand => Origin::Person { replaces },
            None => Origin::Loop,
        }
    }
}

impl From<Origin> for OriginDocument {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Loop => OriginDocument::default(),
            Origin::Person { replaces } => OriginDocument { by_hand: true, replaces, ..OriginDocument::default() },
            Origin::Trial { trial, chain } => OriginDocument { trial: Some(trial), chain, ..OriginDocument::default() },
        }
    }
}

impl AttemptHead {
    /// An attempt that begins now on `base`.
    pub fn new(id: ExperimentId, base: CommitId, started: Timestamp) -> Self {
        AttemptHead { id, base, started, ..AttemptHead::default() }
    }

    /// Returns whether a person made the change.
    pub fn is_by_hand(&self) -> bool {
        matches!(self.origin, Origin::Person { .. })
    }

    /// The object of the record that it is to replace, where it is a new version of a recorded experiment.
    pub fn replaces(&self) -> Option<&str> {
        match &self.origin {
            Origin::Person { replaces } => replaces.as_deref(),
            Origin::Loop | Origin::Trial { .. } => None,
        }
    }

    /// The run that it is for the winners that wait; `None` for an experiment of its own.
    pub fn trial(&self) -> Option<&Trial> {
        match &self.origin {
            Origin::Trial { trial, .. } => Some(trial),
            Origin::Loop | Origin::Person { .. } => None,
        }
    }

    /// Returns whether it measures a discard again.
    pub fn is_second_look(&self) -> bool {
        self.beside.second_look.is_some()
    }

    /// Returns whether nothing selects its change before its first run, so that this run counts with those that follow.
    pub fn first_run_counts(&self) -> bool {
        self.trial().is_some() || self.is_second_look()
    }

    /// The first run of its change, ready to start.
    pub fn first_run(&self) -> OpenRun {
        match (&self.origin, &self.beside.second_look) {
            (Origin::Trial { .. }, _) => OpenRun::new(RunRole::Trial, 1),
            (_, Some(look)) => OpenRun { seed: Some(look.seed), ..OpenRun::new(RunRole::Confirm, 0) },
            _ if self.id.is_baseline() => OpenRun::new(RunRole::Baseline, 1),
            _ => OpenRun::new(RunRole::Screen, 1),
        }
    }

    /// The fresh run of its change of this number, from 1, which follows the first one.
    pub fn fresh_run(&self, number: u32) -> OpenRun {
        match (&self.origin, &self.beside.second_look) {
            (Origin::Trial { .. }, _) => OpenRun::new(RunRole::Trial, number + 1),
            (_, look) => {
                let run = OpenRun::new(RunRole::Confirm, number);
                OpenRun { seed: look.as_ref().map_or(run.seed, |look| Some(look.seed + u64::from(number))), ..run }
            }
        }
    }
}

/// A change as a commit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// Its attempt.
    pub head: AttemptHead,
    /// The commit.
    pub commit: CommitId,
    /// The fingerprint that identifies the same change; absent where nothing compares it, as with the baseline.
    pub fingerprint: Option<Fingerprint>,
    /// The failure for which it is recorded without a run.
    pub refused: Option<Failure>,
    /// The incumbent with which its agent was asked to merge it; it is asked once.
    pub asked: Option<CommitId>,
    /// The record of the version before it, to be written if nothing comes of this one.
    pub before: Option<Box<Record>>,
}

/// A change with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The change that was measured.
    pub made: Made,
    /// The record to write if nothing more comes of it.
    pub record: Box<Record>,
    /// The change as its agent has merged it, with what it is made on now.
    pub ported: Option<Ported>,
    /// The outcome of a trial so far.
    pub tested: Option<Tested>,
}

impl Draft {
    /// A change that was just measured.
    pub fn new(made: Made, record: Record) -> Self {
        let made = Made { before: None, ..made };
        Draft { made, record: Box::new(record), ported: None, tested: None }
    }

    /// Returns whether its agent is asked to merge it where it conflicts with the incumbent, instead of to rework it.
    pub fn may_merge(&self) -> bool {
        self.record.failure.is_none() && self.record.outcome == Outcome::Keep
    }
}

/// A change on another base than the one that it was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ported {
    /// Its new base.
    pub base: CommitId,
    /// Its commit.
    pub commit: CommitId,
}

/// Records that are being written.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The change that was measured for them.
    pub made: Made,
    /// The records in their order: any that is there commits all. None where only rows and tree are to follow.
    pub records: Vec<Record>,
    /// The length of results.tsv just before the first row is written, in bytes.
    pub rows_from: u64,
    /// The attempt whose run left the artifacts of the last record, where that is another one.
    pub artifacts_of: Option<ExperimentId>,
    /// True once the rows are known to be there.
    pub has_rows: bool,
}

impl Recording {
    /// The act that writes the row of one of its records. `is_new` says that no earlier process can have written it.
    pub fn row(&self, record: &Record, is_new: bool) -> Act {
        let head = &self.made.head;
        let replaces = head.versions.last().filter(|_| head.replaces().is_some()).map(|version| version.commit.clone());
        Act::Row { id: record.id, from: (!is_new).then_some(self.rows_from), replaces }
    }
}

/// An open attempt at its step.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// An agent works on it, or is to be called for it. No change is a commit yet.
    Call(AttemptHead),
    /// An agent reworks the version that was measured last, or is to be called for that.
    Rework(Draft),
    /// An agent merges its change, which has not run, with the incumbent `onto`, or is to be called for that.
    Merge {
        /// The change.
        made: Made,
        /// The incumbent.
        onto: CommitId,
    },
    /// The same for a winner.
    MergeWinner {
        /// The winner.
        draft: Draft,
        /// The incumbent.
        onto: CommitId,
    },
    /// It waits for its run; if it is refused, it is recorded next.
    Ready(Made),
    /// Its first run.
    Run(Made),
    /// Its guards; those in the record have ended.
    Guard(Draft),
    /// Its fresh runs.
    Confirm(Draft),
    /// Its review.
    Review(Draft),
    /// It beat its own base, and waits in the line of winners.
    Winner(Draft),
    /// A trial that was measured, for the line to use.
    Tested {
        /// The trial.
        draft: Draft,
        /// Its outcome.
        tested: Tested,
    },
    /// A recorded experiment runs once again; nothing of it is recorded.
    Rerun(Made),
    /// Its record is written.
    Recording(Recording),
}

/// Matches an attempt by what it has at its step: its head, its change, or its change with its number.
macro_rules! by_part {
    ($attempt:expr, $head:ident => $of_head:expr, $made:ident => $of_made:expr, $draft:ident => $of_draft:expr $(,)?) => {
        match $attempt {
            Attempt::Call($head) => $of_head,
            Attempt::Merge { made: $made, .. }
            | Attempt::Ready($made)
            | Attempt::Run($made)
            | Attempt::Rerun($made)
            | Attempt::Recording(Recording { made: $made, .. }) => $of_made,
            Attempt::Rework($draft)
            | Attempt::MergeWinner { draft: $draft, .. }
            | Attempt::Tested { draft: $draft, .. }
            | Attempt::Guard($draft)
            | Attempt::Confirm($draft)
            | Attempt::Review($draft)
            | Attempt::Winner($draft) => $of_draft,
        }
    };
}

impl Attempt {
    /// Its step, in the word of the journal.
    pub fn phase(&self) -> Phase {
        match self {
            Attempt::Call(_) | Attempt::Rework(_) | Attempt::Merge { .. } | Attempt::MergeWinner { .. } => {
                Phase::Proposing
            }
            Attempt::Ready(_) => Phase::Committing,
            Attempt::Run(_) => Phase::Running,
            Attempt::Guard(_) => Phase::Guarding,
            Attempt::Confirm(_) => Phase::Confirming,
            Attempt::Review(_) => Phase::Reviewing,
            Attempt::Winner(_) | Attempt::Tested { .. } => Phase::Waiting,
            Attempt::Rerun(_) => Phase::Checking,
            Attempt::Recording(Recording { has_rows: false, .. }) => Phase::Recording,
            Attempt::Recording(Recording { has_rows: true, .. }) => Phase::Settling,
        }
    }

    /// What is known of it at each step.
    pub fn head(&self) -> &AttemptHead {
        by_part!(self, head => head, made => &made.head, draft => &draft.made.head)
    }

    /// The same, to be changed.
    pub fn head_mut(&mut self) -> &mut AttemptHead {
        by_part!(self, head => head, made => &mut made.head, draft => &mut draft.made.head)
    }

    /// Its number.
    pub fn id(&self) -> ExperimentId {
        self.head().id
    }

    /// The run that it is for the winners that wait; `None` for an experiment of its own.
    pub fn trial(&self) -> Option<&Trial> {
        self.head().trial()
    }

    /// Its change; `None` while an agent is to make or to rework it.
    pub fn made(&self) -> Option<&Made> {
        let is_reworked = matches!(self, Attempt::Rework(_));
        by_part!(self, _head => None, made => Some(made), draft => (!is_reworked).then_some(&draft.made))
    }

    /// The commit of its change.
    pub fn commit(&self) -> Option<&CommitId> {
        self.made().map(|made| &made.commit)
    }

    /// Its change with its number, once that was measured.
    pub fn draft(&self) -> Option<&Draft> {
        by_part!(self, _head => None, _made => None, draft => Some(draft))
    }

    /// The same, to be changed.
    pub fn draft_mut(&mut self) -> Option<&mut Draft> {
        by_part!(self, _head => None, _made => None, draft => Some(draft))
    }

    /// Its change; that of a call is its base.
    pub fn into_made(self) -> Made {
        let of_call = |head: AttemptHead| Made { commit: head.base.clone(), head, ..Made::default() };
        by_part!(self, head => of_call(head), made => made, draft => draft.made)
    }

    /// What remains to be done of it once its record is there.
    pub fn into_recording(self) -> Recording {
        match self {
            Attempt::Recording(recording) => recording,
            attempt => {
                let (made, records, artifacts_of) = (attempt.into_made(), Vec::new(), None);
                Recording { made, records, rows_from: 0, artifacts_of, has_rows: true }
            }
        }
    }

    /// The record of the version that was measured last.
    pub fn measured(&self) -> Option<&Record> {
        let before = || self.made().and_then(|made| made.before.as_deref());
        self.draft().map(|draft| &*draft.record).or_else(before)
    }

    /// The records that are being written.
    pub fn recording(&self) -> &[Record] {
        match self {
            Attempt::Recording(recording) => &recording.records,
            _ => &[],
        }
    }

    /// Returns whether an agent made a change for it.
    pub fn is_made(&self) -> bool {
        !matches!(self, Attempt::Call(_))
    }
}
