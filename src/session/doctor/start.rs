//! What would keep `ar run` from starting.

use std::path::Path;

use super::patients::finding_of;
use crate::agent::agent_terms;
use crate::domain::{Area, Asked, Clock, Contract, Finding, Severity};
use crate::git::Repo;
use crate::rules::{AgentLack, AgentSetting, LoopAgent};
use crate::session::choosing::find_session;
use crate::session::error::{ErrorKind, SessionError};
use crate::session::loop_agent::{LoopWish, NoAgent, choose, setting_of};
use crate::session::plan::{Drive, Plan};
use crate::session::reading::{session_of_head, stored_contract};
use crate::session::terms::Wanted;

/// Lists what `ar run` would refuse if it were typed now, and what it would do about its agent. Changes nothing.
pub fn examine_start(dir: &Path, wanted: &Wanted, wish: LoopWish, clock: Clock) -> Vec<Finding> {
    // What is wrong with a repository that cannot be opened is found elsewhere.
    let Ok(repo) = Repo::discover(dir) else { return Vec::new() };
    let asked = wanted.all();
    match continued(&repo, &asked) {
        Err(_) => Vec::new(),
        Ok(Some(stored)) if stored.imported => Vec::new(),
        Ok(Some(stored)) => {
            let setting = match setting_of(&stored) {
                AgentSetting::Set => AgentSetting::Set,
                stored => asked.agent.as_deref().map_or(stored, agent_setting),
            };
            agent(repo.worktree(), setting, wish).into_iter().collect()
        }
        Ok(None) if asked.metric.is_none() && asked.command.is_none() => Vec::new(),
        Ok(None) => {
            let root = repo.worktree().to_owned();
            let planned = Plan::new(repo, wanted, Drive::TYPED, clock);
            let refused = planned.as_ref().err().and_then(refused);
            let setting = asked.agent.as_deref().map_or(AgentSetting::Open, agent_setting);
            refused.into_iter().chain(agent(&root, setting, wish)).collect()
        }
    }
}

/// What the value of `agent` says.
fn agent_setting(line: &str) -> AgentSetting {
    if agent_terms(line).0.is_some() { AgentSetting::Set } else { AgentSetting::Declined }
}

/// The contract of the session that `ar run` would continue.
fn continued(repo: &Repo, asked: &Asked) -> Result<Option<Contract>, SessionError> {
    let tag = match &asked.tag {
        Some(tag) => Some(tag.clone()),
        None => session_of_head(&repo.refs.head()?),
    };
    let tag = match tag {
        None if asked.metric.is_none() && asked.command.is_none() => find_session(repo, None).ok(),
        tag => tag,
    };
    tag.map_or(Ok(None), |tag| stored_contract(repo, &tag))
}

/// The finding of an error that would stop `ar run`. What passes by itself is none.
fn refused(error: &SessionError) -> Option<Finding> {
    let area = match error {
        SessionError::Dirty(_) => Area::Repository,
        _ => Area::Command,
    };
    let finding = finding_of(area, error);
    match error {
        error if matches!(error.kind(), ErrorKind::Held | ErrorKind::Interrupted) => None,
        // A flag may give what is missing.
        SessionError::Dirty(_) | SessionError::Missing(_) => Some(Finding { level: Severity::Warning, ..finding }),
        _ => Some(finding),
    }
}

/// The finding on the agent of a loop that has none.
fn agent(root: &Path, setting: AgentSetting, wish: LoopWish) -> Option<Finding> {
    const HINT: &str = "set agent in ar.toml, or pass --agent to `ar run`; an agent can also drive with `ar try`";
    let (chosen, installed) = choose(root, setting, wish);
    match chosen {
        LoopAgent::Settled => None,
        LoopAgent::Take(name) => {
            Some(Finding::ok(Area::Agent, format!("`ar run` takes {name}, the only agent installed")))
        }
        // To drive by `ar try` alone is what the user asked for.
        LoopAgent::BaselineOnly(AgentLack::Declined) => None,
        LoopAgent::BaselineOnly(lack) => {
            Some(Finding::warning(Area::Agent, NoAgent::new(lack, installed).notice()).hint(HINT))
        }
        LoopAgent::Refused(setting, lack) => {
            let error = SessionError::NoAgentForLoop { setting, no_agent: NoAgent::new(lack, installed) };
            Some(finding_of(Area::Agent, &error).hint(HINT))
        }
    }
}
