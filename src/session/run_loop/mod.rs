//! The loop: opens a session, recovers what is left open, and carries out what the scheduler decides.

mod begin;
mod cmd_try;
mod dispatcher;
mod recovery;
mod session;
mod verifying;

pub(crate) use begin::slot_setup;
pub use cmd_try::Tried;
pub use recovery::open_again;
pub use session::Session;
pub use verifying::review_keeps;
