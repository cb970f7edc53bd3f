//! The loop: opens a session, recovers what is left open, and carries out what the scheduler decides.

mod baseline;
mod begin;
mod driving;
mod late_reviews;
mod opening;
mod recovery;
mod reopening;
mod scheduler;
mod session;
mod trying;
mod verifying;

pub use late_reviews::review_keeps;
pub(crate) use opening::slot_setup;
pub use reopening::open_again;
pub use session::Session;
pub use trying::Tried;
