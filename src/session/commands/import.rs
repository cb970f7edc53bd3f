//! Making a session's history of another tool's ledger. Nothing moves but the refs of that session, which appear together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, json};

use crate::domain::{
    Beside, Clock, CommitId, Contract, DiffStat, ExperimentId, FEWEST_DIGITS, Failure, Imported, MetricSource,
    MetricSpec, MetricValue, Outcome, RECORD_VERSION, Record, Tag, Waits, one_line,
};
use crate::git::{GitError, Head, Repo};
use crate::ledger::{Ledger, Row};
use crate::session::errors::SessionError;
use crate::session::files::{exclude_own, record_message};
use crate::session::plan::{free_tag, is_taken};
use crate::state::SessionFolder;

/// Name of the metric if the ledger has none.
const UNNAMED: &str = "value";

/// A session that can be made of a ledger; nothing has been written yet.
#[derive(Debug)]
pub struct Import {
    repo: Repo,
    tag: Tag,
    start: CommitId,
    records: Vec<Record>,
}

impl Import {
    /// Makes records of a ledger's rows, in their order; the first one is the baseline. `file` is how the ledger was named.
    ///
    /// # Errors
    ///
    /// There is no row, no commit in the repository, or something of a session `tag`.
    pub fn new(dir: &Path, ledger: &Ledger, file: &Path, tag: Option<Tag>, clock: Clock) -> Result<Self, SessionError> {
        let repo = Repo::discover(dir)?;
        let tag = match tag {
            Some(tag) => tag,
            None => free_tag(&repo, clock)?,
        };
        if is_taken(&repo, &tag)? || !repo.refs.refs_under(&tag.ref_prefix())?.is_empty() {
            return Err(SessionError::TagTaken(tag));
        }
        let rows = ledger.outcomes();
        let Some((first, _)) = rows.first() else { return Err(SessionError::NothingToImport(file.to_owned())) };
        let head = match repo.refs.head()? {
            Head::Branch { commit, .. } | Head::Detached { commit } => commit,
            Head::Unborn { name } => return Err(GitError::Unborn(name).into()),
        };
        let metric = MetricSpec {
            name: ledger.metric.clone().unwrap_or_else(|| UNNAMED.to_owned()),
            direction: ledger.direction,
            source: MetricSource::default(),
        };
        let file = file.display().to_string();
        let find = repo.objects.commits_starting();
        let (now, known) = (clock.now(), BTreeMap::new());
        let mut maker = Maker { repo: &repo, find: &find, tag: &tag, metric: &metric, file, now, known };
        let start = maker.commit(first).unwrap_or(head);
        let made = (0..)
            .map(ExperimentId::from)
            .zip(&rows)
            .map(|(id, (row, outcome))| maker.record(id, row, *outcome, &start));
        let mut records = made.collect::<Result<Vec<_>, _>>()?;
        drop(find);
        let terms = Contract::new(tag.clone(), metric, String::new(), start.clone(), clock.now());
        if let Some(baseline) = records.first_mut() {
            baseline.more.insert("contract".into(), json!(Contract { imported: true, ..terms }));
        }
        Ok(Import { repo, tag, start, records })
    }

    /// The session.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Its experiments.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Writes the records. A kill leaves all of them or none.
    ///
    /// # Errors
    ///
    /// Another process is active in the working tree or on such a session, or the repository cannot be written.
    pub fn write(&self) -> Result<(), SessionError> {
        // Hold the session's lock while creating its refs: without it, they would count as made up by an agent.
        exclude_own(&self.repo, &[])?;
        let folder = SessionFolder::new(&self.repo.main_worktree(), &self.tag);
        folder.create()?;
        let _lock = folder.lock(self.repo.git_dir(), true)?;
        let mut written = Vec::new();
        for record in &self.records {
            let reference = self.tag.record_ref(record.id);
            let message = record_message(record)
                .map_err(|source| SessionError::BadRecord { reference: reference.clone(), source })?;
            let target = if record.commit.is_known() { &record.commit } else { &self.start };
            written.push((reference, target.clone(), message));
        }
        Ok(self.repo.refs.write_records(&written)?)
    }
}

/// Makes records of rows.
struct Maker<'a> {
    repo: &'a Repo,
    /// Finds a commit by the start of its name.
    find: &'a dyn Fn(&str) -> Option<CommitId>,
    tag: &'a Tag,
    metric: &'a MetricSpec,
    file: String,
    /// The time of the import, recorded as the time of each experiment because the ledger has none.
    now: Timestamp,
    /// The commits that cells were found to name.
    known: BTreeMap<String, Option<CommitId>>,
}

impl Maker<'_> {
    /// The commit that a row's cell names by its hash or the start of that. A word such as HEAD named another one then.
    fn commit(&mut self, row: &Row) -> Option<CommitId> {
        let digits = row.commit.as_deref()?.trim().to_ascii_lowercase();
        if digits.len() < FEWEST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.known.entry(digits).or_insert_with_key(|digits| (self.find)(digits)).clone()
    }

    /// The parent of a commit. It may be beyond what a shallow clone has.
    fn base(&self, commit: &CommitId) -> Result<Option<CommitId>, SessionError> {
        let objects = &self.repo.objects;
        Ok(objects.parents(commit)?.into_iter().next().filter(|parent| objects.has_commit(parent)))
    }

    fn record(
        &mut self,
        id: ExperimentId,
        row: &Row,
        outcome: Outcome,
        start: &CommitId,
    ) -> Result<Record, SessionError> {
        let found = self.commit(row);
        let commit_known = found.is_some();
        let commit = found.unwrap_or_else(|| CommitId::unknown(start));
        let base = if commit_known && !id.is_baseline() { self.base(&commit)? } else { None };
        let diff = match &base {
            Some(base) => self.repo.objects.diff(base, &commit)?.stat(),
            None => DiffStat::default(),
        };
        let status = row.status.to_string();
        let problem = row.problem.as_deref().map(|problem| format!("; {problem}")).unwrap_or_default();
        let value = row.value.as_ref();
        Ok(Record {
            version: RECORD_VERSION,
            id,
            sequence: Some(id.number()),
            tag: self.tag.clone(),
            base: base.unwrap_or_else(|| commit.clone()),
            commit,
            description: one_line(&row.description),
            direction: None,
            outcome,
            failure: row.failure.map(|class| Failure::new(class, "")),
            reason: format!("imported: line {} of {} counts as {status}{problem}", row.line, one_line(&self.file)),
            metric: MetricValue::of(self.metric, value),
            metrics: value.iter().map(|number| (self.metric.name.clone(), number.value)).collect(),
            memory_gb: row.memory_gb,
            runs: Vec::new(),
            sandbox: None,
            control: None,
            guards: Vec::new(),
            review: None,
            artifacts: Vec::new(),
            artifacts_run: None,
            versions: Vec::new(),
            diff,
            fingerprint: None,
            environment: Arc::default(),
            started: self.now,
            finished: self.now,
            agent: None,
            imported: Some(Imported {
                file: self.file.clone(),
                line: row.line.into(),
                status,
                commit_text: row.commit.as_deref().map(str::to_owned),
                commit_known,
            }),
            proposal: None,
            proposal_error: None,
            changed_while_running: Vec::new(),
            carried: BTreeSet::new(),
            gpu_others: Vec::new(),
            ignored_changed: BTreeSet::new(),
            ignored_inputs: BTreeMap::new(),
            layout: None,
            waits: Waits::default(),
            units: BTreeMap::new(),
            unmet_limits: Vec::new(),
            outside_cause: None,
            beside: Beside::default(),
            more: Map::new(),
        })
    }
}
