//! Kills at any moment over a world of plain values, *in place* and on slots.

use proptest::prelude::*;

use super::world::World;
use crate::domain::{Phase, TreeOwner};
use crate::rules::decide::REWORKS;

/// Gains of which two are won side by side, so that the second rides a train.
const GAINS: [i8; 6] = [0, 3, 1, 4, 1, 4];

/// The next step of a session in which jobs end now and then.
fn step(world: &mut World, place: usize) {
    world.step(place * 7 % 11);
    if place.is_multiple_of(6) {
        world.end_job(0, false);
    }
}

/// Brings a session to its end, and checks what came of it.
#[track_caller]
fn finish(mut world: World, from: usize) {
    for place in from..from + 2000 {
        step(&mut world, place);
        if world.is_done() {
            return world.check();
        }
    }
    panic!("it does not come to an end: {world:?}");
}

/// Kills a session at each step, and again at each step of the way back. Returns what was open at some moment, whether one was
/// reworked, and whether a train was recorded in part.
fn kill_everywhere(mut world: World) -> (Vec<Vec<Phase>>, bool, bool) {
    let (mut phases, mut reworked, mut half) = (Vec::new(), false, false);
    for place in 0..600 {
        let (open, is_reworked, is_half) = world.sights();
        phases.push(open);
        (reworked, half) = (reworked | is_reworked, half | is_half);
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
            return (phases, reworked, half);
        }
    }
    panic!("it does not come to an end: {world:?}");
}

#[test]
fn killed_at_each_step_and_again_at_each_step_of_the_way_back_each_experiment_is_whole() {
    for (owner, count) in [(TreeOwner::User, 4), (TreeOwner::Program, 6)] {
        let (seen, reworked, half) = kill_everywhere(World::new(owner, GAINS.to_vec(), vec![0, 0, 1], count));
        let is_seen = |phases: &[Phase]| seen.iter().any(|open| phases.iter().all(|phase| open.contains(phase)));
        assert!(reworked && is_seen(&[Phase::Guarding]), "{owner:?}: a version is guarded, and reworked");
        if owner.is_one_of_many() {
            let three = [Phase::Proposing, Phase::Running, Phase::Waiting];
            assert!(is_seen(&three), "three attempts are open at a time: in a seat, in a slot, and in line");
            assert!(half, "a train is recorded in part");
        }
    }
}

/// One event of a session.
#[derive(Debug, Clone)]
enum Happening {
    Steps(Vec<usize>),
    Kill,
    JobEnds(usize),
    JobIsLost(usize),
    JobIsStopped(usize),
    Hands,
    EarlierVersion,
    TreeIsDeleted(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => prop::collection::vec(0..24_usize, 1..12).prop_map(Happening::Steps),
        3 => Just(Happening::Kill),
        4 => (0..2_usize).prop_map(Happening::JobEnds),
        1 => (0..2_usize).prop_map(Happening::JobIsLost),
        1 => (0..2_usize).prop_map(Happening::JobIsStopped),
        1 => Just(Happening::Hands),
        1 => Just(Happening::EarlierVersion),
        1 => (0..2_usize).prop_map(Happening::TreeIsDeleted),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_interleaving_ends_with_one_record_and_one_row_for_each_commit(
        owner in prop_oneof![2 => Just(TreeOwner::User), 1 => Just(TreeOwner::Program)],
        happenings in prop::collection::vec(happening(), 0..120),
        gains in prop::collection::vec(-3..5_i8, 1..9),
        refused in prop::collection::vec(0..=REWORKS as usize + 1, 1..6),
        count in 1..9_usize,
    ) {
        let mut world = World::new(owner, gains, refused, count);
        for happening in happenings {
            match happening {
                Happening::Steps(choices) => choices.into_iter().for_each(|choice| world.step(choice)),
                Happening::Kill => world.kill(),
                Happening::JobEnds(choice) => world.end_job(choice, false),
                Happening::JobIsLost(choice) => world.end_job(choice, true),
                Happening::JobIsStopped(choice) => world.stop_job(choice),
                Happening::Hands => world.lay_hands(),
                Happening::EarlierVersion => world.enter_settling(),
                Happening::TreeIsDeleted(slot) => world.delete_tree(slot),
            }
        }
        finish(world, 0);
    }
}
