//! The sessions that the doctor looks at, and the state of each, read despite any damage.

use std::fs;

use super::RepairableFinding;
use crate::domain::{Area, CommitId, Contract, ExperimentId, Finding, Record, Severity, Tag, TreeOwner, with_causes};
use crate::fs::absent;
use crate::git::{BrokenRef, GitError, Repo};
use crate::machine::AttemptHead;
use crate::rules::{History, Tip, gaps, judge_tip, lost_ids};
use crate::session::errors::{ErrorKind, SessionError};
use crate::session::files::{
    driven_elsewhere, expected_tip, is_fetched, no_session, parse_record, record_id, recorded_terms, session_of_head,
};
use crate::session::store::left_at_tip;
use crate::state::{Journal, SEE_DOCTOR, SESSIONS_FOLDER, SessionFolder, StateError};

/// The repair command, for hints.
pub(crate) const REPAIR: &str = "ar doctor --repair";

/// Hint for damage that is repairable only after the user decided about other damage.
pub(crate) const DECIDE_FIRST: &str = "decide about the damage first, then run `ar doctor --repair`";

/// A ref that should name a record.
#[derive(Debug)]
pub(crate) struct RecordRef {
    pub(crate) id: ExperimentId,
    pub(crate) name: String,
    /// The object that it names, or named before its file was torn.
    pub(crate) object: String,
    /// The commit that the object is on, where it is an annotated tag.
    pub(crate) tagged: Option<CommitId>,
    /// The record, or why there is none.
    pub(crate) record: Result<Record, SessionError>,
}

/// The state of a session, as far as it is readable.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) tag: Tag,
    pub(crate) folder: SessionFolder,
    /// Its records in the order of their numbers: those that have a readable ref, and those whose ref can be put back.
    pub(crate) refs: Vec<RecordRef>,
    /// The records that can be read.
    history: History,
    /// The refs that records were made for, with their tag objects; looked for only when refs are lost.
    tag_objects: Vec<(String, String)>,
    /// Its refs whose files name nothing, its branch among them.
    pub(crate) broken: Vec<BrokenRef>,
    /// The contract of its folder.
    pub(crate) contract: Result<Option<Contract>, StateError>,
    /// True if this clone fetched its refs and has no files of it.
    pub(crate) is_fetched: bool,
    /// True if the contract's hash shows a change after the approval.
    pub(crate) is_changed: bool,
    pub(crate) journal: Result<Option<Journal>, StateError>,
    /// The process that holds its lock.
    pub(crate) holder: Option<String>,
    /// Set if this is the only session that is examined.
    pub(crate) is_only: bool,
}

impl Facts {
    /// Reads all there is.
    pub(crate) fn read(repo: &Repo, tag: &Tag) -> Result<Facts, SessionError> {
        let folder = SessionFolder::new(repo.main_worktree(), tag);
        let branch = tag.branch_ref();
        let mut broken = repo.refs.broken_refs(&tag.ref_prefix())?;
        let mut named = repo.refs.readable_refs_under(&tag.ref_prefix())?;
        named.retain(|(name, _)| record_id(name, tag).is_some());
        let numbers = named.iter().filter_map(|(name, _)| record_id(name, tag)).map(ExperimentId::number);
        let mut tag_objects = Vec::new();
        if !gaps(numbers).is_empty() || broken.iter().any(|broken| record_id(&broken.name, tag).is_some()) {
            tag_objects = repo.objects.tag_objects_under(&tag.ref_prefix())?;
        }
        for BrokenRef { name, .. } in &broken {
            // A record never moves, so what was packed of its ref is still right.
            if let [object] = objects_of(&tag_objects, name)[..]
                && named.iter().all(|(packed, _)| packed != name)
            {
                named.push((name.clone(), object.to_owned()));
            }
        }
        let records = repo.objects.each_tag(&named, |name, tag| {
            let bad = |source| SessionError::BadRecord { reference: name.to_owned(), source };
            match tag {
                Ok(Some(tag)) => (Some(tag.commit), parse_record(name, &tag.message)),
                Ok(None) => (None, Err(bad(serde::de::Error::custom("it is not an annotated tag on a commit")))),
                Err(error) => (None, Err(bad(serde::de::Error::custom(with_causes(&error))))),
            }
        });
        let found = named.into_iter().zip(records).filter_map(|((name, object), (tagged, record))| {
            Some(RecordRef { id: record_id(&name, tag)?, name, object, tagged, record })
        });
        let mut refs: Vec<RecordRef> = found.collect();
        refs.sort_by_key(|found| found.id);
        broken.extend(
            repo.refs.broken_refs("refs/heads/autoresearch")?.into_iter().filter(|broken| broken.name == branch),
        );
        if broken.iter().all(|broken| broken.name != branch) {
            broken.extend(repo.refs.lost_branch(&branch));
        }
        let holder = folder.owner(repo.git_dir()).ok().flatten().map(|owner| owner.said);
        let other = |journal: &Journal| driven_elsewhere(&folder, &journal.presence).filter(|other| !other.is_missed());
        let contract = folder.contract();
        // One that cannot be read is told of as such.
        let is_changed = folder.contract_was_changed().unwrap_or(false);
        let journal = Journal::read(&folder.state());
        let holder = holder.or_else(|| Some(other(journal.as_ref().ok()?.as_ref()?)?.to_string()));
        let history = History::new(refs.iter().filter_map(|found| found.record.as_ref().ok()).cloned().collect());
        Ok(Facts {
            tag: tag.clone(),
            folder,
            refs,
            history,
            tag_objects,
            broken,
            contract,
            // A record that cannot be read is told of as such.
            is_fetched: is_fetched(repo, tag).unwrap_or(false),
            is_changed,
            journal,
            holder,
            is_only: false,
        })
    }

    /// Returns whether only remains are left: no contract, journal or record, and no process that holds the lock.
    pub(crate) fn is_remains(&self) -> bool {
        let has_files = !matches!((&self.contract, &self.journal), (Ok(None), Ok(None)));
        !has_files && self.refs.is_empty() && self.broken.is_empty() && self.holder.is_none()
    }

    /// Returns whether the session was created from another tool's ledger. Such a session has only records.
    pub(crate) fn is_imported(&self) -> bool {
        self.terms().is_some_and(|terms| terms.imported)
    }

    /// Returns whether the session should have files besides its records.
    pub(crate) fn has_files(&self) -> bool {
        !self.is_imported() && !self.is_fetched
    }

    /// The records that can be read.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The experiments that have lost their records and refs, as far as the records that can be read tell.
    pub(crate) fn lost_ids(&self) -> Vec<ExperimentId> {
        let there = self.history.records().iter().map(|record| (record.id, record.sequence()));
        let mut lost = lost_ids(there);
        lost.retain(|id| self.refs.iter().all(|found| found.id != *id));
        lost
    }

    /// Returns whether all records exist and are readable. Otherwise the next step is unknown.
    pub(crate) fn is_complete(&self) -> bool {
        let lost = |broken: &BrokenRef| {
            record_id(&broken.name, &self.tag).is_some_and(|id| self.refs.iter().all(|found| found.id != id))
        };
        !self.broken.iter().any(lost)
            && self.lost_ids().is_empty()
            && self.refs.iter().all(|found| found.record.is_ok())
    }

    /// The terms as the baseline's record has them.
    pub(crate) fn recorded_terms(&self) -> Option<Contract> {
        let record = self.refs.first()?.record.as_ref().ok().filter(|record| record.id.is_baseline())?;
        recorded_terms(record).ok().flatten()
    }

    /// The terms, from wherever they can be had.
    pub(crate) fn terms(&self) -> Option<Contract> {
        match &self.contract {
            Ok(Some(contract)) => Some(contract.clone()),
            _ => self.recorded_terms(),
        }
    }

    /// The commit that the branch should be at between two experiments, where the records tell.
    pub(crate) fn expected_tip(&self) -> Option<CommitId> {
        let history = self.history();
        let terms = self.recorded_terms().or_else(|| self.terms())?;
        self.is_complete().then(|| expected_tip(&terms, history.incumbent().map(|record| &record.commit)))
    }

    /// Judges the tip of the branch. Returns `None` if the ref is torn, if its expected commit is unknown, or if a fetched
    /// session has no branch. An imported session also gives `None`.
    pub(crate) fn tip(&self, repo: &Repo) -> Result<Option<Tip>, SessionError> {
        let branch = self.tag.branch_ref();
        if self.is_imported() || self.broken.iter().any(|broken| broken.name == branch) {
            return Ok(None);
        }
        let Some(expected) = self.expected_tip() else { return Ok(None) };
        let (found, history) = (repo.refs.branch(&branch)?, self.history());
        if self.is_fetched && found.is_none() {
            return Ok(None);
        }
        let last = history.records().last().map(|record| &record.commit);
        Ok(Some(judge_tip(found.as_ref(), &expected, last, !self.open_ids().is_empty())))
    }

    /// The tag objects that were made for a ref that is lost.
    pub(crate) fn tag_objects(&self, refname: &str) -> Vec<&str> {
        objects_of(&self.tag_objects, refname)
    }

    /// Returns whether the journal is missing or cannot be parsed.
    pub(crate) fn has_lost_journal(&self) -> bool {
        matches!(self.journal, Ok(None) | Err(StateError::Json { .. }))
    }

    /// The experiment that a lost journal left at the tip of the branch.
    pub(crate) fn left_at_tip(&self, repo: &Repo) -> Result<Option<AttemptHead>, SessionError> {
        let terms = self.terms().filter(|_| self.has_lost_journal());
        terms.map_or(Ok(None), |terms| left_at_tip(repo, &self.folder, &terms, self.history()))
    }

    /// The journal, as far as it can be read.
    pub(crate) fn known_journal(&self) -> Option<&Journal> {
        self.journal.as_ref().ok()?.as_ref()
    }

    /// The attempts that the journal says are open.
    pub(crate) fn open_ids(&self) -> Vec<ExperimentId> {
        self.known_journal().map(Journal::open_ids).unwrap_or_default()
    }

    /// The place where experiments are made and run, by the journal's layout.
    pub(crate) fn tree_owner(&self) -> TreeOwner {
        self.known_journal().map_or(TreeOwner::of(None), Journal::tree_owner)
    }
}

fn objects_of<'a>(tag_objects: &'a [(String, String)], refname: &str) -> Vec<&'a str> {
    tag_objects.iter().filter(|(name, _)| name == refname).map(|(_, object)| object.as_str()).collect()
}

/// The sorted tags of all sessions that left anything: a record's ref, even a torn one, a saved commit, a branch, or a
/// contract.
pub(crate) fn known_tags(repo: &Repo) -> Result<Vec<Tag>, SessionError> {
    const PREFIX: &str = "refs/autoresearch";
    let readable = repo.refs.readable_refs_under(PREFIX)?.into_iter().map(|(name, _)| name);
    let broken = repo.refs.broken_refs(PREFIX)?.into_iter().map(|broken| broken.name);
    let mut tags: Vec<Tag> = readable
        .chain(broken)
        .filter_map(|name| {
            let (tag, rest) = name.strip_prefix(PREFIX)?.strip_prefix('/')?.split_once('/')?;
            let is_kept = ["saved/", "open/", "merged/"].iter().any(|folder| rest.starts_with(folder));
            let is_ours = rest.parse::<ExperimentId>().is_ok() || is_kept;
            tag.parse().ok().filter(|_| is_ours)
        })
        .collect();
    let branches = repo.refs.readable_refs_under("refs/heads/autoresearch")?;
    tags.extend(branches.iter().filter_map(|(name, _)| name.strip_prefix("refs/heads/autoresearch/")?.parse().ok()));
    let folder = repo.main_worktree().join(SESSIONS_FOLDER);
    let entries = match fs::read_dir(&folder) {
        Err(error) if !absent(&error) => return Err(SessionError::Io { action: "read", path: folder, source: error }),
        entries => entries.into_iter().flatten().flatten(),
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

/// Hint for repository damage without a specific remedy.
const LOOK: &str = "inspect with `git fsck --full` and decide what to keep of the repository";

/// A part of a session.
pub(crate) type Part = fn(&Repo, &Facts) -> Vec<RepairableFinding>;

/// The sessions that are looked at, and all others.
#[derive(Debug)]
pub(crate) struct Patients {
    /// Those that are meant.
    pub(crate) meant: Vec<Facts>,
    /// The others, whose rows stand in the same results.tsv.
    pub(crate) others: Vec<Facts>,
}

impl Patients {
    /// Finds them; what is damaged hides no session.
    pub(crate) fn find(repo: &Repo, tag: Option<&Tag>) -> Result<Patients, SessionError> {
        let tags = known_tags(repo)?;
        let meant = match tag {
            Some(tag) if !tags.contains(tag) => return Err(no_session(repo, tag)),
            Some(tag) => Some(tag.clone()),
            // A HEAD that cannot be read names no session, and is found elsewhere.
            None => repo.refs.head().ok().and_then(|head| session_of_head(&head)).filter(|tag| tags.contains(tag)),
        };
        let mut patients = Patients { meant: Vec::new(), others: Vec::new() };
        for tag in tags {
            let facts = Facts::read(repo, &tag)?;
            let is_meant = meant.as_ref().is_none_or(|meant| *meant == tag);
            if is_meant { &mut patients.meant } else { &mut patients.others }.push(facts);
        }
        let mut sessions: Vec<&mut Facts> = patients.meant.iter_mut().filter(|facts| !facts.is_remains()).collect();
        if let [only] = &mut sessions[..] {
            only.is_only = true;
        }
        Ok(patients)
    }

    /// Finds them while this process holds them all.
    pub(crate) fn find_held(repo: &Repo, tag: Option<&Tag>) -> Result<Patients, SessionError> {
        let mut patients = Patients::find(repo, tag)?;
        patients.meant.iter_mut().chain(&mut patients.others).for_each(|facts| facts.holder = None);
        Ok(patients)
    }

    /// The sessions that are meant and of which more than remains is left.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Facts> {
        self.meant.iter().filter(|facts| !facts.is_remains())
    }

    /// All sessions, those that are meant first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Facts> {
        self.meant.iter().chain(&self.others)
    }
}

/// Turns an error into a finding. The user inspects repository damage that has no specific remedy.
pub(crate) fn finding_of(area: Area, error: &SessionError) -> Finding {
    // The reader has just run `ar doctor`.
    let hint = error.hint().filter(|hint| hint != SEE_DOCTOR);
    let is_unnamed = hint.is_none() && matches!(error, SessionError::Git(GitError::Git { .. } | GitError::Damaged(_)));
    let level = match error.kind() {
        ErrorKind::Damaged => Severity::Damaged,
        _ if is_unnamed => Severity::Damaged,
        _ => Severity::Error,
    };
    Finding {
        hint: hint.or(is_unnamed.then(|| LOOK.into())),
        is_unexplained: is_unnamed,
        ..Finding::new(area, level, with_causes(error))
    }
}
