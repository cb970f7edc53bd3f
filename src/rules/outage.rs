//! Whether a call of the agent failed for reasons that are not in its idea, and how long to wait then.

use std::time::Duration;

use jiff::{Timestamp, Zoned};

use super::reset::{reset_time, reset_time_beside};
use crate::domain::{Outage, OutageKind, Refusal, one_line};

/// How many of the log's last lines may tell of an outage: agents print the errors of their service as JSON over many
/// lines, and a stack trace after it.
const LINES: usize = 50;

/// The same for an agent that changed something or ended well: it has worked, and what it tells of errors may be about
/// its work.
const LINES_OF_WORK: usize = 10;

/// How many bytes of a line are looked at, and how many characters of it are kept.
const LINE: usize = 4096;
const SAID: usize = 300;

/// Exit statuses of a shell that may not execute a program, or finds none.
const NOT_STARTED: [i32; 2] = [126, 127];

/// How often in a row an agent is called that does not start, or that is not logged in and has never worked in this session: a
/// program that is missing will not appear by waiting, and a wrong key stays wrong. One that has worked is waited for, as
/// logins are refreshed.
const TRIES: u32 = 3;

/// How many of its last lines tell why it does not start.
const LAST_LINES: usize = 5;

/// The first pause, and the longest one: an hourly limit is noticed soon after it is lifted, and nobody is pestered.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// The first pause of an agent that fails for reasons that are not known: mostly the next call works.
const FIRST_PAUSE_OF_FAILED: Duration = Duration::from_millis(100);

/// How long an agent may fail for reasons that are not known: longer than the restart of a service or of a machine beside
/// it takes, while a command line that does not work costs an hour of the night and some eighteen calls.
const FAILED_LIMIT: Duration = Duration::from_secs(3600);

/// From how many seconds on a call that changes nothing is none that costs nothing to repeat at once.
const SHORT_CALL: f64 = 60.0;

/// The first pause after a short call that changed nothing, and the longest one.
const FIRST_PAUSE_OF_IDLE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE_OF_IDLE: Duration = Duration::from_secs(5 * 60);

/// How long to wait before the next call after `idle_calls` in a row that changed nothing, the last of which took so many
/// seconds.
pub fn pause_after_idle(idle_calls: u32, seconds: f64) -> Duration {
    match idle_calls.checked_sub(1) {
        Some(before) if seconds < SHORT_CALL => {
            FIRST_PAUSE_OF_IDLE.saturating_mul(1 << before.min(16)).min(LONGEST_PAUSE_OF_IDLE)
        }
        _ => Duration::ZERO,
    }
}

/// How a call of the agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// Its exit status; absent when a signal ended it.
    pub exit: Option<i32>,
    /// Whether it was ended because its time was over.
    pub timed_out: bool,
    /// Whether it left a change in the working tree.
    pub changed: bool,
}

/// The outage that kept the agent from its work, if that is why it failed. `log` is the end of its output, without escape
/// sequences; `now` brings the zone that a time of day without one is in.
///
/// An agent that failed and changed nothing is kept by something, also where no wording says by what. Of one that ended
/// well the wordings count where it changed nothing: many programs exit with 0 when their service refuses. One that has
/// worked until its time was over had no outage. A change makes no outage of what is none without it.
pub fn outage(log: &str, end: CallEnd, now: &Zoned) -> Option<Outage> {
    let ended_well = end.exit == Some(0);
    if end.changed && (ended_well || end.timed_out) {
        return None;
    }
    let newest_first = log.lines().rev().map(head).filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = newest_first.take(if end.changed || ended_well { LINES_OF_WORK } else { LINES }).collect();
    let told = lines.iter().find_map(|line| kind_of(line, end.changed).map(|kind| (kind, *line)));
    let not_started = !end.changed && end.exit.is_some_and(|status| NOT_STARTED.contains(&status));
    let last = lines.first().copied().unwrap_or_default();
    let (kind, line) = match told {
        Some(told) => told,
        None if not_started => {
            let last: Vec<&str> = lines.iter().take(LAST_LINES).rev().copied().collect();
            return Some(Outage { kind: OutageKind::NotStarted, said: short(&last.join(" | ")), until: None });
        }
        None if !end.changed && !ended_well && !end.timed_out => {
            let how = end.exit.map_or("ended by a signal".to_owned(), |status| format!("exit {status}"));
            let said = if last.is_empty() { how } else { format!("{how}: {}", short(last)) };
            return Some(Outage { kind: OutageKind::Failed, said, until: None });
        }
        None => return None,
    };
    let until = reset_time(line, now).or_else(|| lines.iter().find_map(|line| reset_time_beside(line, now)));
    Some(Outage { kind, said: short(line), until })
}

/// The outage that an agent tells of in its machine-readable answer, whatever its exit status. Of one that changed something
/// it is one only where the service is known to have refused: its change is half done then. An error of another kind, such
/// as too many turns, ends the work of an agent that has worked.
pub fn refused(refusal: &Refusal, end: CallEnd, now: &Zoned) -> Option<Outage> {
    if end.changed && end.timed_out {
        return None;
    }
    let lines = || refusal.said.lines().map(head).filter(|line| !line.trim().is_empty());
    let told = lines().find_map(|line| kind_of(line, end.changed).map(|kind| (kind, line)));
    let of_status = refusal.status.and_then(|status| kind_of(&format!("status {status}"), false));
    let first = lines().next().unwrap_or_default();
    let (kind, line) = match (of_status, told) {
        (Some(kind), told) => (kind, told.map_or(first, |(_, line)| line)),
        (None, Some(told)) => told,
        (None, None) if end.changed || end.timed_out => return None,
        (None, None) => (OutageKind::Failed, first),
    };
    let named = refusal.until.filter(|until| *until > now.timestamp());
    let until = named.or_else(|| lines().find_map(|line| reset_time(line, now)));
    Some(Outage { kind, said: short(line), until: until.filter(|_| kind != OutageKind::Failed) })
}

/// A line as it is told.
fn short(line: &str) -> String {
    one_line(line).chars().take(SAID).collect()
}

/// How far an outage has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoFar {
    /// How often it was waited out.
    pub waits: u32,
    /// How long it has lasted.
    pub lasted: Duration,
    /// How long of that the agent has failed for reasons that are not known, without a break.
    pub failed: Duration,
    /// How many calls in a row ended for the same reason.
    pub repeats: u32,
    /// Whether no call of the session came to anything before it.
    pub is_first: bool,
}

/// How an outage goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// The agent is called again after this time.
    Wait(Duration),
    /// It has lasted, or will last, longer than it may.
    GiveUp,
}

/// How long to wait in an outage that may last for `limit`. Until the time that the agent names, else for a pause that
/// doubles. An agent that names a time that is soon, again and again, is not called more often than one that names none.
pub fn patience(outage: &Outage, so_far: SoFar, limit: Duration, now: Timestamp) -> Patience {
    let SoFar { waits, lasted, failed, repeats, is_first } = so_far;
    let (first, left) = match outage.kind {
        OutageKind::Failed => {
            (FIRST_PAUSE_OF_FAILED, limit.saturating_sub(lasted).min(FAILED_LIMIT.saturating_sub(failed)))
        }
        _ => (FIRST_PAUSE, limit.saturating_sub(lasted)),
    };
    // Neither will appear by waiting.
    let is_lasting = outage.kind == OutageKind::NotStarted || outage.kind == OutageKind::Login && is_first;
    if left.is_zero() || is_lasting && repeats >= TRIES {
        return Patience::GiveUp;
    }
    let pause = |step: u32| first.saturating_mul(1 << step.min(13)).min(LONGEST_PAUSE);
    match outage.until.and_then(|until| Duration::try_from(until.duration_since(now)).ok()) {
        Some(named) if named > left => Patience::GiveUp,
        Some(named) => Patience::Wait(named.max(waits.checked_sub(1).map_or(Duration::ZERO, pause)).min(left)),
        None => Patience::Wait(pause(waits).min(left)),
    }
}

/// The first bytes of a line.
fn head(line: &str) -> &str {
    let end = (0..=LINE.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    &line[..end]
}

/// What a line tells of, by words that stand in it as they are. The first that is found counts: a line about a limit often
/// names the connection that ended by it as well. Of an agent that `worked` a connection may be one of its work.
fn kind_of(line: &str, worked: bool) -> Option<OutageKind> {
    let words = words_of(line);
    let has = |phrase: &str| words.contains(&format!(" {phrase} "));
    let says = |code: &str| CODES.iter().any(|before| has(&format!("{before} {code}")));
    WORDINGS
        .iter()
        .find(|(_, codes, phrases)| phrases.iter().any(|phrase| has(phrase)) || codes.iter().any(|code| says(code)))
        .map(|(kind, ..)| *kind)
        .or_else(|| hit_your_limit(&words).then_some(OutageKind::RateLimit))
        .or_else(|| (!worked && CONNECTIONS.iter().any(|phrase| has(phrase))).then_some(OutageKind::Offline))
}

/// The words of a line in lower case, each between two spaces; whatever is no letter and no digit stands between words.
fn words_of(line: &str) -> String {
    let mut words = String::from(" ");
    for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    words
}

/// Whether it says "hit your limit", with up to four words that say which.
fn hit_your_limit(words: &str) -> bool {
    let after = words.split(" hit your ").skip(1);
    after.into_iter().any(|rest| rest.split(' ').take(5).any(|word| matches!(word, "limit" | "limits")))
}

/// What stands before a status of HTTP.
const CODES: &[&str] =
    &["http", "http 1 1", "http 2", "status", "status code", "statuscode", "error", "error code", "api error", "code"];

/// The wordings of claude, codex, gemini, opencode and aider, of the services behind them and of the network, as
/// [`words_of`] gives them; with the statuses of HTTP that mean the same. Each is one of an error: the mere mention of a
/// rate limit is none.
const WORDINGS: &[(OutageKind, &[&str], &[&str])] = &[
    (
        OutageKind::Credit,
        &["402"],
        &[
            "credit balance is too low",
            "credit balance too low",
            "insufficient quota",
            "insufficient balance",
            "insufficient credits",
            "insufficient credit",
            "insufficient funds",
            "out of credits",
            "no credits left",
            "requires more credits",
            "402 payment required",
            "payment required",
            "no payment method",
            "billing hard limit has been reached",
            "budget has been exceeded",
            "insufficientquotaerror",
            "creditserror",
        ],
    ),
    (
        OutageKind::RateLimit,
        &["429"],
        &[
            "usage limit reached",
            "usage limit has been reached",
            "usage limit exceeded",
            "hour limit reached",
            "weekly limit reached",
            "session limit reached",
            "limit will reset",
            "limits will reset",
            "limit reached resets",
            "rate limit error",
            "rate limit exceeded",
            "rate limit is exceeded",
            "rate limit has been exceeded",
            "rate limit reached",
            "rate limits exceeded",
            "ratelimiterror",
            "ratelimitexceeded",
            "ratelimit exceeded",
            "usagelimiterror",
            "freeusagelimiterror",
            "rate limited you",
            "been rate limited",
            "being rate limited",
            "exceed your account s rate limit",
            "exceeded your rate limit",
            "too many requests",
            "resource exhausted",
            "resource has been exhausted",
            "resourceexhausted",
            "quota exceeded",
            "quota will reset",
            "exceeded your current quota",
            "exhausted your capacity",
            "exhausted your daily quota",
            "reached your quota limit",
        ],
    ),
    (
        OutageKind::Login,
        &["401"],
        &[
            "please run login",
            "invalid api key",
            "incorrect api key",
            "api key not valid",
            "api key is missing",
            "api key not found",
            "no api key",
            "missing api key",
            "invalid x api key",
            "not logged in",
            "please log in",
            "please login",
            "please sign in again",
            "authentication error",
            "authenticationerror",
            "authentication failed",
            "failed to authenticate",
            "invalid authentication credentials",
            "401 unauthorized",
            "oauth token has expired",
            "oauth session expired",
            "access token could not be refreshed",
            "token refresh failed",
            "please set an auth method",
            "providerautherror",
            "loadapikeyerror",
        ],
    ),
    (
        OutageKind::Overloaded,
        &["500", "502", "503", "504", "529"],
        &[
            "overloaded error",
            "overloadederror",
            "model is overloaded",
            "server is overloaded",
            "servers are overloaded",
            "service is overloaded",
            "currently overloaded",
            "service unavailable",
            "serviceunavailableerror",
            "500 internal server error",
            "internalservererror",
            "bad gateway",
            "gateway timeout",
            "gateway time out",
            "is at capacity",
            "experiencing high demand",
            "inference is temporarily unavailable",
            "service is temporarily unavailable",
        ],
    ),
    (
        OutageKind::Offline,
        &[],
        &[
            "enotfound",
            "enetunreach",
            "enetdown",
            "ehostunreach",
            "eai again",
            "could not resolve host",
            "couldn t resolve host",
            "name or service not known",
            "name does not resolve",
            "no address associated with hostname",
            "temporary failure in name resolution",
            "nodename nor servname provided",
            "failed to lookup address information",
            "network is unreachable",
            "network is down",
            "no route to host",
            "connection error",
            "apiconnectionerror",
            "unable to connect to api",
            "unable to connect",
            "stream disconnected before completion",
            "error sending request for url",
            "typeerror fetch failed",
            "fetch failed",
            "waiting for network",
        ],
    ),
];

/// The wordings of a connection that fails, to whatever it was.
const CONNECTIONS: &[&str] = &[
    "econnrefused",
    "econnreset",
    "etimedout",
    "connection refused",
    "connection reset by peer",
    "connection timed out",
    "cannot connect to host",
    "max retries exceeded with url",
];

#[cfg(test)]
#[path = "outage_tests.rs"]
mod tests;
