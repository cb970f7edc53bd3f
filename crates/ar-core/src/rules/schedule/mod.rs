//! The next work and its place: slots, seats, GPUs, pauses, disk space.

mod cadence;
mod gpus;
mod silence;
mod slot_use;
mod space;
mod starts;

pub use cadence::{LastIteration, Pace, cadence_warning, pace};
pub use gpus::{
    GPU_MASKS, GPU_PATIENCE, GpuPlan, GpuSlot, GpuTurn, any_gpu_turn, gpu_plan, gpu_turn, slot_variables, usable_gpus,
};
pub use silence::{GpuLife, LifeSign, Quiet, Silence};
pub(crate) use slot_use::slots_so_far;
pub use slot_use::{RunOf, Slots, distinct_runs, gain_alone, gpu_hours, is_concurrent, lanes, run_seconds, slots};
pub use space::{ExperimentLogs, NEWEST_KEPT, is_full_of_log, logs_to_drop, spoilt_by_full_disk, too_little_space};
pub use starts::{
    AttemptPlace, Bar, Budgets, BusySlot, CallStart, Capacity, Demand, Durations, OpenAtEnd, PendingAttempt, Shelved,
    Situation, SlotWork, Start, Starts, call_limit, calls_are_short, calls_that_feed, most_calls, schedule, shelve,
};
