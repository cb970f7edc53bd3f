//! Steps, kills and recoveries in any order, over a world of plain values.

use proptest::prelude::*;

use super::LOST_RETRIES;
use super::world::{EXPERIMENTS, World};
use crate::rules::REWORKS;

/// One event of a session.
#[derive(Debug, Clone)]
enum Happening {
    Steps(u8),
    Kill,
    RunEnds,
    RunIsLost,
    RunIsStopped,
    Hands,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (1..12_u8).prop_map(Happening::Steps),
        3 => Just(Happening::Kill),
        2 => Just(Happening::RunEnds),
        1 => Just(Happening::RunIsLost),
        1 => Just(Happening::RunIsStopped),
        1 => Just(Happening::Hands),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_interleaving_ends_with_one_record_and_one_row_for_each_experiment(
        happenings in prop::collection::vec(happening(), 0..80),
        keeps in prop::collection::vec(any::<bool>(), EXPERIMENTS as usize + 1),
        refused in prop::collection::vec(0..=REWORKS + 1, EXPERIMENTS as usize + 1),
    ) {
        let mut world = World::new(keeps, refused);
        for happening in happenings {
            match happening {
                Happening::Steps(count) => (0..count).for_each(|_| world.step()),
                Happening::Kill => world.kill(),
                Happening::RunEnds => world.end_run(),
                Happening::RunIsLost => world.lose_run(),
                Happening::RunIsStopped => world.stop_run(),
                Happening::Hands => world.lay_hands(),
            }
            prop_assert!(world.starts <= 1 + LOST_RETRIES);
        }
        for _ in 0..400 {
            world.step();
            world.end_run();
        }
        prop_assert!(world.is_done(), "it does not come to an end: {:?} {:?}", world.phase, world.open);
        world.check();
    }
}
