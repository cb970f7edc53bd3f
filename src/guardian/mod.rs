//! Guardians: they check sessions, restart them and nudge their drivers. They read no experiment, write nothing into a
//! session, and report for nobody; what they write is under `guard/` in the user's folder.
//!
//! What a patrol decides is in [`crate::rules::patrol`]. No logic in this file.

mod acts;
mod error;
mod facts;
mod nudge_text;
mod patrol;
mod sessions;

pub use error::GuardError;
pub use patrol::{Patrol, Patrolled};
pub use sessions::registered_sessions;
