//! Whether a number came back. Pure.

use std::collections::BTreeMap;

use super::{History, format_distance};
use crate::domain::Number;

/// What a second measurement says of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CameBack {
    /// The same number.
    Exactly,
    /// Another one, no further away than repeated measurements of the session were from each other.
    Within {
        /// How far it is from the first.
        distance: String,
        /// How far those were.
        spread: String,
    },
    /// Another one.
    No {
        /// How far it is from the first.
        distance: String,
        /// How far repeated measurements were from each other, where there are any.
        spread: Option<String>,
    },
}

/// Compares a measured number with the `recorded` one. `spread` is the farthest that two measurements of the same code were
/// apart, where any was measured twice.
pub fn came_back(recorded: &Number, measured: &Number, spread: Option<&(Number, Number)>) -> CameBack {
    if recorded.value == measured.value {
        return CameBack::Exactly;
    }
    let distance = format_distance(measured, recorded);
    let known = spread.map(|(a, b)| format_distance(a, b));
    match (known, spread) {
        (Some(spread), Some((a, b))) if (recorded.value - measured.value).abs() <= (a.value - b.value).abs() => {
            CameBack::Within { distance, spread }
        }
        (spread, _) => CameBack::No { distance, spread },
    }
}

/// The two numbers of the same code that are the farthest apart; `None` where no code was measured twice.
pub fn widest_repeat(history: &History) -> Option<(Number, Number)> {
    let mut by_tree: BTreeMap<&str, Vec<Number>> = BTreeMap::new();
    for record in history.records() {
        if let (Some(fingerprint), Some(number)) = (&record.fingerprint, record.metric.number()) {
            by_tree.entry(&fingerprint.tree).or_default().push(number);
        }
    }
    let pairs = by_tree.into_values().filter(|numbers| numbers.len() > 1).filter_map(|mut numbers| {
        numbers.sort_by(|a, b| a.value.total_cmp(&b.value));
        Some((numbers.first()?.clone(), numbers.last()?.clone()))
    });
    pairs.max_by(|a, b| (a.1.value - a.0.value).total_cmp(&(b.1.value - b.0.value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn a_number_comes_back_exactly_within_the_spread_or_not_at_all() {
        let spread = (number("1.00"), number("1.02"));
        let compare = |measured: &str, spread| came_back(&number("1.50"), &number(measured), spread);
        assert_eq!(compare("1.5", None), CameBack::Exactly);
        let (distance, wide) = ("0.01".to_owned(), "0.02".to_owned());
        assert_eq!(
            compare("1.51", Some(&spread)),
            CameBack::Within { distance: distance.clone(), spread: wide.clone() }
        );
        assert_eq!(compare("1.51", None), CameBack::No { distance, spread: None });
        assert_eq!(compare("1.4", Some(&spread)), CameBack::No { distance: "0.10".into(), spread: Some(wide) });
    }
}
