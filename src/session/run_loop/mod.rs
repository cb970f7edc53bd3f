//! The loop: opens a session, recovers what is left open, and carries out what the scheduler decides.

mod baseline_repeats;
mod begin;
mod cmd_try;
mod dispatcher;
mod late_reviews;
mod recovery;
mod session;
mod verifying;

pub(crate) use begin::slot_setup;
pub use cmd_try::Tried;
pub use late_reviews::review_keeps;
pub use recovery::open_again;
pub use session::Session;
