//! The time between calls of the agent, in the journal, its only record: pauses for an outage or the session's cadence, and
//! texts for the user.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Sleep;
use crate::domain::{Outage, OutageKind, StopReason, Waits};
use crate::rules::{History, SoFar};

/// An outage of the agent that is not over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenOutage {
    /// When the first call failed.
    #[serde(with = "crate::domain::millis")]
    pub since: Timestamp,
    /// The time that it has lasted while `ar` was active, in seconds.
    pub seconds: f64,
    /// The part of that in which the agent has failed for unknown reasons, without interruption, in seconds.
    #[serde(default)]
    pub failed_seconds: f64,
    /// The number of waits for its end.
    pub waits: u32,
    /// The number of calls in a row that ended for the same reason as the last one.
    #[serde(default)]
    pub repeats: u32,
    /// The command line of the agent that it keeps from its work.
    pub agent: Option<String>,
    /// The outage that the last call met.
    pub outage: Outage,
    /// Until when it is waited out; absent while the agent is called. Where nobody waits, until when the session that is
    /// resumed waits.
    #[serde(default, with = "crate::domain::millis::option")]
    pub until: Option<Timestamp>,
}

impl OpenOutage {
    /// Its progress; `is_first` if no earlier call of the session succeeded.
    pub fn so_far(&self, is_first: bool) -> SoFar {
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        SoFar {
            waits: if self.is_resumed() { 0 } else { self.waits },
            lasted: duration(self.seconds),
            failed: duration(self.failed_seconds),
            repeats: self.repeats,
            is_first,
        }
    }

    /// Returns whether a resumed session only waits for the reset.
    fn is_resumed(&self) -> bool {
        self.until.is_some()
    }
}

/// The outage, the pause between two experiments, and the times that no experiment has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// The outage that keeps the agent from its work.
    outage: Option<OpenOutage>,
    /// True if an outage ended since the last pause between experiments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    was_out: bool,
    /// The last pause between experiments; absent without a cadence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sleep: Option<Sleep>,
    /// The times so far that no experiment has.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub waits: Waits,
}

impl Pauses {
    /// Those of a session of which only the records are known.
    pub fn of_records(history: &History) -> Self {
        Pauses { waits: history.waits(), ..Pauses::default() }
    }

    /// The outage that is not over.
    pub fn outage(&self) -> Option<&OpenOutage> {
        self.outage.as_ref()
    }

    /// Returns whether an outage ended since the last pause between experiments.
    pub fn was_out(&self) -> bool {
        self.was_out
    }

    /// Records an `outage` of `agent`, new or continued, after a call of so many seconds.
    pub fn enter_outage(&mut self, outage: Outage, agent: Option<String>, seconds: f64) {
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
        self.note_lasted(seconds);
    }

    /// Adds seconds to the outage.
    pub fn note_lasted(&mut self, seconds: f64) {
        if let Some(open) = &mut self.outage {
            open.seconds += seconds;
            self.waits.outages += seconds;
            open.failed_seconds =
                if open.outage.kind == OutageKind::Failed { open.failed_seconds + seconds } else { 0.0 };
        }
    }

    /// Waits the outage out until a moment.
    pub fn wait_out(&mut self, until: Option<Timestamp>) {
        if let Some(open) = &mut self.outage {
            open.waits = open.waits.saturating_add(u32::from(!open.is_resumed()));
            open.until = until;
        }
    }

    /// Ends the wait for the end of the outage.
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

    /// Notes the end of a loop. A resumed session waits for a reset that is known; otherwise the user has seen to it.
    pub fn end_loop(&mut self, reason: &StopReason, agent: Option<&str>) {
        self.wait_later(agent);
        if matches!(reason, StopReason::Outage { .. }) || !self.waits_for_reset() {
            self.outage = None;
        }
    }

    /// Ends the outage, of which the next pause by a cadence is to take account, and gives it.
    pub fn end_outage(&mut self, has_cadence: bool) -> Option<OpenOutage> {
        let over = self.outage.take()?;
        self.was_out = has_cadence;
        Some(over)
    }

    /// Forgets the outage, as nobody calls the agent.
    pub fn forget_outage(&mut self) {
        self.outage = None;
    }

    /// Returns whether a resumed session must wait for a reset before it calls the agent.
    pub fn waits_for_reset(&self) -> bool {
        self.outage.as_ref().is_some_and(|open| open.until.is_some())
    }

    /// The pause after this iteration.
    pub fn sleep_after(&self, iteration: u32) -> Option<&Sleep> {
        self.sleep.as_ref().filter(|sleep| sleep.after == iteration)
    }

    /// Begins or continues a pause between two experiments.
    pub fn sleep(&mut self, sleep: Sleep) {
        self.sleep = Some(sleep);
    }

    /// Ends a pause between two experiments.
    pub fn wake(&mut self, sleep: Sleep) {
        self.sleep = Some(Sleep { until: None, ..sleep });
        self.was_out = false;
    }

    /// When the wait of a loop after this iteration ends: that for the end of an outage, or its pause.
    pub fn end(&self, iteration: u32) -> Option<Timestamp> {
        let outage = self.outage.as_ref().and_then(|outage| outage.until);
        outage.or_else(|| self.sleep_after(iteration)?.until)
    }
}

/// The least time between two checkpoints: they are named by the second.
const LEAST: Duration = Duration::from_secs(1);

/// The checkpoints and summaries of a session, written and due.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoints {
    /// The time of the last checkpoint.
    #[serde(default, with = "crate::domain::millis::option", skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    /// True while that one is being written, also after a kill.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_open: bool,
    /// True if the agent must summarize the session before it continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    asks_summary: bool,
    /// Set once the agent was asked for the summary at the contract's age.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_summed_up: bool,
}

/// The time since a moment; `None` for one that the clock, which was put back, has before it.
fn since(moment: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(moment)).ok()
}

impl Checkpoints {
    /// The time of the checkpoint that is to be written now, if one is: one that was begun, or the next one of a session that
    /// was opened at `opened`.
    fn due(&self, every: Option<Duration>, opened: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if self.is_open {
            return self.last;
        }
        let every = every?.max(LEAST);
        since(self.last.unwrap_or(opened), now).is_none_or(|since| since >= every).then_some(now)
    }

    /// Notes the checkpoint that is to be written now before it is written, and gives its time.
    pub fn begin_due(&mut self, every: Option<Duration>, opened: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.due(every, opened, now).map(|at| self.begin(at))
    }

    fn begin(&mut self, at: Timestamp) -> Timestamp {
        (self.last, self.is_open) = (Some(at), true);
        at
    }

    /// Notes that it is written, or could not be.
    pub fn end(&mut self) {
        self.is_open = false;
    }

    /// Notes that the agent is to sum the session up, and the checkpoint of this moment before it is written. Gives its time,
    /// unless it exists.
    pub fn ask_summary(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.asks_summary = true;
        (self.last != Some(now)).then(|| self.begin(now))
    }

    /// Returns whether the agent must summarize the session now.
    pub fn summary_is_due(&self, age: Option<Duration>, opened: Timestamp, now: Timestamp) -> bool {
        self.asks_summary || self.is_of_age(age, opened, now)
    }

    /// Notes that the agent was asked for a summary.
    pub fn summary_asked(&mut self, age: Option<Duration>, opened: Timestamp, now: Timestamp) {
        self.is_summed_up |= self.is_of_age(age, opened, now);
        self.asks_summary = false;
    }

    /// Returns whether a session that was opened at `opened` is old enough for its summary by `age`, and has none yet.
    fn is_of_age(&self, age: Option<Duration>, opened: Timestamp, now: Timestamp) -> bool {
        let is_of = |age| since(opened, now).is_some_and(|since| since >= age);
        !self.is_summed_up && age.is_some_and(is_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(kind: OutageKind, until: Option<Timestamp>) -> Outage {
        Outage { kind, said: "later".into(), until }
    }

    #[test]
    fn an_outage_counts_its_repeats_and_what_failed_for_unknown_reasons() {
        let mut pauses = Pauses::default();
        for (kind, expected) in [
            (OutageKind::Failed, (1, 2.0, 2.0)),
            (OutageKind::Failed, (2, 4.0, 4.0)),
            (OutageKind::Offline, (1, 6.0, 0.0)),
        ] {
            pauses.enter_outage(outage(kind, None), Some("x".into()), 2.0);
            let open = pauses.outage().unwrap();
            assert_eq!((open.repeats, open.seconds, open.failed_seconds), expected);
        }
        assert_eq!(pauses.waits.outages, 6.0);
        assert!(pauses.end_outage(true).is_some() && pauses.was_out() && pauses.end_outage(false).is_none());
        assert!(pauses.was_out(), "no outage ended");
    }

    #[test]
    fn an_outage_that_a_stop_or_another_agent_ended_is_outage() {
        let mut pauses = Pauses::default();
        pauses.enter_outage(outage(OutageKind::RateLimit, None), None, 10.0);
        pauses.note_lasted(365.0);
        pauses.end_loop(&StopReason::Terminated, None);
        pauses.note_lasted(600.0);
        assert_eq!(pauses.waits.outages, 375.0, "after its end no time is of an outage");
        pauses.enter_outage(outage(OutageKind::RateLimit, None), None, 5.0);
        pauses.forget_outage();
        assert_eq!(pauses.waits.outages, 380.0);
    }

    #[test]
    fn a_resumed_session_waits_for_the_reset_that_its_agent_named() {
        let reset = Timestamp::now().checked_add(Duration::from_secs(3600)).unwrap();
        let out = |until| {
            let mut pauses = Pauses::default();
            pauses.enter_outage(outage(OutageKind::RateLimit, until), Some("x".into()), 1.0);
            pauses
        };
        for (until, reason, agent, waits) in [
            (Some(reset), StopReason::Terminated, "x", true),
            (Some(reset), StopReason::Terminated, "y", false),
            (None, StopReason::Terminated, "x", false),
            (Some(Timestamp::UNIX_EPOCH), StopReason::Terminated, "x", false),
        ] {
            let mut pauses = out(until);
            pauses.end_loop(&reason, Some(agent));
            assert_eq!((pauses.waits_for_reset(), pauses.outage().is_some()), (waits, waits), "{until:?} {agent}");
            assert_eq!(pauses.end(1), until.filter(|_| waits));
        }
    }

    const HOURS: Option<Duration> = Some(Duration::from_secs(2 * 3600));

    fn at(text: &str) -> Timestamp {
        format!("2026-11-20T{text}Z").parse().unwrap()
    }

    #[test]
    fn the_next_one_is_due_by_the_time_of_the_last() {
        let opened = at("20:00:00");
        let none = Checkpoints::default();
        assert_eq!(none.due(HOURS, opened, at("21:59:59")), None);
        assert_eq!(none.due(HOURS, opened, at("22:00:00")), Some(at("22:00:00")));
        assert_eq!(none.due(None, opened, at("22:00:00")), None);
        let one = Checkpoints { last: Some(at("21:00:00")), ..none };
        assert_eq!(one.due(HOURS, opened, at("22:59:59")), None);
        assert_eq!(one.due(HOURS, opened, at("23:00:00")), Some(at("23:00:00")));
        assert_eq!(one.due(HOURS, opened, at("20:30:00")), Some(at("20:30:00")), "the clock was put back");
        assert_eq!(one.due(Some(Duration::from_millis(1)), opened, at("21:00:00")), None, "never twice at one time");
        let open = Checkpoints { is_open: true, ..one };
        assert_eq!(open.due(None, opened, at("22:00:00")), Some(at("21:00:00")), "it was begun");
    }

    #[test]
    fn a_session_is_summed_up_once_by_its_age() {
        let opened = at("20:00:00");
        let none = Checkpoints::default();
        let of_age = |age, now| none.is_of_age(age, opened, at(now));
        assert_eq!(
            [of_age(HOURS, "21:59:59"), of_age(HOURS, "22:00:00"), of_age(None, "23:00:00")],
            [false, true, false]
        );
        assert!(!Checkpoints { is_summed_up: true, ..none }.is_of_age(HOURS, opened, at("23:00:00")));
    }
}
