//! What a look at a session and its repository finds.

use std::fmt;

use serde::Serialize;

use super::Tag;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// The repository: its folders, `HEAD`, index and locks.
    Repository,
    /// The refs of the session: its branch, its records, saved changes.
    Refs,
    /// The terms and the experiments.
    Session,
    /// results.tsv.
    Ledger,
    /// The state folder, the runs, and who is at work.
    Journal,
    /// Room on the disk.
    Disk,
    /// The measuring command.
    Command,
    /// The agent's command.
    Agent,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Area::Repository => "repository",
            Area::Refs => "refs",
            Area::Session => "session",
            Area::Ledger => "ledger",
            Area::Journal => "journal",
            Area::Disk => "disk",
            Area::Command => "command",
            Area::Agent => "agent",
        })
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is as it should be.
    Ok,
    /// It stops nothing, and is worth knowing.
    Warning,
    /// It is wrong.
    Error,
    /// It is damaged, and to mend it would be a guess.
    Damaged,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Damaged => "damaged",
        })
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub area: Area,
    /// The session; absent for what belongs to all of them.
    pub session: Option<Tag>,
    /// How much it matters.
    pub level: Severity,
    /// What was found, as a lower-case fragment.
    pub what: String,
    /// The command that mends it; of what is damaged, what a person has to decide and what shows it.
    pub hint: Option<String>,
}

impl Finding {
    /// A finding about no session and without a hint.
    pub fn new(area: Area, level: Severity, what: impl Into<String>) -> Self {
        Finding { area, session: None, level, what: what.into(), hint: None }
    }

    /// Something that is as it should be.
    pub fn ok(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Ok, what)
    }

    /// Something that is worth knowing.
    pub fn warning(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Warning, what)
    }

    /// Something that is wrong.
    pub fn error(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Error, what)
    }

    /// Something that only a guess could mend.
    pub fn damaged(area: Area, what: impl Into<String>) -> Self {
        Finding::new(area, Severity::Damaged, what)
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Finding { hint: Some(hint.into()), ..self }
    }

    /// The same about a session.
    #[must_use]
    pub fn of(self, tag: &Tag) -> Self {
        Finding { session: Some(tag.clone()), ..self }
    }
}
