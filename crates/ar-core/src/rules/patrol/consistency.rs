//! Problems in the facts about a session, its clock included.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::domain::{CommitId, Phase, Severity, Space};
use crate::rules::schedule::too_little_space;

/// The free space below which `ar` warns: 1 GiB.
const LITTLE_SPACE: u64 = 1 << 30;

/// The number of free files below which `ar` warns; an experiment takes about twenty.
const FEW_FILES: u64 = 10_000;

/// The severity of a disk's free space. With too little, no experiment starts.
pub fn judge_space(space: Space) -> Severity {
    let little = space.total > 0 && space.free < LITTLE_SPACE || space.total_files > 0 && space.free_files < FEW_FILES;
    match little {
        _ if too_little_space(space, 0) => Severity::Error,
        true => Severity::Warning,
        false => Severity::Ok,
    }
}

/// A problem of an open experiment that its recovery does not solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTrouble {
    /// The journal names an open experiment at no step.
    Unnamed,
    /// Its number is taken, or was not given.
    Number,
    /// It has no commit, but should.
    NoCommit,
    /// Its commit is missing in the repository.
    LostCommit,
    /// Its base is missing in the repository.
    LostBase,
    /// Its base is not the incumbent.
    OtherBase,
    /// Its commit is not based on its base.
    OtherParent,
    /// Its record has another commit.
    OtherCommit,
}

/// The open experiment in the journal, and the repository's facts.
#[derive(Debug, Clone, Copy)]
pub struct OpenFound<'a> {
    /// The step.
    pub phase: Phase,
    /// The experiment's commit and base.
    pub open: (Option<&'a CommitId>, &'a CommitId),
    /// True if its number was given and no record has it.
    pub is_free: bool,
    /// True if its record is the last one.
    pub is_last: bool,
    /// The commit of its record, if it has one.
    pub recorded: Option<&'a CommitId>,
    /// The base of the next experiment.
    pub tip: &'a CommitId,
}

/// Compares the journal with the records. `is_there` tells whether the repository has a commit, `is_on` whether one has
/// another as its only parent or is the same.
pub fn judge_open(
    found: OpenFound<'_>,
    is_there: impl Fn(&CommitId) -> bool,
    is_on: impl Fn(&CommitId, &CommitId) -> bool,
) -> Option<OpenTrouble> {
    let (commit, base) = found.open;
    let recorded = found.is_last;
    if found.phase == Phase::Idle {
        return Some(OpenTrouble::Unnamed);
    }
    if !found.is_free && !recorded {
        return Some(OpenTrouble::Number);
    }
    if !is_there(base) {
        return Some(OpenTrouble::LostBase);
    }
    match commit {
        None if found.phase != Phase::Proposing => return Some(OpenTrouble::NoCommit),
        Some(commit) if !is_there(commit) => return Some(OpenTrouble::LostCommit),
        Some(commit) if !is_on(commit, base) => return Some(OpenTrouble::OtherParent),
        Some(commit) if found.recorded.is_some_and(|recorded| recorded != commit) => {
            return Some(OpenTrouble::OtherCommit);
        }
        _ => {}
    }
    (!recorded && base != found.tip).then_some(OpenTrouble::OtherBase)
}

/// A branch's tip, compared with its expected commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tip {
    /// As expected.
    Expected,
    /// Elsewhere, because an experiment is open; its recovery moves it.
    Open,
    /// The branch is missing and can be recreated.
    Missing,
    /// At the last experiment, which is recorded but was not kept.
    Unsettled,
    /// At a commit that belongs to no experiment.
    Unrecorded,
}

/// Compares a branch with its expected commit; `last` is the commit of the last experiment.
pub fn judge_tip(found: Option<&CommitId>, expected: &CommitId, last: Option<&CommitId>, is_open: bool) -> Tip {
    match found {
        Some(tip) if tip == expected => Tip::Expected,
        _ if is_open => Tip::Open,
        None => Tip::Missing,
        Some(_) if found == last => Tip::Unsettled,
        Some(_) => Tip::Unrecorded,
    }
}

/// The worst of several levels; `Ok` if there are none.
pub fn worst(levels: impl IntoIterator<Item = Severity>) -> Severity {
    levels.into_iter().max().unwrap_or(Severity::Ok)
}

/// The tolerance before a notice, for a clock behind the last record and for a jump of the clock. Corrections of a
/// running clock are smaller. Own judgement.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// The longest wait of a loop for a clock that is behind. A clock that starts wrong is set within minutes once there is
/// a network.
pub const CLOCK_PATIENCE: Duration = Duration::from_secs(600);

/// Returns whether `now` is before the end of the last experiment by more than the tolerance.
pub fn is_clock_behind(now: Timestamp, last: Timestamp) -> bool {
    last.duration_since(now) > TOLERANCE
}

/// Measures how far the clock was set between two moments; `None` while it was not. Each moment is given by the clock
/// and by the time since the machine's start.
pub fn clock_jump(before: (Timestamp, Duration), now: (Timestamp, Duration)) -> Option<SignedDuration> {
    let passed = SignedDuration::try_from(now.1.checked_sub(before.1)?).ok()?;
    let jump = now.0.duration_since(before.0) - passed;
    (jump.abs() > TOLERANCE).then_some(jump)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_judged_at_its_limits() {
        const MIB: u64 = 1 << 20;
        for (free, level) in [
            (1024 * MIB, Severity::Ok),
            (1024 * MIB - 1, Severity::Warning),
            (50 * MIB, Severity::Warning),
            (50 * MIB - 1, Severity::Error),
            (0, Severity::Error),
        ] {
            let space = Space { free, total: 1 << 40, free_files: 0, total_files: 0 };
            assert_eq!(judge_space(space), level, "{free}");
        }
        for (free_files, level) in [(10_000, Severity::Ok), (9_999, Severity::Warning), (999, Severity::Error)] {
            let space = Space { free: 1 << 40, total: 1 << 41, free_files, total_files: 1 << 30 };
            assert_eq!(judge_space(space), level, "{free_files}");
        }
    }

    #[test]
    fn a_journal_that_contradicts_the_records_is_told_from_one_that_was_left_open() {
        let commit = |digit: &str| CommitId::new(digit.repeat(40));
        let (tip, change, lost) = (commit("a"), commit("b"), commit("f"));
        let stray = commit("c");
        let judge = |phase, (id, commit, base): (u32, _, _)| {
            let recorded = (id == 2).then_some(&change);
            let open = (commit, base);
            let found = OpenFound { phase, open, is_free: id == 3, is_last: id == 2, recorded, tip: &tip };
            judge_open(found, |commit| *commit != lost, |commit, _| *commit != stray)
        };
        let change_of_3 = (3, Some(&change), &tip);
        for (phase, open, trouble) in [
            (Phase::Proposing, (3, None, &tip), None),
            (Phase::Committing, change_of_3, None),
            (Phase::Running, change_of_3, None),
            (Phase::Recording, change_of_3, None),
            (Phase::Recording, (2, Some(&change), &change), None),
            (Phase::Settling, (2, Some(&change), &change), None),
            (Phase::Idle, change_of_3, Some(OpenTrouble::Unnamed)),
            (Phase::Committing, (3, None, &tip), Some(OpenTrouble::NoCommit)),
            (Phase::Running, (3, None, &tip), Some(OpenTrouble::NoCommit)),
            (Phase::Running, (1, Some(&change), &tip), Some(OpenTrouble::Number)),
            (Phase::Running, (4, Some(&change), &tip), Some(OpenTrouble::Number)),
            (Phase::Running, (3, Some(&lost), &tip), Some(OpenTrouble::LostCommit)),
            (Phase::Proposing, (3, None, &lost), Some(OpenTrouble::LostBase)),
            (Phase::Running, (3, Some(&change), &change), Some(OpenTrouble::OtherBase)),
            (Phase::Running, (3, Some(&stray), &tip), Some(OpenTrouble::OtherParent)),
            (Phase::Settling, (2, Some(&tip), &tip), Some(OpenTrouble::OtherCommit)),
        ] {
            assert_eq!(judge(phase, open), trouble, "{phase:?} {open:?}");
        }
    }

    #[test]
    fn a_branch_that_is_elsewhere_is_explained_by_an_open_experiment_only() {
        let commit = |digit: &str| CommitId::new(digit.repeat(40));
        let (expected, other, last) = (commit("a"), commit("b"), commit("c"));
        for (found, is_open, tip) in [
            (Some(&expected), false, Tip::Expected),
            (Some(&expected), true, Tip::Expected),
            (Some(&other), true, Tip::Open),
            (None, true, Tip::Open),
            (None, false, Tip::Missing),
            (Some(&other), false, Tip::Unrecorded),
            (Some(&last), false, Tip::Unsettled),
            (Some(&last), true, Tip::Open),
        ] {
            assert_eq!(judge_tip(found, &expected, Some(&last), is_open), tip, "{found:?} {is_open}");
        }
    }

    #[test]
    fn a_clock_is_behind_or_jumps_by_more_than_a_minute() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let behind = [-1, 0, 60, 61, 86_400].map(|behind| is_clock_behind(at(0), at(behind)));
        assert_eq!(behind, [false, false, false, true, true]);
        let jump = |wall, steady| {
            let jump = clock_jump((at(0), Duration::from_secs(50)), (at(wall), Duration::from_secs(steady)));
            jump.map(|jump| jump.as_secs())
        };
        assert_eq!([jump(100, 150), jump(160, 150), jump(-3600, 50)], [None, None, Some(-3600)]);
        assert_eq!(jump(7300, 150), Some(7200), "it was set while 100 s passed");
        assert_eq!(jump(30_000, 30_050), None, "the machine slept");
        assert_eq!(jump(100, 49), None, "another start of the machine");
    }
}
