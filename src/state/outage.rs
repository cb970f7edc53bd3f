//! The outage of the agent in the journal: the one account of it.

use jiff::Timestamp;

use super::{Journal, OpenOutage};
use crate::domain::{Outage, OutageKind};

impl Journal {
    /// Notes that `agent` was kept from its work by `outage`, once more or for the first time.
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

    /// Notes that the outage has lasted so many seconds more.
    pub fn note_lasted(&mut self, seconds: f64) {
        if let Some(open) = &mut self.outage {
            open.seconds += seconds;
            open.failed_seconds =
                if open.outage.kind == OutageKind::Failed { open.failed_seconds + seconds } else { 0.0 };
        }
    }

    /// Notes that nobody waits any more.
    pub fn wait_no_more(&mut self) {
        if let Some(open) = &mut self.outage {
            open.until = None;
        }
    }

    /// Notes that nobody waits now: the session waits again when it is resumed where the agent named a reset that is still to
    /// come, unless `agent` is another one then.
    pub fn wait_later(&mut self, agent: Option<&str>) {
        let Some(mut open) = self.outage.take() else { return };
        if open.agent.is_none() || open.agent.as_deref() == agent {
            open.until = open.outage.until.filter(|until| *until > Timestamp::now());
            self.outage = Some(open);
        }
    }

    /// Whether the session that was resumed is to wait for a reset before it calls the agent.
    pub fn waits_for_reset(&self) -> bool {
        self.outage.as_ref().is_some_and(|open| open.until.is_some())
    }
}
