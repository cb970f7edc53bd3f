//! Guardians: patrols that check sessions, restart them and nudge their drivers; the units that start patrols; and the
//! resident guard that calls one when none comes. They read no experiment, write nothing into a session, and report for nobody:
//! everything that they write is under `guard/` in the user's folder.
//!
//! The decisions of a patrol are in [`crate::rules::patrol`](fn@crate::rules::patrol). No logic in this file.

mod patrol;
mod resident;
mod units;

pub use patrol::{GuardianError, Patrol, PatrolReport, Patrolled, real_path, registered_sessions};
pub use resident::{
    RESIDENT_ARGUMENT, become_resident, ensure_resident, examine_guardians, keep_resident, reside, resident_script,
};
pub use units::{DEFAULT_EVERY, Scheduler, ServiceError, unwritable};
