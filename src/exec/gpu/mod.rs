//! GPUs: which ones the machine has, by NVIDIA's management library, what is in use of them, and locks against other
//! sessions.
//!
//! All calls into the library are here. Nothing here decides which slot has which GPU.

mod in_use;
mod inventory;
mod library;
mod locks;
mod watch;

pub use in_use::GpuProcesses;
pub use inventory::gpu_inventory;
pub(super) use inventory::models;
pub use locks::{GpuHolder, GpuLockError, GpuLocks};
pub use watch::GpuMonitor;
pub(super) use watch::GpuWatch;
