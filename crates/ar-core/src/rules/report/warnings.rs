//! Warnings about a session's values, each with a command to type.

use super::chance::{never_repeated, within_spread};
use super::doubted_numbers::doubted_numbers;
use super::doubts::{
    best_is_not_the_tip, changed_while_running, direction_doubted, doubted_by_the_reviewer, drifted,
    environment_changed, flagged, ignored_changed, of_parts, partial, saved, tainted, unreadable, unreviewed,
};
use super::evidence::{Evidence, Warning};
use super::jumps::jumps;
use super::wall_counts::without_wall;
use super::waste::{crashes, outages, refusals, waiting_for_the_agent};

/// All warnings, those about values first.
pub fn warnings(evidence: Evidence<'_>) -> Vec<Warning> {
    let mut found: Vec<Warning> = direction_doubted(evidence).into_iter().collect();
    let program = evidence.facts.program.as_deref();
    let numbers = |tag| doubted_numbers(tag, evidence.points, evidence.records, program);
    found.extend(evidence.tag.map(numbers).unwrap_or_default());
    found.extend(within_spread(evidence));
    found.extend(never_repeated(evidence));
    found.extend(jumps(evidence));
    found.extend(drifted(evidence));
    found.extend(environment_changed(evidence));
    found.extend(changed_while_running(evidence));
    found.extend(tainted(evidence));
    found.extend(partial(evidence));
    found.extend(of_parts(evidence));
    found.extend(without_wall(evidence));
    found.extend(ignored_changed(evidence));
    found.extend(doubted_by_the_reviewer(evidence));
    found.extend(unreviewed(evidence));
    found.extend(crashes(evidence));
    found.extend(refusals(evidence));
    found.extend(waiting_for_the_agent(evidence));
    found.extend(outages(evidence));
    found.extend(flagged(evidence));
    found.extend(best_is_not_the_tip(evidence));
    found.extend(saved(evidence));
    found.extend(unreadable(evidence));
    found
}

#[cfg(test)]
mod tests {
    use super::super::evidence::tests::warned;
    use super::*;
    use crate::domain::Outcome;

    #[test]
    fn a_short_and_even_session_gives_no_warning() {
        let points = [("2.0", Outcome::Keep), ("1.9", Outcome::Keep), ("-", Outcome::Crash), ("2.5", Outcome::Discard)];
        assert_eq!(warned(&points, warnings, |_| ()), []);
    }
}
