//! The examination of sessions and their repository, and the reasons why `ar run` would refuse to start.

use std::path::Path;

use super::{Part, Patients, REPAIR, finding_of, host, ledger, refs, repository, state};
use crate::domain::{Area, Asked, Clock, Finding, Severity, Tag};
use crate::git::{GitError, Repo};
use crate::rules::{AgentLack, AgentSetting, LoopAgent, worst};
use crate::session::errors::{ErrorKind, NoAgent, SessionError};
use crate::session::files::{find_session, session_of_head, stored_contract};
use crate::session::plan::{Drive, LoopWish, Plan, Wanted, choose, setting_of};
use crate::state::SessionFolder;

/// The result of examining sessions and their repository.
#[derive(Debug, Default)]
pub struct Examination {
    /// The examined sessions.
    pub sessions: Vec<Tag>,
    /// Repairs done before the examination, one sentence each.
    pub repaired: Vec<String>,
    /// Findings of every severity, `ok` included.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// The worst that was found.
    pub fn health(&self) -> Severity {
        worst(self.findings.iter().map(|finding| finding.level))
    }
}

/// Looks at the session that `tag` names, else that of HEAD's branch, else all of them; `asked` has the commands where
/// there is no session. Takes no lock and changes nothing.
///
/// # Errors
///
/// There is no session `tag`. Whatever else is wrong is a finding.
pub fn examine(dir: &Path, tag: Option<&Tag>, asked: &Asked) -> Result<Examination, SessionError> {
    let repo = match Repo::find(dir) {
        Ok(repo) => repo,
        Err(error) => {
            let findings = vec![finding_of(Area::Repository, &error.into())];
            return Ok(Examination { findings, ..Examination::default() });
        }
    };
    let patients = match Patients::find(&repo, tag) {
        Err(error @ SessionError::NoSession { .. }) => return Err(error),
        Err(error) => {
            let mut findings = repository::inspect(&repo, &[]);
            findings.push(finding_of(Area::Refs, &error));
            return Ok(Examination { findings, ..Examination::default() });
        }
        Ok(patients) => patients,
    };
    let mut findings = repository::inspect(&repo, &patients.meant);
    for facts in patients.meant.iter().filter(|facts| facts.is_remains()) {
        findings
            .extend(refs::inspect_remains(&repo, facts).unwrap_or_else(|error| vec![finding_of(Area::Refs, &error)]));
        findings.extend(state::unknown_runs(facts, &[], "ar doctor").into_iter().map(|found| found.of(&facts.tag)));
    }
    let parts: [Part; 4] = [refs::inspect, state::inspect_records, state::inspect, refs::inspect_open];
    for (part, facts) in parts.iter().flat_map(|part| patients.sessions().map(move |facts| (part, facts))) {
        findings.extend(part(&repo, facts).into_iter().map(|found| found.finding.of(&facts.tag)));
    }
    findings.extend(ledger::inspect(&repo, &patients));
    findings.extend(ledger::inspect_memory(&repo));
    findings.extend(host::inspect(&repo, &patients.meant, asked));
    findings.sort_by_key(|finding| finding.area);
    // One thing that is wrong may stop several looks.
    let broken: Vec<&str> =
        patients.meant.iter().flat_map(|facts| &facts.broken).map(|broken| broken.name.as_str()).collect();
    let mut said: Vec<String> = Vec::new();
    findings.retain(|finding| {
        let is_known = finding.is_unexplained && broken.iter().any(|name| finding.what.contains(name));
        let is_new = !said.contains(&finding.what);
        said.push(finding.what.clone());
        finding.level == Severity::Ok || (is_new && !is_known)
    });
    if let Some(tag) = tag {
        for hint in findings.iter_mut().filter_map(|finding| finding.hint.as_mut()) {
            *hint = hint.replace(REPAIR, &format!("ar doctor {tag} --repair"));
        }
    }
    let sessions = patients.meant.into_iter().map(|facts| facts.tag).collect();
    Ok(Examination { sessions, findings, repaired: Vec::new() })
}

/// Lists what `ar run` would refuse if it were typed now, and what it would do about its agent. Changes nothing.
pub fn examine_start(dir: &Path, wanted: &Wanted, wish: LoopWish, clock: Clock) -> Vec<Finding> {
    // Another part reports a repository that cannot be opened.
    let Ok(repo) = Repo::discover(dir) else { return Vec::new() };
    let asked = wanted.all();
    let Ok(tag) = continued(&repo, &asked) else { return Vec::new() };
    let stored = tag.as_ref().map_or(Ok(None), |tag| stored_contract(&repo, tag));
    let folder = tag.map(|tag| SessionFolder::new(repo.main_worktree(), &tag));
    // A start moves these away; they are found elsewhere.
    if folder.is_some_and(|folder| !folder.misplaced().is_empty()) {
        return Vec::new();
    }
    if !stored.is_ok_and(|stored| stored.is_none_or(|stored| !stored.imported)) {
        return Vec::new();
    }
    let root = repo.worktree().to_owned();
    let found = match Plan::new(repo, wanted, Drive::TYPED, clock) {
        Ok(plan) => agent(&root, setting_of(plan.contract()), wish),
        Err(error) => refused(&error),
    };
    found.into_iter().collect()
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
    let area = if matches!(error, SessionError::Dirty { .. }) { Area::Repository } else { Area::Command };
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
