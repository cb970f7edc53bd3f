//! Session data read earlier, so that only changes need to be read.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::reading::{parse_record, refuse_changed};
use crate::domain::{Contract, ExperimentId, Tag, with_causes};
use crate::fs::FileStamp;
use crate::git::Repo;
use crate::measure::plain_text;
use crate::rules::History;
use crate::session::errors::SessionError;
use crate::state::{SessionFolder, read_log_tail};

/// The records of a session, each read once.
pub(crate) struct Records {
    /// Common prefix of their ref names.
    prefix: String,
    /// The objects that were read, by the names of their refs.
    read: BTreeMap<String, String>,
    /// Stamps of the refs' folder and of the packed refs, with the time of the check.
    stamps: Option<([Option<FileStamp>; 2], SystemTime)>,
    pub(crate) history: Arc<History>,
    /// Those that could not be read, a sentence each.
    pub(crate) damage: Vec<String>,
}

impl Records {
    /// Time after a change of the refs in which another one may leave the same stamp. File systems resolve times to
    /// milliseconds, some only to seconds.
    const SAME_TIME: Duration = Duration::from_secs(3);

    pub(crate) fn new(tag: &Tag) -> Records {
        Records {
            prefix: format!("{}/", tag.ref_prefix().trim_end_matches('/')),
            read: BTreeMap::new(),
            stamps: None,
            history: Arc::default(),
            damage: Vec::new(),
        }
    }

    /// Reads what is new; whether there was anything.
    pub(crate) fn look(&mut self, repo: &Repo) -> Result<bool, SessionError> {
        let places = [repo.common_dir().join(&self.prefix), repo.common_dir().join("packed-refs")];
        let stamps = (places.each_ref().map(|path| FileStamp::of(path)), SystemTime::now());
        if let Some((known, looked)) = &self.stamps
            && *known == stamps.0
        {
            let last_change = places.iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max();
            if last_change.is_none_or(|change| change + Self::SAME_TIME < *looked) {
                return Ok(false);
            }
        }
        let refs = repo.refs.refs_under(&self.prefix)?;
        let is_new = self.take(repo, refs)?;
        self.stamps = Some(stamps);
        Ok(is_new)
    }

    fn take(&mut self, repo: &Repo, refs: Vec<(String, String)>) -> Result<bool, SessionError> {
        let is_record =
            |name: &str| name.strip_prefix(&self.prefix).is_some_and(|id| id.parse::<ExperimentId>().is_ok());
        let refs: BTreeMap<String, String> = refs.into_iter().filter(|(name, _)| is_record(name)).collect();
        let is_known = |(name, object): (&String, &String)| self.read.get(name) == Some(object);
        let is_longer = self.damage.is_empty() && self.read.iter().all(|(name, object)| refs.get(name) == Some(object));
        if is_longer && refs.iter().all(is_known) {
            return Ok(false);
        }
        let (mut records, mut damage) = (Vec::new(), Vec::new());
        let new = refs.iter().filter(|found| !is_longer || !is_known(*found));
        let new: Vec<_> = new.map(|(name, object)| (name.clone(), object.clone())).collect();
        for read in repo.objects.read_tags(&new, |tag| parse_record(&tag.name, &tag.message))? {
            match read {
                Ok(record) => records.push(record),
                Err(error) => damage.push(with_causes(&error)),
            }
        }
        if is_longer && !self.read.is_empty() {
            let history = Arc::make_mut(&mut self.history);
            records.into_iter().for_each(|record| history.push(record));
        } else {
            self.history = Arc::new(History::new(records));
        }
        (self.read, self.damage) = (refs, damage);
        Ok(true)
    }
}

/// The stored terms of a session, read when something of them has changed.
#[derive(Default)]
pub(crate) struct Terms {
    stamp: Option<Option<FileStamp>>,
    pub(crate) stored: Option<Contract>,
    /// Problems with them, one sentence each.
    pub(crate) damage: Vec<String>,
}

impl Terms {
    pub(crate) fn look(&mut self, repo: &Repo, tag: &Tag, folder: &SessionFolder, is_changed: bool) {
        let stamp = FileStamp::of(&folder.state().join("contract.json"));
        if !is_changed && self.stamp == Some(stamp) {
            return;
        }
        let mut damage = Damage::default();
        self.stored = damage.unless(folder.contract()).flatten();
        if let Some(contract) = &self.stored {
            damage.unless(refuse_changed(repo, tag, contract));
        }
        (self.stamp, self.damage) = (Some(stamp), damage.0);
    }
}

/// The end of a log, read when the file has changed.
#[derive(Default)]
pub(crate) struct LogTail {
    log: PathBuf,
    stamp: Option<FileStamp>,
    lines: Vec<String>,
}

impl LogTail {
    pub(crate) fn lines(&mut self, log: &Path) -> &[String] {
        let stamp = FileStamp::of(log);
        if self.log != log || self.stamp != stamp {
            let text = read_log_tail(log).map(|bytes| plain_text(&bytes)).unwrap_or_default();
            *self = LogTail { log: log.to_owned(), stamp, lines: text.lines().map(str::to_owned).collect() };
        }
        &self.lines
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
