//! The steps that an attempt which was left open still needs, and what becomes of a job that is executed elsewhere.

mod fate;
pub(super) mod recovery;

pub use fate::{
    CACHED, EngineWord, Fate, JOB_START, JobState, KnownJob, LossCause, NOT_CACHED, WrittenExit, fate, next_pause,
    slurm_duration, slurm_limit, slurm_refused,
};
pub use recovery::{AttemptFacts, LOST_RETRIES, RunFound, Step, recover};
