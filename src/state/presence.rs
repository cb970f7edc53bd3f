//! The driver and activity of a session in the journal, the end of its last loop, and its pause between two experiments.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::LoggedEnd;
use crate::domain::{Cadence, StopReason};
use crate::rules::{DriverClaim, NightEnd, SessionDriver, interval};

/// The activity of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// A process is active, or was when it was killed.
    #[default]
    Running,
    /// The session is idle, and a run continues by itself.
    Detached,
    /// It was stopped in good order.
    Stopped,
}

/// The process that opens a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opener {
    /// The name of its host.
    pub host: String,
    /// The boot of that; absent where the system does not name it.
    pub boot: Option<String>,
    /// Its process id.
    pub process: u32,
}

/// The driver and activity of a session, and the end of its last loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Presence {
    /// Its activity.
    status: Status,
    /// The maker of the last changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    driver: Option<SessionDriver>,
    /// The reason why the last loop ended, as reported; absent while one is active.
    ended: Option<String>,
    /// True if a SIGTERM ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    terminated: bool,
    /// True if the journal was rebuilt from the records. A run that it does not mention may still be running.
    #[serde(default)]
    unseen: bool,
    /// True if nothing says how the last loop ended, because journal and log were lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    end_unknown: bool,
    /// The time within which an active loop writes the journal again, in seconds.
    interval: Option<u64>,
    /// The boot of the machine on which it was opened last; absent where the system does not name it.
    boot_id: Option<String>,
    /// The host on which it was opened last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// The process that opened it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
    /// Number of openings. A process that finds a higher number than its own no longer owns the session.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    openings: u64,
    /// When the journal was last written.
    #[serde(with = "crate::domain::millis")]
    last_seen: Timestamp,
}

impl Presence {
    /// Creates the state of a session that is just opened.
    pub fn new(now: Timestamp) -> Self {
        Presence { last_seen: now, ..Presence::default() }
    }

    /// Creates that of a session whose journal was lost, from the `end` of the last loop in its log. `by_hand` says that `ar try`
    /// made its last experiment.
    pub fn rebuilt(end: Option<LoggedEnd>, by_hand: bool, now: Timestamp) -> Self {
        Presence {
            status: match end {
                Some(LoggedEnd::Open) => Status::Running,
                Some(LoggedEnd::Detached) => Status::Detached,
                Some(LoggedEnd::Terminated | LoggedEnd::Stopped) | None => Status::Stopped,
            },
            driver: (end == Some(LoggedEnd::Open) && by_hand).then_some(SessionDriver::Hand),
            ended: (end == Some(LoggedEnd::Terminated)).then(|| StopReason::Terminated.in_short()),
            terminated: end == Some(LoggedEnd::Terminated),
            unseen: true,
            end_unknown: end.is_none(),
            ..Presence::new(now)
        }
    }

    /// Takes in what guardians look for: who drives the session now, if anybody does, which process opens it, and within how
    /// many seconds the journal is written again.
    pub fn wake(&mut self, driver: Option<SessionDriver>, interval: u64, opener: Opener) {
        self.driver = driver.or(self.driver);
        self.interval = Some(interval);
        // A loop that a shutdown ended counts as dead until one goes on.
        if !self.was_terminated() {
            self.boot_id = opener.boot;
        }
        (self.host, self.process) = (Some(opener.host), Some(opener.process));
        self.openings = self.openings.saturating_add(1);
    }

    /// Notes that a loop or `ar try` is active on this boot.
    pub fn begin(&mut self, boot: Option<String>) {
        (self.status, self.end_unknown, self.boot_id) = (Status::Running, false, boot);
        self.set_end(None);
    }

    /// Notes the end of a loop.
    pub fn end(&mut self, reason: &StopReason) {
        self.pause(*reason == StopReason::Detached);
        self.set_end(Some(reason));
        self.end_unknown = false;
    }

    fn set_end(&mut self, reason: Option<&StopReason>) {
        self.terminated = reason == Some(&StopReason::Terminated);
        self.ended = reason.map(StopReason::in_short);
    }

    /// Notes that nobody is active, and whether a run goes on by itself. The session may go on by `ar try`.
    pub fn pause(&mut self, runs_alone: bool) {
        self.status = if runs_alone { Status::Detached } else { Status::Stopped };
    }

    /// Notes the end of `ar try`, with the reason why the session does not go on by it, if it does not.
    pub fn end_by_hand(&mut self, runs_alone: bool, reason: Option<&StopReason>) {
        self.pause(runs_alone);
        if reason.is_some() {
            self.set_end(reason);
        }
    }

    /// Notes that the runs that a rebuilt journal does not tell of are over.
    pub fn see(&mut self) {
        self.unseen = false;
    }

    /// Notes that the journal is written.
    pub(super) fn show(&mut self, now: Timestamp) {
        self.last_seen = now;
    }

    /// When the journal was last written.
    pub fn last_seen(&self) -> Timestamp {
        self.last_seen
    }

    /// The maker of the last changes.
    pub fn driver(&self) -> Option<SessionDriver> {
        self.driver
    }

    /// Returns whether a loop made the last changes.
    pub fn is_loop(&self) -> bool {
        self.driver == Some(SessionDriver::Loop)
    }

    /// Returns whether `ar try` made the last changes.
    pub fn is_by_hand(&self) -> bool {
        self.driver == Some(SessionDriver::Hand)
    }

    /// Returns whether the journal was rebuilt from the records. A run that it does not mention may still be running.
    pub fn is_unseen(&self) -> bool {
        self.unseen
    }

    /// Returns whether a process was active when the journal was written, or left a run that continues by itself.
    pub fn is_active(&self) -> bool {
        self.status != Status::Stopped
    }

    /// Returns whether the session was stopped in good order, and `ar try` does not drive it now.
    pub fn is_stopped(&self) -> bool {
        !self.is_active() && (!self.is_by_hand() || self.ended.is_some())
    }

    /// Returns whether a SIGTERM of the user or of a shutdown ended its last loop.
    pub fn was_terminated(&self) -> bool {
        !self.is_active() && self.terminated
    }

    /// Returns whether the last loop was killed. Call it only for an idle session.
    pub fn was_killed(&self) -> bool {
        self.status == Status::Running && !self.is_by_hand()
    }

    /// Returns whether the session is known to be stopped, by something other than a SIGTERM.
    pub fn is_known_to_be_over(&self) -> bool {
        self.is_stopped() && !self.was_terminated() && !self.end_unknown
    }

    /// Returns whether nothing says how the last loop ended.
    pub fn is_end_unknown(&self) -> bool {
        self.end_unknown
    }

    /// The reason why the last loop ended, as reported.
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// The end of the last process, as a text. Call it only for an idle session without a run that continues.
    pub fn end_text(&self) -> Option<&str> {
        let was_killed = self.status == Status::Running && self.is_loop();
        if was_killed { Some("its process was killed, or the machine went down") } else { self.ended() }
    }

    /// The host on which it was opened last; absent in journals of an earlier `ar`.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The process that opened it last.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Returns whether `found`, the state in a journal on the disk, is that of a process which opened the session after the one
    /// that wrote this state. An older copy of the journal does not count.
    pub fn is_taken_over_by(&self, found: &Presence) -> bool {
        let is_other = (&found.host, found.process) != (&self.host, self.process);
        found.openings > self.openings || is_other && found.openings == self.openings && found.openings > 0
    }

    /// Its claim to the session where its lock is free, by the time since the last sign of life. One whose run continues by
    /// itself has none.
    pub fn claim(&self, seen: Duration) -> DriverClaim<'_> {
        DriverClaim {
            host: self.host(),
            is_active: self.status == Status::Running,
            seen,
            interval: self.expected_within(),
        }
    }

    /// The time within which an active loop writes the journal again. Journals of an earlier `ar` do not say it.
    pub fn expected_within(&self) -> Duration {
        Duration::from_secs(self.interval.unwrap_or_else(|| interval(&[])))
    }

    /// Returns whether the session was last opened on this boot. True if its boot is unknown.
    pub fn is_of_boot(&self, boot: Option<&str>) -> bool {
        self.boot_id.is_none() || self.boot_id.as_deref() == boot
    }

    /// The end of its last night.
    pub fn night_end(&self) -> NightEnd {
        match self.status {
            _ if self.is_by_hand() => NightEnd::Over,
            Status::Stopped if self.was_terminated() => NightEnd::Terminated,
            Status::Stopped => NightEnd::Over,
            Status::Running | Status::Detached => NightEnd::Open,
        }
    }
}

/// A pause between two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sleep {
    /// The iteration that it follows.
    pub after: u32,
    /// The cadence that it is by.
    pub cadence: Cadence,
    /// When it ends; absent once it is over.
    #[serde(default, with = "crate::domain::millis::option")]
    pub until: Option<Timestamp>,
    /// Its whole length in seconds. What is left of it is never longer, whatever the clock says.
    pub seconds: f64,
    /// The reason, as a clause.
    pub why: String,
    /// The length of the file of ideas when it began, in bytes: an idea that comes later ends it.
    #[serde(default)]
    pub ideas: u64,
}

impl Sleep {
    /// The time left, and its end; `None` once the pause is over.
    pub fn left(&self, now: Timestamp) -> Option<(Duration, Timestamp)> {
        let until = self.until?;
        let whole = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        let left = Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero())?.min(whole);
        Some((left, now.checked_add(SignedDuration::try_from(left).ok()?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn opener(host: &str, boot: &str, process: u32) -> Opener {
        Opener { host: host.to_owned(), boot: Some(boot.to_owned()), process }
    }

    fn ended_by(driver: SessionDriver, reason: &StopReason) -> Presence {
        let mut presence = Presence::new(NOW);
        presence.wake(Some(driver), 9, opener("h", "a", 1));
        presence.begin(Some("a".into()));
        presence.end(reason);
        presence
    }

    #[test]
    fn the_end_of_a_loop_tells_whether_it_is_over() {
        let asked = StopReason::Interrupted { requested: true };
        for (reason, is_over, night) in [
            (&asked, true, NightEnd::Over),
            (&StopReason::Terminated, false, NightEnd::Terminated),
            (&StopReason::Detached, false, NightEnd::Open),
        ] {
            let presence = ended_by(SessionDriver::Loop, reason);
            assert_eq!((presence.is_known_to_be_over(), presence.night_end()), (is_over, night), "{reason}");
            assert_eq!(presence.ended(), Some(reason.in_short().as_str()));
        }
        let mut killed = ended_by(SessionDriver::Loop, &asked);
        killed.begin(None);
        assert!(killed.was_killed() && killed.end_text().unwrap().contains("killed"));
    }

    #[test]
    fn a_session_by_hand_is_over_only_where_its_end_is_told() {
        let mut presence = Presence::new(NOW);
        presence.wake(Some(SessionDriver::Hand), 9, opener("h", "a", 1));
        presence.pause(false);
        assert_eq!((presence.is_active(), presence.is_stopped(), presence.was_killed()), (false, false, false));
        presence.end(&StopReason::NoAgent);
        assert!(presence.is_stopped());
    }

    #[test]
    fn a_loop_that_a_shutdown_ended_stays_of_its_boot_until_one_goes_on() {
        let mut presence = ended_by(SessionDriver::Loop, &StopReason::Terminated);
        presence.wake(None, 9, opener("h", "b", 2));
        assert_eq!(
            [presence.is_of_boot(Some("a")), presence.is_of_boot(Some("b")), presence.is_loop()],
            [true, false, true]
        );
        presence.begin(Some("b".into()));
        assert!(presence.is_of_boot(Some("b")));
    }

    #[test]
    fn a_session_is_taken_over_by_who_opened_it_later_and_by_no_older_copy() {
        let open = |presence: &Presence, host: &str, process| {
            let mut presence = presence.clone();
            presence.wake(Some(SessionDriver::Loop), 9, opener(host, "a", process));
            presence
        };
        let before = open(&Presence::new(NOW), "a", 1);
        let mine = open(&before, "a", 2);
        let later = open(&mine, "a", 1);
        let beside = open(&before, "b", 2);
        let old = Presence::new(NOW);
        for (what, found, expected) in [
            ("its own", &mine, false),
            ("an older one", &before, false),
            ("one of an earlier program", &old, false),
            ("a later one", &later, true),
            ("one of the same moment", &beside, true),
        ] {
            assert_eq!(mine.is_taken_over_by(found), expected, "{what}");
        }
        assert!(!old.is_taken_over_by(&old));
    }

    #[test]
    fn only_an_active_process_has_a_claim() {
        let mut presence = ended_by(SessionDriver::Loop, &StopReason::Detached);
        let seen = Duration::from_secs(7);
        let claim = |is_active| DriverClaim { host: Some("h"), is_active, seen, interval: Duration::from_secs(9) };
        assert_eq!(presence.claim(seen), claim(false));
        presence.begin(None);
        assert_eq!(presence.claim(seen), claim(true));
    }

    #[test]
    fn a_rebuilt_one_knows_what_the_log_says() {
        for (end, is_active, unknown) in
            [(None, false, true), (Some(LoggedEnd::Open), true, false), (Some(LoggedEnd::Stopped), false, false)]
        {
            let presence = Presence::rebuilt(end, true, NOW);
            let found = (presence.is_active(), presence.is_end_unknown(), presence.is_by_hand(), presence.is_unseen());
            assert_eq!(found, (is_active, unknown, is_active, true));
        }
        assert!(Presence::rebuilt(Some(LoggedEnd::Terminated), false, NOW).was_terminated());
    }

    #[test]
    fn no_clock_makes_it_longer_than_it_is() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let until = at("2026-11-20T22:00:00Z");
        let sleep = Sleep {
            after: 1,
            cadence: Cadence::Adaptive,
            until: Some(until),
            seconds: 1800.0,
            why: String::new(),
            ideas: 0,
        };
        let left = |now: &str| sleep.left(at(now)).map(|(left, until)| (left.as_secs(), until.to_string()));
        assert_eq!(left("2026-11-20T21:50:00Z"), Some((600, "2026-11-20T22:00:00Z".into())));
        assert_eq!([left("2026-11-20T22:00:00Z"), left("2036-01-01T00:00:00Z")], [None, None], "it is over");
        assert_eq!(
            left("2006-11-20T21:50:00Z"),
            Some((1800, "2006-11-20T22:20:00Z".into())),
            "the clock was put back by years"
        );
        assert_eq!(Sleep { until: None, ..sleep }.left(until), None);
    }
}
