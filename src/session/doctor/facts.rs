//! What there is of a session, however damaged it is.

use std::fs;
use std::io::ErrorKind;

use super::examine::chain;
use crate::domain::{Contract, Record, Tag};
use crate::git::{BrokenRef, Repo};
use crate::rules::{History, gaps};
use crate::session::error::SessionError;
use crate::session::plan::expected_tip;
use crate::session::reading::parse_record;
use crate::state::{Journal, SessionFolder, StateError};

/// A ref that should name a record.
#[derive(Debug)]
pub(super) struct RecordRef {
    pub(super) id: u32,
    pub(super) name: String,
    /// The record, or why there is none.
    pub(super) record: Result<Record, SessionError>,
}

/// What there is of a session.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) tag: Tag,
    pub(super) folder: SessionFolder,
    /// Its records that have a readable ref, in the order of their numbers.
    pub(super) refs: Vec<RecordRef>,
    /// Its refs whose files name nothing, its branch among them.
    pub(super) broken: Vec<BrokenRef>,
    /// The contract of its folder.
    pub(super) contract: Result<Option<Contract>, StateError>,
    pub(super) journal: Result<Option<Journal>, StateError>,
    /// Who is at work on it.
    pub(super) holder: Option<String>,
}

impl Facts {
    /// Reads all there is.
    pub(super) fn read(repo: &Repo, tag: &Tag) -> Result<Facts, SessionError> {
        let folder = SessionFolder::new(&repo.main_worktree(), tag);
        let mut refs = Vec::new();
        for (name, object) in repo.readable_refs_under(&tag.ref_prefix())? {
            let Some(id) = record_id(&name, tag) else { continue };
            let record = match repo.tag_object(&name, &object) {
                Ok(Some(tag)) => parse_record(&name, &tag.message),
                Ok(None) => Err(SessionError::BadRecord {
                    reference: name.clone(),
                    source: serde::de::Error::custom("it is no annotated tag on a commit"),
                }),
                Err(error) => Err(SessionError::BadRecord {
                    reference: name.clone(),
                    source: serde::de::Error::custom(chain(&error)),
                }),
            };
            refs.push(RecordRef { id, name, record });
        }
        refs.sort_by_key(|found| found.id);
        let branch = tag.branch_ref();
        let mut broken = repo.broken_refs(&tag.ref_prefix())?;
        broken.extend(repo.broken_refs("refs/heads/autoresearch")?.into_iter().filter(|broken| broken.name == branch));
        let holder = match folder.refuse_held() {
            Err(StateError::Held { holder }) => Some(holder),
            _ => None,
        };
        let contract = folder.contract();
        let journal = Journal::read(&folder.state());
        Ok(Facts { tag: tag.clone(), folder, refs, broken, contract, journal, holder })
    }

    /// The records that can be read.
    pub(super) fn history(&self) -> History {
        History::new(self.refs.iter().filter_map(|found| found.record.as_ref().ok()).cloned().collect())
    }

    /// Whether all records are there and can be read: only then is it known what comes next.
    pub(super) fn is_complete(&self) -> bool {
        let ids: Vec<u32> = self.refs.iter().map(|found| found.id).collect();
        let lost = self.broken.iter().any(|broken| record_id(&broken.name, &self.tag).is_some());
        !lost && gaps(&ids).is_empty() && self.refs.iter().all(|found| found.record.is_ok())
    }

    /// The terms as the baseline's record has them.
    pub(super) fn recorded_terms(&self) -> Option<Contract> {
        let record = self.refs.first().filter(|found| found.id == 0)?.record.as_ref().ok()?;
        serde_json::from_value(record.more.get("contract")?.clone()).ok()
    }

    /// The terms, from wherever they can be had.
    pub(super) fn terms(&self) -> Option<Contract> {
        match &self.contract {
            Ok(Some(contract)) => Some(contract.clone()),
            _ => self.recorded_terms(),
        }
    }

    /// The commit that the branch should be at between two experiments, where the records tell.
    pub(super) fn expected_tip(&self) -> Option<crate::domain::CommitId> {
        let history = self.history();
        let terms = self.recorded_terms().or_else(|| self.terms())?;
        self.is_complete().then(|| expected_tip(&terms, history.incumbent().map(|record| &record.commit)))
    }

    /// Whether the journal says that something is open.
    pub(super) fn is_open(&self) -> bool {
        self.journal.as_ref().is_ok_and(|journal| journal.as_ref().is_some_and(|journal| journal.open.is_some()))
    }
}

/// The number in the name of a record's ref.
pub(super) fn record_id(name: &str, tag: &Tag) -> Option<u32> {
    name.strip_prefix(&tag.ref_prefix())?.strip_prefix('/')?.parse().ok()
}

/// The tags of all sessions of which anything is left, sorted: a record's ref, even a torn one, or a contract.
pub(super) fn known_tags(repo: &Repo) -> Result<Vec<Tag>, SessionError> {
    const PREFIX: &str = "refs/autoresearch";
    let readable = repo.readable_refs_under(PREFIX)?.into_iter().map(|(name, _)| name);
    let broken = repo.broken_refs(PREFIX)?.into_iter().map(|broken| broken.name);
    let mut tags: Vec<Tag> = readable
        .chain(broken)
        .filter_map(|name| {
            let (tag, experiment) = name.strip_prefix(PREFIX)?.strip_prefix('/')?.split_once('/')?;
            experiment.parse::<u32>().ok()?;
            tag.parse().ok()
        })
        .collect();
    let folder = repo.main_worktree().join(".autoresearch");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().collect(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Vec::new(),
        Err(source) => return Err(SessionError::Io { action: "read", path: folder, source }),
    };
    for entry in entries {
        if let Some(Ok(tag)) = entry.file_name().to_str().map(str::parse::<Tag>)
            && entry.path().join("state/contract.json").exists()
        {
            tags.push(tag);
        }
    }
    tags.sort();
    tags.dedup();
    Ok(tags)
}
