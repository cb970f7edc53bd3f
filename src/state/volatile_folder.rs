//! The folder of this user in memory, for what has no room on a disk.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

/// Shared memory, which every user may write to.
const SHARED_MEMORY: &str = "/dev/shm";

/// Returns the paths of this user's folder on file systems in memory, in the order of preference: in the runtime folder, then
/// in shared memory. Processes of one user may differ in `$XDG_RUNTIME_DIR`, which cron does not set.
pub(super) fn volatile_folders() -> Vec<PathBuf> {
    let me = getuid().as_raw();
    // `su` leaves the variable with the folder of another user.
    let is_mine = |folder: &PathBuf| {
        folder.is_absolute() && fs::metadata(folder).is_ok_and(|there| there.is_dir() && there.uid() == me)
    };
    let runtime = [env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), Some(format!("/run/user/{me}").into())];
    let mut bases: Vec<PathBuf> = runtime.into_iter().flatten().filter(is_mine).collect();
    bases.dedup();
    bases.push(SHARED_MEMORY.into());
    bases.into_iter().map(|base| base.join(format!("autoresearch-{me}"))).collect()
}

/// Returns whether a path is a folder that only this user can access. Does not follow links.
pub(super) fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|there| there.is_dir() && there.uid() == getuid().as_raw() && there.mode() & 0o077 == 0)
}

/// Makes a folder for this user alone; returns false if something else is there.
pub(super) fn make_private(path: &Path) -> bool {
    let _ = DirBuilder::new().mode(0o700).create(path);
    is_private(path)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_that_is_a_link_or_open_to_others_is_not_private() {
        let folder = tempfile::tempdir().unwrap();
        let [own, link, open] = ["own", "link", "open"].map(|name| folder.path().join(name));
        assert!(make_private(&own) && make_private(&own), "also a second time");
        symlink(&own, &link).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o750)).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!([&link, &open, &folder.path().join("file")].map(|path| make_private(path)), [false; 3]);
    }
}
