//! Drawing the next idea from the backlog.

use std::cmp::Ordering;

use sha2::{Digest, Sha256};

use crate::domain::{Draw, Idea, IdeaKind, IdeaState, Record, TriedDirection, USER};
use crate::rules::history::same_direction;

/// Draws one of the best open ideas of a kind, each with the same chance, or the best one. The same `seed` draws the same
/// one unless it is gone or a new one wins. Skips those whose direction is among `tried`. If none is open, it draws from
/// those offered but not used, and of these from those that the session `offered` the fewest times, so that each gets its
/// turn.
///
/// [`by_rank`] says which are the best.
pub fn draw<'a>(
    ideas: &'a [Idea],
    kind: IdeaKind,
    how: Draw,
    seed: &str,
    tried: &[TriedDirection],
    offered: impl Fn(&Idea) -> usize,
) -> Option<&'a Idea> {
    let was_tried = |idea: &Idea| {
        let direction = idea.idea.direction.as_ref();
        direction.is_some_and(|direction| tried.iter().any(|known| same_direction(&known.direction, direction)))
    };
    let pool = |is_meant: fn(&Idea) -> bool| {
        ideas.iter().filter(|idea| idea.idea.kind == kind && is_meant(idea) && !was_tried(idea)).collect::<Vec<&Idea>>()
    };
    let mut open = pool(|idea| idea.state == IdeaState::Open);
    if open.is_empty() {
        open = pool(|idea| idea.state == IdeaState::Drawn && idea.unused);
        let counted: Vec<(usize, &Idea)> = open.into_iter().map(|idea| (offered(idea), idea)).collect();
        let fewest = counted.iter().map(|(count, _)| *count).min();
        open = counted.into_iter().filter(|(count, _)| Some(*count) == fewest).map(|(_, idea)| idea).collect();
    }
    open.sort_by(|one, other| by_rank(one, other));
    open.truncate(match how {
        Draw::Best => 1,
        Draw::Uniform(among) => usize::try_from(among).unwrap_or(usize::MAX),
    });
    open.into_iter().min_by_key(|idea| Sha256::digest(format!("{seed} {}", idea.id)).to_vec())
}

/// The order of ideas, the best one first: those of the user without a score, as asked for by a person, then scored ones by
/// score, then the rest; of equal ones the older first.
pub fn by_rank(one: &Idea, other: &Idea) -> Ordering {
    let rank = |idea: &Idea| match idea.idea.score {
        Some(score) => score,
        None if idea.by == USER => f64::INFINITY,
        None => f64::NEG_INFINITY,
    };
    rank(other).total_cmp(&rank(one)).then_with(|| one.id.cmp(&other.id))
}

/// Returns whether an experiment used the idea offered to its agent. If the agent names the idea that it used, that
/// decides. Otherwise, the direction must match, or the agent's texts must contain at least half of the idea's words.
pub fn is_used(record: &Record, idea: &Idea) -> bool {
    if let Some(used) = record.used(idea.idea.kind) {
        return used == idea.id;
    }
    let direction = idea.idea.direction.as_ref().zip(record.direction.as_ref());
    if direction.is_some_and(|(one, other)| same_direction(one, other)) {
        return true;
    }
    let said = [Some(record.description.clone()), record.direction.clone(), record.hypothesis()];
    let said: Vec<String> = said.iter().flatten().flat_map(|text| words(text)).collect();
    let wanted = words(&idea.idea.text);
    let found = wanted.iter().filter(|word| said.contains(word)).count();
    !wanted.is_empty() && 2 * found >= wanted.len()
}

/// The meaningful words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    const FILLERS: [&str; 16] =
        ["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with", "use", "try"];
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| !word.is_empty() && !FILLERS.contains(&word.as_str())).collect()
}

/// The text of an idea without differences of case and white space: two with the same one are the same idea.
pub fn idea_key(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The state of an idea after an experiment whose agent was offered it, and whether it was offered in vain. An idea that was
/// used or kept stays so.
pub fn offered_state(idea: &Idea, is_used: bool, is_kept: bool) -> (IdeaState, bool) {
    match idea.state {
        IdeaState::Kept => (IdeaState::Kept, false),
        _ if is_used && is_kept => (IdeaState::Kept, false),
        state => (IdeaState::Drawn, !is_used && (state != IdeaState::Drawn || idea.unused)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::domain::NewIdea;
    use crate::rules::sample::record;

    fn idea(id: u32, score: Option<f64>, by: &str) -> Idea {
        let direction = Some(format!("d{}", id % 10));
        Idea {
            id,
            idea: NewIdea { text: format!("idea {id}"), direction, score, ..NewIdea::default() },
            by: by.into(),
            time: Timestamp::UNIX_EPOCH,
            state: IdeaState::Open,
            unused: false,
        }
    }

    /// An idea drawn as by default.
    fn draw<'a>(ideas: &'a [Idea], seed: &str, tried: &[TriedDirection]) -> Option<&'a Idea> {
        super::draw(ideas, IdeaKind::Idea, Draw::default(), seed, tried, |_| 0)
    }

    #[test]
    fn sources_are_drawn_apart_from_ideas_and_as_asked_for() {
        let mut ideas: Vec<_> = (1..=9).map(|id| idea(id, Some(f64::from(id)), USER)).collect();
        ideas.iter_mut().filter(|idea| idea.id > 3).for_each(|idea| idea.idea.kind = IdeaKind::Source);
        // One that the user did not score comes before all that are scored, among its own kind.
        ideas.push(idea(10, None, USER));
        let drawn = |kind: IdeaKind, how: Draw| -> Vec<u32> {
            let of = |n: u32| super::draw(&ideas, kind, how, &format!("t/{n}"), &[], |_| 0).unwrap().id;
            let mut ids: Vec<u32> = (0..200).map(of).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(drawn(IdeaKind::Source, Draw::Best), [9]);
        assert_eq!(drawn(IdeaKind::Source, Draw::Uniform(1)), [9]);
        assert_eq!(drawn(IdeaKind::Source, Draw::Uniform(3)), [7, 8, 9]);
        assert_eq!(drawn(IdeaKind::Source, Draw::Uniform(u32::MAX)), [4, 5, 6, 7, 8, 9]);
        assert_eq!(drawn(IdeaKind::Idea, Draw::Best), [10]);
        assert_eq!(drawn(IdeaKind::Idea, Draw::Uniform(2)), [3, 10]);
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
        let tried =
            |direction: String| TriedDirection { direction, experiments: 1, kept: 0, best: None, last: 1.into() };
        let all: Vec<_> = ideas.iter().map(|idea| tried(format!("D {}", idea.id))).collect();
        assert_eq!(draw(&ideas, "t/7", &all), None);
    }

    #[test]
    fn what_was_offered_and_not_used_comes_in_turn() {
        let mut ideas = vec![idea(1, Some(0.1), USER), idea(2, Some(0.9), USER), idea(3, None, USER)];
        let mut offered: Vec<u32> = Vec::new();
        for n in 0..8 {
            let count = |idea: &Idea| offered.iter().filter(|id| **id == idea.id).count();
            let id = super::draw(&ideas, IdeaKind::Idea, Draw::Best, &format!("t/{n}"), &[], count).unwrap().id;
            offered.push(id);
            let drawn = ideas.iter_mut().find(|idea| idea.id == id).unwrap();
            (drawn.state, drawn.unused) = (IdeaState::Drawn, true);
        }
        // The idea without a score comes first, then the others by score, then all in turn again.
        assert_eq!(offered, [3, 2, 1, 3, 2, 1, 3, 2]);
    }

    #[test]
    fn an_idea_is_used_where_the_agent_says_so_or_its_words_do() {
        let idea =
            |text: &str| Idea { idea: NewIdea { text: text.into(), ..NewIdea::default() }, ..idea(3, None, USER) };
        let is_used = |text: &str, fields: serde_json::Value| is_used(&record(fields), &idea(text));
        assert!(is_used("warm restarts", json!({"description": "raise lr", "proposal": {"idea": 3}})));
        assert!(!is_used("warm restarts", json!({"description": "warm restarts", "proposal": {"idea": 4}})));
        assert!(is_used("half the rate at the end", json!({"description": "lower the rate at the end"})));
        assert!(!is_used("half the rate at the end", json!({"description": "a deeper model at the end"})));
        let mut unused = Idea { state: IdeaState::Drawn, unused: true, ..idea("x") };
        assert_eq!(draw(std::slice::from_ref(&unused), "t/7", &[]).map(|idea| idea.id), Some(3));
        unused.unused = false;
        assert_eq!(draw(std::slice::from_ref(&unused), "t/7", &[]), None);
    }

    #[test]
    fn an_idea_is_the_same_in_other_letters_and_not_with_another_sign() {
        assert_eq!(idea_key("Half the  rate"), idea_key("half the rate "));
        assert_ne!(idea_key("lr*2"), idea_key("lr/2"));
    }
}
