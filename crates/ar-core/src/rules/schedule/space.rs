//! The disk space that an experiment needs.

use crate::domain::Space;

/// The free space required on a large disk, in bytes: about fifty times what `ar` itself writes for an experiment.
const FLOOR: u64 = 50 * 1024 * 1024;

/// The free files required on a large disk.
const FILES: u64 = 1000;

/// The free part required of a small disk.
const PART: u64 = 20;

/// The free space below which a disk is full, in bytes: the last write may be incomplete.
const FULL: u64 = 64 * 1024;

/// Returns whether there is too little space for an experiment. It needs 50 MiB and a thousand files, or a twentieth of
/// a small disk, and always as many bytes as the last run's log.
pub fn too_little_space(space: Space, last_log: u64) -> bool {
    let bytes = space.total > 0 && space.free < FLOOR.min(space.total / PART).max(last_log);
    bytes || space.free_files < FILES.min(space.total_files / PART)
}

/// Returns whether too little free space spoilt the result of a process, so that it does not judge its idea. Either the
/// process failed for it, or its output may be incomplete.
pub fn spoilt_by_full_disk(space: Space, failed: bool) -> bool {
    space.total > 0 && space.free < FULL || failed && too_little_space(space, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn bytes(free: u64, total: u64) -> Space {
        Space { free, total, free_files: 0, total_files: 0 }
    }

    #[test]
    fn an_experiment_needs_room_in_proportion() {
        for (free, total, last_log, too_little) in [
            (50 * MIB, 1000 * MIB, 0, false),
            (50 * MIB - 1, 100_000 * MIB, 0, true),
            (MIB, 20 * MIB, 0, false),
            (MIB - 1, 20 * MIB, 0, true),
            (60 * MIB, 100_000 * MIB, 61 * MIB, true),
            (61 * MIB, 100_000 * MIB, 61 * MIB, false),
            // A file system that does not report its size.
            (0, 0, MIB, false),
        ] {
            assert_eq!(too_little_space(bytes(free, total), last_log), too_little, "{free} of {total}, {last_log}");
        }
        for (free_files, total_files, too_little) in
            [(1000, 1_000_000, false), (999, 1_000_000, true), (50, 1000, false), (49, 1000, true), (0, 0, false)]
        {
            let space = Space { free_files, total_files, ..bytes(MIB, MIB) };
            assert_eq!(too_little_space(space, 0), too_little, "{free_files} of {total_files}");
        }
    }

    #[test]
    fn a_full_disk_is_not_held_against_an_idea() {
        for (free, failed, spoilt) in
            [(0, false, true), (0, true, true), (MIB, false, false), (MIB, true, true), (60 * MIB, true, false)]
        {
            assert_eq!(spoilt_by_full_disk(bytes(free, 100_000 * MIB), failed), spoilt, "{free} {failed}");
        }
    }
}
