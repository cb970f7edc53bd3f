//! Whether a number came back. Pure.

use super::{Spread, format_step};
use crate::domain::{Direction, Failure, FailureClass, Number, two_digits};

/// What a second measurement says of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameBack {
    /// The same number.
    Exactly,
    /// None, for the same reason as the first time.
    Failure(FailureClass),
    /// Another one, as near as repeated measurements of the session are to each other.
    Within {
        /// How far it is from the first, and which way.
        distance: String,
        /// How far those are from each other.
        spread: String,
    },
    /// Another one.
    No {
        /// How far it is from the first, and which way.
        distance: String,
        /// How far repeated measurements are from each other, where there are any.
        spread: Option<String>,
    },
}

impl CameBack {
    /// Whether it came back.
    pub fn is_same(&self) -> bool {
        !matches!(self, CameBack::No { .. })
    }
}

/// Compares a measured number with the `recorded` one, by the limit of the session's spread where that is known.
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

/// Whether an experiment that has no number failed again in the way that is recorded.
pub fn failed_again(recorded: Option<&Failure>, now: Option<&Failure>) -> Option<CameBack> {
    let class = now?.class;
    (recorded?.class == class).then_some(CameBack::Failure(class))
}

#[cfg(test)]
mod tests {
    use super::*;

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
