//! Running commands: the executor, the shim, the process tree, the deadline, the log, memory, and where a run took place.
//!
//! An [`Executor`] runs a command under a small process of its own, the shim, which outlives `ar` and ends everything that
//! the command started. Two sides live here: what `ar` calls ([`Executor`], [`Running`]) and what the shim does
//! ([`shim_main`]). Nothing here knows what a command is for, or reads its log.

mod cluster;
mod environment;
mod error;
mod executor;
mod gpu;
mod helper;
mod job;
mod opens;
mod running;
mod shim;
mod shim_io;
mod ticks;
mod tree;
mod wall;

pub use crate::unix::{end_by_signals, in_own_session, leave_interrupts_to_others, shield_from_terminal};
pub use cluster::*;
pub use environment::*;
pub use error::*;
pub use executor::*;
pub use gpu::*;
pub use helper::*;
pub use job::*;
pub use opens::*;
pub use running::*;
pub use shim::*;
pub use shim_io::*;
pub use ticks::*;
pub use tree::*;
pub use wall::*;

/// The hidden first argument that makes the program a shim; the second is the job file.
pub const SHIM_ARGUMENT: &str = "__shim";

/// The hidden first argument with which the program is started behind a wall.
pub const WALLED_ARGUMENT: &str = "__walled";
