//! The scheduler, for situations of each kind and for random ones.

use proptest::prelude::*;

use super::*;

const RUN: u64 = 300;
const CALL: u64 = 90;

/// A situation in its own words.
#[derive(Debug, Clone)]
struct Now {
    layout: Capacity,
    demand: Demand,
    attempts: Vec<PendingAttempt>,
    running: Vec<BusySlot>,
    trials: Vec<Trial>,
    check_due: Option<CheckReason>,
    expected: Durations,
    budgets: Budgets,
}

fn now(slots: u32, ahead: u32) -> Now {
    Now {
        layout: Capacity { slots, ahead, calls: None },
        demand: Demand::New,
        attempts: Vec::new(),
        running: Vec::new(),
        trials: Vec::new(),
        check_due: None,
        expected: Durations { run: Duration::from_secs(RUN), call: Duration::from_secs(CALL) },
        budgets: Budgets::default(),
    }
}

impl Now {
    fn with(mut self, id: u32, place: AttemptPlace) -> Now {
        self.attempts.push(PendingAttempt { id: id.into(), place });
        self
    }

    fn runs(self, slot: u32, id: u32, left: u64) -> Now {
        let mut now = self.with(id, AttemptPlace::Slot);
        now.running.push(BusySlot { slot, work: SlotWork::Run(id.into()), left: Duration::from_secs(left) });
        now
    }

    fn wants(mut self, trial: Trial) -> Now {
        self.trials.push(trial);
        self
    }

    fn until(mut self, seconds: u64) -> Now {
        self.budgets.time = Some(Duration::from_secs(seconds));
        self
    }

    fn plan(&self) -> Starts {
        let Now { layout, demand, attempts, running, trials, check_due, expected, budgets } = self;
        let (layout, demand, check_due, expected, budgets) = (*layout, *demand, *check_due, *expected, *budgets);
        schedule(&Situation { layout, demand, attempts, running, trials, check_due, expected, budgets })
    }

    /// Formats the runs and calls to start: `0:run 3`, `1:train 4 5`, `seat 0`, `seat 1:7`.
    fn starts(&self) -> String {
        let Starts { starts, calls, .. } = self.plan();
        let runs = starts.iter().map(|start| format!("{}:{}", start.slot, words(&start.work)));
        let calls = calls.iter().map(|call| match call.attempt {
            Some(id) => format!("seat {}:{id}", call.seat),
            None => format!("seat {}", call.seat),
        });
        runs.chain(calls).collect::<Vec<_>>().join(", ")
    }
}

fn words(work: &SlotWork) -> String {
    match work {
        SlotWork::Run(id) => format!("run {id}"),
        SlotWork::Check(_) => "check".to_owned(),
        SlotWork::Trial(Trial::Afresh(id)) => format!("afresh {id}"),
        SlotWork::Trial(Trial::Train { cars, .. }) => {
            cars.iter().fold("train".to_owned(), |words, id| format!("{words} {id}"))
        }
    }
}

fn train(cars: &[u32]) -> Trial {
    Trial::Train { on: 1.into(), cars: cars.iter().map(|id| ExperimentId::from(*id)).collect() }
}

#[test]
fn in_place_a_call_and_a_run_take_turns() {
    assert_eq!(now(1, 0).starts(), "seat 0");
    assert_eq!(now(1, 0).with(1, AttemptPlace::Seat(0)).starts(), "");
    assert_eq!(now(1, 0).with(1, AttemptPlace::Ready).starts(), "0:run 1");
    assert_eq!(now(1, 0).runs(0, 1, 10).starts(), "");
}

#[test]
fn nothing_starts_beside_the_incumbents_check_after_crashes() {
    let reason = CheckReason::Crashes(5);
    let due = |now: Now| Now { check_due: Some(reason), ..now };
    let ready = |now: Now| now.with(8, AttemptPlace::Ready).with(9, AttemptPlace::NeedsCall).wants(train(&[4, 5]));
    assert_eq!(due(now(1, 0)).starts(), "0:check");
    assert_eq!(due(ready(now(2, 1)).runs(0, 7, 10)).starts(), "1:check", "what runs goes on");
    assert_eq!(due(ready(now(1, 1)).runs(0, 7, 10)).starts(), "", "it waits for a free slot");
    let mut checked = ready(now(2, 1));
    checked.running.push(BusySlot { slot: 0, work: SlotWork::Check(reason), left: Duration::ZERO });
    assert_eq!(checked.starts(), "");
    assert_eq!(due(Now { demand: Demand::Open, ..ready(now(2, 1)) }).starts(), "0:train 4 5, 1:run 8");
}

#[test]
fn a_check_on_schedule_takes_one_slot_and_holds_nothing_up() {
    let due = |now: Now| Now { check_due: Some(CheckReason::Schedule), ..now };
    assert_eq!(due(now(1, 0)).starts(), "0:check", "in place the call waits");
    assert_eq!(due(now(1, 0).with(1, AttemptPlace::NeedsCall)).starts(), "seat 0:1", "the only tree is taken");
    assert_eq!(due(now(2, 0).with(8, AttemptPlace::Ready).with(9, AttemptPlace::Ready)).starts(), "0:check, 1:run 8");
    let mut checked = due(now(2, 0).with(8, AttemptPlace::Ready));
    checked.running.push(BusySlot { slot: 0, work: SlotWork::Check(CheckReason::Schedule), left: Duration::ZERO });
    assert_eq!(checked.starts(), "1:run 8", "once");
    let short = Budgets { time: Some(Duration::from_secs(1)), ..Budgets::default() };
    assert!(!due(Now { budgets: short, ..now(2, 0) }).starts().contains("check"), "no time is left for it");
    assert!(!due(Now { demand: Demand::Open, ..now(2, 0) }).starts().contains("check"));
}

#[test]
fn with_one_ahead_the_agent_works_while_the_command_runs() {
    assert_eq!(now(1, 1).runs(0, 1, 300).starts(), "seat 0");
    assert_eq!(now(1, 1).runs(0, 1, 10).with(2, AttemptPlace::Ready).starts(), "", "the next one knows this result");
    assert_eq!(now(1, 1).with(2, AttemptPlace::Ready).starts(), "0:run 2, seat 0");
    let slow = |now: Now| Now { expected: Durations { call: Duration::from_secs(400), ..now.expected }, ..now };
    assert_eq!(slow(now(1, 1).runs(0, 1, 10).with(2, AttemptPlace::Ready)).starts(), "seat 0", "the agent is slower");
}

#[test]
fn trains_start_first_then_what_is_ready_in_its_order() {
    let situation = now(3, 0).with(9, AttemptPlace::Ready).with(7, AttemptPlace::Ready).with(4, AttemptPlace::Winner);
    assert_eq!(situation.clone().wants(train(&[4])).starts(), "0:train 4, 1:run 9, 2:run 7");
    let situation = situation.runs(1, 5, 10).wants(train(&[4])).wants(Trial::Afresh(3.into()));
    assert_eq!(situation.starts(), "0:train 4, 2:afresh 3");
}

#[test]
fn a_train_that_runs_does_not_start_again_and_an_overtaken_one_is_stopped() {
    let mut situation = now(4, 0).wants(train(&[2, 3])).wants(train(&[4]));
    for (slot, cars) in [(0, [5, 6]), (2, [2, 3])] {
        let work = SlotWork::Trial(train(&cars));
        situation.running.push(BusySlot { slot, work, left: Duration::ZERO });
    }
    assert_eq!(situation.starts(), "1:train 4, seat 0");
    assert_eq!(situation.plan().stops, [0]);
}

#[test]
fn an_open_attempt_that_needs_the_agent_comes_before_new_ones() {
    let situation = now(4, 0).with(3, AttemptPlace::Seat(1)).with(4, AttemptPlace::NeedsCall);
    assert_eq!(situation.starts(), "seat 0:4");
    let situation = Now { layout: Capacity { calls: Some(4), ..situation.layout }, ..situation };
    assert_eq!(situation.starts(), "seat 0:4, seat 2, seat 3");
}

#[test]
fn experiments_are_counted_while_they_are_open() {
    let mut situation = now(4, 0).with(3, AttemptPlace::Winner).with(4, AttemptPlace::Ready);
    situation.layout.calls = Some(4);
    situation.budgets.experiments = Some(3);
    assert_eq!((situation.starts(), situation.plan().bar), ("0:run 4, seat 0".into(), None));
    situation.budgets.experiments = Some(2);
    assert_eq!((situation.starts(), situation.plan().bar), ("0:run 4".into(), Some(Bar::Experiments)));
    let situation = situation.with(5, AttemptPlace::NeedsCall);
    assert_eq!(situation.starts(), "0:run 4, seat 0:5", "that of an open attempt makes no further one");
}

#[test]
fn nothing_starts_that_does_not_end_in_time() {
    let single = now(1, 1).with(2, AttemptPlace::Ready);
    assert_eq!(single.clone().until(RUN + CALL).starts(), "0:run 2, seat 0");
    let late = single.clone().until(RUN);
    assert_eq!((late.starts(), late.plan().bar), ("0:run 2".into(), Some(Bar::Time)));
    assert_eq!(single.clone().until(RUN - 1).starts(), "");
    let unknown = Now { expected: Durations::default(), ..single };
    assert_eq!(unknown.clone().until(1).starts(), "0:run 2, seat 0");
    assert_eq!(unknown.until(0).starts(), "");
}

#[test]
fn a_deadline_keeps_time_for_one_train_that_waits_for_the_last_runs() {
    let situation = now(2, 0).with(2, AttemptPlace::Ready);
    assert_eq!(situation.clone().until(RUN + RUN + RUN / 20).starts(), "0:run 2");
    assert_eq!(situation.until(RUN + RUN).starts(), "");
    let last = |left: u64, until: u64| {
        now(2, 0).runs(0, 5, left).with(4, AttemptPlace::Winner).wants(train(&[4])).until(until)
    };
    assert_eq!(last(100, 2 * RUN).starts(), "1:train 4", "there is time for another one");
    assert_eq!(last(100, RUN + 100).starts(), "");
    assert_eq!(last(100, RUN + 99).starts(), "1:train 4", "it would come too late");
    assert_eq!(last(0, RUN + 10).starts(), "1:train 4", "nobody knows when it ends");
    assert_eq!(last(100, RUN - 1).starts(), "");
}

#[test]
fn what_is_asked_for_limits_what_starts() {
    let situation = now(4, 0)
        .with(2, AttemptPlace::Ready)
        .with(3, AttemptPlace::Winner)
        .with(4, AttemptPlace::NeedsCall)
        .wants(train(&[3]));
    let starts = |demand| Now { demand, ..situation.clone() }.starts();
    assert_eq!(starts(Demand::New), "0:train 3, 1:run 2, seat 0:4, seat 1");
    assert_eq!(starts(Demand::Open), "0:train 3, 1:run 2");
    assert_eq!(starts(Demand::Winners), "0:train 3");
    assert_eq!(starts(Demand::Nothing), "");
}

#[test]
fn as_many_agents_work_as_keep_the_slots_fed() {
    let plan = |slots, ahead, calls, call| {
        let situation = now(slots, ahead);
        let expected = Durations { call: Duration::from_secs(call), ..situation.expected };
        let plan = Now { layout: Capacity { calls, ..situation.layout }, expected, ..situation }.plan();
        (plan.call_limit, plan.calls_are_short)
    };
    assert_eq!(plan(1, 1, None, 90), (1, false));
    assert_eq!(plan(2, 1, None, 90), (1, false));
    assert_eq!(plan(8, 2, None, 90), (3, false));
    assert_eq!(plan(8, 2, None, 165), (4, true), "four by itself");
    assert_eq!(plan(8, 2, Some(5), 165), (5, false));
    assert_eq!(plan(8, 2, Some(1), 90), (1, true));
    assert_eq!(plan(8, 2, None, 0), (4, false), "nothing is known yet");
    assert_eq!(plan(1, 1, None, 0), (2, false));
}

fn place() -> impl Strategy<Value = AttemptPlace> {
    let seat = (0..6_u32).prop_map(AttemptPlace::Seat);
    prop_oneof![seat, Just(AttemptPlace::NeedsCall), Just(AttemptPlace::Ready), Just(AttemptPlace::Winner)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_gets_two_places_and_no_budget_is_overshot(
        (slots, ahead, calls) in (1..9_u32, 0..4_u32, prop::option::of(1..9_u32)),
        places in prop::collection::vec(place(), 0..12),
        busy in prop::collection::btree_map(0..9_u32, (0..400_u64, any::<bool>()), 0..9),
        trials in prop::collection::btree_set(100..110_u32, 0..6),
        (call, run) in (0..400_u64, 0..400_u64),
        (experiments, time) in (prop::option::of(0..30_u32), prop::option::of(0..1500_u64)),
    ) {
        let mut situation = now(slots, ahead);
        situation.layout.calls = calls;
        situation.expected = Durations { run: Duration::from_secs(run), call: Duration::from_secs(call) };
        situation.budgets = Budgets { experiments, time: time.map(Duration::from_secs) };
        let mut seats = Vec::new();
        for (place, id) in places.into_iter().zip(1..) {
            if let AttemptPlace::Seat(seat) = place {
                if seats.contains(&seat) {
                    continue;
                }
                seats.push(seat);
            }
            situation = situation.with(id, place);
        }
        for (slot, (left, is_train)) in busy.into_iter().filter(|(slot, _)| *slot < slots) {
            if is_train {
                let work = SlotWork::Trial(train(&[100 + slot]));
                situation.running.push(BusySlot { slot, work, left: Duration::from_secs(left) });
            } else {
                situation = situation.runs(slot, 20 + slot, left);
            }
        }
        situation.trials = trials.into_iter().map(|id| train(&[id])).collect();
        let plan = situation.plan();

        let mut used: Vec<u32> = situation.running.iter().map(|busy| busy.slot).collect();
        used.extend(plan.starts.iter().map(|start| start.slot));
        used.sort_unstable();
        prop_assert!(used.windows(2).all(|two| two[0] < two[1]) && used.last() < Some(&slots));
        let mut works: Vec<String> = situation.running.iter().map(|busy| words(&busy.work)).collect();
        works.extend(plan.starts.iter().map(|start| words(&start.work)));
        works.sort_unstable();
        prop_assert!(works.windows(2).all(|two| two[0] != two[1]), "{:?}", works);
        let in_use = seats.len();
        seats.extend(plan.calls.iter().map(|call| call.seat));
        seats.sort_unstable();
        prop_assert!(seats.windows(2).all(|two| two[0] < two[1]));
        prop_assert!(plan.calls.is_empty() || in_use + plan.calls.len() <= plan.call_limit as usize);

        let new = plan.calls.iter().filter(|call| call.attempt.is_none()).count();
        prop_assert!(new == 0 || experiments.is_none_or(|left| situation.attempts.len() + new <= left as usize));
        let needed = |start: &Start| if matches!(start.work, SlotWork::Run(_)) && slots > 1 { 2 * run } else { run };
        let ends_in_time = |seconds| time.is_none_or(|left| left >= seconds);
        prop_assert!(plan.starts.iter().all(|start| ends_in_time(needed(start))));
        prop_assert!(plan.calls.is_empty() || ends_in_time(call + run));
    }
}
