//! The whole look.

use std::path::Path;

use super::facts::REPAIR;
use super::sessions::{Part, Patients, finding_of};
use super::{host, ledger, open_refs, records, refs, repository, shared, state};
use crate::domain::{Area, Asked, Finding, Severity, Tag};
use crate::git::Repo;
use crate::rules::worst;
use crate::session::errors::SessionError;

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
    let parts: [Part; 4] = [refs::inspect, records::inspect, state::inspect, open_refs::inspect];
    for (part, facts) in parts.iter().flat_map(|part| patients.sessions().map(move |facts| (part, facts))) {
        findings.extend(part(&repo, facts).into_iter().map(|found| found.finding.of(&facts.tag)));
    }
    findings.extend(ledger::inspect(&repo, &patients));
    findings.extend(shared::inspect(&repo));
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
