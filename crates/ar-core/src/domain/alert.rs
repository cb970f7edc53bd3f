//! News for a user who is not watching.

use serde::Serialize;

use super::ExperimentId;

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
