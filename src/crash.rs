//! Named moments at which the tests kill the program. A release build has none of them.
//!
//! In a build with debug assertions they act only where their variables are set: each process adds a line with the name of each point that it passes to the file that
//! `AR_CRASH_TRACE` names. With `AR_CRASH_AT=NAME:N` the process that adds the N-th line of that name kills itself with
//! SIGKILL. In a shim all names begin with `shim.`. With `AR_CRASH_RUN=COMMAND` whoever is first to pass a point runs that
//! command there, and goes on.

#[cfg(not(debug_assertions))]
use std::time::Duration;

#[cfg(debug_assertions)]
pub use armed::{BETWEEN_SESSIONS, IN_IMPORT, IN_LANES, POINTS};
#[cfg(debug_assertions)]
pub(crate) use armed::{in_shim, pace, point};

/// Names a moment between two steps.
#[cfg(not(debug_assertions))]
pub(crate) const fn point(_name: &str) {}

/// How long to wait where the program would wait for so long between calls.
#[cfg(not(debug_assertions))]
pub(crate) const fn pace(pause: Duration) -> Duration {
    pause
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

    /// The names of the points that only a session with slots passes, sorted.
    pub const IN_LANES: &[&str] = &[
        "baseline.repeat_over",
        "baseline.repeat_prepared",
        "checkout.put_back",
        "closing.ref_dropped",
        "line.won",
        "merging.asked",
        "merging.change_committed",
        "merging.committed",
        "open.tree_made",
        "ready.entered",
        "ready.ref_made",
        "replacing.committed",
        "seat.left_over_kept",
        "settling.refs_dropped",
        "shelving.put_away",
        "slot.cleared",
        "trial.ended",
    ];

    /// The names of the points that only the step from one session to the next passes, or from a session in place to its
    /// slots, sorted.
    pub const BETWEEN_SESSIONS: &[&str] = &["home.head_pointed", "home.noted", "home.put_back", "next.former_left"];

    /// The names of the points that only an import passes, sorted.
    pub const IN_IMPORT: &[&str] = &["git.pack_kept", "git.pack_written"];

    /// The names of all other points, sorted.
    pub const POINTS: &[&str] = &[
        "abandon.begun",
        "abandon.branch_deleted",
        "abandon.file_removed",
        "abandon.head_put_back",
        "artifacts.drop_begun",
        "artifacts.drop_noted",
        "artifacts.noted",
        "artifacts.renamed",
        "artifacts.set_aside",
        "artifacts.settled",
        "artifacts.taken",
        "aside.change_kept",
        "aside.change_taken_out",
        "aside.checked_out",
        "aside.index_forgotten",
        "aside.index_kept",
        "aside.index_put_back",
        "aside.noted",
        "aside.opened",
        "aside.put_back",
        "aside.ref_deleted",
        "baseline.repeats_forgotten",
        "checkout.branch_moved",
        "committing.branch_advanced",
        "committing.commit_noted",
        "committing.commit_written",
        "escalation.told",
        "git.change_kept",
        "git.changes_written",
        "git.commit_unsynced",
        "git.file_put_back",
        "git.file_removed",
        "git.files_put_back",
        "git.head_logged",
        "git.index_lock_prepared",
        "git.index_prepared",
        "git.index_replaced",
        "git.kept_written",
        "git.locks_named",
        "git.ref_moved",
        "git.restore_planned",
        "git.saved",
        "git.tag_written",
        "guarding.entered",
        "guarding.guard_noted",
        "guarding.guard_over",
        "heal.contract_stored",
        "heal.journal_written",
        "heal.memory_made",
        "heal.rows_written",
        "idle.entered",
        "idle.untracked_remembered",
        "job.locked",
        "job.started",
        "job.written",
        "ledger.locked",
        "lessons.locked",
        "open.branch_made",
        "open.branch_taken",
        "open.contract_stored",
        "open.excluded",
        "open.journal_made",
        "open.journal_written",
        "open.locked",
        "open.memory_made",
        "outage.noted",
        "outage.waited",
        "proposing.agent_over",
        "proposing.change_committed",
        "proposing.entered",
        "proposing.repeat_put_back",
        "recording.entered",
        "recording.recorded",
        "recover.step_done",
        "reset.change_kept",
        "reset.put_back",
        "reviewing.amended",
        "reviewing.entered",
        "reviewing.noted",
        "reviewing.reviewer_over",
        "rework.branch_moved",
        "rework.change_committed",
        "rework.entered",
        "rework.put_back",
        "rework.version_saved",
        "rollback.branch_moved",
        "rollback.change_saved",
        "rollback.put_back",
        "running.entered",
        "running.folder_cleared",
        "running.left",
        "running.log_linked",
        "running.log_unlinked",
        "running.over",
        "running.version_set_aside",
        "settling.branch_moved",
        "settling.direction_noted",
        "settling.ideas_noted",
        "settling.lesson_added",
        "settling.put_back",
        "settling.remembered",
        "settling.row_appended",
        "shim.begun",
        "shim.command_ended",
        "shim.command_over",
        "shim.exit_written",
        "shim.launched",
        "shim.state.file_prepared",
        "shim.state.file_replaced",
        "shim.state.line_appended",
        "sleep.noted",
        "sleep.over",
        "state.file_prepared",
        "state.file_replaced",
        "state.line_appended",
        "stop.journal_written",
        "stop.lesson_added",
        "words.heard",
    ];

    static IS_SHIM: AtomicBool = AtomicBool::new(false);

    /// Says that this process is a shim.
    pub(crate) fn in_shim() {
        IS_SHIM.store(true, Ordering::Relaxed);
    }

    /// Where `AR_NO_PAUSES` is set, the program does not wait between calls, except for an outage.
    pub(crate) fn pace(pause: Duration) -> Duration {
        if env::var_os("AR_NO_PAUSES").is_some() { Duration::ZERO } else { pause }
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
        // Whoever started `ar` may remove the file meanwhile, for the next call: a shim outlives the call that it is of.
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(trace)?;
        file.write_all(format!("{name}\n").as_bytes())?;
        file.rewind()?;
        Ok(io::read_to_string(file)?.lines().filter(|line| *line == name).count())
    }
}
