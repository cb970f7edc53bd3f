//! What runs next and where: slots, seats, GPUs, pauses, disk space.

pub(super) mod cadence;
pub(super) mod gpus;
pub(super) mod retention;
pub(super) mod shelving;
pub(super) mod silence;
pub(super) mod slot_use;
pub(super) mod space;
pub(super) mod starts;
