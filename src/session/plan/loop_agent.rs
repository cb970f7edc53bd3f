//! The agent of a loop whose session has none.

use std::env;
use std::path::Path;

use super::invocation::Plan;
use crate::agent::{Preset, agent_terms, within_agent};
use crate::domain::Contract;
use crate::rules::{AgentFacts, AgentSetting, LoopAgent, loop_agent};
use crate::session::errors::{NoAgent, SessionError};
use crate::session::files::installed_agents;

/// The parts of a loop's invocation that decide about its agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopWish {
    /// The setting that asks for a loop in so many words.
    pub setting: Option<&'static str>,
    /// True if the loop is to run only the baseline.
    pub baseline_only: bool,
    /// True if the loop may take the only installed agent.
    pub may_take: bool,
}

/// Reads the agent setting from a session's contract.
pub(crate) fn setting_of(contract: &Contract) -> AgentSetting {
    match contract.agent {
        Some(_) => AgentSetting::Set,
        None if contract.no_agent => AgentSetting::Declined,
        None => AgentSetting::Open,
    }
}

/// The variable that says that this process is within another agent's session, if one does.
pub fn outer_agent() -> Option<&'static str> {
    within_agent(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Decides where the agent of a loop comes from. Unless the contract sets one, also lists the known agents that are
/// installed.
pub(crate) fn choose(root: &Path, setting: AgentSetting, wish: LoopWish) -> (LoopAgent, Vec<&'static str>) {
    let installed: Vec<&'static str> = match setting {
        AgentSetting::Set => Vec::new(),
        _ => installed_agents(root).into_iter().map(|preset| preset.name).collect(),
    };
    let facts = AgentFacts {
        setting,
        baseline_only: wish.baseline_only,
        wish: wish.setting,
        may_take: wish.may_take,
        within: outer_agent(),
        installed: &installed,
    };
    (loop_agent(&facts), installed)
}

impl Plan {
    /// Gives a loop without an agent the only one that is installed, or says why it has none. Refuses to start where
    /// there is none and a loop is asked for.
    pub fn with_loop_agent(mut self, wish: LoopWish) -> Result<(Plan, Option<NoAgent>), SessionError> {
        let by_layout = self.layout.as_ref().filter(|_| wish.may_take).map(|_| "slots");
        let wish = LoopWish { setting: wish.setting.or(by_layout), ..wish };
        let (chosen, installed) = choose(self.repo.worktree(), setting_of(&self.contract), wish);
        match chosen {
            LoopAgent::Settled => Ok((self, None)),
            LoopAgent::Take(name) => {
                self.take_agent(name);
                Ok((self, None))
            }
            LoopAgent::BaselineOnly(lack) => Ok((self, Some(NoAgent::new(lack, installed)))),
            LoopAgent::Refused(setting, lack) => {
                Err(SessionError::NoAgentForLoop { setting, no_agent: NoAgent::new(lack, installed) })
            }
        }
    }

    /// Makes an installed agent that of the session.
    fn take_agent(&mut self, name: &str) {
        (self.contract.agent, self.contract.agent_preset) = agent_terms(name);
        self.notices.push(format!("took {name}, the only agent installed; `--agent none` measures only the baseline"));
        if let Some(preset) = Preset::named(name) {
            self.notices.extend(self.idle_limits(preset.command));
        }
    }
}
