//! Whether the clock can be right.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How far the clock may be behind the last record, and how far it may jump, before that is worth a word: corrections of a
/// running clock are smaller. Own judgement.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// How long a loop waits for a clock that is behind: one that starts wrong is set within minutes once there is a network.
pub const CLOCK_PATIENCE: Duration = Duration::from_secs(600);

/// Whether `now` is before the end of the last experiment.
pub fn is_clock_behind(now: Timestamp, last: Timestamp) -> bool {
    last.duration_since(now) > TOLERANCE
}

/// How far the clock was set between two moments, each as the clock and the time since the machine's start give it; `None` while
/// both agree.
pub fn clock_jump(before: (Timestamp, Duration), now: (Timestamp, Duration)) -> Option<SignedDuration> {
    let passed = SignedDuration::try_from(now.1.checked_sub(before.1)?).ok()?;
    let jump = now.0.duration_since(before.0) - passed;
    (jump.abs() > TOLERANCE).then_some(jump)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_behind_or_jumps_by_more_than_a_minute() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let behind = [-1, 0, 60, 61, 86_400].map(|behind| is_clock_behind(at(0), at(behind)));
        assert_eq!(behind, [false, false, false, true, true]);
        let jump = |wall, steady| {
            let jump = clock_jump((at(0), Duration::from_secs(50)), (at(wall), Duration::from_secs(steady)));
            jump.map(|jump| jump.as_secs())
        };
        assert_eq!([jump(100, 150), jump(160, 150), jump(-3600, 50)], [None, None, Some(-3600)]);
        assert_eq!(jump(7300, 150), Some(7200), "it was set while 100 s passed");
        assert_eq!(jump(30_000, 30_050), None, "the machine slept");
        assert_eq!(jump(100, 49), None, "another start of the machine");
    }
}
