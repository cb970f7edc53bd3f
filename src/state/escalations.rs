//! Problems that a session cannot solve by itself, in the journal.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::{Escalation, ExperimentId, StopReason, Trouble, one_line};

/// The last problem that the session could not solve by itself, if any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Escalations(Option<Escalation>);

impl Escalations {
    /// Returns whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The last problem.
    pub fn last(&self) -> Option<&Escalation> {
        self.0.as_ref()
    }

    /// The last problem, if the session waits for an answer to it.
    pub fn open(&self) -> Option<&Escalation> {
        self.0.as_ref().filter(|open| open.waits)
    }

    /// Returns whether it waits for an answer to trouble of this kind.
    pub fn waits_for(&self, kind: Trouble) -> bool {
        self.open().is_some_and(|open| open.kind == kind)
    }

    /// The number of times in a row that it met the last problem.
    pub fn times(&self) -> u32 {
        self.0.as_ref().map_or(1, |open| open.times)
    }

    /// Notes what the session cannot solve after an experiment, and gives it: a retry that fails is no new trouble. `waits` says
    /// that it waits for an answer.
    pub fn begin(
        &mut self,
        kind: Trouble,
        after: ExperimentId,
        (what, needed): (&str, &str),
        waits: bool,
        now: Timestamp,
    ) -> Escalation {
        let again = self.0.take().filter(|last| last.kind == kind && last.after == after);
        let escalation = Escalation {
            kind,
            what: one_line(what),
            needed: one_line(needed),
            since: again.as_ref().map_or(now, |last| last.since),
            after,
            times: again.map_or(1, |last| last.times.saturating_add(1)),
            waits,
        };
        self.0.insert(escalation).clone()
    }

    /// Notes one that was noted elsewhere.
    pub(super) fn set(&mut self, escalation: Escalation) {
        self.0 = Some(escalation);
    }

    /// Notes that the session waits no more, and tries again what it waited for, which it gives.
    pub fn suspend(&mut self) -> Option<Trouble> {
        let open = self.0.as_mut().filter(|open| open.waits)?;
        open.waits = false;
        Some(open.kind)
    }

    /// Does the same, and forgets an outage, which is over by then.
    pub fn end(&mut self) -> Option<Trouble> {
        let kind = self.suspend()?;
        self.0.take_if(|_| kind == Trouble::Outage);
        Some(kind)
    }

    /// Counts what comes next as the first of its kind, since the user answered.
    pub fn answered(&mut self) {
        if let Some(open) = &mut self.0 {
            open.times = 0;
        }
    }

    /// Forgets what was tried again, now that something came of it; gives it, unless the user answered before.
    pub fn solve(&mut self) -> Option<Trouble> {
        self.0.take_if(|open| !open.waits).filter(|solved| solved.times > 0).map(|solved| solved.kind)
    }

    /// Notes that the session stops while it waits, and gives what for. The user who stops it has seen that, so it is
    /// forgotten.
    pub fn stop(&mut self, reason: &StopReason) -> Option<Escalation> {
        self.suspend()?;
        match reason {
            StopReason::Interrupted { .. } => self.0.take(),
            _ => self.0.clone(),
        }
    }

    /// Forgets it.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Forgets what was not solved as the session is opened. Of a loop that was killed while it waited it stays known, as the
    /// next one may meet it again. Returns whether it waits on, as for the end of an outage.
    pub fn reopen(&mut self, was_killed: bool) -> bool {
        if !was_killed {
            self.forget();
        }
        if let Some(open) = &mut self.0 {
            open.waits &= open.kind == Trouble::Outage;
        }
        self.open().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(kind: Trouble) -> Escalations {
        let mut escalations = Escalations::default();
        escalations.begin(kind, 3.into(), ("what\nhappened", "room"), true, Timestamp::UNIX_EPOCH);
        escalations
    }

    #[test]
    fn a_retry_that_fails_is_no_new_trouble() {
        let mut escalations = begun(Trouble::Disk);
        assert_eq!(escalations.suspend(), Some(Trouble::Disk));
        let later = Timestamp::from_second(9).unwrap();
        let again = escalations.begin(Trouble::Disk, 3.into(), ("x", "y"), true, later);
        assert_eq!((again.times, again.since), (2, Timestamp::UNIX_EPOCH));
        assert_eq!(escalations.begin(Trouble::Disk, 4.into(), ("x", "y"), true, later).times, 1, "another experiment");
        escalations.answered();
        assert_eq!((escalations.times(), escalations.solve(), escalations.suspend()), (0, None, Some(Trouble::Disk)));
        assert_eq!((escalations.solve(), escalations.is_none()), (None, true), "the user had answered");
    }

    #[test]
    fn what_was_met_again_is_solved_by_an_experiment_and_an_outage_by_its_end() {
        let mut escalations = begun(Trouble::Disk);
        assert_eq!((escalations.end(), escalations.solve()), (Some(Trouble::Disk), Some(Trouble::Disk)));
        let mut escalations = begun(Trouble::Outage);
        assert_eq!((escalations.end(), escalations.is_none()), (Some(Trouble::Outage), true));
    }

    #[test]
    fn only_a_killed_loop_leaves_what_it_could_not_solve() {
        for (kind, was_killed, is_known, waits) in [
            (Trouble::Disk, false, false, false),
            (Trouble::Disk, true, true, false),
            (Trouble::Outage, true, true, true),
        ] {
            let mut escalations = begun(kind);
            assert_eq!(escalations.reopen(was_killed), waits);
            assert_eq!((escalations.last().is_some(), escalations.open().is_some()), (is_known, waits));
        }
    }
}
