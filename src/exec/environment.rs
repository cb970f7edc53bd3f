//! The machine that an experiment runs on, and other processes that may use git in its repository.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::fs::statvfs;
use rustix::system::uname;
use sha2::{Digest, Sha256};

use super::{Node, gpu};
use crate::domain::{Environment, LOCK_FILES, LargeLog, Space};
use crate::fs::read_at_most;
use crate::rules::is_full_of_log;

/// The largest lock file, in bytes; those of large projects have a tenth of it.
const LARGEST_LOCK_FILE: u64 = 64 << 20;

/// Describes this machine, and the lock files in `root`. Omits tools and anything it cannot detect.
pub fn environment(root: &Path) -> Environment {
    let Node { gpu, gpus, driver } = gpu::models();
    Environment { host: host_name(), gpu, gpus, driver, lockfile: lock_file_hash(root), ..Environment::default() }
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

/// The largest log in these folders, if its disk is full because of it. Compressed logs are none.
pub fn log_that_fills_disk(folders: impl IntoIterator<Item = PathBuf>) -> Option<LargeLog> {
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let logs = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "log"));
    let sized = logs.filter_map(|path| Some(LargeLog { bytes: path.symlink_metadata().ok()?.len(), path }));
    let largest = sized.max_by_key(|log| log.bytes)?;
    let space = disk_space(largest.path.parent()?).ok()?;
    is_full_of_log(space, largest.bytes).then_some(largest)
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

/// Programs that write git's files themselves, beside those with `git` in their name.
const OTHERS: [&str; 5] = ["jj", "tig", "gh", "hub", "sl"];

/// Returns whether a process of this user may hold one of `files`, which are git's locks. Such a process has it open,
/// or is a git that runs in one of `folders`. Assumes so if the system does not tell.
pub fn may_be_held(files: &[PathBuf], folders: &[PathBuf]) -> bool {
    let Ok(me) = fs::metadata("/proc/self") else { return true };
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let others = processes.flatten().map(|entry| entry.path()).filter(|path| {
        let pid = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u32>().ok());
        pid.is_some_and(|pid| pid != std::process::id())
            && fs::metadata(path).is_ok_and(|process| process.uid() == me.uid())
    });
    others.into_iter().any(|process| is_git_in(&process, folders) || has_open(&process, files))
}

fn is_git_in(process: &Path, folders: &[PathBuf]) -> bool {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let name = name.trim();
    (name.contains("git") || OTHERS.contains(&name))
        && fs::read_link(process.join("cwd")).is_ok_and(|cwd| folders.iter().any(|folder| cwd.starts_with(folder)))
}

fn has_open(process: &Path, files: &[PathBuf]) -> bool {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|file| files.contains(&file))
}
