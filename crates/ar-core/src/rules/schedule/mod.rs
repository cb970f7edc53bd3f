//! The next work and its place: slots, seats, GPUs, pauses, disk space.

mod cadence;
mod gpus;
mod silence;
mod slot_use;
mod space;
mod starts;

pub use cadence::*;
pub use gpus::*;
pub use silence::*;
pub use slot_use::*;
pub use space::*;
pub use starts::*;
