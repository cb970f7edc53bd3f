//! The loop: opens a session, recovers what is left open, and carries out what the scheduler decides.

pub(super) mod baseline;
pub(super) mod begin;
pub(super) mod driving;
pub(super) mod first_model;
pub(super) mod late_reviews;
pub(super) mod opening;
pub(super) mod recovery;
pub(super) mod reopening;
pub(super) mod scheduler;
pub(super) mod session;
pub(super) mod trying;

pub use session::Session;
