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
pub use cluster::Ticket;
pub use environment::{
    boot_id, disk_space, environment, host_name, lock_file_hash, log_that_fills_disk, may_be_held, process_name,
    since_boot,
};
pub use error::ExecError;
pub use executor::{Executor, running_program};
pub use gpu::{GpuHolder, GpuLockError, GpuLocks, GpuMonitor, GpuProcesses, gpu_inventory};
pub use helper::Helper;
pub use job::{Exit, Job, JobFiles, Node, Started, WatchedFile};
pub use opens::{FILES_BEFORE, FilesBefore, MOST_WATCHED, OpensWatch, Uses};
pub use running::Running;
pub use shim::{leave_starter, queued_shim_main, shim_main};
pub use shim_io::{Answer, Reply, ask_shim};
pub use ticks::{next_tick, runtime};
pub use tree::{job_beyond, jobs_above, kill_other_children};
pub use wall::{enter_wall, find_builder, try_wall};

/// The hidden first argument that makes the program a shim; the second is the job file.
pub const SHIM_ARGUMENT: &str = "__shim";

/// The hidden first argument with which the program is started behind a wall.
pub const WALLED_ARGUMENT: &str = "__walled";
