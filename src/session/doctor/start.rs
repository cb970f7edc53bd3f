//! Reasons why `ar run` would refuse to start.

use std::path::Path;

use super::sessions::finding_of;
use crate::agent::agent_terms;
use crate::domain::{Area, Asked, Clock, Finding, Tag};
use crate::git::{GitError, Repo};
use crate::rules::{AgentLack, AgentSetting, LoopAgent};
use crate::session::errors::{ErrorKind, NoAgent, SessionError};
use crate::session::files::{find_session, session_of_head, stored_contract};
use crate::session::plan::{Drive, LoopWish, Plan, Wanted, choose, setting_of};
use crate::state::SessionFolder;

/// Lists what `ar run` would refuse if it were typed now, and what it would do about its agent. Changes nothing.
pub fn examine_start(dir: &Path, wanted: &Wanted, wish: LoopWish, clock: Clock) -> Vec<Finding> {
    // Another part reports a repository that cannot be opened.
    let Ok(repo) = Repo::discover(dir) else { return Vec::new() };
    let asked = wanted.all();
    let named = asked.agent.as_deref().map(agent_setting);
    let Ok(tag) = continued(&repo, &asked) else { return Vec::new() };
    let stored = tag.as_ref().map_or(Ok(None), |tag| stored_contract(&repo, tag));
    let folder = tag.map(|tag| SessionFolder::new(&repo.main_worktree(), &tag));
    // A start moves these away; they are found elsewhere.
    if folder.is_some_and(|folder| !folder.misplaced().is_empty()) {
        return Vec::new();
    }
    let setting = match stored {
        Ok(Some(stored)) if !stored.imported => match setting_of(&stored) {
            AgentSetting::Set => AgentSetting::Set,
            stored => named.unwrap_or(stored),
        },
        Ok(None) => named.unwrap_or(AgentSetting::Open),
        _ => return Vec::new(),
    };
    let root = repo.worktree().to_owned();
    let refused = Plan::new(repo, wanted, Drive::TYPED, clock).err().as_ref().and_then(refused);
    refused.into_iter().chain(agent(&root, setting, wish)).collect()
}

/// Interprets the value of the setting `agent`.
fn agent_setting(line: &str) -> AgentSetting {
    if agent_terms(line).0.is_some() { AgentSetting::Set } else { AgentSetting::Declined }
}

/// The session that `ar run` would continue, or whose tag is taken for a new one.
fn continued(repo: &Repo, asked: &Asked) -> Result<Option<Tag>, SessionError> {
    let tag = match &asked.tag {
        Some(tag) => Some(tag.clone()),
        None => session_of_head(&repo.refs.head()?),
    };
    Ok(match tag {
        None if asked.metric.is_none() && asked.command.is_none() => find_session(repo, None).ok(),
        tag => tag,
    })
}

/// The finding for an error that would stop `ar run`; `None` for an error that passes by itself.
fn refused(error: &SessionError) -> Option<Finding> {
    let passes = matches!(error.kind(), ErrorKind::Held | ErrorKind::Interrupted)
        || matches!(error, SessionError::Git(GitError::IndexLocked { .. }));
    let area = if matches!(error, SessionError::Dirty(_)) { Area::Repository } else { Area::Command };
    (!passes).then(|| finding_of(area, error))
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
