//! The runtime, and moments for what need not be punctual, at which a process that waits wakes up once.
//!
//! Tokio's timers hang in wheels of 64 slots, of 1 ms in the first wheel, of 64 ms in the second, and so on. The process wakes
//! when a slot of an outer wheel begins, and once more at the moment itself unless the slot begins with it. Moments a power of
//! two of milliseconds apart, counted from the start of the runtime, do: in the night of a training run that halves how often
//! somebody wakes who looks each second, and whatever looks at the same pace wakes the process together.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::unix::give_large_blocks_back;

/// When this process made its first runtime, less than a millisecond before its timers begin.
static START: OnceLock<Instant> = OnceLock::new();

/// A runtime on this thread alone, which waits for processes, timers and signals; for a process that lives for hours, and so
/// gives back what memory it can.
///
/// # Errors
///
/// The system gives no descriptors for it.
pub fn runtime() -> io::Result<Runtime> {
    give_large_blocks_back();
    START.get_or_init(Instant::now);
    Builder::new_current_thread().enable_all().build()
}

/// The beat that is nearest to `pause` from now, of beats that come each `pause`: between half of it and one and a half away.
/// A pause is a power of two of milliseconds; any other wakes the process more often.
pub fn beat(pause: Duration) -> Instant {
    let now = Instant::now();
    let start = *START.get_or_init(|| now);
    next_beat(now.duration_since(start), pause).and_then(|at| start.checked_add(at)).unwrap_or(now + pause)
}

/// The same as times since the start; absent for no pause and for times that do not end.
fn next_beat(now: Duration, pause: Duration) -> Option<Duration> {
    let beats = (now.as_nanos() + pause.as_nanos() / 2).checked_div(pause.as_nanos())? + 1;
    pause.checked_mul(u32::try_from(beats).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_follow_one_another_however_late_one_is() {
        let at = |now, pause| next_beat(Duration::from_millis(now), Duration::from_millis(pause)).unwrap().as_millis();
        for (now, next) in [(0, 1024), (3, 1024), (511, 1024), (512, 2048), (1023, 2048), (1024, 2048), (1500, 2048)] {
            assert_eq!(at(now, 1024), next, "{now}");
        }
        assert_eq!([at(0, 8), at(9, 16), at(33, 64)], [8, 32, 128]);
        assert_eq!(next_beat(Duration::from_secs(1), Duration::ZERO), None);
        assert_eq!(next_beat(Duration::MAX, Duration::from_millis(1)), None);
    }
}
