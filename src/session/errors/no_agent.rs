//! The reason why a loop has no agent.

use crate::rules::AgentLack;

/// The reason why a loop has no agent, with the installed agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAgent {
    lack: AgentLack,
    installed: Vec<&'static str>,
}

impl NoAgent {
    /// One that lacks an agent for this reason.
    pub(crate) fn new(lack: AgentLack, installed: Vec<&'static str>) -> NoAgent {
        NoAgent { lack, installed }
    }

    /// The installed agents by name.
    pub fn installed(&self) -> &[&'static str] {
        &self.installed
    }

    /// The reason in words.
    pub(crate) fn why(&self) -> String {
        match self.lack {
            AgentLack::Declined => "the agent is `none`".to_owned(),
            AgentLack::Within(_) | AgentLack::NotSet => "no agent is set".to_owned(),
        }
    }

    /// The installed agents in words.
    pub(crate) fn installed_text(&self) -> String {
        let names = self.installed.join(", ");
        match (self.lack, self.installed.as_slice()) {
            (_, []) => "no known agent is installed".to_owned(),
            (AgentLack::Within(variable), _) => {
                format!("installed: {names}, but `ar` takes none inside another agent's session ({variable} is set)")
            }
            (_, _) => format!("installed: {names}"),
        }
    }

    /// The notice that only the baseline will be measured.
    pub fn notice(&self) -> String {
        format!("{}, so only the baseline will be measured; {}", self.why(), self.installed_text())
    }
}
