//! How the session goes on when keeps fail to come: its ladder, and what the next call is told.

use jiff::Timestamp;

use super::error::SessionError;
use super::failed_log::last_failed_log;
use super::open::Session;
use super::reading::{SessionView, no_session, refuse_changed};
use crate::agent::{self, AskedAgain, Briefing, Proposal};
use crate::domain::{Contract, Rung};
use crate::rules::{History, climb_all};
use crate::state::{Journal, OpenExperiment};

impl Session<'_> {
    /// Why the agent is asked once more for the open experiment: a new direction was asked for, and its proposal names one
    /// that was tried, or none as those before it. A call that changed nothing is not asked again for want of a name.
    pub(super) fn asked_again(
        &mut self,
        proposal: &Proposal,
        open: &OpenExperiment,
    ) -> Result<Option<AskedAgain>, SessionError> {
        if self.store.names_no_direction(proposal) {
            return Ok(self.workspace.has_worked(&mut self.store, open)?.then_some(AskedAgain::Unnamed));
        }
        Ok(self.store.repeated_direction(proposal).map(AskedAgain::Repeated))
    }
}

impl SessionView {
    /// What an agent has to know for the next experiment; below 8 KB. `is_called` says that the loop has called it for that.
    ///
    /// # Errors
    ///
    /// The terms were changed after they were approved.
    pub fn brief(&self, now: Timestamp, is_called: bool) -> Result<String, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| no_session(&self.repo, &self.tag))?;
        if contract.imported {
            return Err(SessionError::ImportedSession(self.tag.to_string()));
        }
        refuse_changed(&self.repo, &self.tag, contract)?;
        let journal = self.journal();
        let idle_calls = journal.as_ref().map_or(0, |journal| journal.idle_calls);
        let last_call = journal.as_ref().map(|journal| journal.last_call.clone()).unwrap_or_default();
        let rung = journal.map_or_else(|| climbed(self.contract.as_ref(), &self.history).0, |journal| journal.rung);
        let briefing = Briefing {
            contract,
            history: &self.history,
            experiment: self.history.next_id(),
            idle_calls,
            last_call: &last_call,
            memories: &self.memories(rung.directive.wants_new_direction(), now),
            directive: rung.directive,
            asked_again: None,
            reworked: None,
            failed_log: &last_failed_log(&self.folder, &self.history),
        };
        Ok(agent::brief(&briefing, is_called))
    }

    /// Why the last loop ended, as it was told; absent while one is at work, and where none was.
    pub fn ended(&self) -> Option<String> {
        self.journal()?.ended
    }

    /// The experiments after which the session was flagged for review.
    pub fn flagged(&self) -> Vec<u32> {
        self.journal().map_or_else(|| climbed(self.contract.as_ref(), &self.history).1, |journal| journal.flagged)
    }

    /// The journal, as far as it can be read.
    pub(super) fn journal(&self) -> Option<Journal> {
        Journal::read(&self.folder.state()).ok().flatten()
    }
}

/// How far the records alone bring a session, and after which experiments it was flagged; by the default ladder where its
/// terms are not known.
pub(super) fn climbed(contract: Option<&Contract>, history: &History) -> (Rung, Vec<u32>) {
    let (ladder, research) = contract.map(|contract| (contract.ladder, contract.research)).unwrap_or_default();
    climb_all(ladder, history, research)
}
