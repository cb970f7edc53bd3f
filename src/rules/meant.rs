//! Which session a command without a name is about. Pure.

use jiff::Timestamp;

/// What is known of a session among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSign {
    /// Whether an `ar` holds it.
    pub is_active: bool,
    /// When something last happened in it, where that is known.
    pub last_activity: Option<Timestamp>,
}

/// The place of the session that is meant: the active one, else the newest. Of several active ones, and of several of one
/// moment, the newest and the last one.
pub fn session_meant(signs: &[SessionSign]) -> Option<usize> {
    (0..signs.len()).max_by_key(|place| (signs[*place].is_active, signs[*place].last_activity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_one_comes_before_the_newest() {
        let sign = |is_active, second: Option<i64>| SessionSign {
            is_active,
            last_activity: second.map(|second| Timestamp::from_second(second).unwrap()),
        };
        assert_eq!(session_meant(&[]), None);
        assert_eq!(session_meant(&[sign(false, None)]), Some(0));
        assert_eq!(session_meant(&[sign(false, Some(2)), sign(false, Some(1)), sign(false, None)]), Some(0));
        assert_eq!(session_meant(&[sign(false, Some(2)), sign(true, Some(1)), sign(false, Some(3))]), Some(1));
        assert_eq!(session_meant(&[sign(true, Some(2)), sign(true, Some(1))]), Some(0));
        assert_eq!(session_meant(&[sign(false, Some(2)), sign(false, Some(2))]), Some(1));
    }
}
