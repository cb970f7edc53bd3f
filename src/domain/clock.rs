//! The time of day.

use jiff::civil::{Date, Time};
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit, Zoned};

/// The source of the time of day. Durations come from a monotonic clock instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// One moment, for reproducible tests.
    Fixed(Timestamp),
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

/// Formats a moment on the user's clock as a person would: `03:00`, with seconds if it is near, and with the day if it
/// is not today.
pub fn moment_text(moment: Timestamp) -> String {
    text_at(moment, Timestamp::now(), &TimeZone::system())
}

fn text_at(moment: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let is_near = moment.duration_since(now).abs() < NEAR;
    let is_today = moment.to_zoned(zone.clone()).date() == now.to_zoned(zone.clone()).date();
    let format = match (is_near, is_today) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%H:%M",
        (false, false) => "%H:%M on %b %-d",
    };
    moment.to_zoned(zone.clone()).strftime(format).to_string()
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

impl Clock {
    /// Formats a past moment for a screen, on the user's clock: `06:26, 2 h ago`. Files use UTC.
    pub fn said(self, moment: Timestamp) -> String {
        let now = self.now();
        let text = text_at(moment, now, &TimeZone::system());
        ago_text(moment, now).map_or(text.clone(), |ago| format!("{text}, {ago}"))
    }

    /// The time now, to the millisecond.
    pub fn now(self) -> Timestamp {
        match self {
            Clock::System => Timestamp::now().round(Unit::Millisecond).unwrap_or_else(|_| Timestamp::now()),
            Clock::Fixed(at) => at,
        }
    }

    /// The day on the user's calendar.
    pub fn today(self) -> Date {
        self.local().date()
    }

    /// The next moment at which the user's clock shows `time`. If a clock change skips that time, the moment of the
    /// change.
    pub fn next(self, time: Time) -> Timestamp {
        let now = self.local();
        let on = |day: Date| day.to_datetime(time).to_zoned(now.time_zone().clone()).ok();
        let days = [Some(now.date()), now.date().tomorrow().ok()];
        let mut times = days.into_iter().flatten().filter_map(on);
        times.find(|then| *then > now).map_or(now.timestamp(), |then| then.timestamp())
    }

    fn local(self) -> Zoned {
        let zone = match self {
            Clock::System => TimeZone::system(),
            Clock::Fixed(_) => TimeZone::UTC,
        };
        self.now().to_zoned(zone)
    }
}

#[cfg(test)]
mod tests {
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
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let text = |moment: &str| text_at(moment.parse().unwrap(), now, &zone);
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

    #[test]
    fn the_next_time_of_day_is_today_or_tomorrow() {
        let clock = Clock::Fixed("2026-11-20T22:00:00Z".parse().unwrap());
        let next = |hour, minute| clock.next(Time::constant(hour, minute, 0, 0)).to_string();
        assert_eq!(next(7, 0), "2026-11-21T07:00:00Z");
        assert_eq!(next(22, 30), "2026-11-20T22:30:00Z");
        assert_eq!(next(22, 0), "2026-11-21T22:00:00Z", "now is not the next time");
    }
}
