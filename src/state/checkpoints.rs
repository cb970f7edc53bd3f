//! Texts about a session for the user, as the journal notes them: its checkpoints and the agent's summary.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// Returns whether nothing is noted.
    pub fn are_none(&self) -> bool {
        *self == Checkpoints::default()
    }

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
