//! How much room on the disk an experiment needs.

use crate::domain::Space;

/// What must be left of a large disk, in bytes: some fifty times what `ar` itself writes for an experiment.
const FLOOR: u64 = 50 * 1024 * 1024;

/// How many files there must be room for on a large disk.
const FILES: u64 = 1000;

/// The part of a small disk that must be left.
const PART: u64 = 20;

/// With less than this a disk is full, in bytes: what was written last may be cut off.
const FULL: u64 = 64 * 1024;

/// Whether there is too little room for an experiment: less than 50 MiB or a thousand files, than a twentieth of a disk
/// on which that is less, or than the log of the last run took.
pub fn too_little_room(space: Space, last_log: u64) -> bool {
    let bytes = space.total > 0 && space.free < FLOOR.min(space.total / PART).max(last_log);
    bytes || space.free_files < FILES.min(space.total_files / PART)
}

/// Whether a process that ended with so much room left says nothing about its idea: it failed where there was too
/// little, or what it wrote may be cut off.
pub fn spoilt_by_full_disk(space: Space, failed: bool) -> bool {
    space.total > 0 && space.free < FULL || failed && too_little_room(space, 0)
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
            // A file system that does not say how large it is.
            (0, 0, MIB, false),
        ] {
            assert_eq!(too_little_room(bytes(free, total), last_log), too_little, "{free} of {total}, {last_log}");
        }
        for (free_files, total_files, too_little) in
            [(1000, 1_000_000, false), (999, 1_000_000, true), (50, 1000, false), (49, 1000, true), (0, 0, false)]
        {
            let space = Space { free_files, total_files, ..bytes(MIB, MIB) };
            assert_eq!(too_little_room(space, 0), too_little, "{free_files} of {total_files}");
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
