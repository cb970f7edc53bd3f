//! Detecting outages of the agent, and how long to wait: the reset time of a limit is read from the agent's output.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, ToSpan, Zoned};

use crate::domain::{Outage, OutageKind, Refusal, WordList, one_line, word_list};

/// The number of lines at the end of the log that may report an outage: agents print service errors as JSON over many
/// lines, followed by a stack trace.
const LINES: usize = 50;

/// The same for an agent that changed something or succeeded: its messages about errors may concern its work.
const LINES_OF_WORK: usize = 10;

/// The most bytes of a line to search, and the most characters to keep.
const LINE: usize = 4096;

const SAID: usize = 300;

/// Exit statuses of a shell that cannot execute or find a program.
const NOT_STARTED: [i32; 2] = [126, 127];

/// The most calls in a row of an agent that does not start, or that is not logged in and has never worked in this
/// session: waiting helps neither. For an agent that has worked, the loop waits, because logins are refreshed.
const TRIES: u32 = 3;

/// The number of last lines that explain why an agent does not start.
const LAST_LINES: usize = 5;

/// The first and the longest pause: short enough to notice the reset of an hourly limit, long enough not to pester the
/// service.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// The first pause after an unknown failure: mostly the next call works.
const FIRST_PAUSE_OF_FAILED: Duration = Duration::from_millis(100);

/// The longest time that an agent may fail for unknown reasons. A restart of a service or machine takes less, and a
/// broken command line costs only an hour and about eighteen calls.
const FAILED_LIMIT: Duration = Duration::from_secs(3600);

/// The duration in seconds from which a call without changes is repeated without a pause.
const SHORT_CALL: f64 = 60.0;

/// The first and the longest pause after a short call without changes: the nine pauses of ten calls take 16 minutes, in which
/// most disturbances pass.
const FIRST_PAUSE_OF_IDLE: Duration = Duration::from_secs(3);

const LONGEST_PAUSE_OF_IDLE: Duration = Duration::from_secs(5 * 60);

/// The pause before the next call after `idle_calls` in a row without changes, the last of which took `seconds`.
pub fn pause_after_idle(idle_calls: u32, seconds: f64) -> Duration {
    match idle_calls.checked_sub(1) {
        Some(before) if seconds < SHORT_CALL => {
            FIRST_PAUSE_OF_IDLE.saturating_mul(1 << before.min(16)).min(LONGEST_PAUSE_OF_IDLE)
        }
        _ => Duration::ZERO,
    }
}

/// The end of an agent call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// Its exit status; absent if a signal terminated it.
    pub exit: Option<i32>,
    /// True if `ar` terminated it at its time limit.
    pub timed_out: bool,
    /// True if it changed the working tree.
    pub changed: bool,
    /// True if it reports output tokens of its service.
    pub answered: bool,
    /// True if a wall kept it from a protected file; see [`kept_out`].
    pub kept_out: bool,
}

impl CallEnd {
    /// A call that ended with this exit status, or at its time limit, and changed nothing as far as is known.
    pub fn of((exit, timed_out): (Option<i32>, bool), answered: bool, kept_out: bool) -> CallEnd {
        CallEnd { exit, timed_out, changed: false, answered, kept_out }
    }
}

/// The kernel's errors, as programs print them, for writing a file that a wall makes read-only, and for renaming or deleting
/// it or a folder above it.
const READ_ONLY: &str = "read-only file system";

const HELD: [&str; 2] = ["device or resource busy", "resource busy or locked"];

/// The paths that an agent could not write, rename or delete because of its wall: lines at the end of its output name them
/// with the kernel's error. The `protected` paths are relative to `tree`, and what is inside one is protected too.
pub fn kept_out(log: &str, tree: &Path, protected: &[PathBuf]) -> Vec<PathBuf> {
    let tree = format!("{}/", tree.display());
    let mut found = BTreeSet::new();
    for line in log.lines().rev().map(head).filter(|line| !line.trim().is_empty()).take(LINES) {
        let words = line.to_lowercase();
        let is_held = HELD.iter().any(|error| words.contains(error));
        if !is_held && !words.contains(READ_ONLY) {
            continue;
        }
        for path in protected {
            if names(line, path, &tree, true) {
                found.insert(path.clone());
            }
            let above = path.ancestors().skip(1).filter(|above| is_held && *above != Path::new(""));
            found.extend(above.filter(|above| names(line, above, &tree, false)).map(Path::to_owned));
        }
    }
    found.into_iter().collect()
}

/// Returns whether a line names the path, by itself or below `tree`, or a path inside it if that counts.
fn names(line: &str, path: &Path, tree: &str, or_inside: bool) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let path = path.to_string_lossy();
    line.match_indices(&*path).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + path.len()..]);
        let before = before.strip_suffix(tree).or_else(|| before.strip_suffix("./")).unwrap_or(before);
        let is_whole = !after.starts_with(is_name) || or_inside && after.starts_with('/');
        !before.ends_with(is_name) && is_whole
    })
}

/// The outage that made the call fail, if any. `log` is the end of its output, without escape sequences; `now` has the
/// time zone for times without one.
///
/// A failed call without changes is an outage even without a known message, unless its wall kept it out. A successful one
/// is an outage if it changed nothing and has a known message: many programs exit with 0 when their service refuses. It is
/// none if the agent reports output tokens: then the message is about something else, such as a price list. A call that
/// worked until its time limit is none.
pub fn outage(log: &str, end: CallEnd, now: &Zoned) -> Option<Outage> {
    let ended_well = end.exit == Some(0);
    if end.changed && (ended_well || end.timed_out) || end.answered && ended_well {
        return None;
    }
    let newest_first = log.lines().rev().map(head).filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = newest_first.take(if end.changed || ended_well { LINES_OF_WORK } else { LINES }).collect();
    let told = lines.iter().enumerate().find_map(|(before, line)| {
        let kind = kind_of(line, end.changed).or_else(|| cut_off(line, before == 0));
        kind.map(|kind| (kind, *line))
    });
    let is_unexplained = !end.changed && !end.kept_out;
    let not_started = is_unexplained && end.exit.is_some_and(|status| NOT_STARTED.contains(&status));
    let last = lines.first().copied().unwrap_or_default();
    let (kind, line) = match told {
        Some(told) => told,
        None if not_started => {
            let last: Vec<&str> = lines.iter().take(LAST_LINES).rev().copied().collect();
            return Some(Outage { kind: OutageKind::NotStarted, said: short(&last.join(" | ")), until: None });
        }
        None if is_unexplained && !ended_well && !end.timed_out => {
            let how = end.exit.map_or("ended by a signal".to_owned(), |status| format!("exit {status}"));
            let said = if last.is_empty() { how } else { format!("{how}: {}", short(last)) };
            return Some(Outage { kind: OutageKind::Failed, said, until: None });
        }
        None => return None,
    };
    let until = reset_time(line, now).or_else(|| lines.iter().find_map(|line| reset_time_beside(line, now)));
    Some(Outage { kind, said: short(line), until })
}

/// The outage in an agent's machine-readable answer, regardless of its exit status. After changes, only a known refusal
/// by the service counts: the change is half done then. Other errors, such as too many turns, end the work of an agent
/// that has worked.
pub fn refused(refusal: &Refusal, end: CallEnd, now: &Zoned) -> Option<Outage> {
    if end.changed && end.timed_out {
        return None;
    }
    let lines = || refusal.said.lines().map(head).filter(|line| !line.trim().is_empty());
    let kind = |line| kind_of(line, end.changed).or_else(|| cut_off(line, true));
    let told = lines().find_map(|line| kind(line).map(|kind| (kind, line)));
    let of_status = refusal.status.and_then(|status| kind_of(&format!("status {status}"), false));
    let first = lines().next().unwrap_or_default();
    let (kind, line) = match (of_status, told) {
        (Some(kind), told) => (kind, told.map_or(first, |(_, line)| line)),
        (None, Some(told)) => told,
        (None, None) if end.changed || end.timed_out || end.kept_out => return None,
        (None, None) => (OutageKind::Failed, first),
    };
    let named = refusal.until.filter(|until| *until > now.timestamp());
    let until = named.or_else(|| lines().find_map(|line| reset_time(line, now)));
    Some(Outage { kind, said: short(line), until: until.filter(|_| kind != OutageKind::Failed) })
}

/// A line as `ar` quotes it.
fn short(line: &str) -> String {
    one_line(line).chars().take(SAID).collect()
}

/// The progress of an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoFar {
    /// The number of times that the loop has waited.
    pub waits: u32,
    /// Its duration.
    pub lasted: Duration,
    /// The time that the agent has failed for unknown reasons, without interruption.
    pub failed: Duration,
    /// The number of calls in a row with the same cause.
    pub repeats: u32,
    /// True if no earlier call of the session succeeded.
    pub is_first: bool,
}

/// The next step in an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Call the agent again after this time.
    Wait(Duration),
    /// Give up: it exceeds its limit, or will.
    GiveUp,
}

/// The next step in an outage that may last for `limit`. The loop waits until the time that the agent names, else for a
/// doubling pause. An agent that repeatedly names a near time is called no more often than one that names none.
pub fn patience(outage: &Outage, so_far: SoFar, limit: Duration, now: Timestamp) -> Patience {
    let SoFar { waits, lasted, failed, repeats, is_first } = so_far;
    let (first, left) = match outage.kind {
        OutageKind::Failed => {
            (FIRST_PAUSE_OF_FAILED, limit.saturating_sub(lasted).min(FAILED_LIMIT.saturating_sub(failed)))
        }
        _ => (FIRST_PAUSE, limit.saturating_sub(lasted)),
    };
    // Waiting helps with neither.
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

/// The pause before the next call in an outage that is waited out for however long it takes.
pub fn pause_on(outage: &Outage, so_far: SoFar, now: Timestamp) -> Duration {
    let so_far = SoFar { lasted: Duration::ZERO, failed: Duration::ZERO, repeats: 0, ..so_far };
    let outage = Outage { kind: OutageKind::Overloaded, ..outage.clone() };
    match patience(&outage, so_far, Duration::MAX, now) {
        Patience::Wait(pause) => pause,
        Patience::GiveUp => LONGEST_PAUSE,
    }
}

/// The pause before the session tries again after trouble that it met `times` times in a row, from 1: it doubles.
pub fn retry_pause(times: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << times.saturating_sub(1).min(13)).min(LONGEST_PAUSE)
}

/// Cuts a line to its first bytes.
fn head(line: &str) -> &str {
    let end = (0..=LINE.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    &line[..end]
}

/// The outage that a line reports, by fixed wordings. The first match counts: a line about a limit often also names the
/// closed connection. If the agent `worked`, a connection may belong to its work.
fn kind_of(line: &str, worked: bool) -> Option<OutageKind> {
    let words = lower_words(&without_quoted(line));
    let has = |phrase: &str| words.contains(&format!(" {phrase} "));
    let says = |code: &str| CODES.iter().any(|before| has(&format!("{before} {code}")));
    WORDINGS
        .iter()
        .find(|(_, codes, phrases)| phrases.iter().any(|phrase| has(phrase)) || codes.iter().any(|code| says(code)))
        .map(|(kind, ..)| *kind)
        .or_else(|| reached_your_limit(&words).then_some(OutageKind::RateLimit))
        .or_else(|| (!worked && CONNECTIONS.iter().any(|phrase| has(phrase))).then_some(OutageKind::Offline))
}

/// A sentence without what it quotes in its middle, as in `returns "Too many requests" after 10 calls`. JSON stays as it is.
fn without_quoted(line: &str) -> String {
    let mut rest = String::from(line);
    for sign in ['"', '\'', '`'] {
        let (open, close) = (format!(" {sign}"), format!("{sign} "));
        while let Some(start) = rest.find(&open)
            && let Some(length) = rest[start + open.len()..].find(&close)
            && let end = start + open.len() + length + close.len()
            && !rest[start + open.len()..end - close.len()].contains(sign)
            && rest[end..].starts_with(char::is_lowercase)
            && (sign == '`' || rest[..start].ends_with(char::is_alphabetic))
        {
            rest.replace_range(start..end, " ");
        }
    }
    rest
}

/// The words of a line in lower case, each between two spaces; anything but letters and digits separates words.
fn lower_words(line: &str) -> String {
    let mut words = String::from(" ");
    for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    words
}

/// Returns whether the text contains "hit your limit", "exceeded your quota" or the like, with up to four words in between.
fn reached_your_limit(words: &str) -> bool {
    let after =
        [" hit your ", " exceeded your ", " reached your "].into_iter().flat_map(|verb| words.split(verb).skip(1));
    after.into_iter().any(|rest| {
        rest.split(' ').take(5).any(|word| matches!(word, "limit" | "limits" | "quota" | "quotas" | "allowance"))
    })
}

/// Returns whether a line says nothing but that a request was cut off, or says that behind `API Error:`. Such words in a
/// sentence are about the agent's work. `is_last` says that nothing follows it.
fn cut_off(line: &str, is_last: bool) -> Option<OutageKind> {
    let words = lower_words(line);
    let words = words.trim().trim_start_matches("error ");
    let is_cut_off = match words.strip_prefix("api error ") {
        Some(rest) => CUT_OFF.iter().any(|text| rest.starts_with(text)),
        None => is_last && CUT_OFF.iter().any(|text| words.strip_prefix(text).is_some_and(|rest| REST.contains(&rest))),
    };
    is_cut_off.then_some(OutageKind::Offline)
}

/// Messages of agents about a request that was cut off, as [`lower_words`] returns them.
const CUT_OFF: [&str; 3] = ["request timed out", "the socket connection was closed", "socket connection was closed"];

/// The rest of such a line where it stands alone: Bun's advice is about its own `fetch`.
const REST: [&str; 3] =
    ["", " unexpectedly", " unexpectedly for more information pass verbose true in the second argument to fetch"];

/// Words that may precede an HTTP status.
const CODES: &[&str] =
    &["http", "http 1 1", "http 2", "status", "status code", "statuscode", "error", "error code", "api error", "code"];

/// The wordings of claude, codex, copilot, gemini, agy, opencode and aider, of their services and of the network, as [`lower_words`]
/// returns them, with equivalent HTTP statuses. Each one states an error: merely mentioning a rate limit does not
/// match.
static WORDINGS: [(OutageKind, &[&str], WordList); 5] = [
    (OutageKind::Credit, &["402"], WordList::new(|| word_list(include_str!("../lists/outage_credit.txt")))),
    (OutageKind::RateLimit, &["429"], WordList::new(|| word_list(include_str!("../lists/outage_rate_limit.txt")))),
    (OutageKind::Login, &["401"], WordList::new(|| word_list(include_str!("../lists/outage_login.txt")))),
    (
        OutageKind::Overloaded,
        &["500", "502", "503", "504", "529"],
        WordList::new(|| word_list(include_str!("../lists/outage_overloaded.txt"))),
    ),
    (OutageKind::Offline, &[], WordList::new(|| word_list(include_str!("../lists/outage_offline.txt")))),
];

/// The wordings of any failed connection.
static CONNECTIONS: WordList = WordList::new(|| word_list(include_str!("../lists/connections.txt")));

/// The age up to which a time of day in a message counts as past: an hour more than the five-hour window of claude's
/// limit. An older one means the next such time.
const OLD_NOTICE: SignedDuration = SignedDuration::from_hours(6);

/// Words that may precede a time, without `_` and `-`.
static ANCHORS: WordList = WordList::new(|| word_list(include_str!("../lists/reset_anchors.txt")));

/// Words after which a bare number means seconds, or milliseconds.
const SECONDS: &[&str] = &["retryafter", "retrydelay", "resetsinseconds", "resetinseconds"];

const MILLISECONDS: &[&str] = &["retryafterms", "retryaftermillis"];

/// Words that may occur between an anchor and its time.
static FILLERS: WordList = WordList::new(|| word_list(include_str!("../lists/reset_fillers.txt")));

/// The most fillers to skip.
const MOST_FILLERS: usize = 4;

/// The reset time in a line, if it is after `now`. A time without a date is the next one, a time without a zone is in
/// the zone of `now`, and an unknown zone gives `None`.
///
/// It understands Unix seconds and milliseconds, ISO dates and times, durations (`in 3h 22m`, `34.5s`, `5 days 2
/// hours`), months with a day (`Jan 30, 11:30am`, `Jul 5th, 2026 8:19 PM`) and times of day (`3pm (Europe/Berlin)`,
/// `22:00`).
pub(crate) fn reset_time(line: &str, now: &Zoned) -> Option<Timestamp> {
    named_time(line, now, |_| true)
}

/// The same for a line near the message about the limit: it must mention a reset or a retry.
pub(crate) fn reset_time_beside(line: &str, now: &Zoned) -> Option<Timestamp> {
    named_time(line, now, |anchor| anchor.starts_with("reset") || anchor.starts_with("retry"))
}

fn named_time(line: &str, now: &Zoned, counts: impl Fn(&str) -> bool) -> Option<Timestamp> {
    let words = words_of(line);
    (0..words.len()).find_map(|at| {
        let word = plain(words[at]);
        let rest = &words[at + 1..];
        let seconds = |factor: f64| number(rest.first()?).and_then(|count| later(now, count * factor));
        let named = if SECONDS.contains(&word.as_str()) {
            after_fillers(rest, now).or_else(|| seconds(1.0))
        } else if MILLISECONDS.contains(&word.as_str()) {
            seconds(0.001)
        } else if ANCHORS.contains(&word.as_str()) {
            after_fillers(rest, now)
        } else {
            None
        };
        let named = named.filter(|_| counts(&word));
        named.filter(|named| *named > now.timestamp())
    })
}

/// The words of a line, without spaces, quotes, brackets and separators. A dot or a colon between two digits belongs to
/// a number.
fn words_of(line: &str) -> Vec<&str> {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut words = Vec::new();
    let mut from = 0;
    let mut before = None;
    for (at, c) in line.char_indices() {
        let end = at + c.len_utf8();
        let splits = match c {
            '.' | ':' => !(is_digit(before) && is_digit(line[end..].chars().next())),
            '_' | '-' | '+' | '/' | '~' => false,
            c => !c.is_alphanumeric(),
        };
        if splits {
            words.push(&line[from..at]);
            from = end;
        }
        before = Some(c);
    }
    words.push(&line[from..]);
    words.retain(|word| !word.is_empty());
    words
}

/// A word in lower case, without `_` and `-`.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

fn after_fillers(words: &[&str], now: &Zoned) -> Option<Timestamp> {
    let fillers = words.iter().take(MOST_FILLERS).take_while(|word| FILLERS.contains(&plain(word).as_str())).count();
    let words = &words[fillers..];
    let first = words.first()?;
    unix(first)
        .or_else(|| iso(words, now))
        .or_else(|| later(now, duration(words)?))
        .or_else(|| on_a_date(words, now))
        .or_else(|| at_a_time(words, now))
}

/// The moment `seconds` after `now`.
fn later(now: &Zoned, seconds: f64) -> Option<Timestamp> {
    let ahead = Duration::try_from_secs_f64(seconds).ok()?;
    now.timestamp().checked_add(SignedDuration::try_from(ahead).ok()?).ok()
}

fn number(word: &str) -> Option<f64> {
    let is_plain =
        word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    word.parse().ok().filter(|_| is_plain)
}

/// Seconds or milliseconds since 1970, of this century.
fn unix(word: &str) -> Option<Timestamp> {
    let count: i64 = word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()))?;
    match word.len() {
        10 => Timestamp::from_second(count).ok(),
        13 => Timestamp::from_millisecond(count).ok(),
        _ => None,
    }
}

/// `2026-11-21T03:00:00Z`, the same without a zone, `2026-11-21 03:00`, `2026-11-21`.
fn iso(words: &[&str], now: &Zoned) -> Option<Timestamp> {
    let first = words.first()?;
    if let Ok(moment) = first.parse::<Timestamp>() {
        return Some(moment);
    }
    if !first.starts_with(|c: char| c.is_ascii_digit()) || first.len() < "2026-11-21".len() {
        return None;
    }
    if let Ok(moment) = first.parse::<DateTime>().or_else(|_| {
        let date: Date = first.parse()?;
        Ok::<_, jiff::Error>(date.to_datetime(Time::midnight()))
    }) {
        let clock = clock(&words[1..]);
        let (time, used) = clock.unwrap_or((moment.time(), 0));
        return in_zone(moment.date().to_datetime(time), &words[1 + used..], now);
    }
    None
}

/// The total seconds of words that are numbers with units.
fn duration(words: &[&str]) -> Option<f64> {
    let mut total = None;
    let mut words = words;
    loop {
        let (seconds, used) = match words {
            [first, unit, ..] if number(first).is_some() && unit_seconds(unit).is_some() => {
                (number(first)? * unit_seconds(unit)?, 2)
            }
            [first, ..] => match compact(first) {
                Some(seconds) => (seconds, 1),
                None => return total,
            },
            [] => return total,
        };
        *total.get_or_insert(0.0) += seconds;
        words = &words[used..];
        if words.first().is_some_and(|word| *word == "and") {
            words = &words[1..];
        }
    }
}

/// A duration in one word: `34s`, `3h22m`, `1.5s`, `250ms`.
fn compact(word: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut rest = word;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, after) = rest.split_at(unit_at);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        total += number(count)? * unit_seconds(&after[..unit_end])?;
        rest = &after[unit_end..];
    }
    (!word.is_empty()).then_some(total)
}

fn unit_seconds(word: &str) -> Option<f64> {
    Some(match plain(word).as_str() {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        _ => return None,
    })
}

/// `Jan 30, 11:30am`, `May 5 at 9pm`, `Jul 5th, 2026 8:19 PM`, `5 July 2026, 20:19`, `tomorrow at 3pm`. Without a year
/// it means this year, unless that is half a year ago.
fn on_a_date(words: &[&str], now: &Zoned) -> Option<Timestamp> {
    let (first, mut words) = words.split_first()?;
    let date = if plain(first) == "tomorrow" {
        now.date().tomorrow().ok()?
    } else {
        let (second, rest) = words.split_first()?;
        words = rest;
        let (month, day) = match month_of(first) {
            Some(month) => (month, day_of(second)?),
            None => (month_of(second)?, day_of(first)?),
        };
        let year = words.first().filter(|word| word.len() == 4).and_then(|word| word.parse::<i16>().ok());
        if year.is_some() {
            words = &words[1..];
        }
        let date = Date::new(year.unwrap_or(now.year()), month, day).ok()?;
        let is_old = year.is_none() && date < now.date().checked_sub(6.months()).ok()?;
        if is_old { date.checked_add(1.year()).ok()? } else { date }
    };
    if words.first().is_some_and(|word| plain(word) == "at") {
        words = &words[1..];
    }
    let (time, used) = clock(words).unwrap_or((Time::midnight(), 0));
    in_zone(date.to_datetime(time), &words[used..], now)
}

fn month_of(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let word = plain(word);
    let at = MONTHS.iter().position(|month| word.get(..3) == Some(month))?;
    i8::try_from(at + 1).ok()
}

fn day_of(word: &str) -> Option<i8> {
    let word = plain(word);
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = &word[digits.len()..];
    digits.parse().ok().filter(|_| matches!(ending, "" | "st" | "nd" | "rd" | "th"))
}

/// The next such time of day, unless it passed so recently that the message is old.
fn at_a_time(words: &[&str], now: &Zoned) -> Option<Timestamp> {
    let (time, used) = clock(words)?;
    let zone = zone_of(&words[used..], now)?;
    let today = now.with_time_zone(zone.clone()).date();
    let moment = |days: Span| {
        let date = today.checked_add(days).ok()?;
        Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp())
    };
    let moments = [moment((-1).days())?, moment(0.days())?, moment(1.day())?];
    let now = now.timestamp();
    let is_old = moments.iter().any(|moment| *moment <= now && now.duration_since(*moment) < OLD_NOTICE);
    moments.into_iter().find(|moment| *moment > now).filter(|_| !is_old)
}

/// A time of day at the start of the words, with its number of words: `3pm`, `3:30 PM`, `22:00`, `22:00:15`.
fn clock(words: &[&str]) -> Option<(Time, usize)> {
    let first = plain(words.first()?);
    let (digits, half, used) = match first.strip_suffix("am").or_else(|| first.strip_suffix("pm")) {
        Some(digits) => (digits, first.get(digits.len()..), 1),
        None => match words.get(1).map(|word| plain(word)).as_deref() {
            Some("am") => (first.as_str(), Some("am"), 2),
            Some("pm") => (first.as_str(), Some("pm"), 2),
            _ => (first.as_str(), None, 1),
        },
    };
    let parts: Vec<i8> = digits.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hour, minute, second) = match parts[..] {
        [hour] if half.is_some() => (hour, 0, 0),
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
        None => hour,
    };
    Some((Time::new(hour, minute, second, 0).ok()?, used))
}

/// The time zone at the start of the words, else that of `now`. `None` if unknown.
fn zone_of(words: &[&str], now: &Zoned) -> Option<TimeZone> {
    match words.first() {
        Some(&("UTC" | "GMT" | "Z")) => Some(TimeZone::UTC),
        Some(name) if name.contains('/') && name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            TimeZone::get(name).ok()
        }
        _ => Some(now.time_zone().clone()),
    }
}

fn in_zone(moment: DateTime, words: &[&str], now: &Zoned) -> Option<Timestamp> {
    Some(moment.to_zoned(zone_of(words, now)?).ok()?.timestamp())
}

#[cfg(test)]
#[path = "outage_tests.rs"]
mod tests;
