//! An agent that cannot work for reasons that are not in its idea.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What keeps an agent from its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutageKind {
    /// Its program, or the shell that starts it, cannot be executed.
    NotStarted,
    /// It may not ask its model for a while.
    RateLimit,
    /// Its account has no credit.
    Credit,
    /// It is not logged in, or its key is not valid.
    Login,
    /// Its model's service has too much to do, or is down.
    Overloaded,
    /// It does not reach its model's service.
    Offline,
    /// It fails and changes nothing, and what it says is no known wording.
    Failed,
}

impl OutageKind {
    /// What a person can do about it.
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

impl fmt::Display for OutageKind {
    /// A clause about the agent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutageKind::NotStarted => "the agent cannot be started",
            OutageKind::RateLimit => "the agent's rate limit",
            OutageKind::Credit => "the agent is out of credit",
            OutageKind::Login => "the agent is not logged in",
            OutageKind::Overloaded => "the agent's service is overloaded",
            OutageKind::Offline => "the agent is offline",
            OutageKind::Failed => "the agent failed",
        })
    }
}

/// A call of the agent that came to nothing for such a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The reason.
    pub kind: OutageKind,
    /// The line of its output that says so; of [`OutageKind::Failed`] how it ended, and its last line.
    pub said: String,
    /// When it is over, where the agent names that; never in the past when it was read.
    #[serde(default, with = "crate::domain::millis::option")]
    pub until: Option<Timestamp>,
}

/// What an agent says that kept it from its work, in its machine-readable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its words.
    pub said: String,
    /// The status of HTTP that its service answered with, where it names that.
    pub status: Option<u16>,
    /// When a limit is lifted, where it names that beside its words.
    pub until: Option<Timestamp>,
}

impl Refusal {
    /// A refusal of which only the words are known.
    pub fn saying(said: String) -> Refusal {
        Refusal { said, status: None, until: None }
    }
}
