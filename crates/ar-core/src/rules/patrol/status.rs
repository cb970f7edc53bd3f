//! Parts of a session in which a loop may be active: its open attempts, slots and seats, pauses, and the tip of its
//! branch; and problems in the facts about them, its clock included.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

use crate::domain::{CommitId, ExperimentId, Layout, Number, OutageKind, Phase, Run, Severity, Space, Tag, TreeOwner};
use crate::rules::decide::{MAX_FRESH, Trial};
use crate::rules::history::History;
use crate::rules::schedule::{Capacity, Durations, call_limit, calls_are_short, slots_so_far, too_little_space};
use crate::rules::stop::{expected_call, expected_run};

/// Commits at the tip of an idle session's branch that are no experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnrecordedTip {
    /// The user's, on top of the incumbent: a typed `ar run` begins this session with them, or continues it.
    OfUser(Tag),
    /// The branch was moved away from the incumbent.
    Moved,
}

/// An outage of the agent for whose end the loop waits.
#[derive(Debug, Clone, Serialize)]
pub struct OutageStatus {
    /// Its cause.
    pub kind: OutageKind,
    /// The agent's message.
    pub said: String,
    /// When it started.
    #[serde(with = "crate::domain::millis")]
    pub since: Timestamp,
    /// When the loop calls the agent again.
    #[serde(rename = "until", with = "crate::domain::millis")]
    pub again: Timestamp,
}

/// A pause between two experiments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SleepStatus {
    /// When it ends.
    #[serde(with = "crate::domain::millis")]
    pub until: Timestamp,
    /// The reason for it, as a clause.
    pub why: String,
}

/// An open attempt of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptStatus {
    /// Its number.
    pub id: ExperimentId,
    /// Its description; empty while the agent works.
    pub description: String,
    /// Its step.
    pub phase: Phase,
    /// The slot of its run, or its last one; absent *in place* and before a run.
    pub slot: Option<u32>,
    /// The seat of the agent that works on it; absent *in place*.
    pub seat: Option<u32>,
    /// The run that it is for winners that wait; absent for an experiment of its own.
    pub trial: Option<Trial>,
    /// True if an earlier version of it was measured.
    #[serde(skip)]
    pub is_again: bool,
    /// When its agent, run or guard started; absent if none is active.
    #[serde(with = "crate::domain::millis::option")]
    pub since: Option<Timestamp>,
    /// The time that its agent, run or guard has been active, in seconds.
    pub elapsed: Option<f64>,
    /// Its time limit, in seconds.
    pub deadline: Option<f64>,
    /// The newest value in its run's log.
    #[serde(serialize_with = "value_of")]
    pub newest: Option<Number>,
    /// The number of fresh runs that it has while they decide on it; absent while a control is made.
    pub fresh: Option<u32>,
    /// True if the baseline runs again for it, to be compared with it.
    #[serde(skip)]
    pub is_of_baseline: bool,
    /// Repetitions of its run because another process was on its GPU.
    pub tainted: u32,
    /// The seconds that its run or guard has been waiting in the queue of an engine.
    pub queued: Option<f64>,
    /// Why it is not known to be in that queue: the engine does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_away: Option<String>,
}

fn value_of<S: Serializer>(number: &Option<Number>, serializer: S) -> Result<S::Ok, S::Error> {
    number.as_ref().map(|number| number.value).serialize(serializer)
}

impl AttemptStatus {
    /// Returns whether it has a commit and waits for a slot.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Committing && self.trial.is_none()
    }

    /// Returns whether it is a winner that waits for a train.
    pub fn is_winner(&self) -> bool {
        self.phase == Phase::Waiting && self.trial.is_none()
    }

    /// Returns whether an agent works on it in one of several seats.
    pub fn is_called(&self) -> bool {
        self.phase == Phase::Proposing && self.seat.is_some()
    }

    /// Returns whether it waits for an agent to merge or rework it. Meaningful with several seats only.
    pub fn needs_call(&self) -> bool {
        self.phase == Phase::Proposing && self.seat.is_none()
    }

    /// Returns whether it has a run or guards, which are active or have ended since somebody last looked.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Guarding | Phase::Confirming)
    }

    /// Returns whether it has a slot: for such a run, or as a recorded experiment that runs again.
    pub fn is_in_slot(&self) -> bool {
        self.is_running() || self.phase == Phase::Checking
    }

    /// Which fresh run decides on it next, in a few words; or that it awaits its control.
    pub fn confirming(&self) -> String {
        self.fresh.map_or("control".into(), |done| format!("confirm {}", next_fresh(done)))
    }

    /// Its step in a few words: that of a slot or seat.
    pub fn step(&self) -> String {
        let word = match self.phase {
            _ if self.engine_away.is_some() => "no answer",
            _ if self.queued.is_some() => "queued",
            Phase::Guarding => "guards",
            Phase::Confirming if self.is_of_baseline => "baseline",
            Phase::Confirming => return self.confirming(),
            Phase::Proposing => "agent",
            Phase::Reviewing => "review",
            Phase::Checking => "check",
            _ => "running",
        };
        word.to_owned()
    }
}

/// The fresh run that follows so many, and how many there are at most.
pub fn next_fresh(done: u32) -> String {
    format!("{} of {MAX_FRESH}", (done as usize + 1).min(MAX_FRESH))
}

/// The slots and seats of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LanesStatus {
    /// True if experiments are made and run side by side, instead of *in place*.
    pub is_concurrent: bool,
    /// The slots, by their numbers; *in place* one.
    pub slots: Vec<LaneStatus>,
    /// The seats, likewise.
    pub seats: Vec<LaneStatus>,
    /// The share of the time so far in which slots had a run; absent without runs.
    pub busy_share: Option<f64>,
    /// True if slots wait for agents although no more agents may work.
    pub calls_are_short: bool,
}

/// A slot or a seat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneStatus {
    /// The UUIDs of its GPUs, with commas; absent for a seat, and where nothing says them.
    #[serde(skip)]
    pub gpu: Option<String>,
    /// The attempt in it, with what is known of its run there; absent if it is idle.
    #[serde(skip)]
    pub attempt: Option<AttemptStatus>,
    /// The number of that.
    pub experiment: Option<ExperimentId>,
    /// Its step.
    pub phase: Phase,
    /// The same in a few words; absent if it is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// When its run or call started, if that is known.
    #[serde(with = "crate::domain::millis::option")]
    pub since: Option<Timestamp>,
    /// The expected time left, in seconds, by the durations of others and its time limit; absent once it takes longer
    /// than others did.
    pub left: Option<f64>,
    /// True if it takes longer than others did.
    #[serde(rename = "late")]
    pub is_late: bool,
}

/// The slots and seats with their attempts: one that has runs in several slots is there for each. `gpus` names the GPUs of
/// each slot, as far as they are known; `over` are the runs of open attempts that are over. `now` is absent if the session is
/// idle.
pub fn lanes_status(
    history: &History,
    layout: Option<&Layout>,
    attempts: &[AttemptStatus],
    over: &[Run],
    gpus: &[String],
    now: Option<Timestamp>,
) -> LanesStatus {
    let expected = Durations { run: expected_run(history), call: expected_call(history) };
    let capacity = layout.map(|layout| Capacity::of(Some(layout)));
    let in_slot =
        |open: &AttemptStatus| if layout.is_some() { open.slot } else { Some(0) }.filter(|_| open.is_in_slot());
    let in_seat = |open: &AttemptStatus| match layout {
        _ if open.phase != Phase::Proposing => None,
        Some(_) => open.seat,
        None => Some(0),
    };
    let lane = |lane: u32, place: &dyn Fn(&AttemptStatus) -> Option<u32>, takes: f64| {
        let open = attempts.iter().find(|open| place(open) == Some(lane));
        let elapsed = open.and_then(|open| open.elapsed);
        let left = elapsed.filter(|_| takes > 0.0).map(|elapsed| takes - elapsed);
        let is_late = left.is_some_and(|left| left <= 0.0);
        let limit = open.and_then(|open| open.deadline).zip(elapsed).map(|(limit, elapsed)| (limit - elapsed).max(0.0));
        LaneStatus {
            gpu: None,
            attempt: open.cloned(),
            experiment: open.map(|open| open.id),
            phase: open.map_or(Phase::Idle, |open| open.phase),
            doing: open.map(AttemptStatus::step),
            since: open.and_then(|open| open.since),
            left: left.filter(|_| !is_late).map(|left| limit.map_or(left, |limit| left.min(limit))),
            is_late,
        }
    };
    let count = |least: u32, place: &dyn Fn(&AttemptStatus) -> Option<u32>| {
        attempts.iter().filter_map(place).map(|lane| lane + 1).fold(least, u32::max)
    };
    let slots = count(layout.map_or(1, |layout| layout.slots), &in_slot);
    let seats = count(capacity.map_or(1, |capacity| call_limit(capacity, expected)), &in_seat);
    let slot = |slot: u32| LaneStatus {
        gpu: gpus.get(slot as usize).cloned(),
        ..lane(slot, &in_slot, expected.run.as_secs_f64())
    };
    let running = attempts.iter().filter(|open| in_slot(open).is_some()).filter_map(|open| open.since);
    LanesStatus {
        is_concurrent: TreeOwner::of(layout).is_one_of_many(),
        slots: (0..slots).map(slot).collect(),
        seats: (0..seats).map(|seat| lane(seat, &in_seat, expected.call.as_secs_f64())).collect(),
        busy_share: slots_so_far(history.records(), layout, over, running, now).busy_share,
        calls_are_short: capacity.is_some_and(|capacity| calls_are_short(capacity, expected)),
    }
}

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

/// A problem of an open experiment that its recovery does not solve. The first three are found when the journal is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTrouble {
    /// The journal names an open experiment at no step.
    Unnamed,
    /// Its number is taken, or was not given.
    Number,
    /// It has no commit, but should.
    NoCommit,
    /// It was not measured, but should be.
    NoDraft,
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
    if !found.is_free && !recorded {
        return Some(OpenTrouble::Number);
    }
    if !is_there(base) {
        return Some(OpenTrouble::LostBase);
    }
    match commit {
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
    use serde_json::json;

    use super::*;
    use crate::rules::sample::{record, run};

    fn open(id: u32, phase: Phase) -> AttemptStatus {
        AttemptStatus {
            id: id.into(),
            phase,
            slot: None,
            seat: None,
            trial: None,
            description: String::new(),
            is_again: false,
            since: Some("2026-11-20T22:05:00Z".parse().unwrap()),
            elapsed: Some(60.0),
            deadline: Some(600.0),
            newest: None,
            fresh: None,
            is_of_baseline: false,
            tainted: 0,
            queued: None,
            engine_away: None,
        }
    }

    fn history() -> History {
        History::new(vec![record(json!({"runs": [run(300.0, None)], "agent": {"command": "a", "seconds": 40.0}}))])
    }

    fn seen(layout: Option<&Layout>, attempts: &[AttemptStatus]) -> LanesStatus {
        let gpus = ["GPU-1".to_owned()];
        lanes_status(&history(), layout, attempts, &[], &gpus, Some("2026-11-20T22:10:00Z".parse().unwrap()))
    }

    fn shown(lanes: &[LaneStatus]) -> Vec<Option<(u32, Option<f64>)>> {
        lanes.iter().map(|lane| Some((lane.experiment?.number(), lane.left))).collect()
    }

    #[test]
    fn in_place_there_is_one_slot_and_one_seat() {
        let running = seen(None, &[open(1, Phase::Running)]);
        assert_eq!((shown(&running.slots), shown(&running.seats)), (vec![Some((1, Some(240.0)))], vec![None]));
        assert_eq!((running.is_concurrent, running.busy_share), (false, Some(1.0)));
        let proposing = seen(None, &[open(1, Phase::Proposing)]);
        assert_eq!((shown(&proposing.slots), shown(&proposing.seats)), (vec![None], vec![Some((1, None))]));
        assert!(proposing.seats[0].is_late && !running.slots[0].is_late, "others took 40 s");
        let first = lanes_status(&History::default(), None, &[open(0, Phase::Running)], &[], &[], None);
        assert!(!first.slots[0].is_late, "nobody knows how long it takes");
        let close = AttemptStatus { deadline: Some(70.0), ..open(1, Phase::Running) };
        assert_eq!(shown(&seen(None, &[close]).slots), [Some((1, Some(10.0)))], "it has no more time than its limit");
    }

    #[test]
    fn an_attempt_is_where_its_step_takes_place() {
        let attempts = [
            AttemptStatus { slot: Some(1), ..open(3, Phase::Running) },
            AttemptStatus { seat: Some(2), ..open(4, Phase::Proposing) },
            open(5, Phase::Committing),
            AttemptStatus { slot: Some(0), ..open(6, Phase::Waiting) },
        ];
        let lanes = seen(Some(&Layout { calls: Some(1), ..Layout::of(2) }), &attempts);
        assert_eq!(shown(&lanes.slots), [None, Some((3, Some(240.0)))]);
        assert_eq!(shown(&lanes.seats), [None, None, Some((4, None))]);
        assert_eq!((lanes.slots[0].gpu.as_deref(), lanes.slots[1].gpu.as_deref()), (Some("GPU-1"), None));
        assert!(attempts[2].is_ready() && attempts[3].is_winner());
        // One slot was busy for five of ten minutes, the other for the last five.
        assert_eq!((lanes.busy_share, lanes.calls_are_short), (Some(0.5), false));
        let mut over: Run = serde_json::from_value(run(150.0, None)).unwrap();
        over.commit = Some(CommitId::new("c"));
        let over = [over];
        let now = Some("2026-11-20T22:10:00Z".parse().unwrap());
        let both = lanes_status(&history(), Some(&Layout::of(2)), &attempts[..1], &over, &[], now);
        assert_eq!(both.busy_share, Some(0.625), "a run of an open attempt that is over counts");
        assert!(seen(Some(&Layout { calls: Some(1), ..Layout::of(16) }), &[]).calls_are_short);
    }

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
        let judge = |(id, commit, base): (u32, _, _)| {
            let recorded = (id == 2).then_some(&change);
            let open = (commit, base);
            let found = OpenFound { open, is_free: id == 3, is_last: id == 2, recorded, tip: &tip };
            judge_open(found, |commit| *commit != lost, |commit, _| *commit != stray)
        };
        let change_of_3 = (3, Some(&change), &tip);
        for (open, trouble) in [
            ((3, None, &tip), None),
            (change_of_3, None),
            ((2, Some(&change), &change), None),
            ((1, Some(&change), &tip), Some(OpenTrouble::Number)),
            ((4, Some(&change), &tip), Some(OpenTrouble::Number)),
            ((3, Some(&lost), &tip), Some(OpenTrouble::LostCommit)),
            ((3, None, &lost), Some(OpenTrouble::LostBase)),
            ((3, Some(&change), &change), Some(OpenTrouble::OtherBase)),
            ((3, Some(&stray), &tip), Some(OpenTrouble::OtherParent)),
            ((2, Some(&tip), &tip), Some(OpenTrouble::OtherCommit)),
        ] {
            assert_eq!(judge(open), trouble, "{open:?}");
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
