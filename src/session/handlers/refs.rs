//! The refs of a session: its branch, records, saved commits, those of open attempts and of replays, verified pairs.

use serde::Serialize;

use crate::domain::{CommitId, Direction, ExperimentId, Notice, Record, Replay, Tag, VerifiedPair, with_causes};
use crate::fs::Unsynced;
use crate::git::{Header, Repo, Result, SaveAs};
use crate::machine::{Act, Save};
use crate::rules::{History, Sample, judge_pair};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::record_message;
use crate::session::store::Store;

/// After how many experiments the refs are packed: so many files are listed in half a millisecond, and packing them takes
/// some.
const PACK_EVERY: u32 = 64;

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

    /// Keeps a commit under a saved ref, unless the newest one keeps it; gives the ref.
    pub(crate) fn save(&self, Save { commit, subject, of, or_equal }: &Save) -> Result<String> {
        let (tree, folder) = (&self.repo.working_tree, self.saved());
        let subject = subject.as_deref().unwrap_or(UNCOMMITTED);
        if let Some(saved) = tree.saved_before(&folder, subject, commit, *or_equal)? {
            return Ok(saved);
        }
        let number = of.map(|id| id.to_string());
        let header = number.as_ref().map(|number| Header { name: EXPERIMENT_HEADER, value: number });
        tree.save_commit(&folder, subject, commit, header)
    }

    /// Returns whether a saved commit is one of an experiment, and not unsaved work.
    pub(crate) fn is_of_experiment(&self, saved: &CommitId) -> Result<bool> {
        self.repo.objects.has_header(saved, EXPERIMENT_HEADER)
    }

    /// Deletes a ref; saves its commit unless a record has it.
    pub(crate) fn drop_foreign(&self, name: &str, history: &History) -> Result<()> {
        self.keep_target(name, history)?;
        self.repo.refs.drop_ref(name)
    }

    /// Restores a moved ref, and saves the commit that it was moved to. Returns false, and deletes the ref, if its object is
    /// missing.
    pub(crate) fn restore(&self, name: &str, object: &str, history: &History) -> Result<bool> {
        self.keep_target(name, history)?;
        let is_there = self.repo.refs.put_ref(name, object)?;
        if !is_there {
            self.repo.refs.drop_ref(name)?;
        }
        Ok(is_there)
    }

    fn keep_target(&self, name: &str, history: &History) -> Result<()> {
        if let Ok(Some(commit)) = self.repo.refs.branch(name)
            && self.repo.objects.has_commit(&commit)
            && !history.knows(&commit)
        {
            self.save(&Save::new(&commit))?;
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

    /// Deletes the session's branch, if it is there, at the commit where it began.
    pub(crate) fn delete_branch(&self, start: &CommitId) -> Result<()> {
        let branch = self.tag.branch_ref();
        match self.repo.refs.branch(&branch)? {
            Some(_) => self.repo.refs.delete_branch(&branch, start),
            None => Ok(()),
        }
    }

    /// Performs [`Act::MoveBranch`]; gives what another process did to the branch.
    fn bring_branch(&self, to: &CommitId, is_known: impl Fn(&CommitId) -> bool, why: &str) -> Result<Option<Notice>> {
        match self.repo.refs.branch(&self.tag.branch_ref())? {
            None => {
                self.create_branch(to, why)?;
                Ok(Some(Notice::BranchRecreated(self.tag.branch())))
            }
            Some(tip) if tip == *to => Ok(None),
            Some(tip) => {
                let saved = if is_known(&tip) { None } else { Some(self.save(&Save::new(&tip))?) };
                self.move_branch(&tip, to, why)?;
                Ok(saved.map(|saved| Notice::BranchMoved { tip, saved }))
            }
        }
    }

    /// Writes the tag of a record; gives the act that makes its ref lead there, with what must be durable before that. The ref
    /// must be a new one, or lead to the object that the tag `replaces`.
    pub(crate) fn prepare_record(
        &self,
        record: &Record,
        replaces: Option<&str>,
    ) -> Result<(Act, Unsynced), SessionError> {
        let (reference, message) = self.record_text(record)?;
        let (tag, unsynced) = self.repo.refs.prepare_record(&reference, &record.commit, &message, replaces)?;
        Ok((Act::PlaceRecord { id: record.id, tag, replaces: replaces.map(str::to_owned) }, unsynced))
    }

    /// The ref of a record, and what its tag says.
    fn record_text(&self, record: &Record) -> Result<(String, String), SessionError> {
        let reference = self.tag.record_ref(record.id);
        match record_message(record) {
            Ok(message) => Ok((reference, message)),
            Err(source) => Err(SessionError::BadRecord { reference, source }),
        }
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

    /// Writes the refs of a new session's records, all or none; those of unknown commits lead to `start`.
    pub(crate) fn write_all(&self, records: &[Record], start: &CommitId) -> Result<(), SessionError> {
        let mut written = Vec::new();
        for record in records {
            let (reference, message) = self.record_text(record)?;
            let target = if record.commit.is_known() { &record.commit } else { start };
            written.push((reference, target.clone(), message));
        }
        Ok(self.repo.refs.write_records(&written)?)
    }
}

impl Store {
    /// The session's refs.
    pub(crate) fn refs(&self) -> SessionRefs<'_> {
        SessionRefs { repo: &self.repo, tag: &self.contract.tag }
    }

    /// Performs an act, and notes what another process did to the branch.
    pub(crate) fn perform(&mut self, act: &Act) -> Result<(), SessionError> {
        let (of, refs, history) = (self.refs(), &self.repo.refs, &self.history);
        match act {
            Act::PutRef { name, to } => drop(refs.put_ref(name, to.as_str())?),
            Act::DropRef { name } => refs.drop_ref(name)?,
            Act::MoveBranch { to, known, why } => {
                let is_known = |tip: &CommitId| known.contains(tip) || history.knows(tip);
                let notice = of.bring_branch(to, is_known, why)?;
                notice.into_iter().for_each(|notice| self.note(notice));
            }
            Act::PlaceRecord { id, tag, replaces } => {
                refs.place_record(&of.tag.record_ref(*id), tag, replaces.as_deref())?;
            }
            Act::Row { id, from, replaces } => self.write_row(*id, *from, replaces.as_ref())?,
        }
        Ok(())
    }

    /// Keeps a commit under a saved ref; gives the ref.
    pub(crate) fn save(&self, save: &Save) -> Result<String, SessionError> {
        Ok(self.refs().save(save)?)
    }

    /// Keeps a commit under a saved ref, and notes where; `what` names it.
    pub(crate) fn save_and_note(&mut self, save: &Save, what: impl Into<String>) -> Result<(), SessionError> {
        let saved = self.save(save)?;
        self.note(Notice::ChangeIsIn { what: what.into(), saved });
        Ok(())
    }

    /// Keeps the commit of an attempt that no branch leads to.
    pub(crate) fn keep_open(&mut self, id: ExperimentId, commit: &CommitId) -> Result<(), SessionError> {
        self.perform(&Act::PutRef { name: self.contract.tag.open_ref(id), to: commit.clone() })
    }

    /// Drops the ref that keeps the commit of an open attempt.
    pub(crate) fn drop_open(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        self.perform(&Act::DropRef { name: self.contract.tag.open_ref(id) })
    }

    /// Keeps the commits that an experiment had, or was measured as, on other bases than that of its `commit`.
    pub(crate) fn keep_replays(
        &mut self,
        id: ExperimentId,
        replays: &[Replay],
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        let acts = Act::keep_replays(&self.contract.tag, id, replays, commit);
        acts.iter().try_for_each(|act| self.perform(act))
    }

    /// Drops the refs of an attempt that has no record.
    pub(crate) fn drop_all_of(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        let merged = self.contract.tag.merged_ref(id);
        for (name, _) in self.repo.refs.refs_under(&format!("{}/merged", self.contract.tag.ref_prefix()))? {
            if name.strip_prefix(&merged).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                self.perform(&Act::DropRef { name })?;
            }
        }
        self.drop_open(id)
    }

    /// Brings the session's branch to `to`, which no working tree follows.
    pub(crate) fn set_branch(&mut self, to: &CommitId, known: &[CommitId], why: &str) -> Result<(), SessionError> {
        self.perform(&Act::MoveBranch { to: to.clone(), known: known.to_vec(), why: why.to_owned() })
    }

    /// Puts a record in the place of the one with its number, in one step; the journal is written before.
    pub(crate) fn amend_record(&mut self, record: &Record) -> Result<(), SessionError> {
        let former = self.repo.refs.ref_object(&self.contract.tag.record_ref(record.id))?;
        let (place, unsynced) = self.refs().prepare_record(record, former.as_deref())?;
        self.written.unsynced.append(unsynced);
        self.write_journal()?;
        self.perform(&place)?;
        self.history.amend(record.clone());
        Ok(())
    }

    /// Writes pruned objects again that are still in use, and packs the refs each [`PACK_EVERY`] experiments.
    /// Reports a failure to pack and continues.
    pub(crate) fn settle_git(&mut self) -> Result<(), SessionError> {
        self.repo.objects.settle_objects()?;
        if !self.history.next_id().number().is_multiple_of(PACK_EVERY) {
            return Ok(());
        }
        // Those below `open` come and go.
        let prefix = self.contract.tag.ref_prefix();
        let prefixes = ["", "/merged", "/saved"].map(|below| format!("{prefix}{below}"));
        if let Err(error) = self.repo.refs.pack_refs(&prefixes) {
            self.note_once(format!("cannot pack the refs of the records: {}", with_causes(&error)));
        }
        Ok(())
    }
}

/// Writes a tag on `commit` whose message is `value` on one line.
pub(crate) fn write_tag<T: Serialize>(
    repo: &Repo,
    name: &str,
    commit: &CommitId,
    value: &T,
) -> Result<(), SessionError> {
    let message = serde_json::to_string(value).map_err(|why| {
        refuse(CannotStart, format!("cannot write what was verified: {why}")).hint("report this as a defect")
    })?;
    Ok(repo.refs.rewrite_record(name, commit, &message)?)
}

/// Adds a run to a pair, and writes into its tag on a commit what all runs of the pair say by then. `others` are the runs that
/// tell more of the noise, and whether the command takes seeds. Returns whether the noise is known.
pub(crate) fn record_verified(
    (repo, name, commit): (&Repo, &str, &CommitId),
    pair: &mut VerifiedPair,
    (which, seed, value): (usize, u64, f64),
    direction: Direction,
    others: (&[Vec<Sample>], bool),
) -> Result<bool, SessionError> {
    pair.add(which, seed, value);
    let is_known = judge_pair(pair, direction, others);
    write_tag(repo, name, commit, pair).map(|()| is_known)
}
