//! Where an experiment runs.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{gpu, unix};
use crate::domain::{Environment, Space};

/// Files that pin the versions of what a project depends on, in the order in which they are hashed.
const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Manifest.toml",
    "Pipfile.lock",
    "bun.lock",
    "conda-lock.yml",
    "environment.yml",
    "flake.lock",
    "go.sum",
    "package-lock.json",
    "pdm.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pylock.toml",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
];

/// Describes this machine, and the lock files in `root`: their SHA-256 is that of the files one after the other in
/// the order of their names, as in `cat Cargo.lock uv.lock | sha256sum`. What cannot be found out is left out.
pub fn environment(root: &Path) -> Environment {
    let gpus = gpu::gpus();
    Environment {
        host: unix::host_name(),
        gpus: gpus.as_ref().map_or(0, |gpus| gpus.count),
        driver: gpus.as_ref().and_then(|gpus| gpus.driver.clone()),
        gpu: gpus.map(|gpus| gpus.models),
        lockfile: lock_file_hash(root),
    }
}

/// The room on the file system of `path`.
pub fn disk_space(path: &Path) -> io::Result<Space> {
    unix::disk_space(&CString::new(path.as_os_str().as_bytes())?)
}

/// This boot of the machine, where the system names it.
pub(super) fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn lock_file_hash(root: &Path) -> Option<String> {
    let mut hash = Sha256::new();
    let mut any = false;
    for name in LOCK_FILES {
        let Ok(content) = fs::read(root.join(name)) else { continue };
        hash.update(content);
        any = true;
    }
    any.then(|| hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_are_hashed_as_sha256sum_does() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(lock_file_hash(root.path()), None);
        fs::write(root.path().join("uv.lock"), "c").unwrap();
        fs::write(root.path().join("Cargo.lock"), "ab").unwrap();
        fs::write(root.path().join("README.md"), "other").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(lock_file_hash(root.path()).as_deref(), Some(abc));
        assert!(LOCK_FILES.is_sorted());
    }

    #[test]
    fn the_host_has_its_name() {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        assert_eq!(environment(Path::new("/")).host, host.trim());
    }
}
