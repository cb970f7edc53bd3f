//! The machine that an experiment runs on.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::system::uname;
use sha2::{Digest, Sha256};

use super::gpu;
use crate::domain::{Environment, LOCK_FILES, Space};
use crate::fs::read_at_most;

/// The largest lock file, in bytes; those of large projects have a tenth of it.
const LARGEST_LOCK_FILE: u64 = 64 << 20;

/// Describes this machine, and the lock files in `root`. Omits tools and anything it cannot detect.
pub fn environment(root: &Path) -> Environment {
    let gpus = gpu::models();
    Environment {
        host: host_name(),
        gpus: gpus.as_ref().map_or(0, |gpus| gpus.count),
        driver: gpus.as_ref().and_then(|gpus| gpus.driver.clone()),
        gpu: gpus.map(|gpus| gpus.models),
        lockfile: lock_file_hash(root),
        ..Environment::default()
    }
}

/// The SHA-256 of the lock files in `root`, one after the other in the order of their names, as in
/// `cat Cargo.lock uv.lock | sha256sum`; `None` without any.
pub fn lock_file_hash(root: &Path) -> Option<String> {
    let mut hash = Sha256::new();
    let mut any = false;
    for name in LOCK_FILES.iter() {
        let Ok(content) = read_at_most(&root.join(name), LARGEST_LOCK_FILE) else { continue };
        hash.update(content);
        any = true;
    }
    any.then(|| hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The name of this host.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// The room on the file system of `path`.
pub fn disk_space(path: &Path) -> io::Result<Space> {
    let found = statvfs(path)?;
    Ok(Space {
        free: found.f_bavail * found.f_frsize,
        total: found.f_blocks * found.f_frsize,
        free_files: found.f_favail,
        total_files: found.f_files,
    })
}

/// This boot of the machine, where the system names it.
pub fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The time since the machine's start, asleep or not, where the system tells it.
pub fn since_boot() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    Duration::try_from_secs_f64(text.split_ascii_whitespace().next()?.parse().ok()?).ok()
}

/// The name of a process, where the system tells it.
pub fn process_name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
#[path = "environment_tests.rs"]
mod tests;
