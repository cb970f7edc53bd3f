//! The ladder without recent keeps: refine, pivot, research, flag.
//!
//! Ladders and thresholds follow two protocols in use. Overnight training agents refine after 3 attempts without a
//! keep, pivot after 5, search after 2 pivots and stop for review after 3. Long-horizon research pivots the structure
//! after 2 iterations without a finding and flags after 4.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::domain::{
    Contract, Directive, ExperimentId, Explored, Failure, FailureClass, Ladder, LadderPosition, Outcome, Perturbation,
    Record, Role, RoleProposal, StopReason, ToldStep,
};
use crate::rules::history::{History, directions_tried, is_tried};

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
pub(crate) fn advance(ladder: Ladder, rung: LadderPosition, turn: Turn, research: bool) -> LadderPosition {
    let repeated = if turn == Turn::Repeated { rung.repeated + 1 } else { 0 };
    let rung = LadderPosition { repeated, ..rung };
    if turn == Turn::Kept {
        return LadderPosition { stale: 0, pivots: 0, directive: Directive::Free, ..rung };
    }
    if repeated >= REPEATS_BEFORE_FLAG {
        return flag(rung);
    }
    match ladder {
        Ladder::Refine => refine(LadderPosition { stale: rung.stale + 1, ..rung }, turn, research),
        Ladder::Structural => {
            let moved_on = matches!(turn, Turn::NotKept { worse: false, finding: true });
            let next = structural(LadderPosition { stale: rung.stale + u32::from(!moved_on), ..rung }, moved_on);
            // A pivot that was not followed holds.
            let holds = turn == Turn::Repeated && next.flags == rung.flags;
            if holds {
                LadderPosition { directive: rung.directive, pivots: rung.pivots, turns: rung.turns, ..next }
            } else {
                next
            }
        }
    }
}

/// Begins anew in an untried direction, as after a flag: a guardian found that nothing comes of the session any more.
pub(crate) fn redirected(rung: LadderPosition) -> LadderPosition {
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

/// The iteration of an experiment; `None` for the baseline, for lost, disturbed and tainted runs, and for second looks that are not
/// kept. `incumbent` is the value to beat.
pub(crate) fn turn_of(record: &Record, incumbent: Option<f64>) -> Option<Turn> {
    use FailureClass::{Changed, Lost, Tainted};
    let is_disturbed = |failure: &Failure| matches!(failure.class, Lost | Changed | Tainted);
    if record.id.is_baseline() || record.failure.as_ref().is_some_and(is_disturbed) {
        return None;
    }
    if record.outcome == Outcome::Keep {
        return Some(Turn::Kept);
    }
    if record.is_second_look() {
        return None;
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

/// The position of a session on its ladder after each of its records. Agent calls without changes have no record and do
/// not count.
pub fn rungs(contract: Option<&Contract>, history: &History) -> Vec<LadderPosition> {
    let ladder = contract.map(|contract| contract.ladder).unwrap_or_default();
    let research = contract.is_some_and(Contract::allows_research);
    let mut rung = LadderPosition::default();
    let mut incumbent = None;
    let after = |record: &Record| {
        if let Some(turn) = turn_of(record, incumbent) {
            rung = advance(ladder, rung, turn, research);
        }
        if record.outcome == Outcome::Keep {
            // Only the last car of a train has a value.
            incumbent = record.metric.value.or(incumbent);
        }
        rung
    };
    history.records().iter().map(after).collect()
}

fn refine(rung: LadderPosition, turn: Turn, research: bool) -> LadderPosition {
    if rung.stale < PIVOT_AFTER {
        let directive = match rung.stale {
            // The directive of a call without a change to measure holds until there is one.
            _ if matches!(turn, Turn::Idle | Turn::Repeated) && rung.directive.wants_new_direction() => rung.directive,
            REFINE_AFTER.. => Directive::Refine,
            _ => Directive::Free,
        };
        return LadderPosition { directive, ..rung };
    }
    let pivots = rung.pivots + 1;
    if pivots >= FLAG_AT {
        return flag(rung);
    }
    let perturbation = perturbation(rung.turns);
    let directive = Directive::Pivot { perturbation, research: research && pivots >= RESEARCH_AT };
    LadderPosition { stale: 0, pivots, turns: rung.turns + 1, directive, ..rung }
}

fn structural(rung: LadderPosition, moved_on: bool) -> LadderPosition {
    if rung.stale >= STRUCTURAL_FLAG_AFTER {
        return flag(rung);
    }
    if rung.stale < STRUCTURAL_PIVOT_AFTER || moved_on {
        return LadderPosition { directive: Directive::Free, ..rung };
    }
    let directive = Directive::Pivot { perturbation: perturbation(rung.turns), research: false };
    LadderPosition { pivots: rung.pivots + 1, turns: rung.turns + 1, directive, ..rung }
}

fn flag(rung: LadderPosition) -> LadderPosition {
    let directive = Directive::FreshStart { perturbation: perturbation(rung.turns) };
    LadderPosition { stale: 0, pivots: 0, turns: rung.turns + 1, flags: rung.flags + 1, directive, repeated: 0 }
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

/// The largest number of steps that are remembered without a keep.
const TOLD: usize = 50;

/// The state of a session on its ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderState {
    /// The count of the ladder towards its next step, as other programs read it.
    stale_count: u32,
    /// The position of the session on its ladder.
    #[serde(default)]
    rung: LadderPosition,
    /// The experiments after which the session was flagged for review.
    #[serde(default)]
    flagged: Vec<ExperimentId>,
    /// The directives to the agent since the last keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    told: Vec<ToldStep>,
    /// True after a flag, if the contract stops the loop for flags and it has not stopped yet.
    #[serde(default)]
    stops_for_flag: bool,
    /// The proposals for the last pivot.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    explored: Explored,
}

impl LadderState {
    /// The state that a session's records lead to.
    pub fn of_records(contract: Option<&Contract>, history: &History) -> Self {
        let mut state = LadderState::default();
        for (record, rung) in history.records().iter().zip(rungs(contract, history)) {
            if rung.flags > state.rung.flags {
                state.flagged.push(record.id);
            }
            (state.stale_count, state.rung) = (rung.stale, rung);
        }
        state.explore(contract.map_or(0, |contract| contract.explore));
        state
    }

    /// The rung.
    pub fn position(&self) -> LadderPosition {
        self.rung
    }

    /// The experiments after which the session was flagged for review.
    pub fn flagged(&self) -> &[ExperimentId] {
        &self.flagged
    }

    /// The directives since the last keep.
    pub fn told(&self) -> &[ToldStep] {
        &self.told
    }

    /// The directive for the next experiment.
    pub fn directive(&self) -> Directive {
        self.rung.directive
    }

    /// Returns whether the next experiment must take a new direction.
    pub fn wants_new_direction(&self) -> bool {
        self.directive().wants_new_direction()
    }

    /// Returns whether a change names no direction although a new one is required.
    pub fn lacks_direction(&self, direction: Option<&str>) -> bool {
        direction.is_none() && self.wants_new_direction()
    }

    /// The directive for the agent in a seat. With proposals before a pivot, all seats get the same one.
    pub fn directive_in(&self, contract: &Contract, seat: Option<u32>) -> Directive {
        if contract.explore > 0 { self.directive() } else { in_seat(self.directive(), seat.unwrap_or(0)) }
    }

    /// The direction that a change names although it was tried and a new one was asked for.
    pub fn repeated_direction(&self, history: &History, direction: Option<&str>) -> Option<String> {
        let named = direction.filter(|_| self.wants_new_direction())?;
        is_tried(history.records(), named).then(|| named.to_owned())
    }

    /// Counts an experiment that `history` has.
    pub fn count(&mut self, contract: &Contract, history: &History, record: &Record) {
        if let Some(turn) = turn_of(record, history.best().map(|(_, number)| number.value)) {
            self.take(contract, history, turn);
        }
    }

    /// Counts a call that changed nothing. Returns the rung of before.
    pub fn count_idle(&mut self, contract: &Contract, history: &History) -> LadderPosition {
        let before = self.rung;
        self.take(contract, history, Turn::Idle);
        before
    }

    /// Begins anew in an untried direction, with a flag. Returns the rung of before.
    pub fn redirect(&mut self, contract: &Contract, history: &History) -> LadderPosition {
        let before = self.rung;
        self.step_to(redirected(before), contract, history);
        before
    }

    fn take(&mut self, contract: &Contract, history: &History, turn: Turn) {
        self.step_to(advance(contract.ladder, self.rung, turn, contract.allows_research()), contract, history);
        if turn == Turn::Kept {
            self.told.clear();
        }
    }

    fn step_to(&mut self, rung: LadderPosition, contract: &Contract, history: &History) {
        let before = std::mem::replace(&mut self.rung, rung);
        self.stale_count = rung.stale;
        let after = history.last_id();
        if rung.turns > before.turns {
            self.explore(contract.explore);
        }
        let (flags, directive) = self.new_since(before);
        if let Some(directive) = directive {
            self.told.push(ToldStep { after, directive });
            self.told.drain(..self.told.len().saturating_sub(TOLD));
        }
        if flags.is_some() {
            self.flagged.push(after);
            self.stops_for_flag = contract.stop_when_flagged;
        }
    }

    /// Returns the number of flags if it rose since `before`, and the directive if it changed to another than
    /// [`Directive::Free`].
    pub fn new_since(&self, before: LadderPosition) -> (Option<u32>, Option<Directive>) {
        let LadderPosition { flags, directive, .. } = self.rung;
        let is_new = directive != before.directive && directive != Directive::Free;
        ((flags > before.flags).then_some(flags), is_new.then_some(directive))
    }

    /// Returns the reason to stop the loop, if the session was flagged and its contract stops for flags. It stops once
    /// for each flag.
    pub fn stop_for_flag(&mut self, history: &History) -> Option<StopReason> {
        self.dismiss_flag().then(|| StopReason::Flagged {
            after: history.last_id(),
            tried: directions_tried(history.records()),
            told: self.told.clone(),
        })
    }

    /// Notes that the user knows of the flag, so that no loop stops for it. Returns whether one would have.
    pub fn dismiss_flag(&mut self) -> bool {
        std::mem::take(&mut self.stops_for_flag)
    }

    /// Has `count` roles asked for a proposal, if this is a pivot.
    fn explore(&mut self, count: u32) {
        if count > 0 && self.wants_new_direction() {
            self.explored.begin(self.rung.turns, count);
        }
    }

    /// The role to be asked for a proposal before the next experiment, if `count` are to be asked at a pivot. Experiments
    /// that end meanwhile drop none.
    pub fn next_role(&self, count: u32) -> Option<Role> {
        self.explored.next_role(count)
    }

    /// Notes that a role was asked, and its proposal if it made one.
    pub fn note_proposal(&mut self, proposal: Option<RoleProposal>) {
        self.explored.note(proposal);
    }

    /// The proposals to show for an experiment: every one at the pivot, else the first.
    pub fn proposals(&self, id: ExperimentId) -> &[RoleProposal] {
        let is_first = self.explored.shown.is_none_or(|shown| shown == id);
        if self.wants_new_direction() || is_first { &self.explored.proposals } else { &[] }
    }

    /// Notes that the agent of an experiment is shown the proposals, if there are any.
    pub fn show_proposals(&mut self, id: ExperimentId) {
        if !self.explored.proposals.is_empty() {
            self.explored.shown.get_or_insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample;

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
        let mut rung = LadderPosition::default();
        turns
            .iter()
            .map(|turn| {
                rung = advance(ladder, rung, *turn, research);
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

    /// A session with these experiments after its baseline, each kept or not, and its ladder.
    fn session(kept: &[bool], contract: &Contract) -> (History, LadderState) {
        let mut history = History::new(vec![sample::record(json!({"value": "2.0"}))]);
        let mut ladder = LadderState::default();
        for (id, is_kept) in (1..).zip(kept) {
            let (outcome, value) = if *is_kept { ("keep", "1.0") } else { ("discard", "3.0") };
            history.push(sample::record(json!({"id": id, "outcome": outcome, "value": value})));
            ladder.count(contract, &history, &history.records()[id].clone());
        }
        (history, ladder)
    }

    #[test]
    fn experiments_lead_to_the_state_that_their_records_tell() {
        let contract = sample::contract("x");
        let (history, ladder) = session(&[[true].as_slice(), &[false; 12]].concat(), &contract);
        let recorded = LadderState::of_records(Some(&contract), &history);
        assert_eq!((ladder.position(), ladder.stale_count), (recorded.position(), recorded.stale_count));
        let counts: Vec<u32> = rungs(Some(&contract), &history).iter().map(|rung| rung.stale).collect();
        assert_eq!((ladder.stale_count, &counts[5..]), (2, &[4, 0, 1, 2, 3, 4, 0, 1, 2][..]), "a pivot begins anew");
        let told: Vec<u32> = ladder.told().iter().map(|step| step.after.number()).collect();
        assert_eq!(told, [4, 6, 9, 11], "refine and pivot, twice");
        let (_, kept) = session(&[false, false, false, true], &contract);
        assert_eq!((kept.stale_count, kept.told(), kept.directive()), (0, &[][..], Directive::Free));
    }

    #[test]
    fn a_flag_stops_the_loop_once_and_only_where_the_contract_says_so() {
        for stop_when_flagged in [true, false] {
            let contract = Contract { stop_when_flagged, ..sample::contract("x") };
            let (history, mut ladder) = session(&[false; 3], &contract);
            let before = ladder.position();
            ladder.redirect(&contract, &history);
            let (flags, directive) = ladder.new_since(before);
            assert_eq!((flags, directive), (Some(1), Some(ladder.directive())));
            assert_eq!(ladder.flagged(), [3.into()]);
            let stops = ladder.stop_for_flag(&history);
            assert_eq!(matches!(stops, Some(StopReason::Flagged { .. })), stop_when_flagged, "{stops:?}");
            assert_eq!((ladder.stop_for_flag(&history), ladder.dismiss_flag()), (None, false));
        }
    }

    #[test]
    fn proposals_belong_to_one_pivot() {
        let contract = Contract { explore: 2, ..sample::contract("x") };
        for (outcome, value) in [("keep", "1.0"), ("discard", "3.0")] {
            let (mut history, mut ladder) = session(&[false; 5], &contract);
            let proposal = |role| Some(RoleProposal { role, text: "x".into() });
            assert_eq!((ladder.next_role(0), ladder.next_role(2)), (None, Some(Role::Investigate)));
            ladder.note_proposal(proposal(Role::Investigate));
            history.push(sample::record(json!({"id": 6, "outcome": outcome, "value": value})));
            ladder.count(&contract, &history, &history.records()[6].clone());
            assert!(!ladder.wants_new_direction());
            assert_eq!(ladder.next_role(2), Some(Role::Refute), "{outcome}: what ends meanwhile drops no role");
            ladder.note_proposal(proposal(Role::Refute));
            assert_eq!((ladder.proposals(7.into()).len(), ladder.next_role(2)), (2, None));
            ladder.show_proposals(7.into());
            assert_eq!((ladder.proposals(7.into()).len(), ladder.proposals(8.into()).len()), (2, 0), "not twice");
        }
    }

    #[test]
    fn a_direction_is_repeated_only_where_a_new_one_is_wanted() {
        let contract = sample::contract("x");
        let (mut history, ladder) = session(&[false; 10], &contract);
        history.push(sample::record(json!({"id": 11, "outcome": "discard", "value": "3.0", "direction": "warm up"})));
        let repeats = |ladder: &LadderState, direction| ladder.repeated_direction(&history, direction);
        assert_eq!(repeats(&ladder, Some("Warm up")), Some("Warm up".to_owned()));
        assert_eq!((repeats(&ladder, Some("batch")), repeats(&ladder, None)), (None, None));
        assert_eq!(repeats(&LadderState::default(), Some("warm up")), None);
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod of_records;
