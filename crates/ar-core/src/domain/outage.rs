//! Outages of the agent, which do not count against its idea.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The cause of an outage, displayed as a clause about the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum OutageKind {
    /// Its program, or the shell that starts it, cannot start.
    #[strum(to_string = "the agent cannot be started")]
    NotStarted,
    /// Its rate limit is reached.
    #[strum(to_string = "the agent's rate limit")]
    RateLimit,
    /// Its account has no credit.
    #[strum(to_string = "the agent is out of credit")]
    Credit,
    /// It is not logged in, or its key is not valid.
    #[strum(to_string = "the agent is not logged in")]
    Login,
    /// Its model's service is overloaded or down.
    #[strum(to_string = "the agent's service is overloaded")]
    Overloaded,
    /// It cannot reach its model's service.
    #[strum(to_string = "the agent is offline")]
    Offline,
    /// It fails without changes or a known message.
    #[strum(to_string = "the agent failed")]
    Failed,
}

impl OutageKind {
    /// Returns what the user can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            OutageKind::NotStarted => {
                "install what its command line needs, or name another agent with --agent; agent.log in the newest \
                    folder of the \
                 session's runs has all its output"
            }
            OutageKind::RateLimit => "wait for the limit to be lifted, or name another agent with --agent",
            OutageKind::Credit => "buy credit, or name another agent with --agent",
            OutageKind::Login => "log in to the agent",
            OutageKind::Overloaded => "wait, or name another agent with --agent",
            OutageKind::Offline => "check the network",
            OutageKind::Failed => {
                "check its command line; its output is in agent.log in the newest folder of the session's runs"
            }
        }
    }
}

/// A call of the agent that failed in an outage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The reason.
    pub kind: OutageKind,
    /// The line of its output that reports it; for [`OutageKind::Failed`] its exit and its last line.
    pub said: String,
    /// When it ends, if the agent names a time; never in the past when it was read.
    #[serde(default, with = "crate::domain::millis::option")]
    pub until: Option<Timestamp>,
}

/// The cause of an outage in an agent's machine-readable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its message.
    pub said: String,
    /// The HTTP status of its service, if it names one.
    pub status: Option<u16>,
    /// When a limit resets, if a field of its own names that.
    pub until: Option<Timestamp>,
}

impl Refusal {
    /// Creates a refusal that has only a message.
    pub fn saying(said: String) -> Refusal {
        Refusal { said, status: None, until: None }
    }
}
