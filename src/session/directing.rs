//! How the session goes on when keeps fail to come: its ladder, and what the next call is told.

use jiff::Timestamp;

use super::error::SessionError;
use super::failed_log::last_failed_log;
use super::open::Session;
use super::reading::{SessionView, no_session, refuse_changed};
use crate::agent::{self, AskedAgain, Briefing, Proposal};
use crate::domain::{Contract, Directive, Event, Rung, StopReason, ToldStep};
use crate::rules::{
    History, Turn, UNNAMED_LIMIT, climb, climb_all, directions_tried, same_direction, unnamed_in_a_row,
};
use crate::state::{Journal, OpenExperiment};

/// How many steps of the ladder are remembered of a session that keeps nothing.
const TOLD: usize = 50;

impl Session<'_> {
    /// What the next experiment is told.
    pub fn directive(&self) -> Directive {
        self.store.journal.rung.directive
    }

    /// Takes one iteration into account, in the journal that is written when its experiment is closed.
    pub(super) fn climb(&mut self, turn: Turn) {
        let Rung { flags, directive, .. } = self.store.journal.rung;
        self.store.journal.rung =
            climb(self.store.contract.ladder, self.store.journal.rung, turn, self.store.contract.research);
        let now = self.store.journal.rung.directive;
        if turn == Turn::Kept {
            self.store.journal.told.clear();
        } else if now != directive && now != Directive::Free {
            self.store.journal.told.push(ToldStep { after: self.last_id(), directive: now });
            let surplus = self.store.journal.told.len().saturating_sub(TOLD);
            self.store.journal.told.drain(..surplus);
        }
        if self.store.journal.rung.flags > flags {
            self.store.journal.flagged.push(self.last_id());
            self.store.journal.stops_for_flag = self.store.contract.stop_when_flagged;
        }
    }

    /// Tells what is new since `before`: a flag, and another directive.
    pub(super) fn tell_directive(&mut self, before: Rung) -> Result<(), SessionError> {
        let Rung { flags, directive, .. } = self.store.journal.rung;
        let after = self.last_id();
        if flags > before.flags {
            self.emit(Event::Flagged { after, times: flags })?;
        }
        if directive != before.directive && directive != Directive::Free {
            self.emit(Event::Directed { after, directive })?;
        }
        Ok(())
    }

    /// Why the loop stops now, if it was flagged and its terms say so. It does once for each flag: who starts it again has
    /// seen that.
    pub(super) fn stop_for_flag(&mut self) -> Option<StopReason> {
        let stops = std::mem::take(&mut self.store.journal.stops_for_flag);
        stops.then(|| StopReason::Flagged {
            after: self.last_id(),
            tried: directions_tried(self.store.history.records()),
            told: self.store.journal.told.clone(),
        })
    }

    /// Why the agent is asked once more for the open experiment: a new direction was asked for, and its proposal names one
    /// that was tried, or none as those before it. A call that changed nothing is not asked again for want of a name.
    pub(super) fn asked_again(
        &mut self,
        proposal: &Proposal,
        open: &OpenExperiment,
    ) -> Result<Option<AskedAgain>, SessionError> {
        if self.names_no_direction(proposal) {
            return Ok(self.has_worked(open)?.then_some(AskedAgain::Unnamed));
        }
        Ok(self.repeated_direction(proposal).map(AskedAgain::Repeated))
    }

    /// Whether a proposal names no direction although a new one was asked for, as those before it did not.
    pub(super) fn names_no_direction(&self, proposal: &Proposal) -> bool {
        proposal.direction.is_none()
            && self.directive().wants_new_direction()
            && unnamed_in_a_row(self.store.history.records()) >= UNNAMED_LIMIT
    }

    /// The direction that a proposal names although it was tried and a new one was asked for.
    pub(super) fn repeated_direction(&self, proposal: &Proposal) -> Option<String> {
        let named = proposal.direction.as_ref().filter(|_| self.directive().wants_new_direction())?;
        let is_tried =
            directions_tried(self.store.history.records()).iter().any(|known| same_direction(&known.direction, named));
        is_tried.then(|| named.clone())
    }

    fn last_id(&self) -> u32 {
        self.store.history.records().last().map_or(0, |record| record.id)
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
