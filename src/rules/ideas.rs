//! Which idea of the backlog comes next.

use sha2::{Digest, Sha256};

use super::same_direction;
use crate::domain::{Idea, IdeaState, TriedDirection, USER};

/// Among how many of the best ideas one is drawn. Always the best one would be a greedy choice, which confirms itself: what
/// whoever scores believes in is tried, and nothing else ever shows that he is wrong.
const AMONG: usize = 50;

/// Draws an open idea among the best fifty, each with the same chance. The same `seed` draws the same one, unless that is
/// gone or a new one has the luck. Ideas whose direction is among `tried` are passed over.
///
/// What a person added without a score comes before what has one, the higher the better, and that before all else; of equal
/// ones the oldest is the best.
pub fn draw<'a>(ideas: &'a [Idea], seed: &str, tried: &[TriedDirection]) -> Option<&'a Idea> {
    let was_tried = |idea: &Idea| {
        let direction = idea.idea.direction.as_ref();
        direction.is_some_and(|direction| tried.iter().any(|known| same_direction(&known.direction, direction)))
    };
    let mut open: Vec<&Idea> = ideas.iter().filter(|idea| idea.state == IdeaState::Open && !was_tried(idea)).collect();
    open.sort_by(|one, other| rank(other).total_cmp(&rank(one)).then_with(|| one.id.cmp(&other.id)));
    open.truncate(AMONG);
    open.into_iter().min_by_key(|idea| Sha256::digest(format!("{seed} {}", idea.id)).to_vec())
}

fn rank(idea: &Idea) -> f64 {
    match idea.idea.score {
        Some(score) => score,
        None if idea.by == USER => f64::INFINITY,
        None => f64::NEG_INFINITY,
    }
}

/// Whether two texts are the same idea: case and white space do not matter.
pub fn same_idea(one: &str, other: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>();
    words(one) == words(other)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::NewIdea;

    fn idea(id: u32, score: Option<f64>, by: &str) -> Idea {
        let direction = Some(format!("d{}", id % 10));
        Idea {
            id,
            idea: NewIdea { text: format!("idea {id}"), direction, score },
            by: by.into(),
            time: Timestamp::UNIX_EPOCH,
            state: IdeaState::Open,
        }
    }

    #[test]
    fn each_of_the_best_fifty_has_its_turn_and_no_other() {
        let mut ideas: Vec<_> = (1..=70).map(|id| idea(id, Some(f64::from(id)), "agent of t/1")).collect();
        ideas.push(idea(71, None, USER));
        ideas.push(idea(72, None, "agent of t/1"));
        ideas[69].state = IdeaState::Dropped;
        let mut drawn: BTreeMap<u32, u32> = BTreeMap::new();
        for experiment in 0..5000 {
            *drawn.entry(draw(&ideas, &format!("t/{experiment}"), &[]).unwrap().id).or_default() += 1;
        }
        let expected: Vec<u32> = (21..=69).chain([71]).collect();
        assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), expected);
        assert!(drawn.values().all(|times| (50..200).contains(times)), "{drawn:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same_one_also_when_others_are_gone() {
        let mut ideas: Vec<_> = (1..=9).map(|id| idea(id, None, USER)).collect();
        let first = draw(&ideas, "t/7", &[]).unwrap().id;
        ideas.retain(|idea| idea.id == first || idea.id % 2 == 0);
        assert_eq!(draw(&ideas, "t/7", &[]).unwrap().id, first);
        let tried = |direction: String| TriedDirection { direction, experiments: 1, kept: 0, best: None, last: 1 };
        let all: Vec<_> = ideas.iter().map(|idea| tried(format!("D {}", idea.id))).collect();
        assert_eq!(draw(&ideas, "t/7", &all), None);
    }

    #[test]
    fn an_idea_is_the_same_in_other_letters_and_not_with_another_sign() {
        assert!(same_idea("Half the  rate", "half the rate "));
        assert!(!same_idea("lr*2", "lr/2"));
    }
}
