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
