//! The user's ratings of sessions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A rating of a session: 0 for useless, 1 for as good as it could be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rating {
    /// The rating, 0..1.
    pub value: f64,
    /// When it was given.
    #[serde(with = "crate::domain::millis")]
    pub at: Timestamp,
    /// The author of the rating.
    pub by: String,
}

impl Rating {
    /// Parses a rating as the user writes it: a number from 0 to 1.
    ///
    /// # Errors
    ///
    /// It is not such a number; what to write instead.
    pub fn value(text: &str) -> Result<f64, String> {
        match text.trim().parse::<f64>() {
            // Adding 0 turns -0 into 0.
            Ok(value) if (0.0..=1.0).contains(&value) => Ok(value + 0.0),
            _ => Err("must be a number from 0 to 1, such as 0.8".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_is_a_number_from_0_to_1() {
        assert_eq!(
            ["0", "-0", " 0.80 ", "1", "1e-1"].map(|text| Rating::value(text).unwrap()),
            [0.0, 0.0, 0.8, 1.0, 0.1]
        );
        assert!(Rating::value("-0").unwrap().is_sign_positive());
        for wrong in ["", "8", "-0.1", "1.01", "nan", "inf", "80%", "0,8", "good"] {
            assert!(Rating::value(wrong).is_err(), "{wrong}");
        }
    }
}
