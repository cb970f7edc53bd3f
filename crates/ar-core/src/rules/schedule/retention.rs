//! Which logs to delete when a session exceeds its space.

use crate::domain::{ExperimentId, Outcome, SizeLimit};

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
    use super::*;
    use proptest::prelude::*;

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
