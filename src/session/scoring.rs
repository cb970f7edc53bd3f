//! `ar score`: what a research artifact scores against the kept state and all earlier iterations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::asking::{ask_novelty, ask_verify};
use super::error::SessionError;
use super::reading::{is_session, read_history, session_of_head, stored_contract};
use super::research_files::{LARGEST_TEXT, ResearchFiles, read_file};
use crate::domain::{CommitId, Composite, ExperimentId, Outcome, Record, Tag, bytes_text};
use crate::fs::absent;
use crate::git::{Repo, Stored};
use crate::rules::History;
use crate::score::{
    Artifact, Catalogue, Claim, Earlier, ResearchTerms, Score, Scoring, TERMS_FILE, TermsError, Verdicts, as_text,
    source_id,
};

/// How often all citations are verified anew, in iterations: 20, as in the Madani adapter.
const BATCH: usize = 20;

/// How far back from HEAD the kept state is looked for, in commits: an experiment is one commit on what it was made of.
const FARTHEST: usize = 1000;

/// Why nothing can be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The artifact cannot be read.
    #[error("cannot read the artifact {}: {why}", path.display())]
    Artifact {
        /// The artifact.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is no `research.toml`.
    #[error("{place} has no {TERMS_FILE}")]
    NoTerms {
        /// Where it was looked for.
        place: String,
    },
    /// It cannot be read.
    #[error("cannot read {TERMS_FILE} of {place}: {why}")]
    UnreadableTerms {
        /// Where it stands.
        place: String,
        /// Why.
        why: String,
    },
    /// Terms cannot be used.
    #[error("cannot use {terms}")]
    Terms {
        /// The terms, with the place where they stand.
        terms: String,
        /// Why.
        source: TermsError,
    },
}

impl ScoreError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            ScoreError::Artifact { path, .. } => {
                format!("run `git show HEAD:{}` to see the last version that was committed", path.display())
            }
            ScoreError::NoTerms { .. } => {
                "commit one before the session starts; `ar init --research \"QUESTION\"` writes it".into()
            }
            ScoreError::UnreadableTerms { .. } => format!("run `file {TERMS_FILE}` to see what it is"),
            ScoreError::Terms { source, .. } => source.hint(),
        }
    }
}

/// What a score was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The session; absent outside of one.
    pub session: Option<Tag>,
    /// The commit of the kept state; absent where there is none.
    pub kept: Option<CommitId>,
    /// The experiment of that commit.
    pub experiment: Option<ExperimentId>,
    /// How many earlier iterations there are.
    pub earlier: usize,
}

/// What is scored, where the call is part of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScoredOf {
    /// The experiment, which is none of the earlier ones.
    pub experiment: Option<ExperimentId>,
    /// The commit that its run measures; artifact and sources are read from it, and else from the working tree.
    pub commit: Option<CommitId>,
}

/// A score with what belongs to it.
#[derive(Debug)]
pub struct Scored {
    /// The terms that it goes by.
    pub terms: ResearchTerms,
    /// What it was compared with.
    pub compared: Compared,
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
        None => Before {
            start: None,
            composite: None,
            kept: head.commit().map(|commit| (commit.clone(), None)),
            earlier: Vec::new(),
        },
    };
    let mut terms = read_terms(&repo, before.start.as_ref())?;
    if let Some(composite) = before.composite.clone() {
        let of = || "[composite] of the session".to_owned();
        terms = terms.with_composite(composite).map_err(|source| ScoreError::Terms { terms: of(), source })?;
    }
    let files = ResearchFiles::new(&repo, of.commit);
    let path = terms.artifact.clone();
    let unreadable = |why: String| ScoreError::Artifact { path: path.clone(), why };
    let bytes = files.read(&terms.artifact).map_err(|error| unreadable(error.to_string()))?;
    let text = as_text(&bytes).map_err(|error| unreadable(error.to_string()))?;
    let file = terms.artifact.to_string_lossy();
    let artifact = Artifact::read(&file, text, &terms.topics);
    let (kept, stored) = match &before.kept {
        Some((commit, _)) => (artifact_at(&repo, commit, &terms)?, stored_at(&repo, commit, &terms)?),
        None => Default::default(),
    };
    let earlier = earlier(&repo, &before, (&kept, &stored), &terms)?;
    let claims = artifact.claims.iter().chain(&kept.claims);
    let quotations = claims.flat_map(|claim| &claim.citations).filter_map(|citation| citation.quotation.as_deref());
    let (catalogue, library) = files.sources(&terms.sources, quotations)?;
    let scoring = Scoring::new(&terms, &artifact, &kept, &earlier, &library, &stored);
    let is_batch = tag.is_some() && (before.experiments() + 1).is_multiple_of(BATCH);
    let verdicts = verdicts(&scoring, &terms, &artifact, &earlier, (&files, &catalogue), is_batch).await?;
    let score = scoring.score(&verdicts, is_batch);
    let iterations = if tag.is_some() { before.experiments() } else { usize::from(!kept.claims.is_empty()) };
    let (commit, experiment) = before.kept.unzip();
    let compared = Compared { session: tag, kept: commit, experiment: experiment.flatten(), earlier: iterations };
    Ok(Scored { compared, score, terms })
}

/// What was there before the iteration that is scored.
struct Before {
    /// The commit that the session started from; absent outside of one.
    start: Option<CommitId>,
    /// The axes that decide in the session.
    composite: Option<Composite>,
    /// The kept state, and its experiment.
    kept: Option<(CommitId, Option<ExperimentId>)>,
    /// The earlier experiments, each with its commit.
    earlier: Vec<(ExperimentId, CommitId)>,
}

impl Before {
    fn of_session(
        repo: &Repo,
        tag: &Tag,
        head: Option<&CommitId>,
        own: Option<ExperimentId>,
    ) -> Result<Before, SessionError> {
        let history = read_history(repo, tag)?;
        let contract = stored_contract(repo, tag)?;
        let composite = contract.as_ref().and_then(|contract| contract.deciding_composite().cloned());
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
        // What was refused was never scored, and may come again without what it was refused for.
        let was_scored = |record: &&&Record| !record.failure.as_ref().is_some_and(|it| it.class.is_refusal());
        let commits = earlier.iter().filter(was_scored).filter(|record| record.commit.is_known());
        let commits = commits.map(|record| (record.id, record.commit.clone())).collect();
        Ok(Before { start, composite, kept, earlier: commits })
    }

    /// How many of them are no baseline.
    fn experiments(&self) -> usize {
        self.earlier.iter().filter(|(id, _)| !id.is_baseline()).count()
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

/// The terms as the session began with, or those of the working tree outside of one.
pub(super) fn read_terms(repo: &Repo, start: Option<&CommitId>) -> Result<ResearchTerms, SessionError> {
    let place = start.map_or("the working tree".to_owned(), |commit| format!("commit {}", commit.short(8)));
    let unreadable = |why: String| ScoreError::UnreadableTerms { place: place.clone(), why };
    let bytes = match start {
        Some(commit) => match repo.objects.read_at(commit, Path::new(TERMS_FILE), LARGEST_TEXT)? {
            Stored::File(bytes) => bytes,
            Stored::Missing => return Err(ScoreError::NoTerms { place }.into()),
            Stored::NoFile => return Err(unreadable("it is not a regular file".into()).into()),
            Stored::TooLarge(size) => return Err(unreadable(format!("it has {}", bytes_text(size))).into()),
        },
        None => match read_file(&repo.worktree().join(TERMS_FILE)) {
            Ok(bytes) => bytes,
            Err(error) if absent(&error) => return Err(ScoreError::NoTerms { place }.into()),
            Err(error) => return Err(unreadable(error.to_string()).into()),
        },
    };
    let text = as_text(&bytes).map_err(|error| unreadable(error.to_string()))?;
    let terms = || format!("{TERMS_FILE} of {place}");
    Ok(ResearchTerms::read(text).map_err(|source| ScoreError::Terms { terms: terms(), source })?)
}

/// The artifact of a commit; one without claims where it cannot be read.
pub(super) fn artifact_at(repo: &Repo, commit: &CommitId, terms: &ResearchTerms) -> Result<Artifact, SessionError> {
    let Stored::File(bytes) = repo.objects.read_at(commit, &terms.artifact, LARGEST_TEXT)? else {
        return Ok(Artifact::default());
    };
    let file = terms.artifact.to_string_lossy();
    Ok(as_text(&bytes).map_or_else(|_| Artifact::default(), |text| Artifact::read(&file, text, &terms.topics)))
}

/// The ids of the sources that a commit has.
fn stored_at(repo: &Repo, commit: &CommitId, terms: &ResearchTerms) -> Result<BTreeSet<String>, SessionError> {
    Ok(repo.objects.files_below(commit, &terms.sources)?.iter().filter_map(|path| source_id(path)).collect())
}

/// What earlier iterations brought. Outside of a session the kept state is the only one.
fn earlier(
    repo: &Repo,
    before: &Before,
    (kept, stored): (&Artifact, &BTreeSet<String>),
    terms: &ResearchTerms,
) -> Result<Earlier, SessionError> {
    let mut earlier = Earlier::default();
    earlier.add(kept, stored);
    let mut seen = BTreeSet::new();
    for (_, commit) in &before.earlier {
        // Most of many experiments have nothing that another one has not.
        let contents = [&terms.artifact, &terms.sources].map(|path| repo.objects.name_at(commit, path));
        let [artifact, sources] = contents;
        if seen.insert((artifact?, sources?)) {
            earlier.add(&artifact_at(repo, commit, terms)?, &stored_at(repo, commit, terms)?);
        }
    }
    Ok(earlier)
}

/// Asks the commands of the terms.
async fn verdicts(
    scoring: &Scoring<'_>,
    terms: &ResearchTerms,
    artifact: &Artifact,
    earlier: &Earlier,
    (files, catalogue): (&ResearchFiles<'_>, &Catalogue),
    is_batch: bool,
) -> Result<Verdicts, SessionError> {
    let mut verdicts = Verdicts::default();
    let new = scoring.new_claims();
    if let Some(command) = &terms.verify {
        let asked: Vec<&Claim> = if is_batch { artifact.claims.iter().collect() } else { new.clone() };
        let ask = async |claims: &[&Claim]| {
            let requests = claims.iter().flat_map(|claim| scoring.requests(claim)).collect();
            ask_verify(command, terms.command_timeout, files, catalogue, requests).await
        };
        let mut known = ask(&asked).await?;
        // The first verified claim shows that the sub-topic was addressed.
        for topic in 0..scoring.topics() {
            let Ok(answers) = &mut known else { break };
            let holds = |answers: &BTreeMap<_, _>, claim: &Claim| scoring.judge(claim, Some(answers)).is_verified;
            if new.iter().any(|claim| claim.topic == topic && holds(answers, claim)) {
                continue;
            }
            for claim in scoring.kept_claims(topic) {
                match ask(&[claim]).await? {
                    Ok(more) => answers.extend(more),
                    Err(why) => {
                        known = Err(why);
                        break;
                    }
                }
                if holds(answers, claim) {
                    break;
                }
            }
        }
        verdicts.verify = Some(known);
    }
    if let Some(command) = &terms.novelty
        && !new.is_empty()
        && earlier.texts().next().is_some()
    {
        let claims: Vec<&str> = new.iter().map(|claim| claim.text.as_str()).collect();
        let texts: Vec<&str> = earlier.texts().collect();
        verdicts.novelty = Some(ask_novelty(command, terms.command_timeout, files.root(), &claims, &texts).await?);
    }
    Ok(verdicts)
}
