//! The history of a research session before the iteration that is scored: its kept state, earlier findings, and the
//! verdicts of the `verify` command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::commands::{ask_novelty, ask_verify};
use super::files::ResearchFiles;
use super::scoring::{Before, Iteration, artifact_at, stored_at};
use crate::domain::Tag;
use crate::fs::{read_at_most, write_atomic};
use crate::git::Repo;
use crate::score::{Artifact, Catalogue, Claim, Earlier, Keeps, Request, ResearchTerms, Scoring, Verdicts};
use crate::session::errors::SessionError;
use crate::state::SessionFolder;

/// The file of a run's folder with what the `verify` command said.
const VERDICTS: &str = "verdicts.json";

/// The largest such file that is read, in bytes: several thousand answers.
const LARGEST_VERDICTS: u64 = 4 << 20;

/// The verdict of a `verify` command on a citation.
#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    claim: String,
    source: String,
    quotation: Option<String>,
    supports: bool,
}

/// The history before an iteration.
pub(crate) struct Past {
    /// The claims and sources of earlier iterations.
    pub(crate) earlier: Earlier,
    /// The claims of kept iterations.
    pub(crate) keeps: Keeps,
    /// The ids of the sources that any of them stored, in lower case.
    pub(crate) stored: BTreeSet<String>,
    /// Verdicts of the `verify` command in earlier runs.
    pub(crate) verdicts: BTreeMap<Request, bool>,
}

impl Past {
    /// Reads it from the commits of the session. Outside a session, it contains only the kept state.
    pub(crate) fn read(
        repo: &Repo,
        before: &Before,
        (kept, stored): (&Artifact, &BTreeSet<String>),
        terms: &ResearchTerms,
        tag: Option<&Tag>,
    ) -> Result<Past, SessionError> {
        let mut past = Past {
            earlier: Earlier::default(),
            keeps: Keeps::default(),
            stored: stored.clone(),
            verdicts: BTreeMap::new(),
        };
        if let Some(tag) = tag.filter(|_| terms.verify.is_some()) {
            let folder = SessionFolder::new(&repo.main_worktree(), tag);
            for iteration in &before.earlier {
                past.verdicts.extend(read_verdicts(&folder.run(iteration.id)));
            }
        }
        if let Some(start) = &before.start {
            past.keeps.add(&artifact_at(repo, start, terms)?);
        }
        let mut seen = BTreeSet::new();
        for iteration in &before.earlier {
            // Most of many experiments have nothing that another one has not.
            let contents = [&terms.artifact, &terms.sources].map(|path| repo.objects.name_at(&iteration.commit, path));
            let [artifact, sources] = contents;
            if !seen.insert((artifact?, sources?, iteration.is_kept)) {
                continue;
            }
            let artifact = artifact_at(repo, &iteration.commit, terms)?;
            let stored = stored_at(repo, &iteration.commit, terms)?;
            past.stored.extend(stored.iter().cloned());
            if iteration.is_kept {
                past.keeps.add(&artifact);
                past.earlier.add(&artifact, &stored, |_| true);
            } else {
                let findings = past.findings(repo, iteration, &artifact, terms)?;
                past.earlier.add(&artifact, &stored, |claim| findings.contains(claim.key.as_str()));
            }
        }
        past.keeps.add(kept);
        past.earlier.add(kept, stored, |_| true);
        Ok(past)
    }

    /// The keys of the claims of an iteration that was not kept that count as found: the verified ones. Others may be found
    /// anew.
    fn findings(
        &self,
        repo: &Repo,
        iteration: &Iteration,
        artifact: &Artifact,
        terms: &ResearchTerms,
    ) -> Result<BTreeSet<String>, SessionError> {
        let new: Vec<&Claim> = artifact.claims.iter().filter(|claim| !self.keeps.has(claim)).collect();
        let citations = || new.iter().flat_map(|claim| &claim.citations);
        let cited: BTreeSet<String> = citations().map(|citation| citation.id.to_lowercase()).collect();
        let quotations = citations().filter_map(|citation| citation.quotation.as_deref());
        let files = ResearchFiles::new(repo, Some(iteration.commit.clone()));
        let (_, library) = files.sources_named(&terms.sources, quotations, |id| cited.contains(id))?;
        let is_verified = |claim: &Claim| match &terms.verify {
            None => library.judge(claim, None).is_verified,
            Some(_) => {
                // A verdict that was deleted with the run's folder counts as support; the command is not asked again.
                let asked = claim.citations.iter().map(|citation| self.verdicts.get(&Request::of(claim, citation)));
                library.resolves(claim) && asked.into_iter().any(|said| said.is_none_or(|supports| *supports))
            }
        };
        let is_finding = |claim: &&&Claim| is_verified(claim) && !self.keeps.is_repeated_by(claim, self.keeps.len());
        Ok(new.iter().filter(is_finding).map(|claim| claim.key.clone()).collect())
    }
}

/// Reads the verdicts of the `verify` command in a run. Returns none if they are missing or unreadable.
fn read_verdicts(folder: &Path) -> Vec<(Request, bool)> {
    let bytes = read_at_most(&folder.join(VERDICTS), LARGEST_VERDICTS).unwrap_or_default();
    let verdicts: Vec<Verdict> = serde_json::from_slice(&bytes).unwrap_or_default();
    let request = |it: Verdict| (Request { claim: it.claim, id: it.source, quotation: it.quotation }, it.supports);
    verdicts.into_iter().map(request).collect()
}

/// Writes what the `verify` command said to the folder of a run, so that kept claims are not asked about in each run.
pub(crate) fn write_verdicts(folder: &Path, verdicts: &BTreeMap<Request, bool>) -> Result<(), SessionError> {
    let verdict = |(request, supports): (&Request, &bool)| Verdict {
        claim: request.claim.clone(),
        source: request.id.clone(),
        quotation: request.quotation.clone(),
        supports: *supports,
    };
    let verdicts: Vec<Verdict> = verdicts.iter().map(verdict).collect();
    let path = folder.join(VERDICTS);
    let text = serde_json::to_vec(&verdicts).unwrap_or_default();
    write_atomic(&path, &text).map_err(SessionError::from)
}

/// The commands to ask, and the material to ask about.
pub(crate) struct Asked<'a> {
    pub(crate) scoring: &'a Scoring<'a>,
    pub(crate) terms: &'a ResearchTerms,
    pub(crate) files: &'a ResearchFiles<'a>,
    pub(crate) catalogue: &'a Catalogue,
}

impl Asked<'_> {
    /// Asks the commands of the terms for verdicts on an artifact. They always judge its new claims. `known` contains the
    /// verdicts on kept claims.
    pub(crate) async fn verdicts(
        &self,
        (artifact, kept): (&Artifact, &Artifact),
        earlier: &Earlier,
        known: &BTreeMap<Request, bool>,
        is_batch: bool,
    ) -> Result<Verdicts, SessionError> {
        let mut verdicts = Verdicts::default();
        let new = self.scoring.new_claims();
        if let Some(command) = &self.terms.verify {
            let mut asked: Vec<&Claim> = if is_batch { artifact.claims.iter().collect() } else { new.clone() };
            let is_known = |request: &Request| known.contains_key(request);
            let kept = artifact.claims.iter().chain(&kept.claims).filter(|claim| !new.contains(claim));
            asked.extend(kept.filter(|claim| !self.scoring.requests(claim).iter().all(is_known)));
            let said = self.ask(command, &asked).await?;
            verdicts.verify = Some(said.map(|said| known.clone().into_iter().chain(said).collect()));
        }
        if let Some(command) = &self.terms.novelty
            && !new.is_empty()
            && earlier.texts().next().is_some()
        {
            let claims: Vec<&str> = new.iter().map(|claim| claim.text.as_str()).collect();
            let texts: Vec<&str> = earlier.texts().collect();
            let (limit, root) = (self.terms.command_timeout, self.files.root());
            verdicts.novelty = Some(ask_novelty(command, limit, root, &claims, &texts).await?);
        }
        Ok(verdicts)
    }

    async fn ask(
        &self,
        command: &str,
        claims: &[&Claim],
    ) -> Result<Result<BTreeMap<Request, bool>, String>, SessionError> {
        let requests: BTreeSet<Request> = claims.iter().flat_map(|claim| self.scoring.requests(claim)).collect();
        let requests = requests.into_iter().collect();
        ask_verify(command, self.terms.command_timeout, self.files, self.catalogue, requests).await
    }
}
