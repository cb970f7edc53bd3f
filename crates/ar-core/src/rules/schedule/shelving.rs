//! The handling of open attempts at the end of a loop.

use crate::domain::Phase;

/// An attempt that is open when the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    /// The journal's step.
    pub phase: Phase,
    /// True for a run that waiting winners need, false for an experiment of its own.
    pub is_trial: bool,
    /// True if it has a commit.
    pub has_commit: bool,
    /// True if the journal has a draft of its record, because a version of its change was measured.
    pub has_draft: bool,
    /// True if the agent was to merge it with the incumbent.
    pub is_asked: bool,
    /// True if it beat its own base: the draft has no failure.
    pub is_sound: bool,
    /// True if the loop was stopped whose runs wait in a queue: what waited there does so again when the session continues.
    pub is_queued: bool,
}

/// The handling of an idle attempt at the end of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shelved {
    /// It stays open.
    Stays,
    /// It waits for a train again, and the agent is not asked.
    Waits,
    /// The version that was measured is recorded, and a later one is saved.
    Recorded,
    /// Its commit is saved, and its description becomes an idea.
    Idea,
    /// It is closed: it is a trial, or no agent finished it.
    Closed,
}

/// Decides what to do with an attempt when the loop ends. Those with an active run, and winners, stay open.
pub fn shelve(left: Left) -> Shelved {
    match left.phase {
        // It is no experiment, whatever was measured of it.
        Phase::Proposing | Phase::Committing if left.is_trial => Shelved::Closed,
        Phase::Proposing if left.has_draft && left.is_asked && left.is_sound => Shelved::Waits,
        Phase::Proposing | Phase::Committing if left.has_draft => Shelved::Recorded,
        Phase::Committing if left.has_commit && left.is_queued => Shelved::Stays,
        Phase::Proposing | Phase::Committing if left.has_commit => Shelved::Idea,
        Phase::Proposing | Phase::Committing => Shelved::Closed,
        _ => Shelved::Stays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_recorded_when_the_loop_ends_and_what_was_proposed_becomes_an_idea() {
        let draft = |left| Left { has_draft: true, ..left };
        let asked = |left| Left { is_asked: true, ..left };
        let no_commit = |left| Left { has_commit: false, ..left };
        for (left, shelved) in [
            (no_commit(left_in(Phase::Proposing)), Shelved::Closed),
            (asked(left_in(Phase::Proposing)), Shelved::Idea),
            (no_commit(draft(left_in(Phase::Proposing))), Shelved::Recorded),
            (asked(draft(left_in(Phase::Proposing))), Shelved::Recorded),
            (Left { is_sound: true, ..asked(draft(left_in(Phase::Proposing))) }, Shelved::Waits),
            (left_in(Phase::Committing), Shelved::Idea),
            (draft(left_in(Phase::Committing)), Shelved::Recorded),
            (Left { is_queued: true, ..left_in(Phase::Committing) }, Shelved::Stays),
            (Left { is_queued: true, ..left_in(Phase::Proposing) }, Shelved::Idea),
            (Left { is_queued: true, ..draft(left_in(Phase::Committing)) }, Shelved::Recorded),
            (Left { is_queued: true, is_trial: true, ..left_in(Phase::Committing) }, Shelved::Closed),
            (Left { is_trial: true, ..left_in(Phase::Committing) }, Shelved::Closed),
            (Left { is_trial: true, ..draft(left_in(Phase::Committing)) }, Shelved::Closed),
            (Left { is_trial: true, ..draft(left_in(Phase::Proposing)) }, Shelved::Closed),
            (draft(left_in(Phase::Waiting)), Shelved::Stays),
            (left_in(Phase::Running), Shelved::Stays),
        ] {
            assert_eq!(shelve(left), shelved, "{left:?}");
        }
    }

    fn left_in(phase: Phase) -> Left {
        Left {
            phase,
            is_trial: false,
            has_commit: true,
            has_draft: false,
            is_asked: false,
            is_sound: false,
            is_queued: false,
        }
    }
}
