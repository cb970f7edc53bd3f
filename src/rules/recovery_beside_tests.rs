//! Kills at any moment over a world of plain values with slots and seats.

use proptest::prelude::*;

use super::world_beside::World;
use crate::domain::Phase;

/// Gains of which two are won side by side, so that the second rides a train.
const GAINS: [i8; 6] = [0, 3, 2, 4, 1, -1];

/// The next step of a session in which runs end now and then.
fn step(world: &mut World, place: usize) {
    world.step(place * 7 % 11);
    if place.is_multiple_of(5) {
        world.end_run(0, false);
    }
}

/// Brings a session to its end, and checks what came of it.
#[track_caller]
fn finish(mut world: World, from: usize) {
    for place in from..from + 900 {
        step(&mut world, place);
        if world.is_done() {
            return world.check();
        }
    }
    panic!("it does not come to an end: {world:?}");
}

#[test]
fn killed_at_each_step_and_again_at_each_step_of_the_way_back_three_attempts_and_a_train_are_whole() {
    let mut world = World::new(GAINS.to_vec(), 6);
    let (mut seen_three, mut seen_half) = (false, false);
    for place in 0..600 {
        let (phases, is_half) = world.places();
        let has = |phase| phases.contains(&phase);
        seen_three |= has(Phase::Proposing) && has(Phase::Running) && has(Phase::Waiting);
        seen_half |= is_half;
        let mut killed = world.clone();
        killed.kill();
        finish(killed.clone(), place);
        for again in 0..12 {
            step(&mut killed, place + again);
            let mut twice = killed.clone();
            twice.kill();
            finish(twice.clone(), place + again);
            step(&mut twice, place + again);
            step(&mut twice, place + again + 1);
            twice.kill();
            finish(twice, place + again);
        }
        step(&mut world, place);
        if world.is_done() {
            world.check();
            assert!(seen_three, "three attempts are open at a time: in a seat, in a slot, and in line");
            assert!(seen_half, "a train is recorded in part");
            return;
        }
    }
    panic!("it does not come to an end: {world:?}");
}

/// One event of a session.
#[derive(Debug, Clone)]
enum Happening {
    Steps(Vec<usize>),
    Kill,
    RunEnds(usize),
    RunIsLost(usize),
    TreeIsDeleted(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => prop::collection::vec(0..24_usize, 1..12).prop_map(Happening::Steps),
        3 => Just(Happening::Kill),
        4 => (0..2_usize).prop_map(Happening::RunEnds),
        1 => (0..2_usize).prop_map(Happening::RunIsLost),
        1 => (0..2_usize).prop_map(Happening::TreeIsDeleted),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_interleaving_beside_others_ends_with_one_record_and_one_row_for_each_commit(
        happenings in prop::collection::vec(happening(), 0..120),
        gains in prop::collection::vec(-3..5_i8, 1..9),
        count in 1..9_usize,
    ) {
        let mut world = World::new(gains, count);
        for happening in happenings {
            match happening {
                Happening::Steps(choices) => choices.into_iter().for_each(|choice| world.step(choice)),
                Happening::Kill => world.kill(),
                Happening::RunEnds(choice) => world.end_run(choice, false),
                Happening::RunIsLost(choice) => world.end_run(choice, true),
                Happening::TreeIsDeleted(slot) => world.delete_tree(slot),
            }
        }
        finish(world, 0);
    }
}
