//! The time of day.

use std::path::Path;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit, Zoned};

use ar_core::domain::{ago_text, moment_text_at};

/// The source of the time of day. Durations come from a monotonic clock instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// One moment, for reproducible tests.
    Fixed(Timestamp),
    /// The moment that a file holds, for tests in which time passes when they say so.
    InFile(&'static Path),
}

/// Formats a moment on the user's clock as a person would now.
pub fn moment_text(moment: Timestamp) -> String {
    moment_text_at(moment, &Zoned::now())
}

/// The system's time, to the millisecond.
fn system_time() -> Timestamp {
    Timestamp::now().round(Unit::Millisecond).unwrap_or_else(|_| Timestamp::now())
}

impl Clock {
    /// Formats a past moment for a screen, on the user's clock: `06:26, 2 h ago`. Files use UTC.
    pub fn said(self, moment: Timestamp) -> String {
        let now = self.now();
        let text = moment_text_at(moment, &now.to_zoned(TimeZone::system()));
        ago_text(moment, now).map_or(text.clone(), |ago| format!("{text}, {ago}"))
    }

    /// The time now, to the millisecond.
    pub fn now(self) -> Timestamp {
        match self {
            Clock::System => system_time(),
            Clock::Fixed(at) => at,
            Clock::InFile(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                text.trim().parse().unwrap_or_else(|_| system_time())
            }
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
            Clock::Fixed(_) | Clock::InFile(_) => TimeZone::UTC,
        };
        self.now().to_zoned(zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_of_day_is_today_or_tomorrow() {
        let clock = Clock::Fixed("2026-11-20T22:00:00Z".parse().unwrap());
        let next = |hour, minute| clock.next(Time::constant(hour, minute, 0, 0)).to_string();
        assert_eq!(next(7, 0), "2026-11-21T07:00:00Z");
        assert_eq!(next(22, 30), "2026-11-20T22:30:00Z");
        assert_eq!(next(22, 0), "2026-11-21T22:00:00Z", "now is not the next time");
    }
}
