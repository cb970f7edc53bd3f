//! The pause between two experiments in the journal, its only record.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::domain::Cadence;

/// A pause between two experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sleep {
    /// The iteration that it follows.
    pub after: u32,
    /// The cadence that it is by.
    pub cadence: Cadence,
    /// When it ends; absent once it is over.
    #[serde(default, with = "crate::domain::millis::option")]
    pub until: Option<Timestamp>,
    /// Its whole length in seconds. What is left of it is never longer, whatever the clock says.
    pub seconds: f64,
    /// The reason, as a clause.
    pub why: String,
    /// The length of the file of ideas when it began, in bytes: an idea that comes later ends it.
    #[serde(default)]
    pub ideas: u64,
}

impl Sleep {
    /// The time left, and its end; `None` once the pause is over.
    pub fn left(&self, now: Timestamp) -> Option<(Duration, Timestamp)> {
        let until = self.until?;
        let whole = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        let left = Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero())?.min(whole);
        Some((left, now.checked_add(SignedDuration::try_from(left).ok()?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_makes_it_longer_than_it_is() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let until = at("2026-11-20T22:00:00Z");
        let sleep = Sleep {
            after: 1,
            cadence: Cadence::Adaptive,
            until: Some(until),
            seconds: 1800.0,
            why: String::new(),
            ideas: 0,
        };
        let left = |now: &str| sleep.left(at(now)).map(|(left, until)| (left.as_secs(), until.to_string()));
        assert_eq!(left("2026-11-20T21:50:00Z"), Some((600, "2026-11-20T22:00:00Z".into())));
        assert_eq!([left("2026-11-20T22:00:00Z"), left("2036-01-01T00:00:00Z")], [None, None], "it is over");
        assert_eq!(
            left("2006-11-20T21:50:00Z"),
            Some((1800, "2006-11-20T22:20:00Z".into())),
            "the clock was put back by years"
        );
        assert_eq!(Sleep { until: None, ..sleep }.left(until), None);
    }
}
