//! A disk that is soon full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::TestRepo;

/// A file system of a few megabytes and a thousand files, gone when it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one at a new folder; `None` where that is not allowed.
    pub(crate) fn mount(path: PathBuf) -> Option<SmallDisk> {
        fs::create_dir(&path).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m,nr_inodes=1000", "none"]).arg(&path).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(SmallDisk(path))
    }

    /// Moves a repository onto one, its path as before.
    pub(crate) fn under(repo: &TestRepo) -> Option<SmallDisk> {
        let before = repo.outside().join("before");
        fs::rename(repo.path(), &before).unwrap();
        let disk = SmallDisk::mount(repo.path())?;
        let copied = Command::new("cp").arg("-a").arg(before.join(".")).arg(repo.path()).status().unwrap();
        assert!(copied.success());
        Some(disk)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Fills it with the file `fill`.
    pub(crate) fn fill(&self) {
        let mut file = fs::File::create(self.0.join("fill")).unwrap();
        std::io::copy(&mut std::io::repeat(0), &mut file).unwrap_err();
    }

    /// Makes room again. A process that another test is starting in this moment may still have the file open, which keeps
    /// what is in it.
    pub(crate) fn free(&self) {
        let fill = self.0.join("fill");
        fs::File::create(&fill).unwrap();
        fs::remove_file(fill).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
