//! The loop: opens a session, recovers what is left open, and carries out what the scheduler decides.

mod begin;
mod recovery;
mod scheduler;
mod session;
mod trying;
mod verifying;

pub(crate) use begin::slot_setup;
pub use recovery::open_again;
pub use session::Session;
pub use trying::Tried;
pub use verifying::review_keeps;
