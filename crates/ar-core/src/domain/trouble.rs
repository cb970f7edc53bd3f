//! Troubles: findings of `ar doctor` about a session and its repository, what a session cannot solve by itself, and
//! news for a user who is not watching.
//!
//! Errors that only the user tells apart. One that code tells from others is a variant of its room's enum.

use std::error::Error;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};

use super::{ExperimentId, Tag, count_of, exact_time};

/// The reaction of a session to trouble that it cannot solve, once it has written a report for the user.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Escalate {
    /// Stop with exit code 4
    #[default]
    Stop,
    /// Wait for the cause to go, or for a word by `ar tell`
    Wait,
}

/// A trouble that a session cannot solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Trouble {
    /// An outage of the agent exceeds its limit.
    Outage,
    /// The agent's shim was killed each time.
    Agent,
    /// The best experiment no longer runs.
    Baseline,
    /// A disk is full.
    Disk,
    /// Records, journal or files contradict each other or are damaged.
    Contradiction,
    /// Another error, such as a lock that another program holds.
    Error,
}

impl Trouble {
    /// Returns whether the trouble can pass without the user. Damage cannot: its repair needs the session's locks.
    pub fn may_go(self) -> bool {
        self != Trouble::Contradiction
    }

    /// Describes what `ar` already tried against it.
    pub fn tried(self) -> &'static str {
        match self {
            Trouble::Outage => "the agent was called again, with growing pauses, up to --outage-limit",
            Trouble::Agent => "the agent was called again as often as a lost call is repeated",
            Trouble::Baseline => "the best experiment was run once again, as it was when it was kept",
            Trouble::Disk => "logs of runs were compressed and dropped as far as --keep-logs allows",
            Trouble::Contradiction => {
                "what the session relies on was read again and compared; none of it is repaired by guessing"
            }
            Trouble::Error => "what may pass by itself was tried again",
        }
    }
}

/// A report to the user of what a session cannot solve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    /// The kind of trouble.
    pub kind: Trouble,
    /// The error with its causes, on one line.
    pub what: String,
    /// The action requested from the user.
    pub needed: String,
    /// When it happened.
    #[serde(with = "crate::domain::millis")]
    pub since: Timestamp,
    /// The experiment before it.
    pub after: ExperimentId,
    /// Consecutive occurrences in the session; 0 after the user sent a word, which restarts the count.
    pub times: u32,
    /// True if the session is waiting for an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
}

impl Escalation {
    /// Returns its kind, its time and what happened, as a clause; `report` is the report, where there was room for one.
    pub fn clause(&self, report: Option<&Path>) -> String {
        let tried = match self.times {
            0 | 1 => String::new(),
            times => format!(", tried again {}", count_of(times - 1, "time")),
        };
        let Escalation { kind, what, since, .. } = self;
        format!("{kind}, since {}{tried}: {what}; {}", exact_time(*since), report_clause(report))
    }
}

/// Returns where the report of an escalation is, as a clause.
pub fn report_clause(report: Option<&Path>) -> String {
    match report {
        Some(path) => format!("the report is {}", path.display()),
        None => "there is no room for a report".to_owned(),
    }
}

/// The kind of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AlertKind {
    /// An experiment was kept.
    Keep,
    /// It has the best value so far.
    Best,
    /// Several experiments in a row crashed.
    CrashStreak,
    /// The agent is told to abandon its strategy.
    Pivot,
    /// The session is flagged for review.
    Flagged,
    /// The agent is unavailable for a while.
    Outage,
    /// The session met what it cannot solve by itself.
    Escalated,
    /// The loop ended.
    Stopped,
}

/// One piece of news, as the `--on-event` command receives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    /// The format's version.
    pub version: u32,
    /// Its kind.
    pub event: AlertKind,
    /// The session.
    pub tag: String,
    /// The experiment that it concerns or follows.
    pub experiment: Option<ExperimentId>,
    /// The metric's name.
    pub metric: String,
    /// The value of that experiment, if it has one.
    pub value: Option<f64>,
    /// The value to beat.
    pub best: Option<f64>,
    /// The reason for the news.
    pub reason: String,
    /// The reason to doubt the gain of a kept experiment, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The whole message on one line, for people.
    pub text: String,
}

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
    /// The engine of runs.
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

/// The kind of an error, which the command line maps to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The repository, the configuration or the environment is not as it must be.
    CannotStart,
    /// The command was called wrongly.
    Usage,
    /// The baseline has no number.
    BaselineFailed,
    /// The loop stopped and cannot go on without a person.
    NeedsPerson,
    /// Another process holds the session, or took it over.
    Held,
    /// Files or refs are damaged, and to mend them would be a guess.
    Damaged,
    /// The user asked to stop.
    Interrupted,
}

/// An error as the user sees it; [`refuse`] makes one.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct UserError {
    /// Its kind.
    pub kind: ErrorKind,
    text: String,
    /// The next command to type, where there is one.
    pub hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Creates an error without hint and cause from a lower-case fragment that says what failed.
pub fn refuse(kind: ErrorKind, text: impl Into<String>) -> UserError {
    UserError { kind, text: text.into(), hint: None, source: None }
}

impl UserError {
    /// An error of the environment, in its own words.
    pub fn of(error: impl Error + Send + Sync + 'static, hint: Option<String>) -> UserError {
        UserError { hint, ..refuse(ErrorKind::CannotStart, error.to_string()).caused_by(error) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        UserError { hint: Some(hint.into()), ..self }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        UserError { source: Some(source.into()), ..self }
    }
}
