//! The ladder without recent keeps: refine, pivot, research, flag.
//!
//! Ladders and thresholds follow two protocols in use. Overnight training agents refine after 3 attempts without a
//! keep, pivot after 5, search after 2 pivots and stop for review after 3. Long-horizon research pivots the structure
//! after 2 iterations without a finding and flags after 4.

use strum::VariantArray;

use crate::domain::{Directive, ExperimentId, Failure, FailureClass, Ladder, Outcome, Perturbation, Record, Rung};
use crate::rules::history::History;

/// Iterations without a keep before the agent is asked to refine.
const REFINE_AFTER: u32 = 3;
/// Iterations without a keep, or since the last pivot, before it is asked to pivot.
const PIVOT_AFTER: u32 = 5;
/// The pivot without a keep that may look for ideas outside the repository.
const RESEARCH_AT: u32 = 2;
/// The pivot without a keep that becomes a flag for review.
const FLAG_AT: u32 = 3;
/// Stale iterations before a structural pivot, on the structural ladder.
const STRUCTURAL_PIVOT_AFTER: u32 = 2;
/// Stale iterations before a flag, on the structural ladder.
const STRUCTURAL_FLAG_AFTER: u32 = 4;

/// Changes in a row in a direction that was tried, before a flag.
const REPEATS_BEFORE_FLAG: u32 = 3;

/// The result of one iteration. Outages and lost runs are not iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A keep.
    Kept,
    /// A discard or a crash.
    NotKept {
        /// True if its value was worse than the incumbent's, or missing.
        worse: bool,
        /// True if the agent reported a finding.
        finding: bool,
    },
    /// A change was refused for a direction that was tried.
    Repeated,
    /// Nothing changed.
    Idle,
}

/// Applies one iteration. `research` tells whether the contract allows ideas from outside.
pub(crate) fn climb(ladder: Ladder, rung: Rung, turn: Turn, research: bool) -> Rung {
    let repeated = if turn == Turn::Repeated { rung.repeated + 1 } else { 0 };
    let rung = Rung { repeated, ..rung };
    if turn == Turn::Kept {
        return Rung { stale: 0, pivots: 0, directive: Directive::Free, ..rung };
    }
    if repeated >= REPEATS_BEFORE_FLAG {
        return flag(rung);
    }
    match ladder {
        Ladder::Refine => refine(Rung { stale: rung.stale + 1, ..rung }, turn, research),
        Ladder::Structural => {
            let moved_on = matches!(turn, Turn::NotKept { worse: false, finding: true });
            let next = structural(Rung { stale: rung.stale + u32::from(!moved_on), ..rung }, moved_on);
            // A pivot that was not followed holds.
            let holds = turn == Turn::Repeated && next.flags == rung.flags;
            if holds {
                Rung { directive: rung.directive, pivots: rung.pivots, turns: rung.turns, ..next }
            } else {
                next
            }
        }
    }
}

/// Begins anew in an untried direction, as after a flag: a guardian found that nothing comes of the session any more.
pub(crate) fn redirected(rung: Rung) -> Rung {
    flag(rung)
}

/// The directive for an agent in a seat, counted from 0: at a pivot each of several gets another way out.
pub(crate) fn in_seat(directive: Directive, seat: u32) -> Directive {
    let other = |perturbation: Perturbation| {
        let ways = Perturbation::VARIANTS;
        let place = ways.iter().position(|way| *way == perturbation).unwrap_or(0);
        ways[(place + seat as usize) % ways.len()]
    };
    match directive {
        Directive::Pivot { perturbation, research } => Directive::Pivot { perturbation: other(perturbation), research },
        Directive::FreshStart { perturbation } => Directive::FreshStart { perturbation: other(perturbation) },
        Directive::Free | Directive::Refine => directive,
    }
}

/// The iteration of an experiment; `None` for the baseline, and for lost, disturbed and tainted runs. `incumbent` is the value to beat.
pub(crate) fn turn_of(record: &Record, incumbent: Option<f64>) -> Option<Turn> {
    use FailureClass::{Changed, Lost, Tainted};
    let is_disturbed = |failure: &Failure| matches!(failure.class, Lost | Changed | Tainted);
    if record.id.is_baseline() || record.failure.as_ref().is_some_and(is_disturbed) {
        return None;
    }
    if record.outcome == Outcome::Keep {
        return Some(Turn::Kept);
    }
    if record.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Repeated) {
        return Some(Turn::Repeated);
    }
    let worse = match (record.metric.value, incumbent) {
        (Some(value), Some(incumbent)) => record.metric.direction.better(incumbent, value),
        (None, _) => true,
        (Some(_), None) => false,
    };
    Some(Turn::NotKept { worse, finding: !record.findings().is_empty() })
}

/// The rung that a session's experiments lead to, and the experiments after which it was flagged. Agent calls without
/// changes have no record and do not count.
pub(crate) fn climb_all(ladder: Ladder, history: &History, research: bool) -> (Rung, Vec<ExperimentId>) {
    let mut rung = Rung::default();
    let mut flagged = Vec::new();
    let mut incumbent = None;
    for record in history.records() {
        if let Some(turn) = turn_of(record, incumbent) {
            let before = rung.flags;
            rung = climb(ladder, rung, turn, research);
            if rung.flags > before {
                flagged.push(record.id);
            }
        }
        if record.outcome == Outcome::Keep {
            // Only the last car of a train has a value.
            incumbent = record.metric.value.or(incumbent);
        }
    }
    (rung, flagged)
}

fn refine(rung: Rung, turn: Turn, research: bool) -> Rung {
    if rung.stale < PIVOT_AFTER {
        let directive = match rung.stale {
            // The directive of a call without a change to measure holds until there is one.
            _ if matches!(turn, Turn::Idle | Turn::Repeated) && rung.directive.wants_new_direction() => rung.directive,
            REFINE_AFTER.. => Directive::Refine,
            _ => Directive::Free,
        };
        return Rung { directive, ..rung };
    }
    let pivots = rung.pivots + 1;
    if pivots >= FLAG_AT {
        return flag(rung);
    }
    let perturbation = perturbation(rung.turns);
    let directive = Directive::Pivot { perturbation, research: research && pivots >= RESEARCH_AT };
    Rung { stale: 0, pivots, turns: rung.turns + 1, directive, ..rung }
}

fn structural(rung: Rung, moved_on: bool) -> Rung {
    if rung.stale >= STRUCTURAL_FLAG_AFTER {
        return flag(rung);
    }
    if rung.stale < STRUCTURAL_PIVOT_AFTER || moved_on {
        return Rung { directive: Directive::Free, ..rung };
    }
    let directive = Directive::Pivot { perturbation: perturbation(rung.turns), research: false };
    Rung { pivots: rung.pivots + 1, turns: rung.turns + 1, directive, ..rung }
}

fn flag(rung: Rung) -> Rung {
    let directive = Directive::FreshStart { perturbation: perturbation(rung.turns) };
    Rung { stale: 0, pivots: 0, turns: rung.turns + 1, flags: rung.flags + 1, directive, repeated: 0 }
}

/// One after the other.
fn perturbation(turns: u32) -> Perturbation {
    match turns % 4 {
        0 => Perturbation::Opposite,
        1 => Perturbation::Analogy,
        2 => Perturbation::Removal,
        _ => Perturbation::NearMisses,
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod of_records;

#[cfg(test)]
mod tests {
    use super::*;

    const WORSE: Turn = Turn::NotKept { worse: true, finding: false };

    fn name(directive: Directive) -> String {
        match directive {
            Directive::Free => "-".into(),
            Directive::Refine => "refine".into(),
            Directive::Pivot { perturbation, research } => {
                format!("pivot {perturbation:?}{}", if research { " research" } else { "" })
            }
            Directive::FreshStart { perturbation } => format!("flag {perturbation:?}"),
        }
    }

    fn directives(ladder: Ladder, turns: &[Turn], research: bool) -> Vec<String> {
        let mut rung = Rung::default();
        turns
            .iter()
            .map(|turn| {
                rung = climb(ladder, rung, *turn, research);
                name(rung.directive)
            })
            .collect()
    }

    #[test]
    fn the_refine_ladder_to_its_end_and_over_again() {
        let expected = "- - refine refine pivot Opposite|- - refine refine pivot Analogy research|\
                        - - refine refine flag Removal|- - refine refine pivot NearMisses";
        let found = directives(Ladder::Refine, &[WORSE; 20], true);
        let found: Vec<_> = found.chunks(5).map(|five| five.join(" ")).collect();
        assert_eq!(found.join("|"), expected);
        let found = directives(Ladder::Refine, &[WORSE; 10], false);
        assert_eq!(found[9], "pivot Analogy", "research only where the contract says so");
    }

    #[test]
    fn the_structural_ladder_to_its_end_and_over_again() {
        let found = directives(Ladder::Structural, &[WORSE; 6], true);
        assert_eq!(found, ["-", "pivot Opposite", "pivot Analogy", "flag Removal", "-", "pivot NearMisses"]);
        let found_something = Turn::NotKept { worse: false, finding: true };
        let turns = [WORSE, found_something, found_something, WORSE, found_something, WORSE];
        let found = directives(Ladder::Structural, &turns, false);
        assert_eq!(found, ["-", "-", "-", "pivot Opposite", "-", "pivot Analogy"]);
    }

    #[test]
    fn a_pivot_holds_for_a_change_that_repeats_and_the_third_in_a_row_is_a_flag() {
        let turns = [&[WORSE; 5][..], &[Turn::Repeated; 2], &[WORSE], &[Turn::Repeated; 3]].concat();
        let found = directives(Ladder::Refine, &turns, true);
        let expected = "pivot Opposite|pivot Opposite|pivot Opposite|refine|refine|pivot Analogy research|flag Removal";
        assert_eq!(found[4..].join("|"), expected);
        let found = directives(Ladder::Structural, &[WORSE, WORSE, Turn::Repeated, Turn::Idle, WORSE], true);
        assert_eq!(found[1..].join("|"), "pivot Opposite|pivot Opposite|flag Analogy|-");
    }

    #[test]
    fn a_keep_starts_at_the_bottom_and_an_idle_call_is_told_again() {
        let mut turns = vec![WORSE; 9];
        turns.push(Turn::Kept);
        turns.extend([WORSE; 5]);
        let found = directives(Ladder::Refine, &turns, true);
        assert_eq!((found[9].as_str(), found[14].as_str()), ("-", "pivot Analogy"), "its turn, but no research yet");
        let found = directives(Ladder::Refine, &[WORSE, WORSE, WORSE, WORSE, WORSE, Turn::Idle, WORSE], true);
        assert_eq!(found[4..], ["pivot Opposite", "pivot Opposite", "-"]);
    }
}
