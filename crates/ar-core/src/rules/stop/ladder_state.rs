//! The state of a session on its ladder: its rung, its flags, and the proposals for a pivot.

use serde::{Deserialize, Serialize};

use super::ladder::{Turn, climb, climb_all, in_seat, redirected, turn_of};
use crate::domain::{
    Contract, Directive, ExperimentId, Explored, Outcome, Record, Role, RoleProposal, Rung, StopReason, ToldStep,
};
use crate::rules::history::{History, directions_tried, is_tried};

/// The largest number of steps that are remembered without a keep.
const TOLD: usize = 50;

/// The state of a session on its ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LadderState {
    /// Iterations since the last keep.
    stale_count: u32,
    /// The position of the session on its ladder.
    #[serde(default)]
    rung: Rung,
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
    #[serde(default, skip_serializing_if = "Explored::is_nothing")]
    explored: Explored,
}

impl LadderState {
    /// The state that a session's records lead to.
    pub fn of_records(contract: Option<&Contract>, history: &History) -> Self {
        let ladder = contract.map(|contract| contract.ladder).unwrap_or_default();
        let (rung, flagged) = climb_all(ladder, history, contract.is_some_and(Contract::allows_research));
        LadderState { stale_count: history.since_keep(), rung, flagged, ..LadderState::default() }
    }

    /// The rung.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// The iterations since the last keep.
    pub fn stale_count(&self) -> u32 {
        self.stale_count
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
    pub fn repeated_direction(
        &self,
        contract: &Contract,
        history: &History,
        direction: Option<&str>,
        seat: Option<u32>,
    ) -> Option<String> {
        let named = direction.filter(|_| self.directive_in(contract, seat).refuses_tried())?;
        is_tried(history.records(), named).then(|| named.to_owned())
    }

    /// Counts an experiment that `history` has.
    pub fn count(&mut self, contract: &Contract, history: &History, record: &Record) {
        self.stale_count = if record.outcome == Outcome::Keep { 0 } else { self.stale_count + 1 };
        if let Some(turn) = turn_of(record, history.best().map(|(_, number)| number.value)) {
            self.take(contract, history, turn);
        }
    }

    /// Counts a call that changed nothing. Returns the rung of before.
    pub fn count_idle(&mut self, contract: &Contract, history: &History) -> Rung {
        let before = self.rung;
        self.stale_count += 1;
        self.take(contract, history, Turn::Idle);
        before
    }

    /// Begins anew in an untried direction, with a flag. Returns the rung of before.
    pub fn redirect(&mut self, contract: &Contract, history: &History) -> Rung {
        let before = self.rung;
        self.step_to(redirected(before), contract, history);
        before
    }

    fn take(&mut self, contract: &Contract, history: &History, turn: Turn) {
        self.step_to(climb(contract.ladder, self.rung, turn, contract.allows_research()), contract, history);
        if turn == Turn::Kept {
            self.told.clear();
        }
    }

    fn step_to(&mut self, rung: Rung, contract: &Contract, history: &History) {
        let before = std::mem::replace(&mut self.rung, rung);
        let after = history.last_id();
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
    pub fn new_since(&self, before: Rung) -> (Option<u32>, Option<Directive>) {
        let Rung { flags, directive, .. } = self.rung;
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

    /// The role to be asked for a proposal before the next experiment, if `count` are to be asked at a pivot.
    pub fn next_role(&self, count: u32) -> Option<Role> {
        self.explored.next_role(self.rung.turns, count).filter(|_| self.wants_new_direction())
    }

    /// Notes that a role was asked, and its proposal if it made one.
    pub fn note_proposal(&mut self, proposal: Option<RoleProposal>) {
        self.explored.note(self.rung.turns, proposal);
    }

    /// The proposals for the next experiment.
    pub fn proposals(&self) -> &[RoleProposal] {
        if self.wants_new_direction() { self.explored.at(self.rung.turns) } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample;

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
        assert_eq!((ladder.rung(), ladder.stale_count()), (recorded.rung(), 12));
        let told: Vec<u32> = ladder.told().iter().map(|step| step.after.number()).collect();
        assert_eq!(told, [4, 6, 9, 11], "refine and pivot, twice");
        let (_, kept) = session(&[false, false, false, true], &contract);
        assert_eq!((kept.stale_count(), kept.told(), kept.directive()), (0, &[][..], Directive::Free));
    }

    #[test]
    fn a_flag_stops_the_loop_once_and_only_where_the_contract_says_so() {
        for stop_when_flagged in [true, false] {
            let contract = Contract { stop_when_flagged, ..sample::contract("x") };
            let (history, mut ladder) = session(&[false; 3], &contract);
            let before = ladder.rung();
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
        let contract = sample::contract("x");
        let (mut history, mut ladder) = session(&[false; 5], &contract);
        assert_eq!((ladder.next_role(0), ladder.next_role(2)), (None, Some(Role::Investigate)));
        ladder.note_proposal(Some(RoleProposal { role: Role::Investigate, text: "x".into() }));
        assert_eq!((ladder.proposals().len(), ladder.next_role(1)), (1, None));
        history.push(sample::record(json!({"id": 6, "outcome": "keep", "value": "1.0"})));
        ladder.count(&contract, &history, &history.records()[6].clone());
        assert_eq!((ladder.proposals(), ladder.next_role(2)), (&[][..], None), "no pivot any more");
    }

    #[test]
    fn a_direction_is_repeated_only_where_a_new_one_is_wanted() {
        let contract = sample::contract("x");
        let (mut history, ladder) = session(&[false; 10], &contract);
        history.push(sample::record(json!({"id": 11, "outcome": "discard", "value": "3.0", "direction": "warm up"})));
        let repeats = |ladder: &LadderState, direction| ladder.repeated_direction(&contract, &history, direction, None);
        assert_eq!(repeats(&ladder, Some("Warm up")), Some("Warm up".to_owned()));
        assert_eq!((repeats(&ladder, Some("batch")), repeats(&ladder, None)), (None, None));
        assert_eq!(repeats(&LadderState::default(), Some("warm up")), None);
    }
}
