//! Text for people: on one line, as one word of a command, moments, lists of words, and suggestions for misspelt names.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::civil::Time;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::ExperimentId;

/// Folds `text` to one line: each run of tabs, line breaks, control and bidirectional characters becomes one space.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut in_run = false;
    for c in text.trim().chars() {
        let breaks = acts(c);
        if !breaks {
            line.push(c);
        } else if !in_run {
            line.push(' ');
        }
        in_run = breaks;
    }
    line.trim_end().to_owned()
}

/// Returns whether a terminal acts on a character instead of showing it: control and bidirectional characters, line and
/// paragraph separators.
pub fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts a text to one line of at most `chars` characters and twice as many bytes.
pub fn cut(text: &str, chars: usize) -> String {
    let line = one_line(text);
    let ends = line.char_indices().map(|(at, c)| at + c.len_utf8());
    match ends.take(chars).take_while(|end| *end <= 2 * chars).last() {
        Some(end) if end < line.len() => format!("{}…", &line[..end]),
        _ => line,
    }
}

/// Formats a path as one word of a command for the user to type, quoted if necessary.
pub fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ':' | ',' | '@' | '%')) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Formats a count: `1 experiment`, `2 experiments`.
pub fn count_of<N: Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    let plural = if thing.ends_with("sh") { "es" } else { "s" };
    format!("{count} {thing}{}", if count == N::from(1) { "" } else { plural })
}

/// Formats a number of bytes for people: `812 kB`, `1.5 GB`.
pub fn bytes_text(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let count = bytes as f64;
    match units.into_iter().find(|(factor, _)| count >= *factor) {
        Some((factor, unit)) if count < 10.0 * factor => format!("{:.1} {unit}", count / factor),
        Some((factor, unit)) => format!("{:.0} {unit}", count / factor),
        None => format!("{bytes} B"),
    }
}

/// Formats a duration as settings accept it: `8h`, `10m`, `90s`, `1h30m`, `500ms`.
pub fn duration_text(duration: Duration) -> String {
    let whole = duration.as_secs();
    if duration.subsec_nanos() != 0 {
        return if whole == 0 && duration.subsec_nanos().is_multiple_of(1_000_000) {
            format!("{}ms", duration.subsec_millis())
        } else {
            format!("{}s", duration.as_secs_f64())
        };
    }
    let parts = match whole {
        // People write 90s rather than 1m30s.
        0..120 if whole != 60 => [0, 0, whole],
        _ => [whole / 3600, whole % 3600 / 60, whole % 60],
    };
    let shown: String = parts
        .iter()
        .zip(["h", "m", "s"])
        .filter(|(part, _)| **part > 0)
        .map(|(part, unit)| format!("{part}{unit}"))
        .collect();
    if shown.is_empty() { "0s".into() } else { shown }
}

/// Formats seconds for people: `45s`, `9m05s`, `2h03m`.
pub fn clock_time(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.max(0.0)).as_secs();
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// Formats seconds for a report: `45 s`, `75 min`, `8 h 12 min`, `3 d 4 h`.
pub fn span_text(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.round()).unwrap_or_default().as_secs();
    let minutes = (whole + 30) / 60;
    match whole {
        0..120 => format!("{whole} s"),
        120..7200 => format!("{minutes} min"),
        7200..172_800 if minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        7200..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// The most decimals of a number; finer numbers read better in scientific notation.
const MOST_DECIMALS: usize = 12;

/// Formats a finite number with two significant digits, and all digits before the decimal point: `0.0017`, `1.5`,
/// `1234`.
pub fn two_digits(value: f64) -> String {
    let size = value.abs();
    // A value that rounds up to 10 has its two digits before the point.
    if size == 0.0 || size >= 9.95 {
        return format!("{value:.0}");
    }
    let decimals = (1 - size.log10().floor() as i32).max(1) as usize;
    if decimals > MOST_DECIMALS { format!("{value:.1e}") } else { format!("{value:.decimals$}") }
}

/// A ratio as a percentage with two significant digits, so that a small gain is never `0.0%`.
pub fn percent_text(ratio: f64) -> String {
    format!("{}%", two_digits(ratio * 100.0))
}

/// Formats the end of a command: `exit 1 after 0.3 s`, `exit 139 (segmentation fault) after 0.3 s`.
pub fn ended_text(exit: Option<i32>, signal: Option<i32>, timed_out: bool, seconds: f64) -> String {
    let after = format!("after {seconds:.1} s");
    let named = |signal| signal_name(signal).map(|name| format!("({name}) ")).unwrap_or_default();
    match (timed_out, signal, exit) {
        (true, _, _) => format!("ended by ar {after}"),
        (false, Some(signal), _) => format!("signal {signal} {}{after}", named(signal)),
        (false, None, Some(code)) => format!("exit {code} {}{after}", named(code - 128)),
        (false, None, None) => after,
    }
}

/// The name of a signal that often ends a run. A shell reports signals as statuses above 128.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "hangup",
        2 => "interrupted",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating-point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm",
        15 => "terminated",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        31 => "bad system call",
        _ => return None,
    })
}

/// Formats an error with its causes on one line, without repetition.
pub fn with_causes(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {}", text.trim_end());
        }
        cause = error.source();
    }
    said
}

/// The name of an experiment in a sentence.
pub fn experiment_name(id: ExperimentId) -> String {
    if id.is_baseline() { "the baseline".into() } else { format!("experiment {id}") }
}

/// The names of several experiments in a sentence.
pub fn experiment_names(ids: &[ExperimentId]) -> String {
    match ids {
        [] => "no experiment".into(),
        [one] => experiment_name(*one),
        [most @ .., last] => {
            let most: Vec<String> = most.iter().map(ExperimentId::to_string).collect();
            format!("experiments {} and {last}", most.join(", "))
        }
    }
}

/// Formats a time of day as people write it: `07:00`, with seconds unless they are 0.
pub fn time_of_day_text(time: Time) -> String {
    let text = time.strftime("%H:%M:%S").to_string();
    text.strip_suffix(":00").map_or(text.clone(), str::to_owned)
}

/// The least similarity of a suggestion, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The fewest letters of a word that may match a part of a longer name.
const FEWEST_LETTERS: usize = 3;

/// The likeness of a name with two neighbouring letters swapped.
const SWAPPED: f64 = 0.95;

/// The name most similar to `word`, if any is similar enough. A name that contains `word` is, and one of which `word` has two
/// neighbouring letters swapped.
pub fn nearest<T: AsRef<str>>(word: &str, names: impl IntoIterator<Item = T>) -> Option<T> {
    let word = word.to_lowercase();
    let likeness = |name: &str| {
        let is_part = word.len() >= FEWEST_LETTERS && name.contains(&word);
        let by_form = if is_swapped(&word, name) {
            SWAPPED
        } else if is_part {
            ALIKE
        } else {
            0.0
        };
        strsim::jaro_winkler(&word, name).max(by_form)
    };
    names
        .into_iter()
        .map(|name| (likeness(&name.as_ref().to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        // The first of equally similar names.
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, name)| name)
}

/// Returns whether two words differ only by a swap of two neighbouring letters.
fn is_swapped(a: &str, b: &str) -> bool {
    a.len() == b.len() && strsim::levenshtein(a, b) == 2 && strsim::osa_distance(a, b) == 1
}

/// Formats a moment for files and documents: in UTC, with milliseconds, at a fixed width.
pub fn exact_time(at: Timestamp) -> String {
    let mut text = String::with_capacity(24);
    // Writing to a string cannot fail.
    let _ = DateTimePrinter::new().precision(Some(3)).print_timestamp(&at, &mut text);
    text
}

/// The distance within which the seconds of a moment matter to the user.
const NEAR: SignedDuration = SignedDuration::from_mins(10);

/// Formats a moment on the user's clock as a person would at `now`: `03:00`, with seconds if it is near, and with the day
/// if it is not today.
pub fn moment_text_at(moment: Timestamp, now: &Zoned) -> String {
    let is_near = moment.duration_since(now.timestamp()).abs() < NEAR;
    let moment = moment.to_zoned(now.time_zone().clone());
    let format = match (is_near, moment.date() == now.date()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%H:%M",
        (false, false) => "%H:%M on %b %-d",
    };
    moment.strftime(format).to_string()
}

/// Formats the time since a moment, as in `2 h ago`; empty for a future moment.
pub fn ago_text(moment: Timestamp, now: Timestamp) -> Option<String> {
    let seconds = now.duration_since(moment).as_secs();
    Some(match seconds {
        _ if moment > now => return None,
        ..60 => "just now".to_owned(),
        60..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    })
}

/// The words or phrases of a text file, one a line, in its order.
pub type WordList = LazyLock<Vec<&'static str>>;

/// Reads a list.
pub fn word_list(text: &'static str) -> Vec<&'static str> {
    text.lines().collect()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn a_path_is_one_word_for_the_shell() {
        assert_eq!(shell_word(Path::new("/a/results.tsv")), "/a/results.tsv");
        assert_eq!(shell_word(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    #[test]
    fn the_end_of_a_command_names_its_signal() {
        let ended = |exit, signal| ended_text(exit, signal, false, 0.25);
        assert_eq!(ended(None, Some(11)), "signal 11 (segmentation fault) after 0.2 s");
        assert_eq!(ended(Some(134), None), "exit 134 (aborted) after 0.2 s");
        assert_eq!(ended(Some(130), None), "exit 130 (interrupted) after 0.2 s");
        assert_eq!([ended(Some(1), None), ended(Some(255), None)], ["exit 1 after 0.2 s", "exit 255 after 0.2 s"]);
    }

    #[test]
    fn tabs_line_breaks_and_escapes_become_spaces() {
        assert_eq!(one_line(" a\tb\r\nc\u{1b}[31m  d\u{2028}e \n"), "a b c [31m  d e");
        assert_eq!(one_line("\n"), "");
        assert_eq!(one_line("a\u{202e}b\u{2066}c"), "a b c");
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (52_428_800, "52 MB"), (1_530_000_000, "1.5 GB")]
        {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn two_digits_are_never_none() {
        let texts = [0.0, 0.00171, -0.25, 1.5, 9.96, 12.3, 1234.4, 3e-14].map(two_digits);
        assert_eq!(texts, ["0", "0.0017", "-0.25", "1.5", "10", "12", "1234", "3.0e-14"]);
        assert_eq!([0.0001, 0.16].map(percent_text), ["0.010%", "16%"]);
    }

    #[test]
    fn durations_and_counts_read_as_people_write_them() {
        let cases =
            [(28_800, "8h"), (600, "10m"), (90, "90s"), (5400, "1h30m"), (60, "1m"), (3661, "1h1m1s"), (0, "0s")];
        for (seconds, text) in cases {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
        assert_eq!(duration_text(Duration::from_millis(500)), "500ms");
        assert_eq!(duration_text(Duration::from_millis(1500)), "1.5s");
        let shown: Vec<_> = [0.4, 59.9, 60.0, 605.0, 3600.0, 30_180.0].into_iter().map(clock_time).collect();
        assert_eq!(shown, ["0s", "59s", "1m00s", "10m05s", "1h00m", "8h23m"]);
        let spans = [0.4, 119.0, 120.0, 7199.0, 7200.0, 29_520.0, 172_799.0, 273_600.0].map(span_text);
        assert_eq!(spans, ["0 s", "119 s", "2 min", "120 min", "2 h", "8 h 12 min", "48 h", "3 d 4 h"]);
        assert_eq!([count_of(0, "row"), count_of(1, "row"), count_of(2, "row")], ["0 rows", "1 row", "2 rows"]);
    }

    #[test]
    fn misspelt_and_shortened_names_are_known_and_strange_ones_are_not() {
        let nearest = |word| nearest(word, ["status", "stop", "claude", "val_bpb", "val_loss", "metric", "run", "log"]);
        for (word, meant) in [
            ("statsu", "status"),
            ("rnu", "run"),
            ("urn", "run"),
            ("lgo", "log"),
            ("tsop", "stop"),
            ("claud", "claude"),
            ("Claude", "claude"),
            ("metrik", "metric"),
            ("val_bp", "val_bpb"),
            ("loss", "val_loss"),
            ("bpb", "val_bpb"),
        ] {
            assert_eq!(nearest(word), Some(meant), "{word}");
        }
        for word in ["", "xyzzy", "t", "accuracy", "nur", "gol"] {
            assert_eq!(nearest(word), None, "{word}");
        }
    }

    #[test]
    fn the_past_is_told_from_now() {
        let now: Timestamp = "2026-11-20T22:00:00Z".parse().unwrap();
        let at = |moment: &str| ago_text(moment.parse().unwrap(), now);
        let cases = [
            ("2026-11-20T22:00:00Z", "just now"),
            ("2026-11-20T21:58:59Z", "1 min ago"),
            ("2026-11-20T20:00:01Z", "119 min ago"),
            ("2026-11-20T20:00:00Z", "2 h ago"),
            ("2026-11-18T22:00:00Z", "2 days ago"),
        ];
        for (moment, text) in cases {
            assert_eq!(at(moment).as_deref(), Some(text));
        }
        assert_eq!(at("2026-11-20T22:00:01Z"), None, "clocks of two machines differ");
        let now = now.to_zoned(TimeZone::fixed(jiff::tz::offset(1)));
        let text = |moment: &str| moment_text_at(moment.parse().unwrap(), &now);
        assert_eq!(text("2026-11-20T06:26:10Z"), "07:26");
        assert_eq!(text("2026-11-19T06:26:10Z"), "07:26 on Nov 19");
    }

    #[test]
    fn all_times_have_milliseconds_and_one_width() {
        for (moment, text) in [
            ("2026-11-20T22:00:00Z", "2026-11-20T22:00:00.000Z"),
            ("2026-11-20T22:00:00.123456789Z", "2026-11-20T22:00:00.123Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500Z"),
        ] {
            assert_eq!(exact_time(moment.parse().unwrap()), text);
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the lists of all crates are files")]
mod word_list_tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::{fs, io};

    /// The text files in the folders `lists` below a folder.
    fn lists(folder: &Path, found: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                lists(&path, found)?;
            } else if folder.ends_with("lists") {
                found.push(fs::read_to_string(path)?);
            }
        }
        Ok(())
    }

    #[test]
    fn lists_have_a_word_a_line_and_none_twice() {
        let mut found = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for sources in ["src", "crates"] {
            lists(&root.join(sources), &mut found).unwrap();
        }
        assert!(found.len() > 20);
        for text in found {
            let words: Vec<&str> = text.lines().collect();
            assert!(
                text.ends_with('\n') && words.iter().all(|word| !word.is_empty() && word.trim() == *word),
                "{text}"
            );
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{text}");
        }
    }
}
