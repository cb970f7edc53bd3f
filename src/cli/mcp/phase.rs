//! The step of an experiment in words, for who waits for it.

use autoresearch::domain::{ExperimentId, Phase};
use autoresearch::report::SessionStatus;
use autoresearch::rules::{Driver, MAX_FRESH, OpenStatus};

/// The phase before the change is a commit.
pub(super) const STARTING: &str = "starting";

/// The phase before the working tree is as the next change needs it.
const RECORDING: &str = "recording";

/// Where an experiment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its record exists, and nothing of it is open.
    Recorded,
    /// A process works on it, or it waits for one that does.
    Open(String),
    /// No process works on it; `ar try --continue` finishes it.
    Left,
    /// No process works on it, and only the user decides how to go on.
    Stopped(String),
    /// The session does not know it.
    Unknown,
}

/// Finds out where an experiment is.
pub(super) fn standing(status: &SessionStatus, id: ExperimentId) -> Standing {
    let open = status.attempts.iter().find(|open| open.id == id);
    // A change waits for the baseline that its session begins with.
    let baseline = || status.attempts.iter().find(|open| open.id.is_baseline()).filter(|_| is_next(status, id));
    let Some(open) = open.or_else(baseline) else {
        return match status.history.get(id) {
            // The process of another client has the tree until it is gone.
            Some(_) if is_ending(status) => Standing::Open(RECORDING.into()),
            Some(_) => Standing::Recorded,
            // Its baseline was recorded just now.
            None if status.owner.is_some() && is_next(status, id) => Standing::Open(STARTING.into()),
            None => Standing::Unknown,
        };
    };
    if status.owner.is_some() {
        return Standing::Open(phase_text(open));
    }
    let is_by_hand = status.driver == Some(Driver::Hand) && !status.lanes.is_concurrent;
    match (&status.ended, is_by_hand) {
        (None, true) => Standing::Left,
        (Some(end), true) => Standing::Stopped(format!("{end}; `ar try --continue` finishes it")),
        (_, false) => Standing::Stopped(format!("no loop is active; `ar resume {}` finishes it", status.tag)),
    }
}

/// The number of the experiment that a process makes, once its change is a commit or waits for the baseline.
pub(super) fn begun(status: &SessionStatus) -> Option<ExperimentId> {
    let open = status.open().filter(|open| open.phase != Phase::Checking)?;
    Some(if open.id.is_baseline() { open.id.next() } else { open.id })
}

/// Returns whether a number is that of the first change of a session, which waits for the baseline.
fn is_next(status: &SessionStatus, id: ExperimentId) -> bool {
    id == ExperimentId::BASELINE.next() && status.history.records().len() < 2
}

/// Returns whether an `ar try` is about to end or has just begun.
fn is_ending(status: &SessionStatus) -> bool {
    status.owner.is_some() && status.driver == Some(Driver::Hand) && status.attempts.is_empty()
}

fn phase_text(open: &OpenStatus) -> String {
    if open.id.is_baseline() {
        return "baseline".into();
    }
    match open.phase {
        Phase::Idle | Phase::Proposing | Phase::Committing => STARTING.into(),
        Phase::Running => "running".into(),
        Phase::Guarding => "guards".into(),
        Phase::Confirming => match open.fresh {
            Some(done) => format!("confirm {} of {MAX_FRESH}", (done as usize + 1).min(MAX_FRESH)),
            None => "control".into(),
        },
        Phase::Reviewing => "review".into(),
        Phase::Waiting => "waiting to be merged".into(),
        Phase::Checking => "checking the incumbent".into(),
        Phase::Recording | Phase::Settling => RECORDING.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_words_and_the_next_fresh_run_is_counted() {
        let open = |id: u32, phase, fresh| OpenStatus {
            id: id.into(),
            phase,
            fresh,
            slot: None,
            seat: None,
            trial: None,
            description: String::new(),
            is_again: false,
            since: None,
            elapsed: None,
            deadline: None,
            newest: None,
            tainted: 0,
            queued: None,
        };
        let said = |id, phase, fresh| phase_text(&open(id, phase, fresh));
        assert_eq!(said(0, Phase::Running, None), "baseline");
        assert_eq!(said(0, Phase::Guarding, None), "baseline");
        assert_eq!(said(7, Phase::Committing, None), "starting");
        assert_eq!(said(7, Phase::Running, None), "running");
        assert_eq!(said(7, Phase::Guarding, None), "guards");
        assert_eq!(said(7, Phase::Confirming, None), "control");
        assert_eq!(said(7, Phase::Confirming, Some(0)), "confirm 1 of 4");
        assert_eq!(said(7, Phase::Confirming, Some(1)), "confirm 2 of 4");
        assert_eq!(said(7, Phase::Confirming, Some(4)), "confirm 4 of 4", "the last one is being weighed");
        assert_eq!(said(7, Phase::Reviewing, None), "review");
        assert_eq!(said(7, Phase::Settling, None), "recording");
    }
}
