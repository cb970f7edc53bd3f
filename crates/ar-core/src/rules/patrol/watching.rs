//! What guardians watch: the activity of a session, missing patrols, alerts, and the owner of a session.
//!
//! On some shared file systems a lock holds on one host only. There a free lock proves nothing about a process of another host,
//! so the journal's signs of life count.

use std::fmt;
use std::time::Duration;

use jiff::{Timestamp, Zoned};
use serde::Serialize;

use super::INTERVALS;
use crate::domain::{
    Alert, AlertKind, Contract, Directive, EVENT_VERSION, Event, ExperimentId, Outcome, Phase, Record, ReviewVerdict,
    clock_time, count_of, experiment_name, moment_text_at, one_line,
};
use crate::rules::{History, RunFound};

/// Observations of a session, made without touching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observations {
    /// The journal's step; absent if the journal cannot be read.
    pub phase: Option<Phase>,
    /// True if a process holds the session.
    pub owned: bool,
    /// The job of the open experiment, agent or run.
    pub job: RunFound,
    /// True if the journal names an outage whose end the loop waits for.
    pub outage: bool,
    /// True if a command beside the loop runs recorded experiments again.
    pub again: bool,
}

/// The activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The loop waits for an outage of the agent to end.
    Waiting,
    /// All open jobs wait in the queue of the engine that executes them.
    Paused,
    /// The loop waits for the agent.
    Proposing,
    /// The loop commits a change.
    Committing,
    /// The measuring command runs, and the loop waits for it.
    Running,
    /// The guards run, and the loop waits for them.
    Guarding,
    /// Fresh runs decide on a change, and the loop waits for them.
    Confirming,
    /// The reviewer judges a change, and the loop waits for it.
    Reviewing,
    /// The best experiment runs once again, to see whether it still does.
    Checking,
    /// The loop records a verdict.
    Recording,
    /// A loop is active between experiments.
    Between,
    /// Recorded experiments run again, for `ar verify` or `ar ablate`.
    Remeasuring,
    /// A process is active; its step cannot be read.
    Working,
    /// No loop is active; the run continues by itself.
    RunningAlone,
    /// No loop is active; the run finished and is not recorded.
    RunOver,
    /// No loop is active; an experiment is open between two steps.
    Left,
    /// No loop is active and no experiment is open.
    Idle,
}

/// Derives what a session is doing.
pub fn activity(seen: Observations) -> Activity {
    match (seen.owned, seen.phase) {
        (true, None) => Activity::Working,
        (true, Some(_)) if seen.outage => Activity::Waiting,
        (true, Some(Phase::Running | Phase::Guarding | Phase::Confirming)) if seen.job == RunFound::Pending => {
            Activity::Paused
        }
        (true, Some(Phase::Idle | Phase::Waiting)) if seen.again => Activity::Remeasuring,
        (true, Some(Phase::Idle | Phase::Waiting)) => Activity::Between,
        (true, Some(Phase::Proposing)) => Activity::Proposing,
        (true, Some(Phase::Committing)) => Activity::Committing,
        (true, Some(Phase::Running)) => Activity::Running,
        (true, Some(Phase::Guarding)) => Activity::Guarding,
        (true, Some(Phase::Confirming)) => Activity::Confirming,
        (true, Some(Phase::Reviewing)) => Activity::Reviewing,
        (true, Some(Phase::Checking)) => Activity::Checking,
        (true, Some(Phase::Recording | Phase::Settling)) => Activity::Recording,
        (false, None | Some(Phase::Idle)) => Activity::Idle,
        (false, Some(Phase::Running | Phase::Guarding | Phase::Confirming | Phase::Recording)) => match seen.job {
            RunFound::Pending | RunFound::Going => Activity::RunningAlone,
            RunFound::Over => Activity::RunOver,
            RunFound::Gone | RunFound::Unstarted => Activity::Left,
        },
        (false, Some(_)) => Activity::Left,
    }
}

/// Returns whether the last patrol is at least `limit` old. Without a beat, it counts as missing.
///
/// `unchanged` is the time for which the observer has seen this same beat, on a clock that never jumps. It decides if
/// the machine's clock was set back: a beat in the future is missing once it has not changed for `limit`.
pub fn is_beat_missing(beat: Option<Timestamp>, now: Timestamp, unchanged: Duration, limit: Duration) -> bool {
    let age = |beat| Duration::try_from(now.duration_since(beat)).unwrap_or_default();
    beat.is_none_or(|beat| age(beat).max(unchanged) >= limit)
}

/// The shortest time from one call of a patrol to the next one, whatever the beat says. A patrol that failed is called again
/// after a quarter of `limit`: an emergency patrol may be an agent, and costs money.
pub fn pause_after_patrol(succeeded: bool, limit: Duration) -> Duration {
    if succeeded { limit } else { limit / 4 }
}

/// The crashes in a row that raise an alert: one may be the idea and a second its repair, but a third is a pattern, as
/// on the refine ladder.
const STREAK: u32 = 3;

/// The alerts of an event, in order. The history contains its experiment; `now` is the time on the user's clock.
pub fn alerts(event: &Event, contract: &Contract, history: &History, now: &Zoned) -> Vec<Alert> {
    let best = history.best_kept();
    let tag = &contract.tag;
    let alert = |event: AlertKind, id: Option<ExperimentId>, reason: &str, text: String| Alert {
        version: EVENT_VERSION,
        event,
        tag: tag.to_string(),
        experiment: id,
        metric: contract.metric.name.clone(),
        value: id.and_then(|id| history.get(id)?.metric.value),
        best: best.as_ref().map(|best| best.value),
        reason: one_line(reason),
        doubt: None,
        text: one_line(&format!("{tag}: {text}")),
    };
    match event {
        Event::ExperimentFinished { record, doubt, .. } => {
            let of_record = |(kind, text)| alert(kind, Some(record.id), &record.reason, text);
            let alerts = news(record, doubt.as_deref(), history).into_iter().map(of_record);
            alerts.map(|alert| Alert { doubt: doubt.clone(), ..alert }).collect()
        }
        Event::Directed { after, directive } if matches!(directive, Directive::Pivot { .. }) => {
            let text = format!("after {}: {directive}", experiment_name(*after));
            vec![alert(AlertKind::Pivot, Some(*after), &directive.to_string(), text)]
        }
        Event::Flagged { after, times, why, report } => {
            let reason = format!("{why}, {} so far", count_of(*times, "time"));
            let report = report.as_ref().map(|path| format!("; the report is {}", path.display())).unwrap_or_default();
            let text = format!("flagged for review after {}{report}", experiment_name(*after));
            vec![alert(AlertKind::Flagged, Some(*after), &reason, text)]
        }
        Event::ReviewFinished { id, review, late } if is_doubt(review.verdict, *late) => {
            let reason = format!("the reviewer says {}", review.sentence());
            let text = format!("flagged for review: experiment {id}: {reason}");
            vec![alert(AlertKind::Flagged, Some(*id), &reason, text)]
        }
        Event::Outage { id, outage, again: Some(again), waits: 0, .. } => {
            let text = format!("{}, waiting until {}: {}", outage.kind, moment_text_at(*again, now), outage.said);
            vec![alert(AlertKind::Outage, Some(*id), &outage.kind.to_string(), text)]
        }
        Event::Escalated { what, needed, waits, times: 1, .. } => {
            let meanwhile = if *waits { "waiting for an answer" } else { "stopping" };
            let text = format!("needs you, {meanwhile}: {what}; {needed}");
            vec![alert(AlertKind::Escalated, history.records().last().map(|record| record.id), what, text)]
        }
        Event::SessionStopped { reason, experiments } => {
            let reason = reason.to_string();
            let best = best.as_ref().map(|best| format!(", best {} {best}", contract.metric.name)).unwrap_or_default();
            let first = reason.lines().next().unwrap_or_default();
            let text = format!("stopped: {first}; {}{best}", count_of(*experiments, "experiment"));
            vec![alert(AlertKind::Stopped, history.records().last().map(|record| record.id), &reason, text)]
        }
        _ => Vec::new(),
    }
}

/// The news in an experiment that was recorded, as alerts with their texts.
fn news(record: &Record, doubt: Option<&str>, history: &History) -> Vec<(AlertKind, String)> {
    let doubted = doubt.map(|why| format!("; doubtful: {why}")).unwrap_or_default();
    let (id, what, why) = (record.id, &record.description, &record.reason);
    let mut news = Vec::new();
    if !id.is_baseline() && record.outcome == Outcome::Keep {
        news.push((AlertKind::Keep, format!("experiment {id} is kept: {what}: {why}{doubted}")));
    }
    if !id.is_baseline() && is_best(record, history) {
        let number = record.metric.number().map(|number| number.to_string()).unwrap_or_default();
        let text = format!("new best {} {number}: experiment {id}: {what}{doubted}", record.metric.name);
        news.push((AlertKind::Best, text));
    }
    if record.outcome == Outcome::Crash && history.crashes_in_a_row(1) == STREAK {
        let text = format!("{STREAK} crashes in a row, the last one experiment {id}: {why}");
        news.push((AlertKind::CrashStreak, text));
    }
    news
}

/// Returns whether a verdict doubts a keep.
fn is_doubt(verdict: ReviewVerdict, late: bool) -> bool {
    verdict == ReviewVerdict::Unclear || late && verdict == ReviewVerdict::NotEarned
}

/// Returns whether a record is a keep with a better value than all earlier keeps.
fn is_best(record: &Record, history: &History) -> bool {
    let Some(value) = record.metric.value.filter(|_| record.outcome == Outcome::Keep) else { return false };
    let before =
        history.records().iter().filter(|other| other.sequence() < record.sequence() && other.outcome == Outcome::Keep);
    before.filter_map(|other| other.metric.value).all(|other| record.metric.direction.better(value, other))
}

/// The journal's entry of the process that drives a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverClaim<'a> {
    /// The host on which the session was opened last; absent in journals of an earlier `ar`.
    pub host: Option<&'a str>,
    /// True if a process was active when the journal was written.
    pub is_active: bool,
    /// The time since the last sign of life; zero if that lies in the future.
    pub seen: Duration,
    /// The time within which the next one is expected.
    pub interval: Duration,
}

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// No process drives it.
    Free,
    /// A process holds its lock.
    Held,
    /// A process of another host may drive it, under a lock that is invisible here.
    Elsewhere(OtherHost),
}

/// The host on which a session was opened last, if it is not this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherHost {
    /// Its name.
    pub host: String,
    /// The time since the last sign of life.
    pub seen: Duration,
    /// The time after which it may be taken over; zero once it may be.
    pub wait: Duration,
}

impl OtherHost {
    /// Returns whether so many signs of life are missing that the session may be taken over.
    pub fn is_missed(&self) -> bool {
        self.wait.is_zero()
    }
}

impl fmt::Display for OtherHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {}, seen {} ago", self.host, clock_time(self.seen.as_secs_f64()))
    }
}

/// Whose a session is, seen from the host `here`; `is_held` says that its lock is held. Names tell hosts apart: a process of
/// another boot of the same host is dead.
pub fn ownership(is_held: bool, claim: &DriverClaim<'_>, here: &str) -> Ownership {
    match claim.host {
        _ if is_held => Ownership::Held,
        Some(host) if claim.is_active && host != here => Ownership::Elsewhere(OtherHost {
            host: host.to_owned(),
            seen: claim.seen,
            wait: claim.interval.saturating_mul(INTERVALS).saturating_sub(claim.seen),
        }),
        _ => Ownership::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_an_owner_is_no_loop_and_an_agent_without_one_is_no_run() {
        use RunFound::{Going, Gone, Over};
        for (phase, owned, job, expected) in [
            (Some(Phase::Running), true, Going, Activity::Running),
            (Some(Phase::Running), true, Over, Activity::Running),
            (Some(Phase::Running), false, Going, Activity::RunningAlone),
            (Some(Phase::Running), false, Over, Activity::RunOver),
            (Some(Phase::Running), false, Gone, Activity::Left),
            (Some(Phase::Guarding), true, Going, Activity::Guarding),
            (Some(Phase::Guarding), false, Going, Activity::RunningAlone),
            (Some(Phase::Guarding), false, Over, Activity::RunOver),
            (Some(Phase::Confirming), true, Going, Activity::Confirming),
            (Some(Phase::Confirming), false, Going, Activity::RunningAlone),
            (Some(Phase::Confirming), false, Gone, Activity::Left),
            (Some(Phase::Reviewing), true, Going, Activity::Reviewing),
            (Some(Phase::Reviewing), false, Over, Activity::Left),
            (Some(Phase::Checking), true, Gone, Activity::Checking),
            (Some(Phase::Checking), false, Gone, Activity::Left),
            (Some(Phase::Proposing), true, Going, Activity::Proposing),
            (Some(Phase::Proposing), false, Going, Activity::Left),
            (Some(Phase::Settling), true, Over, Activity::Recording),
            (Some(Phase::Settling), false, Over, Activity::Left),
            (Some(Phase::Idle), true, Gone, Activity::Between),
            (Some(Phase::Idle), false, Gone, Activity::Idle),
            (None, true, Gone, Activity::Working),
            (None, false, Gone, Activity::Idle),
        ] {
            let seen = Observations { phase, owned, job, outage: false, again: false };
            assert_eq!(activity(seen), expected, "{phase:?} {owned} {job:?}");
        }
        let seen = Observations { phase: Some(Phase::Idle), owned: true, job: Gone, outage: true, again: false };
        assert_eq!(activity(seen), Activity::Waiting);
        assert_eq!(activity(Observations { owned: false, ..seen }), Activity::Idle, "nobody waits");
    }

    const HOUR: Duration = Duration::from_secs(3600);

    const LIMIT: Duration = Duration::from_secs(2 * 3600);

    fn at(hour: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + HOUR * u32::try_from(1000 + hour).unwrap()
    }

    #[test]
    fn a_beat_is_missing_from_its_limit_on() {
        for (beat, now, missing) in [(10, 10, false), (10, 11, false), (10, 12, true), (10, 99, true)] {
            assert_eq!(is_beat_missing(Some(at(beat)), at(now), Duration::ZERO, LIMIT), missing, "{beat} {now}");
        }
        assert!(is_beat_missing(None, at(10), Duration::ZERO, LIMIT), "no patrol ever came");
    }

    #[test]
    fn a_beat_in_the_future_is_missing_when_it_has_not_changed_for_as_long() {
        let future = Some(at(50));
        assert!(!is_beat_missing(future, at(10), Duration::ZERO, LIMIT));
        assert!(!is_beat_missing(future, at(10), HOUR, LIMIT));
        assert!(is_beat_missing(future, at(10), LIMIT, LIMIT));
        let extremes = (Some(Timestamp::MAX), Timestamp::MIN);
        assert!(!is_beat_missing(extremes.0, extremes.1, Duration::ZERO, LIMIT));
        assert!(is_beat_missing(Some(Timestamp::MIN), Timestamp::MAX, Duration::ZERO, LIMIT));
    }

    #[test]
    fn a_failed_patrol_is_called_again_sooner() {
        assert_eq!(pause_after_patrol(true, LIMIT), LIMIT);
        assert_eq!(pause_after_patrol(false, LIMIT), LIMIT / 4);
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_an_active_process_of_another_host_may_have_a_session_whose_lock_is_free() {
        let claim = DriverClaim { host: Some("there"), is_active: true, seen: secs(100), interval: secs(90) };
        let elsewhere = |seen, wait| {
            Ownership::Elsewhere(OtherHost { host: "there".to_owned(), seen: secs(seen), wait: secs(wait) })
        };
        for (what, is_held, claim, expected) in [
            ("held", true, claim, Ownership::Held),
            ("held, by an old program", true, DriverClaim { host: None, ..claim }, Ownership::Held),
            ("killed here, or before a reboot", false, DriverClaim { host: Some("here"), ..claim }, Ownership::Free),
            ("killed, an old program", false, DriverClaim { host: None, ..claim }, Ownership::Free),
            ("stopped there", false, DriverClaim { is_active: false, ..claim }, Ownership::Free),
            ("active there", false, claim, elsewhere(100, 170)),
            ("just seen", false, DriverClaim { seen: secs(0), ..claim }, elsewhere(0, 270)),
            ("seen just within", false, DriverClaim { seen: secs(269), ..claim }, elsewhere(269, 1)),
            ("three signs missed", false, DriverClaim { seen: secs(270), ..claim }, elsewhere(270, 0)),
            ("long dead", false, DriverClaim { seen: secs(9000), ..claim }, elsewhere(9000, 0)),
            ("no end of it", false, DriverClaim { interval: Duration::MAX, ..claim }, {
                let wait = Duration::MAX.saturating_sub(secs(100));
                Ownership::Elsewhere(OtherHost { host: "there".to_owned(), seen: secs(100), wait })
            }),
        ] {
            assert_eq!(ownership(is_held, &claim, "here"), expected, "{what}");
        }
    }

    #[test]
    fn it_is_missed_once_no_time_is_left() {
        let of = |wait| OtherHost { host: "gpu7".to_owned(), seen: secs(75), wait: secs(wait) };
        assert_eq!([of(1).is_missed(), of(0).is_missed()], [false, true]);
        assert_eq!(of(1).to_string(), "on gpu7, seen 1m15s ago");
    }
}
