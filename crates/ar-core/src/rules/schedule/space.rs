//! Disk space: what an experiment needs, and which logs to delete when a session exceeds its space.

use crate::domain::{ExperimentId, Outcome, SizeLimit, Space};

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

/// Returns whether there is too little space for an experiment, and without this log there would be enough.
pub fn is_full_of_log(space: Space, log: u64) -> bool {
    too_little_space(space, 0) && !too_little_space(Space { free: space.free.saturating_add(log), ..space }, 0)
}

/// Returns whether too little free space spoilt the result of a process, so that it does not judge its idea. Either the
/// process failed for it, or its output may be incomplete.
pub fn spoilt_by_full_disk(space: Space, failed: bool) -> bool {
    space.total > 0 && space.free < FULL || failed && too_little_space(space, 0)
}

/// The number of newest experiments that always keep their logs: the user reads them in the morning, and the agent
/// while it works.
pub const NEWEST_KEPT: usize = 10;

/// The logs of one recorded experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExperimentLogs {
    /// The experiment.
    pub id: ExperimentId,
    /// The size of its logs on disk, in bytes.
    pub bytes: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// True for the best experiment so far.
    pub is_best: bool,
}

/// Returns the experiments whose logs to delete so that the rest fits, in order: discards and crashes first, then
/// keeps, each from the oldest. The best one and the [`NEWEST_KEPT`] newest always stay, even if they do not fit.
pub fn logs_to_drop(logs: &[ExperimentLogs], quota: SizeLimit) -> Vec<ExperimentId> {
    let SizeLimit::Bytes(quota) = quota else { return Vec::new() };
    let mut by_age = logs.to_vec();
    by_age.sort_by_key(|log| log.id);
    let mut total: u64 = logs.iter().map(|log| log.bytes).sum();
    by_age.truncate(by_age.len().saturating_sub(NEWEST_KEPT));
    let (kept, others): (Vec<_>, Vec<_>) =
        by_age.into_iter().filter(|log| !log.is_best && log.bytes > 0).partition(|log| log.outcome == Outcome::Keep);
    let over = |log: &ExperimentLogs| {
        let over = total > quota;
        total -= log.bytes;
        over
    };
    others.into_iter().chain(kept).take_while(over).map(|log| log.id).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn a_log_fills_a_disk_that_has_room_without_it() {
        for (space, log, is_full) in [
            (bytes(MIB, 100_000 * MIB), 49 * MIB, true),
            (bytes(MIB, 100_000 * MIB), 49 * MIB - 1, false),
            (bytes(50 * MIB, 100_000 * MIB), 900 * MIB, false),
            (bytes(0, 0), 900 * MIB, false),
            (Space { free_files: 0, total_files: 1000, ..bytes(MIB, 100_000 * MIB) }, 900 * MIB, false),
        ] {
            assert_eq!(is_full_of_log(space, log), is_full, "{space:?}, {log}");
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

    fn logs(sizes: &[(u64, Outcome)], best: u32) -> Vec<ExperimentLogs> {
        (0..)
            .zip(sizes)
            .map(|(id, (bytes, outcome))| ExperimentLogs {
                id: id.into(),
                bytes: *bytes,
                outcome: *outcome,
                is_best: id == best,
            })
            .collect()
    }

    #[test]
    fn the_oldest_that_were_not_kept_go_first() {
        use Outcome::{Crash, Discard, Keep};
        let mut sizes = vec![(10, Keep), (10, Discard), (10, Keep), (0, Crash), (10, Crash), (10, Keep)];
        sizes.extend([(10, Discard); NEWEST_KEPT]);
        for (quota, dropped) in [
            (150, vec![]),
            (149, vec![1]),
            (140, vec![1]),
            (130, vec![1, 4]),
            (120, vec![1, 4, 0]),
            (110, vec![1, 4, 0, 2]),
            (0, vec![1, 4, 0, 2]),
        ] {
            let dropped: Vec<_> = dropped.into_iter().map(ExperimentId::from).collect();
            assert_eq!(logs_to_drop(&logs(&sizes, 5), SizeLimit::Bytes(quota)), dropped, "{quota}");
        }
        assert!(logs_to_drop(&logs(&sizes, 5), SizeLimit::All).is_empty());
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![Just(Outcome::Keep), Just(Outcome::Discard), Just(Outcome::Crash)]
    }

    proptest! {
        #[test]
        fn what_stays_fits_or_nothing_else_may_go(
            sizes in proptest::collection::vec((0u64..1000, outcome()), 0..40),
            best in 0u32..40,
            quota in 0u64..20_000,
        ) {
            let all = logs(&sizes, best);
            let of = |id: &ExperimentId| &all[id.number() as usize];
            let dropped = logs_to_drop(&all, SizeLimit::Bytes(quota));
            let stays: Vec<_> = all.iter().filter(|log| !dropped.contains(&log.id)).collect();
            let left: u64 = stays.iter().map(|log| log.bytes).sum();
            let always = |log: &ExperimentLogs| log.is_best || log.id.number() as usize + NEWEST_KEPT >= all.len();
            prop_assert!(dropped.iter().all(|id| !always(of(id))));
            prop_assert!(left <= quota || stays.iter().all(|log| always(log) || log.bytes == 0));
            if let Some(last) = dropped.last() {
                // It deletes no more than necessary, and keeps only when nothing else is left.
                prop_assert!(left + of(last).bytes > quota);
                if of(last).outcome == Outcome::Keep {
                    prop_assert!(stays.iter().all(|log| log.outcome == Outcome::Keep || always(log) || log.bytes == 0));
                }
            }
        }
    }
}
