//! The runtime, and the ticks that everything in a process waits for together, so that it wakes once.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// The time when this process made its first runtime, less than a millisecond before its timers begin.
static START: OnceLock<Instant> = OnceLock::new();

/// A runtime on this thread alone, which waits for processes, timers and signals.
///
/// # Errors
///
/// The system gives no descriptors for it.
pub fn runtime() -> io::Result<Runtime> {
    START.get_or_init(Instant::now);
    Builder::new_current_thread().enable_all().build()
}

/// The tick nearest to `pause` from now, of ticks that come each `pause`.
///
/// A pause is a power of two of milliseconds. Tokio's timers then wake the process at the tick alone; for other moments it wakes
/// twice.
pub fn next_tick(pause: Duration) -> Instant {
    let start = *START.get_or_init(Instant::now);
    start + next(start.elapsed(), pause)
}

/// The same as times since the start.
fn next(since: Duration, pause: Duration) -> Duration {
    let pause = pause.max(Duration::from_millis(1));
    let ticks = (since + pause / 2).as_millis() / pause.as_millis() + 1;
    pause.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_one_another_however_late_one_is() {
        let at = |since, pause| next(Duration::from_millis(since), Duration::from_millis(pause)).as_millis();
        for (since, next) in [(0, 1024), (3, 1024), (511, 1024), (512, 2048), (1023, 2048), (1024, 2048), (1500, 2048)]
        {
            assert_eq!(at(since, 1024), next, "{since}");
        }
        assert_eq!([at(0, 8), at(9, 16), at(33, 64), at(7, 0)], [8, 32, 128, 8]);
    }
}
