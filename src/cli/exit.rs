//! The exit codes.

use autoresearch::domain::StopReason;
use autoresearch::session::ErrorKind;

/// Repository, configuration or environment: it cannot start.
pub(super) const CANNOT_START: u8 = 1;
/// The command was called wrongly.
pub(super) const USAGE: u8 = 2;
/// The baseline failed.
pub(super) const BASELINE_FAILED: u8 = 3;
/// Stopped and needs you.
pub(super) const NEEDS_PERSON: u8 = 4;
/// Another `ar` holds the session, or took it over.
pub(super) const HELD: u8 = 5;
/// Damaged state that `ar` will not repair by guessing.
pub(super) const DAMAGED: u8 = 6;
/// `ar try --exit-code`: the experiment was discarded.
pub(super) const TRY_DISCARD: u8 = 10;
/// `ar try --exit-code`: the experiment crashed.
pub(super) const TRY_CRASH: u8 = 20;
/// `ar try --exit-code`: the time to wait is over, and the run goes on.
pub(super) const TRY_RUNNING: u8 = 30;
/// Interrupted.
pub(super) const INTERRUPTED: u8 = 130;

/// The codes and what they say, as the manual has them.
pub(super) const CODES: [(u8, &str); 11] = [
    (0, "Done as asked; reaching a budget, a limit on experiments or a goal counts as done."),
    (CANNOT_START, "Cannot start: the repository, the configuration or the environment is not as it must be."),
    (USAGE, "Wrong usage."),
    (BASELINE_FAILED, "The baseline failed."),
    (NEEDS_PERSON, "Stopped and needs you."),
    (HELD, "Another ar holds the session, or took it over."),
    (DAMAGED, "Damaged state that ar does not repair by guessing."),
    (TRY_DISCARD, "`ar try --exit-code`: discarded; `ar repro`: another value."),
    (TRY_CRASH, "`ar try --exit-code`: crashed; `ar repro`: no value."),
    (TRY_RUNNING, "`ar try --exit-code`: still running."),
    (INTERRUPTED, "Interrupted by a signal; a loop that `ar stop` ended exits with 0."),
];

/// The code for a kind of trouble.
pub(super) fn of_error(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::CannotStart => CANNOT_START,
        ErrorKind::Usage => USAGE,
        ErrorKind::BaselineFailed => BASELINE_FAILED,
        ErrorKind::NeedsPerson => NEEDS_PERSON,
        ErrorKind::Held => HELD,
        ErrorKind::Damaged => DAMAGED,
        ErrorKind::Interrupted => INTERRUPTED,
    }
}

/// The code for the way a loop ended; cap, budget, goal and a request to stop are done as asked.
pub(super) fn of_stop(reason: &StopReason) -> u8 {
    match reason {
        StopReason::Reached(reached) if reached.is_done => 0,
        StopReason::MaxExperiments { .. }
        | StopReason::Budget { .. }
        | StopReason::Until { .. }
        | StopReason::NoTime { .. }
        | StopReason::NoAgent
        | StopReason::Interrupted { requested: true } => 0,
        StopReason::Reached(_)
        | StopReason::Flagged { .. }
        | StopReason::Outage { .. }
        | StopReason::Agent { .. }
        | StopReason::Error { .. } => NEEDS_PERSON,
        StopReason::Interrupted { requested: false } | StopReason::Terminated | StopReason::Detached => INTERRUPTED,
    }
}

/// Leaves what a command has read to the end of the process, which is near: to free the records of 10,000 experiments one by
/// one takes 5 ms.
pub(super) fn leave<T>(read: T) {
    std::mem::forget(read);
}
