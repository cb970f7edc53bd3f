//! Winners and trains, over a world of known values.

use proptest::prelude::*;

use super::*;
use crate::domain::Direction;

#[path = "trains_world.rs"]
mod world;
use world::World;

const START: ExperimentId = ExperimentId::BASELINE;

/// A world whose experiments all ran on the baseline; the first one was kept before the others ended.
fn raced(gains: &[f64]) -> World {
    let mut world = World::new(gains);
    world.ran(1, START);
    assert!(world.step().is_empty(), "its tree was measured on the incumbent");
    assert_eq!(world.done, ["1 kept"]);
    world.done.clear();
    (2..=gains.len() as u32).for_each(|id| world.ran(id, START));
    world
}

fn train(on: u32, cars: &[u32]) -> Trial {
    Trial::Train { on: on.into(), cars: cars.iter().map(|id| ExperimentId::from(*id)).collect() }
}

#[test]
fn all_winners_ride_in_the_order_of_their_gain_and_are_kept_together() {
    let mut world = raced(&[1.0, 0.25, 4.0, -1.0, 0.5]);
    let expected = ["4 worse than its base", "try 3 5 2 on 1: 5.75", "3 kept", "5 kept", "2 kept"];
    assert_eq!(world.finish(), expected);
    assert_eq!(world.best(), 5.75);
}

#[test]
fn while_a_train_runs_every_winner_waits() {
    let mut world = raced(&[1.0, 1.0, 1.0, 2.0]);
    assert_eq!(world.step(), [train(1, &[4, 2, 3])]);
    world.gains.insert(5, 0.5);
    world.ran(5, 1.into());
    assert_eq!(world.step(), [train(1, &[4, 2, 3])], "5 is not stale, and waits all the same");
    assert!(world.line.has_train());
    let expected = ["try 4 2 3 on 1: 5", "4 kept", "2 kept", "3 kept", "try 5 on 3: 5.5", "5 kept"];
    assert_eq!(world.finish(), expected);
}

#[test]
fn winners_join_a_train_until_it_departs() {
    let mut world = raced(&[1.0, 1.0]);
    assert_eq!(world.wanted(), [train(1, &[2])], "no slot is free");
    world.gains.extend([(3, 2.0), (4, 0.5)]);
    world.ran(3, START);
    assert_eq!(world.step(), [train(1, &[3, 2])]);
    world.ran(4, START);
    assert_eq!(world.step(), [train(1, &[3, 2])]);
}

#[test]
fn a_winner_that_is_not_stale_after_all_is_kept_without_another_run() {
    let mut world = raced(&[1.0, 1.0]);
    world.pairs = vec![(1, 2, -5.0)];
    let trials = world.step();
    world.gains.insert(3, 0.5);
    world.gains.insert(4, 0.75);
    world.ran(3, 1.into());
    world.ran(4, 1.into());
    world.run(&trials[0]);
    let trials = world.step();
    assert_eq!(trials, [Trial::Afresh(2.into())], "the single one belongs to the train until it is decided");
    let expected =
        ["try 2 on 1: -3", "afresh 2", "2 does not add to experiment 1", "4 kept", "try 3 on 4: 2.25", "3 kept"];
    assert_eq!(world.finish(), expected);
}

#[test]
fn a_train_that_does_not_hold_is_halved_and_the_half_that_holds_is_kept() {
    let mut world = raced(&[1.0, 8.0, 4.0, 2.0, 1.0, 0.5]);
    world.pairs = vec![(1, 6, -10.0)];
    let whole = world.step();
    world.run(&whole[0]);
    let halves = world.step();
    assert_eq!(halves, [train(1, &[2, 3, 4]), train(1, &[5, 6])], "of five, the first has three");
    world.run(&halves[1]);
    assert_eq!(world.step(), [train(1, &[2, 3, 4])], "side by side: the other half runs on");
    let expected = [
        "try 2 3 4 5 6 on 1: 6.5",
        "try 5 6 on 1: -7.5",
        "try 2 3 4 on 1: 15",
        "2 kept",
        "3 kept",
        "4 kept",
        "try 5 6 on 4: 6.5",
        "try 5 on 4: 16",
        "try 6 on 4: 5.5",
        "5 kept",
        "try 6 on 5: 6.5",
        "afresh 6",
        "6 does not add to experiment 5",
    ];
    assert_eq!(world.finish(), expected);
}

#[test]
fn a_half_that_started_runs_to_its_end_and_the_better_one_that_holds_is_kept() {
    // Each by itself is a gain, and 2 and 4 together are none. The second half has the better number.
    let mut world = raced(&[1.0, 4.0, 1.0, 3.0, 3.0]);
    world.pairs = vec![(2, 4, -10.0)];
    let whole = world.step();
    assert_eq!(whole, [train(1, &[2, 4, 5, 3])]);
    world.pairs = vec![(2, 5, -10.0)];
    world.run(&whole[0]);
    let halves = world.step();
    assert_eq!(halves, [train(1, &[2, 4]), train(1, &[5, 3])]);
    world.run(&halves[1]);
    assert_eq!(world.step(), halves[..1], "the other half runs on");
    world.read_again();
    assert_eq!(world.step(), halves[..1], "also after a kill");
    world.gains.insert(6, 0.5);
    world.ran(6, 1.into());
    world.run(&halves[0]);
    let expected = [
        "try 2 4 5 3 on 1: 2",
        "try 5 3 on 1: 5",
        "try 2 4 on 1: 8",
        "2 kept",
        "4 kept",
        // It held as well, and rides with the winner that came meanwhile.
        "try 5 3 6 on 4: 2.5",
        "try 5 3 on 4: 2",
        "try 6 on 4: 8.5",
        "6 kept",
        "try 5 3 on 6: 2.5",
        "try 5 on 6: 1.5",
        "try 3 on 6: 9.5",
        "3 kept",
        "try 5 on 3: 2.5",
        "afresh 5",
        "5 does not add to experiment 3",
    ];
    assert_eq!(world.finish(), expected);
}

#[test]
fn of_two_halves_with_the_same_number_the_first_is_kept() {
    for first in [0, 1] {
        let mut world = raced(&[1.0, 2.0, 2.0]);
        world.guarded = vec![(2, 3)];
        let whole = world.step();
        world.run(&whole[0]);
        let halves = world.step();
        world.run(&halves[first]);
        world.run(&halves[1 - first]);
        assert_eq!(world.finish()[3..4], ["2 kept"], "{first} ended first");
    }
}

#[test]
fn a_half_that_did_not_start_when_the_other_one_holds_is_not_started() {
    let mut world = raced(&[1.0, 2.0, 2.0]);
    world.guarded = vec![(2, 3)];
    let whole = world.step();
    world.run(&whole[0]);
    // One slot is free.
    let halves = world.wanted();
    world.run(&halves[1]);
    assert_eq!(world.wanted(), [train(3, &[2])]);
    assert_eq!(world.done, ["try 2 3 on 1: 5", "try 3 on 1: 3", "3 kept"]);
    // A kill takes a half that has just started.
    let mut world = raced(&[1.0, 2.0, 2.0]);
    world.guarded = vec![(2, 3)];
    let whole = world.step();
    world.run(&whole[0]);
    let halves = world.step();
    world.run(&halves[1]);
    world.kill();
    assert_eq!(world.wanted(), [train(3, &[2])]);
}

#[test]
fn a_trial_that_fails_a_guard_or_crashes_is_halved_and_comes_to_an_end() {
    for (crashes, guarded) in [(vec![(3, 4)], vec![]), (vec![], vec![(3, 4)])] {
        let mut world = raced(&[1.0, 4.0, 3.0, 2.0, 1.0]);
        (world.crashes, world.guarded) = (crashes, guarded);
        let expected = [
            "try 2 3 4 5 on 1: 11",
            "try 2 3 on 1: 8",
            "try 4 5 on 1: 4",
            "2 kept",
            "3 kept",
            "try 4 5 on 3: 11",
            "try 4 on 3: 10",
            "try 5 on 3: 9",
            "5 kept",
            "try 4 on 5: 11",
            "afresh 4",
            "4 does not add to experiment 5",
        ];
        assert_eq!(world.finish(), expected);
    }
    // With what was kept it fails, too: by itself it is better, and is put on top.
    let mut world = raced(&[1.0, 4.0]);
    world.crashes = vec![(1, 2)];
    assert_eq!(world.finish(), ["try 2 on 1: 5", "afresh 2", "2 replaces 1"]);
}

#[test]
fn a_single_change_is_put_on_top_if_alone_it_beats_both() {
    let mut world = raced(&[1.0, 0.5, 4.0]);
    // 3 alone is 4, and with 1 and 2 it is worth nothing.
    world.pairs = vec![(1, 3, -5.0)];
    let expected = [
        "try 3 2 on 1: 0.5",
        "try 3 on 1: 0",
        "try 2 on 1: 1.5",
        "2 kept",
        "try 3 on 2: 0.5",
        "afresh 3",
        "3 replaces 1 2",
    ];
    assert_eq!(world.finish(), expected);
    assert_eq!(world.best(), 4.0);
}

#[test]
fn a_single_merge_that_is_better_but_less_good_than_alone_is_kept_unless_alone_it_is_better_again() {
    let mut world = raced(&[2.0, 4.0]);
    world.pairs = vec![(1, 2, -3.0)];
    assert_eq!(world.finish(), ["try 2 on 1: 3", "afresh 2", "2 replaces 1"]);
    let afresh = |text: &str| Afresh::Value(text.parse().unwrap());
    for afresh in [Afresh::Nothing, afresh("1.5"), afresh("2.5"), afresh("3.0")] {
        let mut world = raced(&[2.0, 4.0]);
        world.pairs = vec![(1, 2, -3.0)];
        let trials = world.step();
        world.run(&trials[0]);
        assert_eq!(world.step(), [Trial::Afresh(2.into())]);
        world.line.ran_afresh(2.into(), afresh);
        assert_eq!(world.finish(), ["try 2 on 1: 3", "2 kept"]);
    }
}

#[test]
fn the_minimum_gain_holds_for_a_tree_that_is_put_on_top() {
    let mut world = raced(&[2.0, 2.25]);
    world.pairs = vec![(1, 2, -9.0)];
    world.min_delta = 0.25;
    assert_eq!(world.finish(), ["try 2 on 1: -4.75", "afresh 2", "2 does not add to experiment 1"]);
}

#[test]
fn cars_that_conflict_with_each_other_wait_in_the_order_of_their_gain() {
    let mut world = raced(&[1.0, 2.0, 4.0, 1.0]);
    world.conflicts = vec![(2, 3)];
    world.solvable = [2].into();
    let expected = ["try 3 4 on 1: 6", "3 kept", "4 kept", "2 asks", "try 2 on 4: 8", "2 kept"];
    assert_eq!(world.finish(), expected);
}

#[test]
fn a_conflict_with_the_incumbent_goes_to_the_agent_once_and_then_runs_alone() {
    let mut world = raced(&[2.0, 1.0, 4.0, 1.0]);
    world.conflicts = vec![(1, 2), (1, 3), (2, 3)];
    // 4 rides while they run alone. Then 3 beats the incumbent and removes what it conflicts with.
    let expected = [
        "3 asks",
        "2 asks",
        "try 4 on 1: 3",
        "4 kept",
        "afresh 3",
        "3 replaces 1 4",
        "afresh 2",
        "2 conflicts with experiment 3, not measured together",
    ];
    assert_eq!(world.finish(), expected);
}

#[test]
fn a_conflict_goes_to_the_agent_although_fresh_runs_of_its_own_tree_are_known() {
    let finished = |solvable: &[u32]| {
        let mut world = raced(&[2.0, 1.0]);
        world.conflicts = vec![(1, 2)];
        world.solvable = solvable.iter().copied().collect();
        world.line.cars_mut().for_each(|car| car.afresh = Some(Afresh::Value(car.number.clone())));
        world.finish()
    };
    assert_eq!(finished(&[]), ["2 asks", "2 conflicts with experiment 1, not measured together"]);
    assert_eq!(finished(&[2]), ["2 asks", "try 2 on 1: 3", "2 kept"]);
}

#[test]
fn a_conflict_without_an_agent_runs_alone_at_once() {
    let mut world = raced(&[2.0, 4.0]);
    (world.conflicts, world.may_ask) = (vec![(1, 2)], false);
    assert_eq!(world.finish(), ["afresh 2", "2 replaces 1"]);
}

#[test]
fn a_change_that_the_incumbent_contains_is_a_duplicate() {
    let mut world = raced(&[2.0, 2.0, 1.0, 1.0]);
    world.same = vec![(1, 2), (3, 4)];
    let expected =
        ["2 experiment 1 contains this change", "try 3 on 1: 3", "3 kept", "4 experiment 3 contains this change"];
    assert_eq!(world.finish(), expected);
}

#[test]
fn of_more_than_two_winners_a_slot_the_smallest_gains_are_not_replayed() {
    let mut world = raced(&[1.0, 1.0]);
    world.slots = 2;
    world.step();
    for (id, gain) in (3..).zip([0.25, 4.0, 0.5, 2.0, 0.125, 1.0]) {
        world.gains.insert(id, gain);
        world.ran(id, START);
    }
    world.step();
    let reason = "not replayed: larger gains were waiting";
    assert_eq!(world.done, [format!("7 {reason}"), format!("3 {reason}")]);
}

#[test]
fn a_kill_loses_runs_and_nothing_else() {
    let mut undisturbed = raced(&[1.0, 8.0, 4.0, 2.0, 1.0, 0.5]);
    undisturbed.pairs = vec![(1, 6, -10.0), (3, 5, -6.0)];
    let mut world = undisturbed.clone();
    // One slot: what has not started is not awaited.
    while let Some(trial) = undisturbed.wanted().first().cloned() {
        undisturbed.run(&trial);
    }
    loop {
        world.kill();
        let trials = world.step();
        world.kill();
        let Some(trial) = trials.first() else { break };
        world.run(trial);
    }
    assert_eq!(world.done, undisturbed.done);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_winner_ends_once_and_what_is_kept_is_better(
        gains in prop::collection::vec(-2..10_i32, 1..24),
        pairs in prop::collection::vec((1..24_u32, 1..24_u32, -9..4_i32), 0..12),
        conflicts in prop::collection::vec((1..24_u32, 1..24_u32), 0..12),
        same in prop::collection::vec((1..24_u32, 1..24_u32), 0..3),
        crashes in prop::collection::vec((1..24_u32, 1..24_u32), 0..6),
        guarded in prop::collection::vec((1..24_u32, 1..24_u32), 0..6),
        solvable in prop::collection::btree_set(1..24_u32, 0..12),
        choices in prop::collection::vec((0..5_u8, any::<prop::sample::Index>()), 200),
        slots in 1..5_u32,
        min_delta in 0..2_i32,
    ) {
        let count = gains.len() as u32;
        let gains: Vec<f64> = gains.into_iter().map(f64::from).collect();
        let mut world = World::new(&gains);
        let there = |one: u32, other: u32| one < other && other <= count;
        (world.slots, world.min_delta, world.solvable) = (slots, f64::from(min_delta), solvable);
        world.pairs = pairs.into_iter().filter(|(one, other, _)| there(*one, *other))
            .map(|(one, other, more)| (one, other, f64::from(more))).collect();
        world.conflicts = conflicts.into_iter().filter(|(one, other)| there(*one, *other)).collect();
        world.same = same.into_iter().filter(|(one, other)| there(*one, *other)).collect();
        world.crashes = crashes.into_iter().filter(|(one, other)| there(*one, *other)).collect();
        world.guarded = guarded.into_iter().filter(|(one, other)| there(*one, *other)).collect();
        let mut bases = Vec::new();
        let mut next = 1;
        for (choice, index) in choices {
            let trials = world.wanted();
            let mut places: Vec<u32> = world.line.cars().map(|car| car.id.number()).collect();
            places.sort_unstable();
            prop_assert!(places.windows(2).all(|two| two[0] != two[1]), "two places: {:?}", places);
            match choice {
                0 | 1 if next <= count => {
                    bases.push((next, world.incumbent()));
                    next += 1;
                }
                // Not the incumbent of now, but the one at its start.
                0..=2 if !bases.is_empty() => {
                    let (id, base) = bases.remove(index.index(bases.len()));
                    world.ran(id, base);
                }
                3 if !trials.is_empty() => world.start(index.get(&trials)),
                _ if !trials.is_empty() => world.run(index.get(&trials)),
                _ => {}
            }
            match index.index(10) {
                0 => world.kill(),
                1 => world.read_again(),
                _ => {}
            }
        }
        for (id, base) in bases {
            world.ran(id, base);
        }
        world.finish();
        prop_assert!(world.line.cars().next().is_none());
        // On each incumbent at most: a train with all its parts, and each winner by itself.
        prop_assert!(world.runs <= world.kept.len() * 4 * count as usize, "{} runs", world.runs);
        for id in 1..next {
            prop_assert_eq!(world.recorded.get(&id), Some(&1), "experiment {}", id);
        }
    }

    #[test]
    fn it_comes_to_an_end_whatever_runs_and_merges_say(
        bases in prop::collection::vec(0..3_u32, 1..20),
        said in prop::collection::vec((0..5_u8, 0..40_u8), 1..60),
    ) {
        let number = |value: u8| Number::new(value.into(), value.to_string());
        let mut said = said.into_iter().cycle();
        let mut line = Line::default();
        let winners: Vec<ExperimentId> = (10..).take(bases.len()).map(ExperimentId::from).collect();
        for (id, base) in winners.iter().zip(bases) {
            line.won(Car::new(*id, base.into(), number(20), f64::from(id.number() % 7)));
        }
        let mut running: Vec<Trial> = Vec::new();
        let (mut kept, mut best, mut ended) = (vec![0.into(), 1.into(), 2.into()], number(15), Vec::new());
        let most = 40 * winners.len() * winners.len();
        for _ in 0..most {
            let (now, beside) = (kept.clone(), running.clone());
            let on = Incumbent {
                incumbent: now[now.len() - 1],
                number: Some(&best),
                direction: Direction::Higher,
                min_delta: 0.0,
                kept: &now,
                running: &beside,
                slots: 8,
                may_ask: true,
            };
            let (kind, value) = said.next().unwrap_or_default();
            match line.next(&on) {
                LineStep::Merge { onto, car } => {
                    let merged = [MergedChange::Conflict, MergedChange::Empty].get(usize::from(kind)).copied();
                    line.merged(&onto, car, merged.unwrap_or(MergedChange::Clean));
                }
                LineStep::Keep { cars, number, .. } => {
                    line.kept(&cars);
                    kept.extend(&cars);
                    (ended, best) = ([ended, cars].concat(), number);
                }
                LineStep::Replace { car, number, .. } => {
                    line.kept(&[car]);
                    kept.push(car);
                    ended.push(car);
                    best = number;
                }
                LineStep::Discard { car, .. } => {
                    line.left(car);
                    ended.push(car);
                }
                LineStep::Ask(car) => {
                    line.asked(&on, car);
                    line.answered(car);
                }
                LineStep::Try(trials) => {
                    let Some(trial) = trials.get(usize::from(kind) % trials.len().max(1)) else { break };
                    line.started(&on, trial);
                    // Its other half runs on.
                    running = trials.iter().filter(|other| *other != trial).cloned().collect();
                    match trial {
                        Trial::Afresh(id) if kind == 0 => line.ran_afresh(*id, Afresh::Nothing),
                        Trial::Afresh(id) => line.ran_afresh(*id, Afresh::Value(number(value))),
                        Trial::Train { .. } => line.tested(&on, trial, match kind {
                            0 => Tested::Holds(number(value)),
                            1 => Tested::Better(number(value)),
                            _ => Tested::NotBetter((kind > 2).then(|| number(value))),
                        }),
                    }
                }
            }
        }
        prop_assert_eq!(line.cars().count(), 0, "after {} steps", most);
        ended.sort_unstable();
        prop_assert_eq!(ended, winners);
    }
}
