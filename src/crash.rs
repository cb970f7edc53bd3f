//! Named moments at which the tests kill the program. A release build has none of them.
//!
//! In a build with debug assertions they act only if their variables are set. Each process adds a line with the name of each
//! point that it passes to the file that `AR_CRASH_TRACE` names. With `AR_CRASH_AT=NAME:N` the process that adds the N-th
//! line of that name kills itself with SIGKILL. In a shim all names begin with `shim.`. With `AR_CRASH_RUN=COMMAND` the first
//! process to pass a point runs that command there, and continues. `AR_WAITS=N` shortens waits that only bound or pace, and
//! `AR_LIMITS=N` the time limits of programs that may hang: one that works takes as long as the machine is slow.

#[cfg(not(debug_assertions))]
use std::time::Duration;

#[cfg(debug_assertions)]
pub(crate) use armed::{in_shim, limit, pace, point, wait};

/// Names a moment between two steps.
#[cfg(not(debug_assertions))]
pub(crate) const fn point(_name: &str) {}

/// Returns the pause to make between calls.
#[cfg(not(debug_assertions))]
pub(crate) const fn pace(pause: Duration) -> Duration {
    pause
}

/// Returns the length of a wait that only bounds or paces.
#[cfg(not(debug_assertions))]
pub(crate) const fn wait(whole: Duration) -> Duration {
    whole
}

/// Returns the time limit of a program that may hang.
#[cfg(not(debug_assertions))]
pub(crate) const fn limit(whole: Duration) -> Duration {
    whole
}

/// Says that this process is a shim.
#[cfg(not(debug_assertions))]
pub(crate) const fn in_shim() {}

#[cfg(debug_assertions)]
mod armed {
    use std::env;
    use std::fs::OpenOptions;
    use std::io::{self, Seek, Write};
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    static IS_SHIM: AtomicBool = AtomicBool::new(false);

    /// Says that this process is a shim.
    pub(crate) fn in_shim() {
        IS_SHIM.store(true, Ordering::Relaxed);
    }

    /// Returns the pause to make between calls: none if `AR_NO_PAUSES` is set, except for an outage.
    pub(crate) fn pace(pause: Duration) -> Duration {
        if env::var_os("AR_NO_PAUSES").is_some() { Duration::ZERO } else { pause }
    }

    /// Returns the length of a wait that only bounds or paces: its N-th part if `AR_WAITS` is N.
    pub(crate) fn wait(whole: Duration) -> Duration {
        whole / parts("AR_WAITS")
    }

    /// Returns the time limit of a program that may hang: its N-th part if `AR_LIMITS` is N.
    pub(crate) fn limit(whole: Duration) -> Duration {
        whole / parts("AR_LIMITS")
    }

    /// The number of parts that a variable asks for, at least 1.
    fn parts(variable: &str) -> u32 {
        env::var(variable).ok().and_then(|parts| parts.parse().ok()).unwrap_or(1).max(1)
    }

    /// Names a moment between two steps.
    pub(crate) fn point(name: &str) {
        let Some(trace) = env::var_os("AR_CRASH_TRACE") else { return };
        let prefix = if IS_SHIM.load(Ordering::Relaxed) { "shim." } else { "" };
        let times = note(Path::new(&trace), &format!("{prefix}{name}")).unwrap_or_else(|error| panic!("{error}"));
        if env::var("AR_CRASH_AT").is_ok_and(|at| at == format!("{prefix}{name}:{times}")) {
            // The signal arrives before the call returns.
            let _ = kill_process(getpid(), Signal::KILL);
        }
        if let Some(command) = env::var_os("AR_CRASH_RUN").filter(|_| times == 1) {
            // Whatever comes of it.
            let _ = Command::new("sh").arg("-c").arg(command).status();
        }
    }

    /// Adds a name to the trace and gives how often it is there.
    fn note(trace: &Path, name: &str) -> io::Result<usize> {
        // A shim outlives its invocation, so the process that started `ar` may meanwhile remove the file for the next one.
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(trace)?;
        file.write_all(format!("{name}\n").as_bytes())?;
        file.rewind()?;
        Ok(io::read_to_string(file)?.lines().filter(|line| *line == name).count())
    }
}
