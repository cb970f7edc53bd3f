//! Waiting for what must happen, however slow the machine is.

use std::time::{Duration, Instant};

/// How long a test waits for what must happen: much longer than any machine takes, as nothing is gained by giving up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether what the tests start hears of hang-ups: not where they run under `nohup`, which is said then.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn hears_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let hears = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 0);
    if !hears {
        eprintln!("skipped: hang-ups are ignored here");
    }
    hears
}

/// Looks again and again until there is something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
