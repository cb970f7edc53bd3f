//! Jobs that an engine executes elsewhere: by Slurm, or by commands of the user's.
//!
//! A job's own file has its [`Ticket`]: by its token it is found again in whatever the engine lists. [`Queue`] asks the engine about
//! all jobs in one question; a [`QueuedJob`] is what `ar` waits for. [`Engine`](crate::domain::Engine) says which engine it is, and
//! `slurm.rs` and `commands.rs` how to speak to it, by programs that `call.rs` runs. What an answer means is said by
//! [`rules::fate`](crate::rules::fate). Nothing here knows what a job is for.

mod call;
mod commands;
mod queue;
mod queued_job;
mod slurm;

pub use call::*;
pub(super) use queue::*;
pub(super) use queued_job::*;
