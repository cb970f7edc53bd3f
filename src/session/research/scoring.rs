//! `ar score`: what a research artifact scores against the kept state and all earlier iterations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::files::{LARGEST_TEXT, ResearchFiles, read_file};
use super::past::{Asked, Past, write_verdicts};
use super::terms::RESEARCH_THRESHOLD;
use crate::domain::{CommitId, Composite, Contract, ExperimentId, Outcome, Record, Tag, bytes_text};
use crate::fs::absent;
use crate::git::{Repo, Stored};
use crate::rules::{History, decided_novelty};
use crate::score::{Artifact, ResearchTerms, Score, Scoring, Standing, TERMS_FILE, as_text, source_id};
use crate::session::errors::{ScoreError, SessionError};
use crate::session::files::{is_session, read_history, session_of_head, stored_contract};

/// Iterations between two verifications of all citations, as in the Madani adapter.
const BATCH: usize = 20;

/// Limit on the search for the kept state, in commits back from HEAD. Each experiment is one commit on its base.
const FARTHEST: usize = 1000;

/// The state with which a score was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
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
            threshold: RESEARCH_THRESHOLD,
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
    let past = Past::read(&repo, &before, (&kept, &stored), &terms, tag.as_ref())?;
    let earlier = past.earlier;
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
    let scoring = Scoring::new(&terms, &artifact, &kept, &earlier, &library, &stored, &standing);
    let is_batch = tag.is_some() && (before.experiments() + 1).is_multiple_of(BATCH);
    let asked = Asked { scoring: &scoring, terms: &terms, files: &files, catalogue: &catalogue };
    let anew = BTreeMap::new();
    let known = if is_batch { &anew } else { &past.verdicts };
    let shown = (&artifact, &kept);
    let verdicts = asked.verdicts(shown, &earlier, known, is_batch).await?;
    if let (Some(Ok(verdicts)), Some(folder)) = (&verdicts.verify, of.folder.as_deref()) {
        write_verdicts(folder, verdicts)?;
    }
    let score = scoring.score(&verdicts, is_batch);
    let iterations = if tag.is_some() { before.experiments() } else { usize::from(!kept.claims.is_empty()) };
    let (commit, experiment) = before.kept.unzip();
    let compared = Compared { session: tag, kept: commit, experiment: experiment.flatten(), earlier: iterations };
    Ok(Scored { compared, score, terms })
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
    let named = |source| ScoreError::Terms { terms: format!("{TERMS_FILE} of {place}"), source };
    Ok(ResearchTerms::read(text).map_err(named)?)
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
