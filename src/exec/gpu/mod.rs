//! GPUs: which ones the machine has, by NVIDIA's management library, what is in use of them, and locks against other
//! sessions.
//!
//! All calls into the library are here. Nothing here decides which slot has which GPU.

mod devices;
mod locks;

pub use devices::{GpuMonitor, GpuProcesses, gpu_inventory};
pub(super) use devices::{GpuWatch, models};
pub use locks::{GpuHolder, GpuLockError, GpuLocks};
