//! Detecting a missing patrol.

use std::time::Duration;

use jiff::Timestamp;

/// Returns whether the last patrol is at least `limit` old. Without a beat, it counts as missing.
///
/// `unchanged` is the time for which the observer has seen this same beat, on a clock that never jumps. It decides if
/// the machine's clock was set back: a beat in the future is missing once it has not changed for `limit`.
pub fn is_beat_missing(beat: Option<Timestamp>, now: Timestamp, unchanged: Duration, limit: Duration) -> bool {
    let age = |beat| Duration::try_from(now.duration_since(beat)).unwrap_or_default();
    beat.is_none_or(|beat| age(beat).max(unchanged) >= limit)
}

/// The shortest time from one call of a patrol to the next one, whatever the beat says. A patrol that failed is called again
/// after a quarter of `limit`: an emergency patrol may be an agent, and costs money.
pub fn pause_after_patrol(succeeded: bool, limit: Duration) -> Duration {
    if succeeded { limit } else { limit / 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const LIMIT: Duration = Duration::from_secs(2 * 3600);

    fn at(hour: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + HOUR * u32::try_from(1000 + hour).unwrap()
    }

    #[test]
    fn a_beat_is_missing_from_its_limit_on() {
        for (beat, now, missing) in [(10, 10, false), (10, 11, false), (10, 12, true), (10, 99, true)] {
            assert_eq!(is_beat_missing(Some(at(beat)), at(now), Duration::ZERO, LIMIT), missing, "{beat} {now}");
        }
        assert!(is_beat_missing(None, at(10), Duration::ZERO, LIMIT), "no patrol ever came");
    }

    #[test]
    fn a_beat_in_the_future_is_missing_when_it_has_not_changed_for_as_long() {
        let future = Some(at(50));
        assert!(!is_beat_missing(future, at(10), Duration::ZERO, LIMIT));
        assert!(!is_beat_missing(future, at(10), HOUR, LIMIT));
        assert!(is_beat_missing(future, at(10), LIMIT, LIMIT));
        let extremes = (Some(Timestamp::MAX), Timestamp::MIN);
        assert!(!is_beat_missing(extremes.0, extremes.1, Duration::ZERO, LIMIT));
        assert!(is_beat_missing(Some(Timestamp::MIN), Timestamp::MAX, Duration::ZERO, LIMIT));
    }

    #[test]
    fn a_failed_patrol_is_called_again_sooner() {
        assert_eq!(pause_after_patrol(true, LIMIT), LIMIT);
        assert_eq!(pause_after_patrol(false, LIMIT), LIMIT / 4);
    }
}
