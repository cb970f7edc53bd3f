//! How much time there is, and how much an experiment takes.

use std::time::Duration;

use super::History;
use crate::domain::{Contract, StopReason};

/// How many of the newest ones tell how long the next one takes: enough that one that was stuck does not count, and
/// few enough that the session's pace of now does.
const NEWEST: usize = 9;

/// When a call of the loop ends: how long from now, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// How long from now; zero when it is over.
    pub left: Duration,
    /// The reason to stop then.
    pub reason: StopReason,
}

/// The nearest end of a call that has been going on for `elapsed`; `until` is how long after its start the time of day
/// comes at which it ends.
pub fn nearest_end(contract: &Contract, until: Option<Duration>, elapsed: Duration) -> Option<End> {
    let budget = contract.budget.map(|budget| (budget, StopReason::Budget { seconds: budget.as_secs_f64() }));
    let until = until.zip(contract.until).map(|(after, time)| (after, StopReason::Until { time }));
    let (after, reason) = [budget, until].into_iter().flatten().min_by_key(|(after, _)| *after)?;
    Some(End { left: after.saturating_sub(elapsed), reason })
}

/// Why nothing may be started any more that takes `needed`, if so.
pub fn stop_for_time(end: Option<&End>, needed: Duration) -> Option<StopReason> {
    let End { left, reason } = end?;
    if left.is_zero() {
        return Some(reason.clone());
    }
    let (left, needed) = (left.as_secs_f64(), needed.as_secs_f64());
    (left < needed).then(|| StopReason::NoTime { left, needed, end: Box::new(reason.clone()) })
}

/// How long it takes to measure a change: the median of the newest runs, and that of what all guards took of the newest
/// versions that came to them. Zero where nothing tells.
pub fn expected_run(history: &History) -> Duration {
    let newest_first = || history.records().iter().rev();
    let runs = newest_first().flat_map(|record| record.runs.iter().rev().map(|run| run.seconds));
    let guards = newest_first().flat_map(|record| {
        let earlier = record.versions.iter().rev().map(|version| &version.guards);
        [&record.guards].into_iter().chain(earlier).filter(|guards| !guards.is_empty())
    });
    median(runs) + median(guards.map(|guards| guards.iter().map(|guard| guard.seconds).sum()))
}

/// How long a call of the agent takes, in the same way.
pub fn expected_call(history: &History) -> Duration {
    median(history.records().iter().rev().filter_map(|record| record.agent.as_ref()).map(|agent| agent.seconds))
}

fn median(newest_first: impl Iterator<Item = f64>) -> Duration {
    let mut seconds: Vec<f64> = newest_first.take(NEWEST).collect();
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
    Duration::try_from_secs_f64(middle).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_newest_take_no_longer_than_the_median() {
        assert_eq!(median([].into_iter()), Duration::ZERO);
        assert_eq!(median([600.0, 3.0, 5.0].into_iter()), Duration::from_secs(5));
        let newest_first = [1.0; 9].into_iter().chain([500.0; 100]);
        assert_eq!(median(newest_first), Duration::from_secs(1));
    }

    #[test]
    fn nothing_starts_that_cannot_end() {
        let end = |left| End { left: Duration::from_secs(left), reason: StopReason::Budget { seconds: 60.0 } };
        let minute = Duration::from_secs(60);
        assert_eq!(stop_for_time(None, minute), None);
        assert_eq!(stop_for_time(Some(&end(60)), minute), None);
        assert_eq!(stop_for_time(Some(&end(0)), Duration::ZERO), Some(StopReason::Budget { seconds: 60.0 }));
        assert!(matches!(stop_for_time(Some(&end(59)), minute), Some(StopReason::NoTime { .. })));
    }
}
