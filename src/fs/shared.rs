//! The file system of a path: its kind, and whether other hosts may have the same files.

use std::path::Path;

use super::read::read_at_most;

/// The largest table of mounts that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// File systems that hosts share, by the numbers of `statfs(2)` and of their own sources: NFS, SMB and CIFS, Lustre, GPFS, BeeGFS,
/// Ceph, AFS, GFS2, OCFS2, OrangeFS, 9P, and all in user space.
#[cfg(target_os = "linux")]
const SHARED: [u32; 13] = [
    0x6969,
    0xFE53_4D42,
    0xFF53_4D42,
    0x0BD0_0BD0,
    0x4750_4653,
    0x1983_0326,
    0x00C3_6400,
    0x5346_414F,
    0x0116_1970,
    0x7461_636F,
    0x2003_0528,
    0x0102_1997,
    0x6573_5546,
];

/// Returns whether the file system of `path` may be one that other hosts have, too; in doubt it is.
pub fn is_shared(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        // The width of the number differs between architectures; the constants have 32 bits.
        rustix::fs::statfs(path).map_or(true, |found| SHARED.contains(&(found.f_type as u32)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        true
    }
}

/// The name of the file system of `path`, such as `ext4` or `nfs4`; `None` where the system has no table of mounts.
pub fn kind_of(path: &Path) -> Option<String> {
    let table = read_at_most(Path::new("/proc/self/mountinfo"), LARGEST).ok()?;
    kind_in(&String::from_utf8_lossy(&table), &path.canonicalize().ok()?)
}

/// Finds the file system of `path` in a table of mounts (`proc_pid_mountinfo(5)`): that of the longest mount point, and of several
/// there the last one, which covers the others.
fn kind_in(table: &str, path: &Path) -> Option<String> {
    let mounts = table.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let place = mount.split(' ').nth(4)?.replace("\\040", " ");
        path.starts_with(&place).then(|| (place.len(), kind.split(' ').next().unwrap_or_default()))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_innermost_mount() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 0:40 / /home rw,relatime shared:5 - nfs4 server:/home rw\n\
            31 22 0:41 / /home rw - lustre server:/fs rw\n\
            32 22 0:42 / /my\\040data rw - fuse.sshfs host: rw\n";
        for (path, kind) in [("/home/a", "lustre"), ("/homes", "ext4"), ("/my data/x", "fuse.sshfs")] {
            assert_eq!(kind_in(table, Path::new(path)).as_deref(), Some(kind), "{path}");
        }
        assert_eq!(kind_of(Path::new("/proc")).as_deref(), Some("proc"));
    }

    #[test]
    fn what_is_in_memory_is_of_this_host_alone() {
        assert!(!is_shared(Path::new("/proc")));
        assert!(is_shared(Path::new("/no such path")));
    }
}
