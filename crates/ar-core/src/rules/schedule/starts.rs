//! The next runs on slots, and the next agent calls in seats.
//!
//! The scheduler is a pure function of the open attempts, the free slots and seats, the demand, and the remaining
//! budgets. There are no batches: a ready run starts once a slot is free. Runs of trains come first, then new ones in
//! the order in which they became ready. Fresh runs that confirm a candidate belong between the two.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::domain::{ExperimentId, Layout, Phase};
use crate::rules::decide::{CheckReason, Trial};

/// The most agents at a time by default: more of them mostly hit the rate limit of their service.
const MOST_CALLS: u32 = 4;

/// The share of an expected run by which several slots end earlier before a deadline: half of all runs take longer than
/// expected, and the last train has to start after them.
const SPARE: u32 = 20;

/// The capacity for runs and agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The number of slots.
    pub slots: u32,
    /// The number of proposals that may wait, ready to run, beyond the free slots.
    pub ahead: u32,
    /// The most agents at a time; by default [`calls_that_feed`] the slots.
    pub calls: Option<u32>,
}

impl Capacity {
    /// The capacity of a layout; *in place* one slot and one seat, in the same tree.
    pub fn of(layout: Option<&Layout>) -> Capacity {
        match layout {
            Some(Layout { slots, ahead, calls, .. }) => Capacity { slots: *slots, ahead: *ahead, calls: *calls },
            None => Capacity { slots: 1, ahead: 0, calls: Some(1) },
        }
    }
}

/// The work that may still start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Everything.
    New,
    /// No new attempt: those that are open go on to their end, agents included. *In place* one at most is open.
    Started,
    /// No agent: open attempts run, and winners finish. Holds in an outage, and after a budget of the agent's is spent.
    Open,
    /// Winners only: the goal is reached.
    Winners,
    /// Nothing: the user asked to stop.
    Nothing,
}

/// The place of an open attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptPlace {
    /// An agent works on it in this seat.
    Seat(u32),
    /// It needs another call: to fix or rework it, or to merge it with the incumbent.
    NeedsCall,
    /// It is ready to run.
    Ready,
    /// Its run or a guard is executed in a slot.
    Slot,
    /// It is a winner: it waits for a train, or rides one.
    Winner,
}

/// An attempt that is not recorded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingAttempt {
    /// Its number.
    pub id: ExperimentId,
    /// Its place.
    pub place: AttemptPlace,
}

/// The work of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotWork {
    /// A run that the winners ask for, with its guards.
    Trial(Trial),
    /// An attempt's own run, with its guards.
    Run(ExperimentId),
    /// The incumbent, once again.
    Check(CheckReason),
}

impl SlotWork {
    /// The reason for a check of the incumbent.
    pub fn check(&self) -> Option<CheckReason> {
        match self {
            SlotWork::Check(reason) => Some(*reason),
            SlotWork::Trial(_) | SlotWork::Run(_) => None,
        }
    }
}

/// A busy slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusySlot {
    /// The slot, from 0.
    pub slot: u32,
    /// Its work.
    pub work: SlotWork,
    /// The expected time left; zero once it takes longer than expected.
    pub left: Duration,
}

/// Expected durations; zero if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// The duration of a run with its guards.
    pub run: Duration,
    /// The duration of an agent call.
    pub call: Duration,
}

/// The remaining budgets; `None` without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budgets {
    /// The experiments that may still be recorded, open ones included.
    pub experiments: Option<u32>,
    /// The time until the deadline.
    pub time: Option<Duration>,
}

impl Budgets {
    fn fit(&self, needed: Duration) -> bool {
        self.time.is_none_or(|left| !left.is_zero() && needed <= left)
    }
}

/// All that the scheduler knows.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Slots and seats.
    pub layout: Capacity,
    /// The work that may still start.
    pub demand: Demand,
    /// The open attempts. Ready ones run in this order.
    pub attempts: &'a [PendingAttempt],
    /// The busy slots.
    pub running: &'a [BusySlot],
    /// The runs that the winners want now, also those in progress; from `LineStep::Try`.
    pub trials: &'a [Trial],
    /// The reason for a check of the incumbent that is due and not yet made.
    pub check_due: Option<CheckReason>,
    /// Expected durations.
    pub expected: Durations,
    /// The remaining budgets.
    pub budgets: Budgets,
}

impl Situation<'_> {
    /// Returns whether a check may begin. One that only the schedule asks for waits for an open attempt where that has the
    /// only working tree, and begins only if it is expected to end in time.
    fn may_check(&self, reason: CheckReason) -> bool {
        let is_in_the_way = self.layout.slots == 1 && self.layout.ahead == 0 && !self.attempts.is_empty();
        let may_wait = is_in_the_way || !self.budgets.fit(self.expected.run);
        self.demand == Demand::New && (reason.holds_up_others() || !may_wait)
    }

    /// The expected time from the start of a new run until all that waits for it has ended.
    fn new_run(&self) -> Duration {
        let run = self.expected.run;
        if self.layout.slots > 1 { run + run + run / SPARE } else { run }
    }

    /// The calls to start beside so many `free` slots and `ready` runs that found none, and the budget that prevents new
    /// attempts.
    fn calls(&self, demand: Demand, free: usize, ready: usize) -> (Vec<CallStart>, Option<Bar>) {
        let Situation { layout, attempts, running, expected, budgets, .. } = *self;
        let mut calls = Vec::new();
        if !matches!(demand, Demand::New | Demand::Started) {
            return (calls, None);
        }
        let used: BTreeSet<u32> = attempts.iter().filter_map(|attempt| seat_of(attempt.place)).collect();
        let left = (call_limit(layout, expected) as usize).saturating_sub(used.len());
        let mut seats = (0..=u32::MAX).filter(|seat| !used.contains(seat)).take(left);
        let is_in_time = budgets.fit(expected.call + self.new_run());
        let called = || attempts.iter().filter(|attempt| attempt.place == AttemptPlace::NeedsCall);
        if is_in_time {
            calls.extend(called().zip(seats.by_ref()).map(|(it, seat)| CallStart { seat, attempt: Some(it.id) }));
        }
        // If one agent does not keep up, a call may also fill a slot that becomes free before the call ends. If one
        // does, the next call waits for the result.
        let counts_soon = layout.ahead > 0 && agents_needed(layout, expected).is_some_and(|needed| needed > 1.0);
        let soon = running.iter().filter(|busy| counts_soon && busy.left <= expected.call).count();
        let room = free + soon + layout.ahead as usize;
        let wanted = match demand {
            Demand::New => room.saturating_sub(ready + used.len() + called().count()),
            _ => 0,
        };
        let allowed = budgets.experiments.map(|left| (left as usize).saturating_sub(attempts.len()));
        if wanted > 0 && allowed == Some(0) {
            return (calls, Some(Bar::Experiments));
        }
        if wanted > 0 && !is_in_time {
            return (calls, Some(Bar::Time));
        }
        let count = wanted.min(allowed.unwrap_or(usize::MAX));
        calls.extend(seats.take(count).map(|seat| CallStart { seat, attempt: None }));
        (calls, None)
    }
}

/// A run to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The free slot.
    pub slot: u32,
    /// Its work.
    pub work: SlotWork,
}

/// An agent call to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallStart {
    /// The free seat, from 0.
    pub seat: u32,
    /// The open attempt to work on; absent for a new one.
    pub attempt: Option<ExperimentId>,
}

/// Which budget allows no new attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bar {
    /// The budget of experiments.
    Experiments,
    /// The budget of time.
    Time,
}

/// The runs and calls to start now, and the runs to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts {
    /// Slots whose run of a train nobody waits for: another half was kept.
    pub stops: Vec<u32>,
    /// The runs to start.
    pub starts: Vec<Start>,
    /// The calls to start.
    pub calls: Vec<CallStart>,
    /// The most agents at a time.
    pub call_limit: u32,
    /// True if the slots could run more than that many agents can propose.
    pub calls_are_short: bool,
    /// The budget that prevents a new attempt although a place is free.
    pub bar: Option<Bar>,
}

impl Starts {
    /// Returns whether there is nothing to do. If no slot and no seat is busy either, the loop is done.
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty() && self.starts.is_empty() && self.calls.is_empty()
    }
}

/// Plans what to start and stop now.
///
/// The incumbent's check takes one free slot. After crashes, nothing starts beside it. Nothing starts unless it is expected to end
/// in time. With several slots, new runs leave time for one last train, which waits for them. With one slot, no run
/// becomes stale.
pub fn schedule(situation: &Situation) -> Starts {
    let Situation { layout, demand, attempts, running, trials, check_due, expected, budgets } = *situation;
    let fits = |needed: Duration| budgets.fit(needed);
    let train = expected.run;
    // Two trains may not fit any more: then the last one waits for the runs that end before it has to start.
    let is_awaited = |busy: &&BusySlot| matches!(busy.work, SlotWork::Run(_)) && !busy.left.is_zero();
    let last_run = running.iter().filter(is_awaited).map(|busy| busy.left).max();
    let waits_for_runs = !fits(train + train) && last_run.is_some_and(|left| fits(left + train));

    let busy: BTreeSet<u32> = running.iter().map(|busy| busy.slot).collect();
    let mut free: Vec<u32> = (0..layout.slots).filter(|slot| !busy.contains(slot)).collect();
    let runs = |trial: &Trial| running.iter().any(|busy| matches!(&busy.work, SlotWork::Trial(it) if it == trial));
    let mut starts = Vec::new();
    let checked = running.iter().find_map(|busy| busy.work.check());
    let begins = check_due.filter(|reason| checked.is_none() && situation.may_check(*reason));
    if let Some(reason) = begins
        && !free.is_empty()
    {
        starts.push(Start { slot: free.remove(0), work: SlotWork::Check(reason) });
    }
    // Whatever starts beside a check after crashes might crash for the same cause.
    let is_alone = checked.or(begins).is_some_and(CheckReason::holds_up_others);
    let demand = if is_alone { Demand::Nothing } else { demand };
    if demand != Demand::Nothing {
        let is_in_time = fits(train) && !waits_for_runs;
        let wanted: Vec<&Trial> = trials.iter().filter(|trial| is_in_time && !runs(trial)).collect();
        let taken = wanted.len().min(free.len());
        let started = wanted.into_iter().zip(free.drain(..taken));
        starts.extend(started.map(|(trial, slot)| Start { slot, work: SlotWork::Trial(trial.clone()) }));
    }
    let ready = || attempts.iter().filter(|attempt| attempt.place == AttemptPlace::Ready);
    let mut ready_left = ready().count();
    if matches!(demand, Demand::New | Demand::Started | Demand::Open) && fits(situation.new_run()) {
        let before = starts.len();
        let taken = ready_left.min(free.len());
        let runs = ready().zip(free.drain(..taken));
        starts.extend(runs.map(|(attempt, slot)| Start { slot, work: SlotWork::Run(attempt.id) }));
        ready_left -= starts.len() - before;
    }

    let (calls, bar) = situation.calls(demand, free.len(), ready_left);
    let is_overtaken = |busy: &&BusySlot| matches!(&busy.work, SlotWork::Trial(trial) if !trials.contains(trial));
    Starts {
        stops: running.iter().filter(is_overtaken).map(|busy| busy.slot).collect(),
        starts,
        calls,
        call_limit: call_limit(layout, expected),
        calls_are_short: calls_are_short(layout, expected),
        bar,
    }
}

/// The most agents at a time that a layout can have, at least 1.
pub fn most_calls(layout: &Layout) -> u32 {
    let fed = layout.slots.saturating_add(layout.ahead).min(MOST_CALLS);
    layout.calls.unwrap_or(fed).max(1)
}

/// The most agents that may work at a time.
pub fn call_limit(layout: Capacity, expected: Durations) -> u32 {
    layout.calls.unwrap_or_else(|| calls_that_feed(layout, expected))
}

/// Returns whether slots wait for agents although no more agents may work: calls are the bottleneck. False while a
/// duration is unknown.
pub fn calls_are_short(layout: Capacity, expected: Durations) -> bool {
    agents_needed(layout, expected).is_some_and(|needed| needed > f64::from(call_limit(layout, expected)))
}

/// The number of agents that keeps the slots fed, at most 4. Before both durations are known, it is one for each
/// proposal that may be needed.
pub fn calls_that_feed(layout: Capacity, expected: Durations) -> u32 {
    let most = layout.slots.saturating_add(layout.ahead).min(MOST_CALLS);
    // One more than are busy on average: call times vary. A float becomes an integer by saturation.
    agents_needed(layout, expected).map_or(most, |needed| (needed as u32).saturating_add(1).min(most))
}

/// The mean number of busy agents if no slot waits; `None` if a duration is unknown.
fn agents_needed(layout: Capacity, expected: Durations) -> Option<f64> {
    let (run, call) = (expected.run.as_secs_f64(), expected.call.as_secs_f64());
    (run > 0.0 && call > 0.0).then(|| f64::from(layout.slots) * call / run)
}

fn seat_of(place: AttemptPlace) -> Option<u32> {
    match place {
        AttemptPlace::Seat(seat) => Some(seat),
        _ => None,
    }
}

/// An attempt that is open when the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenAtEnd {
    /// The journal's step.
    pub phase: Phase,
    /// True for a run that waiting winners need and for a second look, false for a change that is new.
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
pub fn shelve(left: OpenAtEnd) -> Shelved {
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
mod shelving_tests {
    use super::*;

    #[test]
    fn what_was_measured_is_recorded_when_the_loop_ends_and_what_was_proposed_becomes_an_idea() {
        let draft = |left| OpenAtEnd { has_draft: true, ..left };
        let asked = |left| OpenAtEnd { is_asked: true, ..left };
        let no_commit = |left| OpenAtEnd { has_commit: false, ..left };
        for (left, shelved) in [
            (no_commit(left_in(Phase::Proposing)), Shelved::Closed),
            (asked(left_in(Phase::Proposing)), Shelved::Idea),
            (no_commit(draft(left_in(Phase::Proposing))), Shelved::Recorded),
            (asked(draft(left_in(Phase::Proposing))), Shelved::Recorded),
            (OpenAtEnd { is_sound: true, ..asked(draft(left_in(Phase::Proposing))) }, Shelved::Waits),
            (left_in(Phase::Committing), Shelved::Idea),
            (draft(left_in(Phase::Committing)), Shelved::Recorded),
            (OpenAtEnd { is_queued: true, ..left_in(Phase::Committing) }, Shelved::Stays),
            (OpenAtEnd { is_queued: true, ..left_in(Phase::Proposing) }, Shelved::Idea),
            (OpenAtEnd { is_queued: true, ..draft(left_in(Phase::Committing)) }, Shelved::Recorded),
            (OpenAtEnd { is_queued: true, is_trial: true, ..left_in(Phase::Committing) }, Shelved::Closed),
            (OpenAtEnd { is_trial: true, ..left_in(Phase::Committing) }, Shelved::Closed),
            (OpenAtEnd { is_trial: true, ..draft(left_in(Phase::Committing)) }, Shelved::Closed),
            (OpenAtEnd { is_trial: true, ..draft(left_in(Phase::Proposing)) }, Shelved::Closed),
            (draft(left_in(Phase::Waiting)), Shelved::Stays),
            (left_in(Phase::Running), Shelved::Stays),
        ] {
            assert_eq!(shelve(left), shelved, "{left:?}");
        }
    }

    fn left_in(phase: Phase) -> OpenAtEnd {
        OpenAtEnd {
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

#[cfg(test)]
#[path = "starts_tests.rs"]
mod tests;
