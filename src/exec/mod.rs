//! Running commands: the shim, the process tree, the deadline, the log, memory, and where a run took place.
//!
//! A command runs under a small process of its own, the shim, which outlives `ar` and ends everything that the
//! command started. Shims are forked from one process, the [`ForkServer`]. Two sides live here: what `ar` calls
//! ([`start`], [`Running`], [`is_held`]) and what server and shim do ([`fork_server_main`]). All `unsafe` is in `unix.rs`.
//! Nothing here knows what a command is for, or reads its log.

mod beat;
mod environment;
mod error;
mod fork_server;
mod gpu;
mod holders;
mod job;
mod line;
mod place;
mod shim;
mod start;
mod tree;
mod unix;
mod usage;

pub use beat::{beat, runtime};
pub use environment::{disk_space, environment, lock_file_hash};
pub use error::ExecError;
pub use fork_server::{ForkServer, fork_server_main};
pub use gpu::GpuMonitor;
pub use holders::may_be_held;
pub use job::{Exit, Job, Started, job_file};
pub use start::{Running, attach, end_left_over, is_going_on, is_held, shims, start, start_with};
pub use tree::kill_other_children;
pub use unix::{end_by_signals, leave_interrupts_to_others, shield_from_terminal};

/// The hidden first argument that makes the program a fork server.
pub const FORK_SERVER_ARGUMENT: &str = "__shims";

/// The first argument that a shim shows; the second is the job file.
const SHIM_ARGUMENT: &str = "__shim";
