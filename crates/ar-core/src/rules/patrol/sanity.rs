//! Checks of the clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The tolerance before a notice, for a clock behind the last record and for a jump of the clock. Corrections of a
/// running clock are smaller. Own judgement.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// The longest wait of a loop for a clock that is behind. A clock that starts wrong is set within minutes once there is
/// a network.
pub const CLOCK_PATIENCE: Duration = Duration::from_secs(600);

/// Returns whether `now` is before the end of the last experiment by more than the tolerance.
pub fn is_clock_behind(now: Timestamp, last: Timestamp) -> bool {
    last.duration_since(now) > TOLERANCE
}

/// Measures how far the clock was set between two moments; `None` while it was not. Each moment is given by the clock
/// and by the time since the machine's start.
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
