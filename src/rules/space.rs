//! How much room on the disk an experiment needs.

use crate::domain::Failure;

/// What must be left of a large disk, in bytes: some fifty times what `ar` itself writes for an experiment.
const FLOOR: u64 = 50 * 1024 * 1024;

/// The part of a small disk that must be left.
const PART: u64 = 20;

/// With less than this a disk is full, in bytes: a log that ends here may have lost its last lines.
const FULL: u64 = 64 * 1024;

/// The file system that a session is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What this user may still write, in bytes.
    pub free: u64,
    /// All there is, in bytes; 0 where the system does not tell.
    pub total: u64,
}

impl Space {
    /// Whether there is too little room for an experiment: less than 50 MiB, than a twentieth of a disk on which that
    /// is less, or than the log of the last run took.
    pub fn is_short(self, last_log: u64) -> bool {
        self.total > 0 && self.free < FLOOR.min(self.total / PART).max(last_log)
    }

    /// Whether a run that ended with so much room left says nothing about its idea: it failed where there was too
    /// little, or its log may be cut off.
    pub fn spoils(self, failure: Option<&Failure>) -> bool {
        self.total > 0 && (self.free < FULL || failure.is_some() && self.is_short(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::FailureClass;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn an_experiment_needs_room_in_proportion() {
        for (free, total, last_log, short) in [
            (50 * MIB, 1000 * MIB, 0, false),
            (50 * MIB - 1, 100_000 * MIB, 0, true),
            (MIB, 20 * MIB, 0, false),
            (MIB - 1, 20 * MIB, 0, true),
            (60 * MIB, 100_000 * MIB, 61 * MIB, true),
            (61 * MIB, 100_000 * MIB, 61 * MIB, false),
            // A file system that does not say how large it is.
            (0, 0, MIB, false),
        ] {
            assert_eq!(Space { free, total }.is_short(last_log), short, "{free} of {total}, {last_log}");
        }
    }

    #[test]
    fn a_full_disk_is_not_held_against_an_idea() {
        let failure = Failure { class: FailureClass::Crash, excerpt: String::new() };
        for (free, failed, spoilt) in
            [(0, false, true), (0, true, true), (MIB, false, false), (MIB, true, true), (60 * MIB, true, false)]
        {
            let space = Space { free, total: 100_000 * MIB };
            assert_eq!(space.spoils(failed.then_some(&failure)), spoilt, "{free} {failed}");
        }
    }
}
