//! Walls: what a job may write, as mounts.

mod mounts;
mod protected;

pub use mounts::{Access, CallMounts, JobPlaces, Mount, Places, Wall, WalledRole, wall};
pub use protected::protected_mounts;
