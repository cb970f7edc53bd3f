//! The session that a command without a tag refers to.

use jiff::Timestamp;

/// The activity of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSign {
    /// True if an `ar` process holds it.
    pub is_active: bool,
    /// Its latest activity, if known.
    pub last_activity: Option<Timestamp>,
}

/// The index of the session: the active one, else the newest. Among several active ones, the newest; among equals, the
/// last.
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
