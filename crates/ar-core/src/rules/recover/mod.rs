//! The steps that an attempt which was left open still needs, and what becomes of a job that is executed elsewhere.

mod fate;
pub(super) mod recovery;
mod slurm_limit;

pub use fate::{CACHED, Cause, Fate, JobState, Known, NOT_CACHED, Word, WrittenExit, fate, next_pause};
pub use recovery::{Found, LOST_RETRIES, RunFound, Step, recover};
pub use slurm_limit::{JOB_START, slurm_duration, slurm_limit, slurm_refused};
