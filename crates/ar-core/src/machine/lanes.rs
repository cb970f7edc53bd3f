//! What the loop has under way: the jobs in its slots and seats, its reviews, and what it knows of calls and checks to come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Attempt;
use crate::domain::{ExperimentId, Phase};
use crate::rules::{AttemptPlace, BusySlot, CheckReason, LOST_RETRIES, PendingAttempt, SlotWork, check_due};

/// The jobs that the loop has under way. A slot or a seat is busy until its job ends, also after its attempt is closed.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    slots: BTreeMap<u32, SlotJob>,
    seats: BTreeMap<u32, ExperimentId>,
    reviews: BTreeSet<ExperimentId>,
    /// The attempts that wait for a slot, in the order in which they became ready.
    ready: Vec<ExperimentId>,
    /// What is known of the next calls.
    pub calls: NextCalls,
    /// What is known of the next check.
    pub checks: NextCheck,
}

/// The job of a slot.
#[derive(Debug, Clone)]
struct SlotJob {
    id: ExperimentId,
    work: SlotWork,
    /// When it began, on the clock of the loop.
    began: Duration,
}

impl Lanes {
    /// The lanes of a loop that begins, with what is known of its next check.
    pub fn new(checks: NextCheck) -> Self {
        Lanes { checks, ..Lanes::default() }
    }

    /// Notes that a slot got work for an attempt.
    pub fn begin_run(&mut self, slot: u32, id: ExperimentId, work: SlotWork, now: Duration) {
        self.ready.retain(|ready| *ready != id);
        self.slots.insert(slot, SlotJob { id, work, began: now });
    }

    /// Notes that the job of a slot ended.
    pub fn end_run(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }

    /// The attempt in a slot.
    pub fn in_slot(&self, slot: u32) -> Option<ExperimentId> {
        self.slots.get(&slot).map(|job| job.id)
    }

    fn has_slot(&self, id: ExperimentId) -> bool {
        self.slots.values().any(|job| job.id == id)
    }

    /// The experiments whose changes are run now.
    pub fn experiments(&self) -> Vec<ExperimentId> {
        let of = |job: &SlotJob| match &job.work {
            SlotWork::Run(id) => vec![*id],
            SlotWork::Trial(trial) => trial.cars().to_vec(),
            SlotWork::Check(_) => Vec::new(),
        };
        self.slots.values().flat_map(of).collect()
    }

    /// Returns whether a check is under way beside which nothing else may begin.
    pub fn is_held_up(&self) -> bool {
        self.slots.values().filter_map(|job| job.work.check()).any(CheckReason::holds_up_others)
    }

    /// The busy slots. A run is expected to take `run`.
    pub fn busy(&self, run: Duration, now: Duration) -> Vec<BusySlot> {
        let busy = |(slot, job): (&u32, &SlotJob)| BusySlot {
            slot: *slot,
            work: job.work.clone(),
            left: run.saturating_sub(now.saturating_sub(job.began)),
        };
        self.slots.iter().map(busy).collect()
    }

    /// Notes that an agent is called in a seat, for text alone if it `is_for_text`.
    pub fn begin_call(&mut self, seat: u32, id: ExperimentId, is_for_text: bool) {
        self.seats.insert(seat, id);
        if is_for_text {
            self.calls.text = Some(seat);
        }
    }

    /// Notes that the call in a seat ended. Returns its attempt.
    pub fn end_call(&mut self, seat: u32) -> Option<ExperimentId> {
        self.calls.text.take_if(|text| *text == seat);
        self.seats.remove(&seat)
    }

    /// Notes that an attempt waits for a slot.
    pub fn await_slot(&mut self, id: ExperimentId) {
        if !self.ready.contains(&id) {
            self.ready.push(id);
        }
    }

    /// Returns whether the review of an attempt is to begin, and notes that it does. *In place* the review is a part of what
    /// the slot does.
    pub fn begin_review(&mut self, id: ExperimentId) -> bool {
        !self.has_slot(id) && self.reviews.insert(id)
    }

    /// Notes that the review of an attempt ended.
    pub fn end_review(&mut self, id: ExperimentId) {
        self.reviews.remove(&id);
    }

    /// The open attempts with their places; the ready ones first, in the order in which they run. Trials have none.
    pub fn places<'a>(&self, open: impl Iterator<Item = &'a Attempt>) -> Vec<PendingAttempt> {
        let place = |attempt: &Attempt| {
            let id = attempt.id();
            let seat = self.seats.iter().find(|(_, called)| **called == id).map(|(seat, _)| *seat);
            match (seat, attempt.phase()) {
                (Some(seat), _) => AttemptPlace::Seat(seat),
                // A refused attempt keeps its earlier step while it is in a slot.
                _ if self.has_slot(id) => AttemptPlace::Slot,
                (None, Phase::Proposing) => AttemptPlace::NeedsCall,
                (None, Phase::Committing) => AttemptPlace::Ready,
                (None, Phase::Waiting | Phase::Reviewing) => AttemptPlace::Winner,
                (None, _) => AttemptPlace::Slot,
            }
        };
        let own = open.filter(|attempt| attempt.trial().is_none());
        let mut places: Vec<PendingAttempt> =
            own.map(|attempt| PendingAttempt { id: attempt.id(), place: place(attempt) }).collect();
        let is_open = |id: ExperimentId| places.iter().any(|pending| pending.id == id);
        let closed = self.seats.iter().filter(|(_, id)| !is_open(**id));
        let closed: Vec<PendingAttempt> =
            closed.map(|(seat, id)| PendingAttempt { id: *id, place: AttemptPlace::Seat(*seat) }).collect();
        places.extend(closed);
        places.sort_by_key(|pending| self.ready.iter().position(|id| *id == pending.id));
        places
    }
}

/// The permission to start new calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum CallPermit {
    /// Refused until the wait is over, which has not begun.
    #[default]
    None,
    /// The wait is under way.
    Awaited,
    /// New calls may start.
    Given,
}

/// The wait before new calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallWait {
    /// The duration in seconds of the last call, if that changed nothing and a pause follows it.
    pub idle: Option<f64>,
    /// Whether the pause of the cadence may have begun in an earlier process; `None` if it is not made now.
    pub paced: Option<bool>,
}

/// What is known of the next calls.
#[derive(Debug, Clone, Default)]
pub struct NextCalls {
    /// The seat in which an agent is asked for text.
    text: Option<u32>,
    permit: CallPermit,
    /// The duration of the last call in seconds, if it changed nothing.
    idle: Option<f64>,
    /// True once a pause of the cadence began in this loop.
    has_rested: bool,
    /// True while the loop waits for an outage to end.
    waits: bool,
    /// Calls in a row whose shims were killed.
    lost: u32,
}

impl NextCalls {
    /// Returns whether an agent is asked for text now.
    pub fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Returns whether new calls may start now. The permission ends when no new call is `wanted`.
    pub fn may_start(&mut self, is_wanted: bool) -> bool {
        if !is_wanted && self.permit == CallPermit::Given {
            self.permit = CallPermit::None;
        }
        self.permit == CallPermit::Given
    }

    /// Begins the wait before new calls, unless it is under way. Those for text alone are not paced.
    pub fn begin_wait(&mut self, is_for_text: bool) -> Option<CallWait> {
        if self.permit != CallPermit::None {
            return None;
        }
        self.permit = CallPermit::Awaited;
        let idle = self.idle.take();
        let is_paced = idle.is_none() && !is_for_text;
        let paced = is_paced.then(|| !std::mem::replace(&mut self.has_rested, true));
        Some(CallWait { idle, paced })
    }

    /// Notes that the wait is over, and whether new calls may start.
    pub fn end_wait(&mut self, may_start: bool) {
        self.permit = if may_start { CallPermit::Given } else { CallPermit::None };
    }

    /// Notes that a new call started: the next one waits again.
    pub fn started(&mut self) {
        self.permit = CallPermit::None;
    }

    /// Notes a call of so many seconds that changed nothing. One pause serves all calls that end before it is over.
    pub fn was_idle(&mut self, seconds: f64) {
        if self.permit != CallPermit::Awaited {
            self.idle = Some(seconds);
        }
    }

    /// Returns whether the loop waits for an outage to end.
    pub fn is_out(&self) -> bool {
        self.waits
    }

    /// Notes whether the loop waits for an outage to end. Returns whether that is new.
    pub fn wait_out(&mut self, waits: bool) -> bool {
        std::mem::replace(&mut self.waits, waits) != waits
    }

    /// Notes that the shim of a call was killed, or that a call ended otherwise. Returns whether that happened too often in a
    /// row; one cause may kill the calls in all seats at once.
    pub fn note_lost(&mut self, is_lost: bool, most_calls: u32) -> bool {
        let is_too_often = is_lost && self.lost == LOST_RETRIES * most_calls;
        self.lost = if is_lost { self.lost + u32::from(!is_too_often) } else { 0 };
        is_too_often
    }
}

/// What is known of the next check of the incumbent.
#[derive(Debug, Clone, Default)]
pub struct NextCheck {
    /// Number of crashes in a row when the incumbent was last checked.
    crashes_seen: u32,
    /// The sequence of the next record when it was.
    checked_before: Option<u32>,
}

impl NextCheck {
    /// The state of a loop that begins after so many crashes in a row. A check that an earlier process made is not made again,
    /// unless it gave no number.
    pub fn new(crashes: u32, is_made: bool) -> Self {
        NextCheck { crashes_seen: if is_made { crashes } else { crashes.saturating_sub(1) }, checked_before: None }
    }

    /// Notes the number of crashes in a row: after another result it begins anew.
    pub fn look(&mut self, crashes: u32) {
        self.crashes_seen = self.crashes_seen.min(crashes);
    }

    /// Notes that a check begins.
    pub fn begin(&mut self, crashes: u32, next_sequence: u32) {
        (self.crashes_seen, self.checked_before) = (crashes, Some(next_sequence));
    }

    /// The reason for a check. One begun by this loop is not due again before the next record.
    pub fn due(&self, crashes: u32, next_sequence: u32, is_scheduled: impl FnOnce() -> bool) -> Option<CheckReason> {
        let is_new = self.checked_before != Some(next_sequence);
        check_due(crashes, self.crashes_seen, is_new && is_scheduled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CommitId;
    use crate::machine::{AttemptHead, Made, Origin};
    use crate::rules::{CRASHES_TO_CHECK, Trial};

    const RUN: Duration = Duration::from_secs(300);

    fn head(id: u32) -> AttemptHead {
        AttemptHead::new(id.into(), CommitId::new("a".repeat(40)), jiff::Timestamp::UNIX_EPOCH)
    }

    fn made(id: u32) -> Made {
        Made { head: head(id), ..Made::default() }
    }

    fn places(lanes: &Lanes, open: &[Attempt]) -> Vec<(u32, AttemptPlace)> {
        lanes.places(open.iter()).into_iter().map(|pending| (pending.id.number(), pending.place)).collect()
    }

    #[test]
    fn an_attempt_is_where_its_job_is_and_ready_ones_run_in_the_order_in_which_they_became_so() {
        let trial = Origin::Trial { trial: Trial::Afresh(1.into()), chain: Vec::new() };
        let open = [
            Attempt::Ready(made(2)),
            Attempt::Ready(made(3)),
            Attempt::Call(head(4)),
            Attempt::Call(head(5)),
            Attempt::Ready(made(6)),
            Attempt::Run(Made { head: AttemptHead { origin: trial, ..head(7) }, ..Made::default() }),
        ];
        let mut lanes = Lanes::default();
        lanes.await_slot(3.into());
        lanes.await_slot(2.into());
        lanes.await_slot(3.into());
        lanes.begin_call(1, 4.into(), false);
        lanes.begin_call(0, 9.into(), true);
        lanes.begin_run(0, 6.into(), SlotWork::Run(6.into()), Duration::ZERO);
        let mut seen = places(&lanes, &open);
        assert_eq!(seen.split_off(4), [(3, AttemptPlace::Ready), (2, AttemptPlace::Ready)]);
        assert_eq!(
            seen,
            [
                (4, AttemptPlace::Seat(1)),
                (5, AttemptPlace::NeedsCall),
                (6, AttemptPlace::Slot),
                (9, AttemptPlace::Seat(0)),
            ],
            "a refused attempt is in its slot, and a seat is busy after its attempt is closed"
        );
        assert!(lanes.calls.has_text());
        assert_eq!((lanes.end_call(0), lanes.calls.has_text(), lanes.end_call(0)), (Some(9.into()), false, None));
    }

    #[test]
    fn a_slot_is_busy_until_its_job_ends() {
        let mut lanes = Lanes::default();
        let train = Trial::Train { on: 1.into(), cars: vec![2.into(), 3.into()] };
        lanes.begin_run(0, 4.into(), SlotWork::Trial(train), Duration::from_secs(10));
        lanes.begin_run(1, ExperimentId::BASELINE, SlotWork::Check(CheckReason::Schedule), Duration::from_secs(10));
        let left = |lanes: &Lanes, now| lanes.busy(RUN, now).iter().map(|busy| busy.left.as_secs()).collect::<Vec<_>>();
        assert_eq!(left(&lanes, Duration::from_secs(110)), [200, 200]);
        assert_eq!(left(&lanes, Duration::from_secs(900)), [0, 0]);
        assert_eq!((lanes.experiments(), lanes.in_slot(0)), (vec![2.into(), 3.into()], Some(4.into())));
        assert!(!lanes.is_held_up());
        lanes.begin_run(1, ExperimentId::BASELINE, SlotWork::Check(CheckReason::Crashes(3)), Duration::ZERO);
        assert!(lanes.is_held_up());
        lanes.end_run(1);
        assert!(!lanes.is_held_up() && lanes.in_slot(1).is_none());
        assert!(!lanes.begin_review(4.into()), "in place its slot reviews it");
        assert!(lanes.begin_review(5.into()) && !lanes.begin_review(5.into()));
        lanes.end_review(5.into());
        assert!(lanes.begin_review(5.into()));
    }

    #[test]
    fn new_calls_wait_once_for_what_comes_before_them() {
        let mut calls = NextCalls::default();
        assert!(!calls.may_start(true));
        assert_eq!(calls.begin_wait(false), Some(CallWait { idle: None, paced: Some(true) }));
        assert_eq!(calls.begin_wait(false), None, "it is under way");
        calls.was_idle(3.0);
        calls.end_wait(true);
        assert!(calls.may_start(true));
        calls.started();
        calls.was_idle(4.0);
        assert_eq!(calls.begin_wait(false), Some(CallWait { idle: Some(4.0), paced: None }), "one pause serves both");
        calls.end_wait(false);
        assert_eq!(calls.begin_wait(true), Some(CallWait { idle: None, paced: None }));
        calls.end_wait(true);
        assert!(!calls.may_start(false) && !calls.may_start(true), "nobody needed the permission");
        assert_eq!(calls.begin_wait(false), Some(CallWait { idle: None, paced: Some(false) }));
    }

    #[test]
    fn calls_that_are_lost_in_a_row_end_the_loop_and_an_outage_is_waited_for_once() {
        let mut calls = NextCalls::default();
        let most = LOST_RETRIES * 2;
        assert!((0..most).all(|_| !calls.note_lost(true, 2)) && calls.note_lost(true, 2));
        assert!(!calls.note_lost(false, 2) && !calls.note_lost(true, 2));
        assert!(calls.wait_out(true) && !calls.wait_out(true) && calls.is_out());
        assert!(calls.wait_out(false) && !calls.is_out());
    }

    #[test]
    fn a_check_is_due_once_after_crashes_and_once_by_the_schedule() {
        let crashes = CRASHES_TO_CHECK;
        let mut checks = NextCheck::new(crashes - 1, true);
        assert_eq!(checks.due(crashes - 1, 7, || false), None);
        assert_eq!(checks.due(crashes, 7, || true), Some(CheckReason::Crashes(crashes)));
        checks.begin(crashes, 7);
        assert_eq!(checks.due(crashes, 7, || true), None, "the next record may ask again");
        assert_eq!(checks.due(crashes, 8, || true), Some(CheckReason::Schedule));
        checks.look(0);
        assert_eq!(checks.due(crashes, 8, || false), Some(CheckReason::Crashes(crashes)), "others came between");
        let of_earlier = |is_made| NextCheck::new(crashes, is_made).due(crashes, 7, || false).is_some();
        assert_eq!([true, false].map(of_earlier), [false, true]);
    }
}
