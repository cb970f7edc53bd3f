//! `ar score`: what a research artifact scores against the kept state and all earlier iterations of the session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{LARGEST_TEXT, RESEARCH_THRESHOLD, ResearchFiles, ask_novelty, ask_verify, read_file};
use crate::domain::{CommitId, Composite, Contract, ExperimentId, Outcome, Record, Tag, UserError, bytes_text};
use crate::fs::{absent, read_at_most, write_atomic};
use crate::git::{Repo, Stored};
use crate::rules::{History, decided_novelty};
use crate::score::{
    Artifact, Catalogue, Claim, Earlier, Keeps, Request, ResearchTerms, Score, Scoring, Standing, TERMS_FILE, Verdicts,
    as_text, source_id,
};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::{is_session, read_history, session_of_head, stored_contract};
use crate::state::SessionFolder;

/// Iterations between two verifications of all citations, as in the Madani adapter.
const BATCH: usize = 20;

/// Limit on the search for the kept state, in commits back from HEAD. Each experiment is one commit on its base.
const FARTHEST: usize = 1000;

/// The state with which a score was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedState {
    /// The session; absent outside of one.
    pub session: Option<Tag>,
    /// The commit of the kept state; absent where there is none.
    pub kept: Option<CommitId>,
    /// The experiment of that commit.
    pub experiment: Option<ExperimentId>,
    /// Number of earlier iterations.
    pub earlier: usize,
}

/// The scored experiment, if the invocation is part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScoredOf {
    /// The experiment, which does not count as an earlier one.
    pub experiment: Option<ExperimentId>,
    /// The commit that its run measures, with artifact and sources. Without one, they are read from the working tree.
    pub commit: Option<CommitId>,
    /// The folder of its run, for the verdicts of the `verify` command.
    pub folder: Option<PathBuf>,
}

/// A score with what belongs to it.
#[derive(Debug)]
pub struct Scored {
    /// The terms that it goes by.
    pub terms: ResearchTerms,
    /// The state with which it was compared.
    pub compared: ComparedState,
    /// The score.
    pub score: Score,
}

/// Scores the artifact of the working tree that `dir` is in. It goes by the session `tag`, else by that of HEAD's branch, else by
/// HEAD alone.
///
/// # Errors
///
/// The artifact or the terms cannot be read. Everything else is told in the score.
pub async fn score(dir: &Path, tag: Option<Tag>, of: ScoredOf) -> Result<Scored, SessionError> {
    let own = of.experiment;
    let repo = Repo::find(dir)?;
    let head = repo.refs.head()?;
    let of_head = || session_of_head(&head);
    let tag = match tag.or_else(of_head) {
        Some(tag) if is_session(&repo, &tag)? => Some(tag),
        _ => None,
    };
    let before = match &tag {
        Some(tag) => {
            // Only a run, an agent and the session's own branch stand on what was kept.
            let stands = own.is_some() || session_of_head(&head).as_ref() == Some(tag);
            Before::of_session(&repo, tag, head.commit().filter(|_| stands), own)?
        }
        None => Before::of_head(head.commit()),
    };
    let mut terms = read_terms(&repo, before.start.as_ref())?;
    if let Some(composite) = before.composite.clone() {
        terms = terms.with_composite(composite).map_err(cannot_use("[composite] of the session"))?;
    }
    let files = ResearchFiles::new(&repo, of.commit);
    let artifact = read_artifact(&files, &terms)?;
    let (kept, stored) = match &before.kept {
        Some((commit, _)) => (artifact_at(&repo, commit, &terms)?, stored_at(&repo, commit, &terms)?),
        None => Default::default(),
    };
    let past = Past::read(&repo, &before, (&kept, &stored), &terms, tag.as_ref())?;
    let standing = Standing {
        keeps: &past.keeps,
        stored: past.stored,
        novelties: before.earlier.iter().filter_map(|iteration| iteration.novelty).collect(),
        threshold: before.threshold,
        is_baseline: own.is_some_and(ExperimentId::is_baseline),
    };
    let claims = artifact.claims.iter().chain(&kept.claims);
    let quotations = claims.flat_map(|claim| &claim.citations).filter_map(|citation| citation.quotation.as_deref());
    let (catalogue, library) = files.sources(&terms.sources, quotations)?;
    let scoring = Scoring {
        terms: &terms,
        artifact: &artifact,
        kept: &kept,
        earlier: &past.earlier,
        library: &library,
        stored: &stored,
        standing: &standing,
    };
    let is_batch = tag.is_some() && (before.experiments() + 1).is_multiple_of(BATCH);
    let asked = Enquiry { scoring: &scoring, files: &files, catalogue: &catalogue };
    let anew = BTreeMap::new();
    let known = if is_batch { &anew } else { &past.verdicts };
    let verdicts = asked.verdicts(known, is_batch).await?;
    if let (Some(Ok(verdicts)), Some(folder)) = (&verdicts.verify, of.folder.as_deref()) {
        write_verdicts(folder, verdicts)?;
    }
    let score = scoring.score(&verdicts, is_batch);
    let iterations = if tag.is_some() { before.experiments() } else { usize::from(!kept.claims.is_empty()) };
    let (commit, experiment) = before.kept.unzip();
    let compared = ComparedState { session: tag, kept: commit, experiment: experiment.flatten(), earlier: iterations };
    Ok(Scored { compared, score, terms })
}

/// The artifact as it is now.
fn read_artifact(files: &ResearchFiles<'_>, terms: &ResearchTerms) -> Result<Artifact, SessionError> {
    let path = terms.artifact.display();
    let unreadable = |why: String| {
        refuse(CannotStart, format!("cannot read the artifact {path}: {why}"))
            .hint(format!("run `git show HEAD:{path}` to see the last version that was committed"))
    };
    let bytes = files.read(&terms.artifact).map_err(|error| unreadable(error.to_string()))?;
    let text = as_text(&bytes).map_err(|error| unreadable(error.to_string()))?;
    Ok(Artifact::read(&terms.artifact.to_string_lossy(), text, &terms.topics))
}

/// The state before the iteration that is scored.
pub(crate) struct Before {
    /// The commit that the session started from; absent outside of one.
    pub(crate) start: Option<CommitId>,
    /// The axes of the session, in the form of its artifact.
    composite: Option<Composite>,
    /// The composite from which on an iteration is kept.
    threshold: f64,
    /// The kept state, and its experiment.
    pub(crate) kept: Option<(CommitId, Option<ExperimentId>)>,
    /// The earlier experiments.
    pub(crate) earlier: Vec<Iteration>,
}

/// An experiment that was recorded before.
pub(crate) struct Iteration {
    pub(crate) id: ExperimentId,
    pub(crate) commit: CommitId,
    pub(crate) is_kept: bool,
    /// Its novelty, where it was decided on.
    novelty: Option<f64>,
}

impl Before {
    /// The state outside of a session, where the artifact of HEAD is the one to beat.
    fn of_head(head: Option<&CommitId>) -> Before {
        Before {
            start: None,
            composite: None,
            threshold: RESEARCH_THRESHOLD,
            kept: head.map(|commit| (commit.clone(), None)),
            earlier: Vec::new(),
        }
    }

    fn of_session(
        repo: &Repo,
        tag: &Tag,
        head: Option<&CommitId>,
        own: Option<ExperimentId>,
    ) -> Result<Before, SessionError> {
        let history = read_history(repo, tag)?;
        let contract = stored_contract(repo, tag)?;
        let composite = contract.as_ref().filter(|it| it.deciding_composite().is_some());
        let composite = composite.and_then(Contract::asked_composite);
        let threshold = contract.as_ref().and_then(|contract| contract.keep_above.as_ref());
        let threshold = threshold.map_or(RESEARCH_THRESHOLD, |threshold| threshold.value(None));
        let of_baseline = || history.baseline().map(|record| record.commit.clone());
        let start = contract.map(|contract| contract.start).or_else(of_baseline);
        let earlier = earlier_records(&history, own);
        let kept: BTreeMap<&CommitId, ExperimentId> = earlier
            .iter()
            .filter(|record| record.outcome == Outcome::Keep && record.commit.is_known())
            .map(|record| (&record.commit, record.id))
            .collect();
        let mut at = head.cloned();
        let mut found = None;
        for _ in 0..FARTHEST {
            let Some(commit) = at.filter(|_| found.is_none()) else { break };
            found = kept.get(&commit).map(|id| (commit.clone(), Some(*id)));
            let is_start = start.as_ref() == Some(&commit);
            at = if is_start { None } else { repo.objects.parents(&commit)?.into_iter().next() };
        }
        let last = || {
            let last = earlier.iter().rev().find(|record| kept.get(&record.commit) == Some(&record.id))?;
            Some((last.commit.clone(), Some(last.id)))
        };
        let begin = || start.clone().map(|start| (start, None));
        let kept = found.or_else(last).or_else(begin);
        // Refused changes were never scored. The agent may propose them again without the refused part.
        let was_scored = |record: &&&Record| !record.failure.as_ref().is_some_and(|it| it.class.is_refusal());
        let commits = earlier.iter().filter(was_scored).filter(|record| record.commit.is_known());
        let iteration = |record: &&Record| Iteration {
            id: record.id,
            commit: record.commit.clone(),
            is_kept: record.outcome == Outcome::Keep,
            novelty: decided_novelty(record),
        };
        let earlier = commits.map(iteration).collect();
        Ok(Before { start, composite, threshold, kept, earlier })
    }

    /// Number of earlier iterations without the baseline.
    fn experiments(&self) -> usize {
        self.earlier.iter().filter(|iteration| !iteration.id.is_baseline()).count()
    }
}

/// The records before experiment `own`, in the order of recording: all of them while it is open.
fn earlier_records(history: &History, own: Option<ExperimentId>) -> Vec<&Record> {
    let sequence = history.records().iter().find(|record| Some(record.id) == own).map(Record::sequence);
    let is_earlier = |record: &&Record| sequence.is_none_or(|own| record.sequence() < own);
    let mut records: Vec<&Record> = history.records().iter().filter(is_earlier).collect();
    records.sort_by_key(|record| record.sequence());
    records
}

/// Reads the research terms from the start commit of a session, or without one from the working tree.
pub(crate) fn read_terms(repo: &Repo, start: Option<&CommitId>) -> Result<ResearchTerms, SessionError> {
    let place = start.map_or("the working tree".to_owned(), |commit| format!("commit {}", commit.short(8)));
    let unreadable = |why: String| {
        refuse(CannotStart, format!("cannot read {TERMS_FILE} of {place}: {why}"))
            .hint(format!("run `file {TERMS_FILE}` to see what it is"))
    };
    let missing = || {
        refuse(CannotStart, format!("{place} has no {TERMS_FILE}"))
            .hint("commit one before the session starts; `ar init --research \"QUESTION\"` writes it")
    };
    let bytes = match start {
        Some(commit) => match repo.objects.read_at(commit, Path::new(TERMS_FILE), LARGEST_TEXT)? {
            Stored::File(bytes) => bytes,
            Stored::Missing => return Err(missing().into()),
            Stored::NoFile => return Err(unreadable("it is not a regular file".into()).into()),
            Stored::TooLarge(size) => return Err(unreadable(format!("it has {}", bytes_text(size))).into()),
        },
        None => match read_file(&repo.worktree().join(TERMS_FILE)) {
            Ok(bytes) => bytes,
            Err(error) if absent(&error) => return Err(missing().into()),
            Err(error) => return Err(unreadable(error.to_string()).into()),
        },
    };
    let text = as_text(&bytes).map_err(|error| unreadable(error.to_string()))?;
    Ok(ResearchTerms::read(text).map_err(cannot_use(&format!("{TERMS_FILE} of {place}")))?)
}

/// Names the terms that an error is about; its hint stays.
pub(crate) fn cannot_use(terms: &str) -> impl FnOnce(UserError) -> UserError {
    let error = refuse(CannotStart, format!("cannot use {terms}"));
    |mut cause| error.hint(cause.hint.take().unwrap_or_default()).caused_by(cause)
}

/// The artifact of a commit; one without claims where it cannot be read.
pub(crate) fn artifact_at(repo: &Repo, commit: &CommitId, terms: &ResearchTerms) -> Result<Artifact, SessionError> {
    let Stored::File(bytes) = repo.objects.read_at(commit, &terms.artifact, LARGEST_TEXT)? else {
        return Ok(Artifact::default());
    };
    let file = terms.artifact.to_string_lossy();
    Ok(as_text(&bytes).map_or_else(|_| Artifact::default(), |text| Artifact::read(&file, text, &terms.topics)))
}

/// The ids of the sources that a commit has.
pub(crate) fn stored_at(
    repo: &Repo,
    commit: &CommitId,
    terms: &ResearchTerms,
) -> Result<BTreeSet<String>, SessionError> {
    Ok(repo.objects.files_below(commit, &terms.sources)?.iter().filter_map(|path| source_id(path)).collect())
}

/// The file of a run's folder with what the `verify` command said.
const VERDICTS: &str = "verdicts.json";

/// The largest such file that is read, in bytes: several thousand answers.
const LARGEST_VERDICTS: u64 = 4 << 20;

/// The verdict of a `verify` command on a citation.
#[derive(Debug, Serialize, Deserialize)]
struct CitationVerdict {
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
            let folder = SessionFolder::new(repo.main_worktree(), tag);
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
            None => !library.supporting(claim, None).is_empty(),
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
    let verdicts: Vec<CitationVerdict> = serde_json::from_slice(&bytes).unwrap_or_default();
    let request =
        |it: CitationVerdict| (Request { claim: it.claim, id: it.source, quotation: it.quotation }, it.supports);
    verdicts.into_iter().map(request).collect()
}

/// Writes what the `verify` command said to the folder of a run, so that kept claims are not asked about in each run.
pub(crate) fn write_verdicts(folder: &Path, verdicts: &BTreeMap<Request, bool>) -> Result<(), SessionError> {
    let verdict = |(request, supports): (&Request, &bool)| CitationVerdict {
        claim: request.claim.clone(),
        source: request.id.clone(),
        quotation: request.quotation.clone(),
        supports: *supports,
    };
    let verdicts: Vec<CitationVerdict> = verdicts.iter().map(verdict).collect();
    let path = folder.join(VERDICTS);
    let text = serde_json::to_vec(&verdicts).unwrap_or_default();
    write_atomic(&path, &text).map_err(SessionError::from)
}

/// The commands to ask, and the material to ask about.
pub(crate) struct Enquiry<'a> {
    pub(crate) scoring: &'a Scoring<'a>,
    pub(crate) files: &'a ResearchFiles<'a>,
    pub(crate) catalogue: &'a Catalogue,
}

impl Enquiry<'_> {
    /// Asks the commands of the terms for verdicts on an artifact. They always judge its new claims. `known` contains the
    /// verdicts on kept claims.
    pub(crate) async fn verdicts(
        &self,
        known: &BTreeMap<Request, bool>,
        is_batch: bool,
    ) -> Result<Verdicts, SessionError> {
        let Scoring { terms, artifact, kept, earlier, .. } = *self.scoring;
        let mut verdicts = Verdicts::default();
        let new = self.scoring.new_claims();
        if let Some(command) = &terms.verify {
            let mut asked: Vec<&Claim> = if is_batch { artifact.claims.iter().collect() } else { new.clone() };
            let is_known = |request: &Request| known.contains_key(request);
            let kept = artifact.claims.iter().chain(&kept.claims).filter(|claim| !new.contains(claim));
            asked.extend(kept.filter(|claim| !self.scoring.requests(claim).iter().all(is_known)));
            let said = self.ask(command, &asked).await?;
            verdicts.verify = Some(said.map(|said| known.clone().into_iter().chain(said).collect()));
        }
        let supported = self.scoring.supported(&verdicts);
        if let Some(command) = &terms.novelty
            && !supported.is_empty()
            && earlier.texts().next().is_some()
        {
            let claims: Vec<&str> = supported.iter().map(|claim| claim.text.as_str()).collect();
            let texts: Vec<&str> = earlier.texts().collect();
            let (limit, root) = (terms.command_timeout, self.files.root());
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
        ask_verify(command, self.scoring.terms.command_timeout, self.files, self.catalogue, requests).await
    }
}
