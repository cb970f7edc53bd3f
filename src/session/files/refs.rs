//! The refs of a session: its branch, its records, and the commits that it saved or has open.

use super::reading::record_message;
use crate::domain::{CommitId, ExperimentId, Notice, Record, Replay, Tag};
use crate::fs::Unsynced;
use crate::git::{Header, PreparedRecord, Repo, Result, SaveAs};
use crate::rules::History;
use crate::session::errors::SessionError;

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
