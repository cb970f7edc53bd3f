//! What a person may want to be told of while nobody watches.

use serde::Serialize;

/// What kind of news it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// An experiment was kept.
    Keep,
    /// Its number is better than all before it.
    Best,
    /// Several experiments in a row crashed.
    CrashStreak,
    /// The agent is told to abandon its strategy.
    Pivot,
    /// The session is flagged for review.
    Flagged,
    /// The agent cannot work for a while.
    Outage,
    /// The loop ended.
    Stopped,
}

impl AlertKind {
    /// Its name, as in `AR_EVENT`.
    pub fn name(self) -> &'static str {
        match self {
            AlertKind::Keep => "keep",
            AlertKind::Best => "best",
            AlertKind::CrashStreak => "crash_streak",
            AlertKind::Pivot => "pivot",
            AlertKind::Flagged => "flagged",
            AlertKind::Outage => "outage",
            AlertKind::Stopped => "stopped",
        }
    }
}

/// One piece of news, as the command of `--on-event` gets it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    /// The format's version.
    pub version: u32,
    /// What kind it is.
    pub event: AlertKind,
    /// The session.
    pub tag: String,
    /// The experiment that it is about, or after which it came.
    pub experiment: Option<u32>,
    /// The metric's name.
    pub metric: String,
    /// The number of that experiment, where it has one.
    pub value: Option<f64>,
    /// The number to beat.
    pub best: Option<f64>,
    /// Why.
    pub reason: String,
    /// All of it on one line, for people.
    pub text: String,
}
