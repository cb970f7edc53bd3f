//! The records and refs of a session, found and read without moving anything.

use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::OWN_FILES;
use crate::domain::{
    CommitId, Contract, Drift, ExperimentId, FORMAT_VERSION, RECORD_VERSION, Record, Tag, VerifiedPair, with_causes,
};
use crate::git::{Head, Repo};
use crate::rules::{History, lost_ids};
use crate::session::errors::{CannotStart, Damaged, SessionError, refuse};
use crate::state::{PROGRESS, SEE_DOCTOR, SessionFolder};

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
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    Ok(folder.has_contract() || repo.refs.record(&tag.record_ref(ExperimentId::BASELINE))?.is_some())
}

/// The terms of a session, from its folder or else from the record of its baseline; `None` when there is no session.
pub(crate) fn stored_contract(repo: &Repo, tag: &Tag) -> Result<Option<Contract>, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
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
    let folder = SessionFolder::new(repo.main_worktree(), tag);
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

/// Reads the record that a ref leads to. One of another experiment or session is damage.
pub(crate) fn parse_record(reference: &str, message: &str) -> Result<Record, SessionError> {
    let body = message.split_once("\n\n").map_or("", |(_, body)| body);
    let bad = |source| SessionError::BadRecord { reference: reference.to_owned(), source };
    // A signature may follow the JSON document.
    match serde_json::Deserializer::from_str(body).into_iter::<Record>().next() {
        Some(Ok(record)) if record.version > RECORD_VERSION => Err(newer(reference, record.version.into())),
        Some(Ok(record)) if record.tag.record_ref(record.id) == reference => Ok(record),
        Some(Ok(Record { id, tag, .. })) => {
            let text = format!("the record {reference} belongs to experiment {id} of session {tag}");
            Err(refuse(Damaged, text).hint(SEE_DOCTOR).into())
        }
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
/// repository. If its branch exists, an `ar` that created the folder would have excluded its files from git. A deleted one
/// whose refs came back from its bundle is like it, also where its hidden values were kept.
pub(crate) fn is_fetched(repo: &Repo, tag: &Tag) -> Result<bool, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let mut baseline = repo.refs.refs_under(tag.ref_prefix().as_str())?;
    baseline.retain(|(name, _)| *name == tag.record_ref(ExperimentId::BASELINE));
    if baseline.is_empty() || folder.has_contract() || folder.state().join(PROGRESS).exists() {
        return Ok(false);
    }
    if folder.bundles().take(BUNDLES).any(|bundle| holds(&bundle, &baseline)) {
        return Ok(true);
    }
    let has_branch = repo.refs.branch(&tag.branch_ref())?.is_some();
    Ok(!(folder.root().exists() || has_branch && repo.excludes(&OWN_FILES)?))
}

/// The number of bundles of one name that are looked at; a user may have removed some of them.
const BUNDLES: usize = 20;

/// Returns whether a bundle has these refs with these objects. Its head is lines of text, up to an empty one.
pub(crate) fn holds(bundle: &Path, refs: &[(String, String)]) -> bool {
    let Ok(file) = File::open(bundle) else { return false };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let lines: HashSet<String> = lines.take_while(|line| !line.is_empty()).collect();
    refs.iter().all(|(name, object)| lines.contains(&format!("{object} {name}")))
}
