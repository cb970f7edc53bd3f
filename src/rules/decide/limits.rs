//! Hard limits on values in the log.

use crate::domain::Limit;

/// The limits that a change exceeds, each in a few words with the value. `number` returns the measured value of a name.
pub(crate) fn unmet(limits: &[Limit], number: impl Fn(&str) -> Option<f64>) -> Vec<String> {
    let words = |limit: &Limit| match number(&limit.name) {
        Some(value) if limit.comparison.holds(value, limit.bound) => None,
        Some(value) => Some(format!("{} is {value} and must be {} {}", limit.name, limit.comparison, limit.bound)),
        None => Some(format!("the run printed no {}, which must be {} {}", limit.name, limit.comparison, limit.bound)),
    };
    limits.iter().filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_not_kept_to() {
        let limits = ["memory_gb<=40", "tok_s>1000", "mfu>=0.3"].map(|text| text.parse::<Limit>().unwrap());
        let number =
            |name: &str| [("memory_gb", 44.25), ("mfu", 0.3)].into_iter().find(|(n, _)| *n == name).map(|n| n.1);
        assert_eq!(
            unmet(&limits, number),
            ["memory_gb is 44.25 and must be <= 40", "the run printed no tok_s, which must be > 1000"]
        );
    }
}
