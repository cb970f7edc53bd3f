//! The decision of a patrol about a session: leave it alone, restart it, nudge it, or have it begin anew.
//!
//! States and thresholds follow the guardians of Deli AutoResearch. A session without a sign of life for three
//! intervals is dead. Without progress, it is stalled after two hours and stuck after four. After three nudges without
//! progress, no more follow.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::Display;

use super::OtherHost;
use crate::domain::{clock_time, count_of};

/// Intervals without a sign of life after which a session that nobody holds is dead, and restarted.
pub(super) const INTERVALS: u32 = 3;
/// The period in which deaths are counted.
const HOUR: Duration = Duration::from_secs(3600);
/// The death within [`HOUR`] that is flagged; the session is restarted once more, and left after the next one.
const FLAGGED_DEATH: usize = 3;
/// The restart in a row without progress that is flagged, with each later one: patrols may be further apart than [`HOUR`].
const FLAGGED_RESTART: usize = 3;
/// Nudges without progress after which there are no more.
const NUDGES: u32 = 3;
/// The longest time between two writes of the journal while a loop waits, and the share added for a loaded machine.
const BEAT: Duration = Duration::from_secs(60);
const SLACK: f64 = 0.5;

/// The maker of a session's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionDriver {
    /// The loop, which calls agents.
    Loop,
    /// An agent or a person, by `ar try`.
    Hand,
}

/// The time within which an active loop shows itself again, in whole seconds: the longest of `deadlines`, those of a call,
/// a run and a pause, but never more than the beat of a loop that waits; and half of it for a loaded machine.
pub fn interval(deadlines: &[Duration]) -> u64 {
    let longest = deadlines.iter().max().copied().unwrap_or(BEAT).min(BEAT);
    longest.mul_f64(1.0 + SLACK).as_secs().max(1)
}

/// The thresholds of a patrol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// The time without progress after which a session whose driver is silent is stalled; also between two nudges.
    pub stall: Duration,
    /// The time without progress after which a loop is stuck.
    pub stuck: Duration,
}

impl Default for Thresholds {
    /// Two and four hours, as Deli AutoResearch has them.
    fn default() -> Self {
        Thresholds { stall: Duration::from_secs(2 * 3600), stuck: Duration::from_secs(4 * 3600) }
    }
}

/// The state of a session on a patrol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Health {
    /// A loop holds it, or its driver was there lately.
    Working,
    /// Its loop waits for a known time, or for a person.
    Paused,
    /// It was stopped in good order.
    Stopped,
    /// Nobody holds it, and nobody stopped it.
    Dead,
    /// No progress, and a driver that is silent or an agent that asks.
    Stalled,
    /// No progress for long.
    Stuck,
}

/// The action of a patrol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum GuardianAction {
    /// Nothing.
    None,
    /// `ar resume`.
    Restart,
    /// A call of the nudge command.
    Nudge,
    /// The session is to begin anew in an untried direction, and is flagged.
    Redirect,
}

/// The actions of earlier patrols on a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PatrolMemory {
    /// When it was restarted: within the last hour, or since its last progress.
    pub deaths: Vec<Timestamp>,
    /// When it was nudged since its last progress.
    pub nudges: Vec<Timestamp>,
    /// True if it was redirected since its last progress.
    pub redirected: bool,
    /// The progress that the nudges are counted from.
    pub progress: Option<Timestamp>,
}

/// The facts of a session that a patrol decides by.
#[derive(Debug, Clone, PartialEq)]
pub struct PatrolFacts {
    /// The time now.
    pub now: Timestamp,
    /// True if a process holds the session.
    pub held: bool,
    /// True if it was stopped in good order: by itself, by `ar stop` or by `ar finalize`.
    pub stopped: bool,
    /// The other host on which it was opened last; absent if that was this one.
    pub elsewhere: Option<OtherHost>,
    /// The maker of its changes.
    pub driver: SessionDriver,
    /// The last sign of life.
    pub last_seen: Timestamp,
    /// The time within which the next one is expected.
    pub interval: Duration,
    /// True if the last sign of life is from this boot of the machine.
    pub same_boot: bool,
    /// True if the last output of its agent is a question.
    pub asks: bool,
    /// When the pause ends in which it is.
    pub paused_until: Option<Timestamp>,
    /// When it last came to something; absent before that.
    pub progress: Option<Timestamp>,
    /// When its open step began, or the session itself.
    pub since: Timestamp,
    /// The time that the call or the run may take that goes on now; zero for none.
    pub patience: Duration,
    /// The problem that it cannot solve and has reported to the user, as a clause.
    pub escalated: Option<String>,
    /// True if its loop waits for the answer.
    pub waits: bool,
    /// The reason why its loop cannot continue where it was without the user, as a clause.
    pub displaced: Option<String>,
    /// True if a nudge command exists for it.
    pub can_nudge: bool,
}

/// The verdict of a patrol on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatrolVerdict {
    /// Its state.
    pub state: Health,
    /// The action to take.
    pub action: GuardianAction,
    /// True if the user is needed.
    pub needs_person: bool,
    /// The reason, as a clause.
    pub detail: String,
}

impl PatrolVerdict {
    fn of(state: Health, action: GuardianAction, detail: impl Into<String>) -> PatrolVerdict {
        PatrolVerdict { state, action, needs_person: false, detail: detail.into() }
    }

    fn for_person(self) -> PatrolVerdict {
        PatrolVerdict { needs_person: true, ..self }
    }
}

/// Decides about a session. Updates `memory` with the action, which the caller then takes.
pub fn patrol(watched: &PatrolFacts, thresholds: Thresholds, memory: &mut PatrolMemory) -> PatrolVerdict {
    let now = watched.now;
    let progressed = watched.progress != memory.progress;
    if progressed {
        (memory.progress, memory.redirected) = (watched.progress, false);
        memory.nudges.clear();
    }
    memory.deaths.retain(|death| between(*death, now) < HOUR || !progressed && is_after(*death, memory.progress));
    let verdict = decide(watched, thresholds, memory);
    match verdict.action {
        GuardianAction::Restart => memory.deaths.push(now),
        GuardianAction::Nudge => memory.nudges.push(now),
        GuardianAction::Redirect => memory.redirected = true,
        GuardianAction::None => {}
    }
    let Some(escalated) = &watched.escalated else { return verdict };
    let detail = format!("{}; it needs you: {escalated}", verdict.detail);
    PatrolVerdict { detail, ..verdict }.for_person()
}

fn decide(watched: &PatrolFacts, thresholds: Thresholds, memory: &PatrolMemory) -> PatrolVerdict {
    use GuardianAction::None;
    let PatrolFacts { now, held, .. } = *watched;
    if watched.stopped && !held {
        let detail = if watched.escalated.is_some() { "stopped" } else { "stopped in good order" };
        return PatrolVerdict::of(Health::Stopped, None, detail);
    }
    if let Some(elsewhere) = watched.elsewhere.as_ref().filter(|_| !held) {
        return on_other_host(watched, elsewhere);
    }
    if watched.driver == SessionDriver::Loop && !held {
        return dead(watched, memory);
    }
    if watched.waits && held {
        return PatrolVerdict::of(Health::Paused, None, "waiting for your answer").for_person();
    }
    if let Some(until) = watched.paused_until.filter(|until| *until > now) {
        return PatrolVerdict::of(Health::Paused, None, format!("waiting for another {}", time(between(now, until))));
    }
    let begun = watched.progress.map_or(watched.since, |progress| progress.max(watched.since));
    let idle = between(begun.max(watched.paused_until.unwrap_or(begun)), now);
    let silent = between(watched.last_seen, now);
    match watched.driver {
        SessionDriver::Hand if held => PatrolVerdict::of(Health::Working, None, "`ar try` is active"),
        SessionDriver::Hand if idle.min(silent) < thresholds.stall.max(watched.patience) => {
            PatrolVerdict::of(Health::Working, None, format!("driven by `ar try`, last seen {} ago", time(silent)))
        }
        SessionDriver::Hand => {
            let why = format!("its driver has been silent for {}", time(silent));
            without_progress(watched, thresholds, memory, Health::Stalled, &why)
        }
        SessionDriver::Loop if idle >= thresholds.stuck.max(watched.patience) => {
            let why = format!("no progress for {}", time(idle));
            without_progress(watched, thresholds, memory, Health::Stuck, &why)
        }
        SessionDriver::Loop if watched.asks && idle >= thresholds.stall.max(watched.patience) => {
            let why = format!("no progress for {}; its agent asks, which the loop handles", time(idle));
            PatrolVerdict::of(Health::Stalled, None, why)
        }
        SessionDriver::Loop => PatrolVerdict::of(Health::Working, None, format!("last seen {} ago", time(silent))),
    }
}

/// The verdict on a session that another host has, or had: its processes are out of reach, and so are its runs.
fn on_other_host(watched: &PatrolFacts, elsewhere: &OtherHost) -> PatrolVerdict {
    let is_dead = watched.driver == SessionDriver::Loop && elsewhere.is_missed();
    match &watched.displaced {
        Some(way) if is_dead => {
            PatrolVerdict::of(Health::Dead, GuardianAction::None, format!("{elsewhere}; {way}")).for_person()
        }
        _ => PatrolVerdict::of(Health::Working, GuardianAction::None, elsewhere.to_string()),
    }
}

/// The verdict on a loop that no process holds and nobody stopped.
fn dead(watched: &PatrolFacts, memory: &PatrolMemory) -> PatrolVerdict {
    let PatrolFacts { now, .. } = *watched;
    let patience = watched.interval.saturating_mul(INTERVALS);
    let verdict = |action, detail: String| PatrolVerdict::of(Health::Dead, action, detail);
    // The distance of the two times, so that a clock that was set back cannot keep a session alive for ever.
    let silent = between(watched.last_seen, now);
    if let Some(restarted) = memory.deaths.last().filter(|death| between(**death, now) < patience) {
        let ago = time(between(*restarted, now));
        return verdict(GuardianAction::None, format!("restarted {ago} ago, not active yet; retried later"));
    }
    if watched.same_boot && silent < patience {
        let left = time(patience.saturating_sub(silent));
        return verdict(GuardianAction::None, format!("last seen {} ago; restarted in {left}", time(silent)));
    }
    let why = match watched.same_boot {
        true => format!("last seen {} ago", time(silent)),
        false => "the machine was restarted".to_owned(),
    };
    if let Some(displaced) = &watched.displaced {
        return verdict(GuardianAction::None, format!("{why}; {displaced}")).for_person();
    }
    let deaths = 1 + memory.deaths.iter().filter(|death| between(**death, now) < HOUR).count();
    let restarts = 1 + memory.deaths.iter().filter(|death| is_after(**death, watched.progress)).count();
    match deaths {
        ..FLAGGED_DEATH if restarts < FLAGGED_RESTART => verdict(GuardianAction::Restart, why),
        // The cause may be temporary, such as a full disk.
        ..FLAGGED_DEATH => {
            let why = format!("{why}; restart {restarts} in a row without progress");
            verdict(GuardianAction::Restart, why).for_person()
        }
        FLAGGED_DEATH => verdict(GuardianAction::Restart, format!("{why}; death {deaths} within an hour")).for_person(),
        _ => verdict(GuardianAction::None, format!("{why}; death {deaths} within an hour, not restarted")).for_person(),
    }
}

/// The verdict on a session that makes no progress although it could: nudge it, redirect it, or wait.
fn without_progress(
    watched: &PatrolFacts,
    thresholds: Thresholds,
    memory: &PatrolMemory,
    state: Health,
    why: &str,
) -> PatrolVerdict {
    let verdict = |action, detail: String| PatrolVerdict::of(state, action, detail);
    if memory.redirected {
        let detail = format!("{why}; {NUDGES} nudges brought no progress, so its next command starts over");
        return verdict(GuardianAction::None, detail).for_person();
    }
    let nudges = u32::try_from(memory.nudges.len()).unwrap_or(u32::MAX);
    let since_last = memory.nudges.last().map(|nudge| between(*nudge, watched.now));
    if let Some(ago) = since_last.filter(|ago| *ago < thresholds.stall) {
        let detail = format!("{why}; {}, the last {} ago", count_of(nudges, "nudge"), time(ago));
        return verdict(GuardianAction::None, detail);
    }
    if nudges >= NUDGES {
        let detail = format!("{why}; {NUDGES} nudges brought no progress");
        return verdict(GuardianAction::Redirect, detail).for_person();
    }
    if !watched.can_nudge {
        return verdict(GuardianAction::None, format!("{why}; no nudge command, which --nudge names"));
    }
    verdict(GuardianAction::Nudge, format!("{why}; nudge {} of {NUDGES}", nudges + 1))
}

/// Returns whether a death came after the last progress. True if there was no progress.
fn is_after(death: Timestamp, progress: Option<Timestamp>) -> bool {
    progress.is_none_or(|progress| death > progress)
}

/// The time between two moments, whichever is first.
fn between(one: Timestamp, other: Timestamp) -> Duration {
    other.duration_since(one).unsigned_abs()
}

fn time(duration: Duration) -> String {
    clock_time(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;
    const H: u64 = 3600;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + i64::try_from(seconds).unwrap()).unwrap()
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const THRESHOLDS: Thresholds = Thresholds { stall: Duration::from_secs(2 * H), stuck: Duration::from_secs(4 * H) };

    /// A loop that was seen at moment 0, with an interval of 90 s.
    fn watched(now: u64) -> PatrolFacts {
        PatrolFacts {
            now: at(now),
            held: true,
            stopped: false,
            elsewhere: None,
            driver: SessionDriver::Loop,
            last_seen: at(0),
            interval: secs(90),
            same_boot: true,
            asks: false,
            paused_until: None,
            progress: Some(at(0)),
            since: at(0),
            patience: Duration::ZERO,
            escalated: None,
            displaced: None,
            waits: false,
            can_nudge: true,
        }
    }

    fn decided(watched: &PatrolFacts, memory: &PatrolMemory) -> (String, bool) {
        let mut memory = PatrolMemory { progress: watched.progress, ..memory.clone() };
        let PatrolVerdict { state, action, needs_person, .. } = patrol(watched, THRESHOLDS, &mut memory);
        (format!("{state} {action}"), needs_person)
    }

    #[test]
    fn each_state_has_its_action() {
        let loose = |now| PatrolFacts { held: false, ..watched(now) };
        let hand = |now| PatrolFacts { driver: SessionDriver::Hand, ..loose(now) };
        let other = |wait| Some(OtherHost { host: "there".to_owned(), seen: secs(9), wait: secs(wait) });
        let table: &[(&str, PatrolFacts, &str)] = &[
            ("a loop at work", watched(60), "working none"),
            ("a frozen loop that is held", watched(3 * H), "working none"),
            ("no progress, long", watched(4 * H), "stuck nudge"),
            ("the same without a command", PatrolFacts { can_nudge: false, ..watched(4 * H) }, "stuck none"),
            ("a run of nine hours", PatrolFacts { patience: secs(9 * H), ..watched(8 * H) }, "working none"),
            ("past its deadline", PatrolFacts { patience: secs(9 * H), ..watched(9 * H) }, "stuck nudge"),
            ("a step that is young", PatrolFacts { since: at(7 * H), ..watched(8 * H) }, "working none"),
            ("an agent that asks", PatrolFacts { asks: true, ..watched(3 * H) }, "stalled none"),
            ("an outage", PatrolFacts { paused_until: Some(at(9 * H)), ..watched(8 * H) }, "paused none"),
            ("after it", PatrolFacts { paused_until: Some(at(7 * H)), ..watched(8 * H) }, "working none"),
            ("killed", loose(269), "dead none"),
            ("killed three intervals ago", loose(270), "dead restart"),
            ("killed, and the clock set back", PatrolFacts { last_seen: at(9 * H), ..loose(0) }, "dead restart"),
            ("a reboot", PatrolFacts { same_boot: false, ..loose(1) }, "dead restart"),
            ("stopped", PatrolFacts { stopped: true, same_boot: false, ..loose(9 * H) }, "stopped none"),
            ("on another host", PatrolFacts { elsewhere: other(1), ..loose(9 * H) }, "working none"),
            ("stopped there", PatrolFacts { elsewhere: other(0), stopped: true, ..loose(9 * H) }, "stopped none"),
            ("its lock is visible", PatrolFacts { elsewhere: other(0), ..watched(60) }, "working none"),
            ("a driver there", PatrolFacts { elsewhere: other(0), ..hand(9 * H) }, "working none"),
            ("a driver at work", PatrolFacts { held: true, ..hand(9 * H) }, "working none"),
            ("a driver that thinks", hand(2 * H - 1), "working none"),
            ("a silent driver", hand(2 * H), "stalled nudge"),
            ("a silent driver, no command", PatrolFacts { can_nudge: false, ..hand(2 * H) }, "stalled none"),
            (
                "a driver that only looks",
                PatrolFacts { progress: None, last_seen: at(H), ..hand(2 * H) },
                "working none",
            ),
            ("its run goes on", PatrolFacts { patience: secs(3 * H), ..hand(2 * H) }, "working none"),
            ("a driver after a reboot", PatrolFacts { same_boot: false, ..hand(60) }, "working none"),
            ("a driver that was stopped", PatrolFacts { stopped: true, ..hand(2 * H) }, "stopped none"),
        ];
        for (what, watched, expected) in table {
            assert_eq!(decided(watched, &PatrolMemory::default()), (expected.to_string(), false), "{what}");
        }
        let escalated = PatrolFacts { escalated: Some("disk".into()), stopped: true, ..loose(60) };
        assert_eq!(decided(&escalated, &PatrolMemory::default()), ("stopped none".into(), true));
        // A dead loop of another host is left to the user, whose answer may be that it is alive.
        let missed = PatrolFacts { elsewhere: other(0), displaced: Some("take it over".into()), ..loose(9 * H) };
        assert_eq!(decided(&missed, &PatrolMemory::default()), ("dead none".into(), true));
        // A loop that waits for the user needs no nudge, but a dead one is restarted.
        let waits = PatrolFacts { waits: true, ..watched(9 * H) };
        assert_eq!(decided(&waits, &PatrolMemory::default()), ("paused none".into(), true));
        let dead = PatrolFacts { held: false, ..waits };
        assert_eq!(decided(&dead, &PatrolMemory::default()), ("dead restart".into(), false));
    }

    #[test]
    fn the_third_death_within_an_hour_is_flagged_and_the_fourth_left() {
        let mut memory = PatrolMemory { progress: Some(at(0)), ..PatrolMemory::default() };
        let mut found = Vec::new();
        for minute in [5, 7, 20, 40, 50, 66] {
            let dead = PatrolFacts { held: false, ..watched(minute * MINUTE) };
            let PatrolVerdict { action, needs_person, .. } = patrol(&dead, THRESHOLDS, &mut memory);
            found.push(format!("{action} {needs_person}"));
        }
        let expected = ["restart false", "none false", "restart false", "restart true", "none true", "restart true"];
        assert_eq!(found, expected, "one within three intervals of a restart is no new one");
        let later = PatrolFacts { held: false, same_boot: false, progress: Some(at(8 * H)), ..watched(9 * H) };
        assert_eq!(decided(&later, &memory), ("dead restart".into(), false));
    }

    #[test]
    fn the_third_restart_in_a_row_without_progress_is_flagged_however_rarely_patrols_come() {
        let mut memory = PatrolMemory { progress: Some(at(0)), ..PatrolMemory::default() };
        let mut found = Vec::new();
        // Progress between the fifth and the sixth begins the count anew.
        for (hour, progress) in [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 5 * H + 1), (7, 5 * H + 1), (8, 5 * H + 1)]
        {
            let dead = PatrolFacts { held: false, progress: Some(at(progress)), ..watched(hour * H) };
            let PatrolVerdict { action, needs_person, detail, .. } = patrol(&dead, THRESHOLDS, &mut memory);
            let counted = detail.split_once("; restart ").map_or("", |(_, counted)| counted);
            found.push(format!("{action} {needs_person} {counted}"));
        }
        let flagged = |count: u32| format!("restart true {count} in a row without progress");
        let quiet = || "restart false ".to_owned();
        assert_eq!(found, [quiet(), quiet(), flagged(3), flagged(4), flagged(5), quiet(), quiet(), flagged(3)]);
        assert_eq!(memory.deaths, [at(6 * H), at(7 * H), at(8 * H)]);
        // A session that never made progress is no better.
        let mut memory = PatrolMemory { deaths: vec![at(0), at(H)], ..PatrolMemory::default() };
        let never = PatrolFacts { held: false, progress: None, ..watched(2 * H) };
        assert!(patrol(&never, THRESHOLDS, &mut memory).needs_person);
    }

    #[test]
    fn three_nudges_in_vain_redirect_once_and_progress_begins_anew() {
        let hand = |hours| PatrolFacts { held: false, driver: SessionDriver::Hand, ..watched(hours * H) };
        let mut memory = PatrolMemory::default();
        let mut found = Vec::new();
        let mut step = |watched: PatrolFacts| {
            let PatrolVerdict { action, needs_person, .. } = patrol(&watched, THRESHOLDS, &mut memory);
            found.push(format!("{action} {needs_person}"));
        };
        for hours in [2, 3, 4, 6, 7, 8, 10, 20] {
            step(hand(hours));
        }
        step(PatrolFacts { progress: Some(at(20 * H)), last_seen: at(20 * H), ..hand(22) });
        let expected =
            "nudge false|none false|nudge false|nudge false|none false|redirect true|none true|none true|nudge false";
        assert_eq!(found.join("|"), expected);
    }

    #[test]
    fn an_interval_is_that_of_the_longest_wait_and_never_longer_than_a_beat() {
        for (deadlines, expected) in [(&[1800, 600][..], 90), (&[], 90), (&[4, 2], 6), (&[0], 1)] {
            let deadlines: Vec<_> = deadlines.iter().map(|seconds| secs(*seconds)).collect();
            assert_eq!(interval(&deadlines), expected);
        }
    }
}
