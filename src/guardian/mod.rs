//! Guardians: patrols that check sessions, restart them and nudge their drivers; the units that start patrols; and the
//! resident guard that calls one when none comes. They read no experiment, write nothing into a session, and report for nobody:
//! everything that they write is under `guard/` in the user's folder.
//!
//! The decisions of a patrol are in [`crate::rules::patrol`](fn@crate::rules::patrol). No logic in this file.

mod patrol;
mod resident;
mod units;

pub use patrol::*;
pub use resident::*;
pub use units::*;
