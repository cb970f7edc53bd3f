//! Reading the reset time of a limit from a line of an agent's output.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, ToSpan, Zoned};

use crate::domain::{WordList, word_list};

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
