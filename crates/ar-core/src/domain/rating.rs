//! The user's ratings of sessions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tag;

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

    /// Finds the rating of session `tag` among those at a commit, where several sessions may have begun; the last one
    /// counts.
    pub fn read(text: &str, tag: &Tag) -> Option<Rating> {
        text.lines().rev().filter_map(parts).find(|(of, _)| of == tag).map(|(_, rating)| rating)
    }
}

/// Parses a line: the session, and its rating.
fn parts(line: &str) -> Option<(Tag, Rating)> {
    let (at, rest) = line.trim().split_once(' ')?;
    let (tag, rest) = rest.split_once(' ')?;
    let (by, value) = rest.split_once(": ")?;
    let rating = Rating { value: Rating::value(value).ok()?, at: at.parse().ok()?, by: by.to_owned() };
    Some((tag.parse().ok()?, rating))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rating(value: f64, by: &str) -> Rating {
        Rating { value, at: "2026-11-21T07:12:00Z".parse().unwrap(), by: by.into() }
    }

    #[test]
    fn the_last_rating_of_a_session_counts() {
        let (tag, other): (Tag, Tag) = ("nov20".parse().unwrap(), "nov21".parse().unwrap());
        let line = |rest: &str| format!("2026-11-21T07:12:00.000Z {rest}\n");
        let ratings = ["nov20 A Lovelace: 0.8", "nov21 B: 0.25", "nov20 C: 1"].map(line).concat();
        let text = format!("made with git\n{ratings}");
        assert_eq!(
            (Rating::read(&text, &tag), Rating::read(&text, &other)),
            (Some(rating(1.0, "C")), Some(rating(0.25, "B")))
        );
        assert_eq!(Rating::read(&text, &"nov2".parse().unwrap()), None);
    }

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
