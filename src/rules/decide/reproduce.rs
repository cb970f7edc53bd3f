//! Comparing a repeated measurement with the record.

use super::outcome::format_step;
use crate::domain::{Direction, Failure, FailureClass, Number, two_digits};
use crate::rules::history::Spread;

/// After how many runs in a row that crash the best experiment is run again: as many attempts as it takes the ladder to pivot.
pub const CRASHES_TO_CHECK: u32 = 5;

/// Returns whether to rerun the best experiment after so many crashes in a row: their cause may lie outside the
/// changes. `seen` is the number of crashes at the last call, because several runs may have ended since.
pub fn is_check_due(crashes: u32, seen: u32) -> bool {
    crashes / CRASHES_TO_CHECK > seen.min(crashes) / CRASHES_TO_CHECK
}

/// The result of repeating a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameBack {
    /// The same value.
    Exactly,
    /// No value, for the same reason as the first time.
    Failure(FailureClass),
    /// A different value within the session's spread.
    Within {
        /// Its distance from the first, with its sense.
        distance: String,
        /// The spread.
        spread: String,
    },
    /// A different value.
    No {
        /// Its distance from the first, with its sense.
        distance: String,
        /// The spread, if known.
        spread: Option<String>,
    },
}

impl CameBack {
    /// Returns whether it was reproduced.
    pub fn is_same(&self) -> bool {
        !matches!(self, CameBack::No { .. })
    }
}

/// Compares a measured value with the `recorded` one, within the session's spread if known.
pub fn came_back(direction: Direction, recorded: &Number, measured: &Number, spread: Option<&Spread>) -> CameBack {
    if recorded.value == measured.value {
        return CameBack::Exactly;
    }
    let distance = format_step(direction, measured, recorded);
    match spread {
        Some(known) if (recorded.value - measured.value).abs() <= known.limit => {
            CameBack::Within { distance, spread: two_digits(known.limit) }
        }
        known => CameBack::No { distance, spread: known.map(|known| two_digits(known.limit)) },
    }
}

/// Returns [`CameBack::Failure`] if an experiment without a value failed again with the recorded class.
pub fn failed_again(recorded: Option<&Failure>, now: Option<&Failure>) -> Option<CameBack> {
    let class = now?.class;
    (recorded?.class == class).then_some(CameBack::Failure(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_experiment_is_run_again_after_every_fifth_crash_in_a_row() {
        let due: Vec<u32> = (0..12).filter(|crashes| is_check_due(*crashes, crashes.saturating_sub(1))).collect();
        assert_eq!(due, [5, 10]);
    }

    #[test]
    fn a_number_comes_back_exactly_within_the_spread_or_not_at_all() {
        let spread = Spread { repeated: Vec::new(), deviation: 0.01, limit: 0.028 };
        let number = |text: &str| text.parse::<Number>().unwrap();
        let compare = |measured: &str, spread| came_back(Direction::Lower, &number("1.50"), &number(measured), spread);
        assert_eq!(compare("1.5", None), CameBack::Exactly);
        let (distance, wide) = ("0.02 (1.3%) worse".to_owned(), "0.028".to_owned());
        assert_eq!(
            compare("1.52", Some(&spread)),
            CameBack::Within { distance: distance.clone(), spread: wide.clone() }
        );
        assert_eq!(compare("1.52", None), CameBack::No { distance, spread: None });
        assert_eq!(
            compare("1.4", Some(&spread)),
            CameBack::No { distance: "0.10 (6.7%) better".into(), spread: Some(wide) }
        );
    }
    #[test]
    fn a_failure_comes_back_where_it_is_of_the_same_class() {
        let failure = |class| Failure { class, excerpt: String::new() };
        let (crash, oom) = (failure(FailureClass::Crash), failure(FailureClass::Oom));
        assert_eq!(failed_again(Some(&crash), Some(&crash)), Some(CameBack::Failure(FailureClass::Crash)));
        assert_eq!([failed_again(Some(&oom), Some(&crash)), failed_again(None, Some(&crash))], [None, None]);
    }
}
