//! Walls: what a job may write, as mounts.

mod mounts;
pub use mounts::{Access, CallMounts, JobPlaces, Mount, Places, Wall, WalledRole, protected_mounts, wall};
