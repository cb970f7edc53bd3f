//! The time of day.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};

/// Where the time of day comes from. Durations are measured elsewhere, by a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// One moment, for reproducible tests.
    Fixed(Timestamp),
}

/// A moment on the user's clock, as a person says it: `03:00`, or with the day when that is another one than today.
pub fn time_of_day(moment: Timestamp) -> String {
    let moment = moment.to_zoned(TimeZone::system());
    let is_today = moment.date() == Timestamp::now().to_zoned(TimeZone::system()).date();
    moment.strftime(if is_today { "%H:%M" } else { "%H:%M on %b %-d" }).to_string()
}

impl Clock {
    /// The time now, to the millisecond.
    pub fn now(self) -> Timestamp {
        match self {
            Clock::System => Timestamp::now().round(Unit::Millisecond).unwrap_or_else(|_| Timestamp::now()),
            Clock::Fixed(at) => at,
        }
    }

    /// The day on the user's calendar.
    pub fn today(self) -> Date {
        let zone = match self {
            Clock::System => TimeZone::system(),
            Clock::Fixed(_) => TimeZone::UTC,
        };
        self.now().to_zoned(zone).date()
    }
}
