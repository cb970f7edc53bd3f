//! `ar try --rework`: another version of a change that failed a guard.

use serde_json::{Map, Value};

use super::error::SessionError;
use super::open::Session;
use super::proposing::Texts;
use super::reading::read_records;
use super::rework::add_said;
use super::try_one::Tried;
use crate::agent::Proposal;
use crate::crash;
use crate::domain::{FailureClass, LastCall, Outcome, Record, Tag, Version};
use crate::git::{Repo, SaveAs};
use crate::rules::{Again, REWORKS, again};
use crate::state::{OpenExperiment, Status};

impl Session<'_> {
    /// Brings the change of the last experiment, which failed a guard, back into the working tree. The next try is its next
    /// version.
    ///
    /// # Errors
    ///
    /// The last experiment failed no guard, or was reworked as often as may be; the working tree has changes.
    pub async fn try_again(&mut self) -> Result<Tried, SessionError> {
        let tried = self.bring_change_back().await;
        self.or_stopped(tried)
    }

    async fn bring_change_back(&mut self) -> Result<Tried, SessionError> {
        self.end_unseen().await?;
        let (record, _) = self.reworkable()?;
        let dirty: Vec<_> = self.store.repo.changes()?.tracked.into_iter().map(|(path, _)| path).collect();
        if !dirty.is_empty() {
            return Err(SessionError::DirtyBeforeRework(dirty));
        }
        self.workspace.put_back(&mut self.store, &record.commit, &record.base)?;
        crash::point("rework.put_back");
        self.workspace.move_branch(&mut self.store, &record.base, &[&record.commit], "an experiment being reworked")?;
        self.workspace.remember_untracked_beside(&mut self.store, &record.base, &record.commit)?;
        self.store.journal.rework = Some(record.commit.clone());
        self.store.journal.status = Status::Stopped;
        self.store.write_journal()?;
        self.tell()?;
        Ok(Tried::Reworking(record.id))
    }

    /// The last experiment, if it failed a guard and may be reworked, and how often it was.
    fn reworkable(&self) -> Result<(Record, Again), SessionError> {
        let is_guard = |record: &&Record| {
            record.outcome == Outcome::Discard
                && record.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::GuardFailed)
        };
        let record = self.store.history.records().last().filter(is_guard).ok_or(SessionError::NothingToRework)?;
        let again = again(record.failure.as_ref(), &record.versions);
        let again = again.ok_or(SessionError::ReworkedOften { id: record.id, limit: REWORKS })?;
        Ok((record.clone(), again))
    }

    /// The experiment whose change was brought back into the working tree.
    pub(super) fn reworked(&self) -> Option<Record> {
        let (record, _) = self.reworkable().ok()?;
        (self.store.journal.rework.as_ref() == Some(&record.commit)).then_some(record)
    }

    /// Commits the change in the working tree as the next version of an experiment that is recorded. Until it is measured
    /// the record stands as it is; then it makes room for the new one.
    pub(super) fn commit_version(
        &mut self,
        record: Record,
        proposal: Proposal,
    ) -> Result<OpenExperiment, SessionError> {
        let mut open = OpenExperiment::new(record.id, record.base.clone(), record.started);
        open.agent.clone_from(&record.agent);
        open.direction = proposal.direction.clone().or_else(|| record.direction.clone());
        open.proposal = record.proposal.as_ref().map(said).unwrap_or_default();
        add_said(&mut open.proposal, proposal.more());
        open.proposal_error = proposal.error.clone();
        open.replaces = self.store.repo.ref_object(&self.store.contract.tag.record_ref(record.id))?;
        open.versions.clone_from(&record.versions);
        let known = self.workspace.known_untracked(&mut self.store)?;
        let tree = self.store.repo.propose(&open.base, &known)?.tree();
        for version in open.versions.iter().map(|version| &version.commit).chain([&record.commit]) {
            if self.store.repo.tree_of(version)? == tree {
                return Err(SessionError::SameVersion(record.id));
            }
        }
        let subject = format!("experiment {}, version {}", open.id, open.versions.len() + 1);
        let reference =
            self.store.repo.save_commit(&SaveAs { subject, ..self.store.save_as(&open.base) }, &record.commit)?;
        crash::point("rework.version_saved");
        open.versions.push(Version::of(&record, reference));
        open.draft = Some(Box::new(record.clone()));
        self.store.history.forget(open.id);
        self.store.journal.iteration += 1;
        self.store.journal.last_call = LastCall::default();
        let texts = Texts { own: proposal.description, fallback: None, before: Some(record.description) };
        self.commit_change(&mut open, &known, texts)?.ok_or(SessionError::NothingToTry)?;
        self.store.journal.rework = None;
        Ok(open)
    }

    /// Takes the open experiment back if it is the next version of a recorded one, and nothing was measured since: the record
    /// stands as it was. Says whether it is.
    pub(super) fn roll_back_version(&mut self, open: &OpenExperiment) -> Result<bool, SessionError> {
        if !is_being_replaced(&self.store.repo, &self.store.contract.tag, open)? {
            return Ok(false);
        }
        let stands = |record: &Record| open.versions.last().is_some_and(|version| version.commit == record.commit);
        let records = read_records(&self.store.repo, &self.store.contract.tag)?.into_iter().flatten();
        let Some(record) = records.into_iter().find(stands) else { return Ok(false) };
        self.roll_back(open, "was interrupted")?;
        self.store.history.push(record);
        Ok(true)
    }
}

/// Whether the open experiment is a further version of one whose record still stands.
pub(super) fn is_being_replaced(repo: &Repo, tag: &Tag, open: &OpenExperiment) -> Result<bool, SessionError> {
    let Some(old) = &open.replaces else { return Ok(false) };
    Ok(repo.ref_object(&tag.record_ref(open.id))?.as_ref() == Some(old))
}

/// What an agent said with a proposal that is recorded.
fn said(proposal: &crate::domain::Unparsed) -> Map<String, Value> {
    match serde_json::to_value(proposal) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
