//! The records and refs of a session, found and read without moving anything.

use std::error::Error;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::layout::OWN_FILES;
use crate::domain::{
    CommitId, Contract, Drift, ExperimentId, FORMAT_VERSION, Notice, RECORD_VERSION, Record, Replay, Tag, VerifiedPair,
    with_causes,
};
use crate::fs::Unsynced;
use crate::git::{Head, Header, PreparedRecord, Repo, Result, SaveAs};
use crate::rules::{History, lost_ids};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::state::SessionFolder;

/// The refs of all sessions.
pub(crate) const SESSIONS: &str = "refs/autoresearch";

/// Says that there is no session of that name, and which ones there are as far as that can be read.
pub fn no_session(repo: &Repo, tag: &Tag) -> SessionError {
    SessionError::NoSession { tag: Some(tag.clone()), there: session_tags(repo).unwrap_or_default() }
}

/// Says that a session has no experiment of that name, and which ones it has.
pub(crate) fn no_experiment(history: &History, tag: &Tag, name: String) -> SessionError {
    let last = history.records().iter().map(|record| record.id).max();
    SessionError::NoExperiment { tag: tag.to_string(), name, last }
}

/// The tags of all sessions of a repository, sorted.
pub fn session_tags(repo: &Repo) -> Result<Vec<Tag>, SessionError> {
    let mut tags: Vec<Tag> = readable_refs(repo, SESSIONS)?
        .iter()
        .filter_map(|(name, _)| {
            let (tag, experiment) = name.strip_prefix(SESSIONS)?.strip_prefix('/')?.split_once('/')?;
            experiment.parse::<ExperimentId>().ok()?;
            tag.parse().ok()
        })
        .collect();
    for (name, _) in repo.refs.refs_under("refs/heads/autoresearch")? {
        if let Some(Ok(tag)) = name.strip_prefix("refs/heads/autoresearch/").map(str::parse::<Tag>)
            // One whose baseline cannot be read is there.
            && is_session(repo, &tag).unwrap_or(true)
        {
            tags.push(tag);
        }
    }
    tags.sort();
    tags.dedup();
    Ok(tags)
}

/// The refs below `prefix` that name something.
pub(crate) fn readable_refs(repo: &Repo, prefix: &str) -> Result<Vec<(String, String)>, SessionError> {
    // One that names nothing keeps the others from being listed; to look for it takes a second reading.
    Ok(repo.refs.refs_under(prefix).or_else(|_| repo.refs.readable_refs_under(prefix))?)
}

/// The tag in the name of HEAD's branch.
pub(crate) fn session_of_head(head: &Head) -> Option<Tag> {
    match head {
        Head::Branch { name, .. } | Head::Unborn { name } => {
            name.strip_prefix("refs/heads/autoresearch/")?.parse().ok()
        }
        Head::Detached { .. } => None,
    }
}

/// Returns whether a session with that tag exists: it has a contract, or a record of its baseline.
pub(crate) fn is_session(repo: &Repo, tag: &Tag) -> Result<bool, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    Ok(folder.has_contract() || repo.refs.record(&tag.record_ref(ExperimentId::BASELINE))?.is_some())
}

/// The terms of a session, from its folder or else from the record of its baseline; `None` when there is no session.
pub(crate) fn stored_contract(repo: &Repo, tag: &Tag) -> Result<Option<Contract>, SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    if let Some(contract) = folder.contract()? {
        return Ok(Some(contract));
    }
    let Some(baseline) = repo.refs.record(&tag.record_ref(ExperimentId::BASELINE))? else { return Ok(None) };
    let record = parse_record(&baseline.name, &baseline.message)?;
    match recorded_terms(&record) {
        Ok(None) => Err(SessionError::NoContract(folder.root().to_owned())),
        terms => terms.map_err(|source| SessionError::BadRecord { reference: baseline.name, source }),
    }
}

/// The record of a session's baseline, if it has one that can be read.
pub(crate) fn read_baseline(repo: &Repo, tag: &Tag) -> Result<Option<Record>, SessionError> {
    let baseline = repo.refs.record(&tag.record_ref(ExperimentId::BASELINE))?;
    // One that cannot be read is refused where it is needed.
    Ok(baseline.and_then(|baseline| parse_record(&baseline.name, &baseline.message).ok()))
}

/// Refuses terms that somebody changed after they were approved: in the file, or both in it and in its hash.
pub(crate) fn refuse_changed(repo: &Repo, tag: &Tag, stored: &Contract) -> Result<(), SessionError> {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let approved = read_baseline(repo, tag)?.and_then(|baseline| recorded_terms(&baseline).ok()?);
    let drifts = approved.map_or_else(Vec::new, |approved| Drift::all(&approved, stored));
    if !drifts.is_empty() || folder.contract_was_changed()? {
        return Err(SessionError::ContractChanged { path: folder.state().join("contract.json"), drifts });
    }
    Ok(())
}

/// The terms that the record of a baseline holds; `None` where it holds none.
pub(crate) fn recorded_terms(baseline: &Record) -> Result<Option<Contract>, serde_json::Error> {
    baseline.unknown_fields.get("contract").map(|terms| serde_json::from_value(terms.clone())).transpose()
}

/// Reads all records of a session.
pub(crate) fn read_history(repo: &Repo, tag: &Tag) -> Result<History, SessionError> {
    let history = History::new(read_records(repo, tag)?.into_iter().collect::<Result<_, _>>()?);
    let pairs: Vec<VerifiedPair> = read_messages(repo, tag, "verified")?;
    Ok(history.with_verified(pairs.into_iter().filter(|pair| pair.version == FORMAT_VERSION).collect()))
}

/// The messages of the tags in a folder of a session's refs, as far as they can be read.
pub(crate) fn read_messages<T: DeserializeOwned + Send>(
    repo: &Repo,
    tag: &Tag,
    folder: &str,
) -> Result<Vec<T>, SessionError> {
    let refs = repo.refs.refs_under(&format!("{}/{folder}", tag.ref_prefix()))?;
    let read = repo.objects.read_tags(&refs, |tag| serde_json::from_str(&tag.message).ok())?;
    Ok(read.into_iter().flatten().collect())
}

/// Reads the records of a session, each for itself.
pub(crate) fn read_records(repo: &Repo, tag: &Tag) -> Result<Vec<Result<Record, SessionError>>, SessionError> {
    let mut refs = repo.refs.refs_under(&tag.ref_prefix())?;
    refs.retain(|(name, _)| record_id(name, tag).is_some());
    Ok(repo.objects.read_tags(&refs, |tag| parse_record(&tag.name, &tag.message))?)
}

/// The experiments that have lost their records, as far as those that can be read tell.
pub(crate) fn lost_records(repo: &Repo, tag: &Tag) -> Result<Vec<ExperimentId>, SessionError> {
    let records = read_records(repo, tag)?.into_iter().flatten();
    Ok(lost_ids(records.map(|record| (record.id, record.sequence()))))
}

/// The number in the name of a record's ref.
pub(crate) fn record_id(name: &str, tag: &Tag) -> Option<ExperimentId> {
    name.strip_prefix(&tag.ref_prefix())?.strip_prefix('/')?.parse().ok()
}

/// The message of a record's tag object: one subject line, a blank line, the record as JSON.
pub(crate) fn record_message(record: &Record) -> Result<String, serde_json::Error> {
    let subject = if record.description.is_empty() { "(no description)" } else { &record.description };
    Ok(format!("{subject}\n\n{}\n", serde_json::to_string(record)?))
}

pub(crate) fn parse_record(reference: &str, message: &str) -> Result<Record, SessionError> {
    let body = message.split_once("\n\n").map_or("", |(_, body)| body);
    let bad = |source| SessionError::BadRecord { reference: reference.to_owned(), source };
    // A signature may follow the JSON document.
    match serde_json::Deserializer::from_str(body).into_iter::<Record>().next() {
        Some(Ok(record)) if record.version <= RECORD_VERSION => Ok(record),
        Some(Ok(record)) => Err(newer(reference, record.version.into())),
        // A record of a newer version may not parse.
        Some(Err(source)) => Err(match version_of(body) {
            Some(found) if found > u64::from(RECORD_VERSION) => newer(reference, found),
            _ => bad(source),
        }),
        None => Err(bad(serde::de::Error::custom("the tag's message has no body"))),
    }
}

/// The version that a document says it has.
fn version_of(document: &str) -> Option<u64> {
    serde_json::Deserializer::from_str(document).into_iter::<Value>().next()?.ok()?.get("version")?.as_u64()
}

fn newer(reference: &str, found: u64) -> SessionError {
    let text =
        format!("the record {reference} has format version {found}; this program knows version {RECORD_VERSION}");
    refuse(CannotStart, text).hint("use the newer ar that wrote it").into()
}

/// The commit that a session's branch should be at: its incumbent's, or where it started.
pub(crate) fn expected_tip(contract: &Contract, incumbent: Option<&CommitId>) -> CommitId {
    incumbent.unwrap_or(&contract.start).clone()
}

/// The records of a session, read again only after a change of their refs.
#[derive(Default)]
pub(crate) struct Records {
    /// The refs of those that were read, with the names of their objects.
    refs: Vec<(String, String)>,
    pub(crate) history: Arc<History>,
    /// Those that could not be read, a sentence each.
    pub(crate) damage: Vec<String>,
}

impl Records {
    pub(crate) fn look(&mut self, repo: &Repo, tag: &Tag) -> Result<(), SessionError> {
        let mut refs = repo.refs.refs_under(&tag.ref_prefix())?;
        refs.retain(|(name, _)| record_id(name, tag).is_some());
        if refs == self.refs {
            return Ok(());
        }
        let mut damage = Damage::default();
        let read = repo.objects.read_tags(&refs, |tag| parse_record(&tag.name, &tag.message))?;
        let records = read.into_iter().filter_map(|record| damage.unless(record)).collect();
        *self = Records { refs, history: Arc::new(History::new(records)), damage: damage.0 };
        Ok(())
    }
}

/// Read errors, one sentence each.
#[derive(Default)]
pub(crate) struct Damage(pub(crate) Vec<String>);

impl Damage {
    /// Returns the value that was read, or notes the error.
    pub(crate) fn unless<T, E: Error + 'static>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.0.push(with_causes(&error))).ok()
    }
}

/// Returns whether a session was only fetched: its folder is missing, and nothing shows that it was ever opened in this
/// repository. If its branch exists, an `ar` that created the folder would have excluded its files from git.
pub(crate) fn is_fetched(repo: &Repo, tag: &Tag) -> Result<bool, SessionError> {
    if SessionFolder::new(&repo.main_worktree(), tag).root().exists()
        || repo.refs.record(&tag.record_ref(ExperimentId::BASELINE))?.is_none()
    {
        return Ok(false);
    }
    Ok(repo.refs.branch(&tag.branch_ref())?.is_none() || !repo.excludes(OWN_FILES)?)
}

/// The default description of a saved commit.
const UNCOMMITTED: &str = "uncommitted changes, saved before the working tree was restored";

/// The header of a saved commit that names the experiment which it belongs to.
const EXPERIMENT_HEADER: &str = "autoresearch-experiment";

/// The refs of the session `tag`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionRefs<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) tag: &'a Tag,
}

impl SessionRefs<'_> {
    /// The folder of the saved refs.
    fn saved(&self) -> String {
        format!("{}/saved", self.tag.ref_prefix())
    }

    /// Under which name uncommitted changes relative to `expected` are saved.
    pub(crate) fn save_as(&self, expected: &CommitId) -> SaveAs {
        SaveAs { folder: self.saved(), expected: expected.clone(), subject: UNCOMMITTED.into() }
    }

    /// Keeps a commit under a saved ref; gives the ref.
    pub(crate) fn keep(&self, commit: &CommitId) -> Result<String> {
        self.keep_as(UNCOMMITTED, commit)
    }

    /// Does the same and says in the saved ref what it is.
    pub(crate) fn keep_as(&self, subject: &str, commit: &CommitId) -> Result<String> {
        self.repo.working_tree.save_commit(&self.saved(), subject, commit, None)
    }

    /// Keeps a commit of an experiment, which its record or an idea names, under a saved ref; gives the ref.
    pub(crate) fn keep_of(&self, id: ExperimentId, what: &str, commit: &CommitId) -> Result<String> {
        let (subject, number) = (format!("experiment {id}, {what}"), id.to_string());
        let header = Header { name: EXPERIMENT_HEADER, value: &number };
        self.repo.working_tree.save_commit(&self.saved(), &subject, commit, Some(header))
    }

    /// Returns whether a saved commit is one of an experiment, and not unsaved work.
    pub(crate) fn is_of_experiment(&self, saved: &CommitId) -> Result<bool> {
        self.repo.objects.has_header(saved, EXPERIMENT_HEADER)
    }

    /// Keeps a commit under a saved ref, unless the newest one has the same change; gives the ref.
    pub(crate) fn keep_once(&self, commit: &CommitId) -> Result<String> {
        match self.repo.working_tree.saved_before(&self.saved(), commit)? {
            Some(saved) => Ok(saved),
            None => self.keep(commit),
        }
    }

    /// Keeps the commit that a ref leads to, which is no longer to lead there, if it leads to one that no record has.
    pub(crate) fn keep_target(&self, name: &str, history: &History) -> Result<()> {
        if let Ok(Some(commit)) = self.repo.refs.branch(name)
            && self.repo.objects.has_commit(&commit)
            && !history.knows(&commit)
        {
            self.keep(&commit)?;
        }
        Ok(())
    }

    /// Creates the session's branch.
    pub(crate) fn create_branch(&self, at: &CommitId, why: &str) -> Result<()> {
        self.repo.refs.create_branch(&self.tag.branch_ref(), at, &format!("autoresearch: {why}"))
    }

    /// Moves the session's branch.
    pub(crate) fn move_branch(&self, from: &CommitId, to: &CommitId, why: &str) -> Result<()> {
        self.repo.refs.advance(&self.tag.branch_ref(), from, to, &format!("autoresearch: {why}"))
    }

    /// Brings the branch to `to`, which no working tree follows; gives what others did to it. A commit at its tip that is not
    /// known is somebody's, and is kept under a saved ref.
    pub(crate) fn set_branch(
        &self,
        to: &CommitId,
        is_known: impl Fn(&CommitId) -> bool,
        why: &str,
    ) -> Result<Option<Notice>> {
        match self.repo.refs.branch(&self.tag.branch_ref())? {
            None => {
                self.create_branch(to, why)?;
                Ok(Some(Notice::BranchRecreated(self.tag.branch())))
            }
            Some(tip) if tip == *to => Ok(None),
            Some(tip) => {
                let saved = if is_known(&tip) { None } else { Some(self.keep(&tip)?) };
                self.move_branch(&tip, to, why)?;
                Ok(saved.map(|saved| Notice::BranchMoved { tip, saved }))
            }
        }
    }

    /// Keeps the commits that an experiment had, or was measured as, on other bases than that of its `commit`.
    pub(crate) fn keep_replays(&self, id: ExperimentId, replays: &[Replay], commit: &CommitId) -> Result<()> {
        let others = replays.iter().filter(|replay| replay.commit != *commit);
        for (replay, number) in others.zip(1_u32..) {
            let reference = self.tag.merged_ref(id);
            let reference = if number == 1 { reference } else { format!("{reference}-{number}") };
            self.repo.refs.put_ref(&reference, replay.commit.as_str())?;
        }
        Ok(())
    }

    /// Drops the refs of an attempt that has no record.
    pub(crate) fn drop_all_of(&self, id: ExperimentId) -> Result<()> {
        let merged = self.tag.merged_ref(id);
        for (name, _) in self.repo.refs.refs_under(&format!("{}/merged", self.tag.ref_prefix()))? {
            if name.strip_prefix(&merged).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                self.repo.refs.drop_ref(&name)?;
            }
        }
        self.repo.refs.drop_ref(&self.tag.open_ref(id))
    }

    /// The ref of a record, and what its tag says.
    fn record_text(&self, record: &Record) -> Result<(String, String), SessionError> {
        let reference = self.tag.record_ref(record.id);
        match record_message(record) {
            Ok(message) => Ok((reference, message)),
            Err(source) => Err(SessionError::BadRecord { reference, source }),
        }
    }

    /// Writes the tag of a record; gives it with what must be durable before its ref. The ref must be a new one, or lead to the
    /// object that it `replaces`.
    pub(crate) fn prepare_record(
        &self,
        record: &Record,
        replaces: Option<&str>,
    ) -> Result<(PreparedRecord, Unsynced), SessionError> {
        let (reference, message) = self.record_text(record)?;
        Ok(self.repo.refs.prepare_record(&reference, &record.commit, &message, replaces)?)
    }

    /// Writes the refs of those records that are not among the refs that are `there`, sorted by name; gives their names.
    pub(crate) fn write_missing(
        &self,
        history: &History,
        there: &[(String, String)],
    ) -> Result<Vec<String>, SessionError> {
        let mut missing = Vec::new();
        for record in history.records() {
            let name = self.tag.record_ref(record.id);
            if there.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                let (reference, message) = self.record_text(record)?;
                self.repo.refs.write_record(&reference, &record.commit, &message)?;
                missing.push(name);
            }
        }
        Ok(missing)
    }
}
