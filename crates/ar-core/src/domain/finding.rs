//! Findings of `ar doctor` about a session and its repository.

use serde::Serialize;

use super::Tag;

/// The subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Area {
    /// The repository: its folders, `HEAD`, index and locks.
    Repository,
    /// The refs of the session: its branch, its records, saved changes.
    Refs,
    /// The contract and the experiments.
    Session,
    /// results.tsv.
    Ledger,
    /// The state folder, the runs and the active process.
    Journal,
    /// Disk space, and whether other hosts have the files.
    Disk,
    /// What executes the runs elsewhere.
    Executor,
    /// The measuring command.
    Command,
    /// The agent's command.
    Agent,
    /// The guard of this user's sessions on this machine.
    Guardian,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// No problem.
    Ok,
    /// Worth knowing, but it stops nothing.
    Warning,
    /// An error.
    Error,
    /// Damage whose repair would be a guess.
    Damaged,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its subject.
    pub area: Area,
    /// The session; absent if it concerns all of them.
    pub session: Option<Tag>,
    /// Its severity.
    pub level: Severity,
    /// The finding as a lower-case fragment.
    pub what: String,
    /// The command that fixes it. For damage: the decision that the user must make, and the command that shows the
    /// facts.
    pub hint: Option<String>,
    /// True if only the text of git's own error says what is wrong.
    #[serde(skip)]
    pub is_unexplained: bool,
}

impl Finding {
    /// Creates a finding without session or hint.
    pub fn new(area: Area, level: Severity, what: impl Into<String>) -> Self {
        Finding { area, session: None, level, what: what.into(), hint: None, is_unexplained: false }
    }

    /// Creates a finding without a problem.
    pub fn ok(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Ok, what)
    }

    /// Creates a warning.
    pub fn warning(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Warning, what)
    }

    /// Creates an error.
    pub fn error(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Error, what)
    }

    /// Creates a finding of damage that only a guess could repair.
    pub fn damaged(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Damaged, what)
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Finding { hint: Some(hint.into()), ..self }
    }

    /// Sets the session.
    #[must_use]
    pub fn of(self, tag: &Tag) -> Self {
        Finding { session: Some(tag.clone()), ..self }
    }
}
