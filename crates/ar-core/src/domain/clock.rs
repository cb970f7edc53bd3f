//! Moments as texts.

use jiff::fmt::temporal::DateTimePrinter;
use jiff::{SignedDuration, Timestamp, Zoned};

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

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

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
