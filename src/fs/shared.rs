//! Whether other hosts may have the files of a path, too.

use std::path::Path;

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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_of_this_host_alone() {
        assert!(!is_shared(Path::new("/proc")));
        assert!(is_shared(Path::new("/no such path")));
    }
}
