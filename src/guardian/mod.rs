//! Guardians: patrols that check sessions, restart them and nudge their drivers; the units that start patrols; and the
//! resident guard that calls one when none comes. They read no experiment, write nothing into a session, and report for nobody:
//! everything that they write is under `guard/` in the user's folder.
//!
//! The decisions of a patrol are in [`crate::rules::patrol`](fn@crate::rules::patrol). No logic in this file.

mod acts;
mod ensure;
mod error;
mod facts;
mod findings;
mod nudge_text;
mod patrol;
mod program;
mod resident;
mod script;
mod seat;
mod service_error;
mod sessions;
mod units;
mod wanted;

pub use ensure::{become_resident, ensure_resident, keep_resident};
pub use error::GuardianError;
pub use findings::examine_guardians;
pub use patrol::{Patrol, PatrolReport, Patrolled};
pub use resident::{RESIDENT_ARGUMENT, reside};
pub use script::resident_script;
pub use service_error::ServiceError;
pub use sessions::{real_path, registered_sessions};
pub use units::{DEFAULT_EVERY, Scheduler};
