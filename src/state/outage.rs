//! The agent's outage in the journal, its only record.

use jiff::Timestamp;

use super::{Journal, OpenOutage};
use crate::domain::{Outage, OutageKind};

impl Journal {
    /// Records an `outage` of `agent`, new or continued.
    pub fn enter_outage(&mut self, outage: Outage, agent: Option<String>) {
        let begins = OpenOutage {
            since: Timestamp::now(),
            seconds: 0.0,
            failed_seconds: 0.0,
            waits: 0,
            repeats: 0,
            agent: None,
            outage: outage.clone(),
            until: None,
        };
        let before = self.outage.take().unwrap_or(begins);
        let repeats = if before.outage.kind == outage.kind { before.repeats.saturating_add(1) } else { 1 };
        self.outage = Some(OpenOutage { outage, until: None, repeats, agent, ..before });
    }

    /// Adds seconds to the outage.
    pub fn note_lasted(&mut self, seconds: f64) {
        if let Some(open) = &mut self.outage {
            open.seconds += seconds;
            open.failed_seconds =
                if open.outage.kind == OutageKind::Failed { open.failed_seconds + seconds } else { 0.0 };
        }
    }

    /// Ends the outage.
    pub fn wait_no_more(&mut self) {
        if let Some(open) = &mut self.outage {
            open.until = None;
        }
    }

    /// Stops waiting for now. If the agent named a future reset, a resumed session waits for it, unless it has another
    /// `agent`.
    pub fn wait_later(&mut self, agent: Option<&str>) {
        let Some(mut open) = self.outage.take() else { return };
        if open.agent.is_none() || open.agent.as_deref() == agent {
            open.until = open.outage.until.filter(|until| *until > Timestamp::now());
            self.outage = Some(open);
        }
    }

    /// Whether a resumed session must wait for a reset before it calls the agent.
    pub fn waits_for_reset(&self) -> bool {
        self.outage.as_ref().is_some_and(|open| open.until.is_some())
    }
}
