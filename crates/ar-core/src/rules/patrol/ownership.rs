//! Whose a session is, where its lock may be that of another host.
//!
//! On some shared file systems a lock holds on one host only. There a free lock proves nothing about a process of another host,
//! so the journal's signs of life count.

use std::fmt;
use std::time::Duration;

use super::verdict::INTERVALS;
use crate::domain::clock_time;

/// What the journal of a session says about the process that drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The host on which the session was opened last; absent in journals of an earlier `ar`.
    pub host: Option<&'a str>,
    /// True if a process was active when the journal was written.
    pub is_active: bool,
    /// The time since the last sign of life; zero if that lies in the future.
    pub seen: Duration,
    /// The time within which the next one is expected.
    pub interval: Duration,
}

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// No process drives it.
    Free,
    /// A process holds its lock.
    Held,
    /// A process of another host may drive it, under a lock that is invisible here.
    Elsewhere(OtherHost),
}

/// The host on which a session was opened last, if it is not this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherHost {
    /// Its name.
    pub host: String,
    /// The time since the last sign of life.
    pub seen: Duration,
    /// The time after which it may be taken over; zero once it may be.
    pub wait: Duration,
}

impl OtherHost {
    /// Returns whether so many signs of life are missing that the session may be taken over.
    pub fn is_missed(&self) -> bool {
        self.wait.is_zero()
    }
}

impl fmt::Display for OtherHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {}, seen {} ago", self.host, clock_time(self.seen.as_secs_f64()))
    }
}

/// Whose a session is, seen from the host `here`; `is_held` says that its lock is held. Names tell hosts apart: a process of
/// another boot of the same host is dead.
pub fn ownership(is_held: bool, claim: &Claim<'_>, here: &str) -> Ownership {
    match claim.host {
        _ if is_held => Ownership::Held,
        Some(host) if claim.is_active && host != here => Ownership::Elsewhere(OtherHost {
            host: host.to_owned(),
            seen: claim.seen,
            wait: claim.interval.saturating_mul(INTERVALS).saturating_sub(claim.seen),
        }),
        _ => Ownership::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_an_active_process_of_another_host_may_have_a_session_whose_lock_is_free() {
        let claim = Claim { host: Some("there"), is_active: true, seen: secs(100), interval: secs(90) };
        let elsewhere = |seen, wait| {
            Ownership::Elsewhere(OtherHost { host: "there".to_owned(), seen: secs(seen), wait: secs(wait) })
        };
        for (what, is_held, claim, expected) in [
            ("held", true, claim, Ownership::Held),
            ("held, by an old program", true, Claim { host: None, ..claim }, Ownership::Held),
            ("killed here, or before a reboot", false, Claim { host: Some("here"), ..claim }, Ownership::Free),
            ("killed, an old program", false, Claim { host: None, ..claim }, Ownership::Free),
            ("stopped there", false, Claim { is_active: false, ..claim }, Ownership::Free),
            ("active there", false, claim, elsewhere(100, 170)),
            ("just seen", false, Claim { seen: secs(0), ..claim }, elsewhere(0, 270)),
            ("seen just within", false, Claim { seen: secs(269), ..claim }, elsewhere(269, 1)),
            ("three signs missed", false, Claim { seen: secs(270), ..claim }, elsewhere(270, 0)),
            ("long dead", false, Claim { seen: secs(9000), ..claim }, elsewhere(9000, 0)),
            ("no end of it", false, Claim { interval: Duration::MAX, ..claim }, {
                let wait = Duration::MAX.saturating_sub(secs(100));
                Ownership::Elsewhere(OtherHost { host: "there".to_owned(), seen: secs(100), wait })
            }),
        ] {
            assert_eq!(ownership(is_held, &claim, "here"), expected, "{what}");
        }
    }

    #[test]
    fn it_is_missed_once_no_time_is_left() {
        let of = |wait| OtherHost { host: "gpu7".to_owned(), seen: secs(75), wait: secs(wait) };
        assert_eq!([of(1).is_missed(), of(0).is_missed()], [false, true]);
        assert_eq!(of(1).to_string(), "on gpu7, seen 1m15s ago");
    }
}
