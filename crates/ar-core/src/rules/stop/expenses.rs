//! The cost of a session's agent calls, and the night that counts them.

use serde::{Deserialize, Serialize};

use super::night::{Night, NightEnd, cap_of_tries, session_calls_enough, session_enough};
use crate::domain::{Contract, ExperimentId, Spent, StopReason, Usage};
use crate::rules::history::History;

/// The expenses of a session, with its night.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Expenses {
    /// The usage of all agent calls.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    spent: Spent,
    /// The night that it is in, or was in last; absent before a loop's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    night: Option<Night>,
}

impl Expenses {
    /// The expenses that a session's records tell of.
    pub fn of_records(history: &History) -> Self {
        Expenses { spent: history.spent(), night: None }
    }

    /// The usage of all calls.
    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// The last night; `None` before a loop's first.
    pub fn last_night(&self) -> Option<&Night> {
        self.night.as_ref()
    }

    /// The night that the loop is in. One of an earlier version began with the session.
    pub fn night(&self, contract: &Contract) -> Night {
        let older = || Night::since_the_start(contract, self.spent, NightEnd::Open);
        self.night.clone().unwrap_or_else(older)
    }

    /// The night before a new loop; for a journal without one that `had_loop`, one that began with the session.
    pub fn night_before(&self, contract: &Contract, had_loop: bool, end: NightEnd) -> Option<Night> {
        let older = || Night::since_the_start(contract, self.spent, end);
        self.night.clone().or_else(|| (had_loop || self.spent.calls > 0).then(older))
    }

    /// Enters a night, or stays in the last one.
    pub fn enter(&mut self, night: Option<Night>) {
        self.night = night.or(self.night.take());
    }

    /// Counts a call that came to an end.
    pub fn count_call(&mut self) {
        self.spent.calls = self.spent.calls.saturating_add(1);
    }

    /// Adds the usage of a call, in a loop also to its night.
    pub fn spend(&mut self, usage: &Usage, in_loop: bool) {
        self.spent.add(usage.tokens, usage.cost);
        if let Some(night) = self.night.as_mut().filter(|_| in_loop) {
            night.spend(usage);
        }
    }

    /// Notes who makes the experiment of a number; see [`Night::allot`].
    pub fn allot(&mut self, id: ExperimentId, by_hand: bool) {
        if let Some(night) = &mut self.night {
            night.allot(id, by_hand);
        }
    }

    /// Notes the end of a loop.
    pub fn end_loop(&mut self, reason: &StopReason) {
        if let Some(night) = &mut self.night {
            night.end_by(reason);
        }
    }

    /// The cap on experiments that is reached for `ar try`.
    pub fn tries_enough(&self, contract: &Contract, history: &History) -> Option<StopReason> {
        session_enough(cap_of_tries(contract, self.night.is_some()), history)
    }

    /// The cap on what calls use that is reached: the session's, and in a loop also its night's.
    pub fn calls_enough(&self, contract: &Contract, in_loop: bool) -> Option<StopReason> {
        match in_loop {
            true => self.night(contract).calls_enough(contract, &self.spent),
            false => session_calls_enough(contract, &self.spent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::sample;

    fn usage(cost: f64) -> Usage {
        Usage { cost: Some(cost), ..Usage::default() }
    }

    #[test]
    fn only_calls_of_a_loop_count_in_its_night() {
        let mut contract = sample::contract("x");
        (contract.max_cost, contract.caps.session_max_cost) = (Some(1.0), Some(4.0));
        let mut expenses = Expenses::default();
        assert_eq!(expenses.night_before(&contract, false, NightEnd::Over), None);
        expenses.enter(expenses.night_before(&contract, true, NightEnd::Over));
        expenses.spend(&usage(1.5), false);
        assert_eq!((expenses.spent().cost, expenses.calls_enough(&contract, true)), (Some(1.5), None));
        expenses.spend(&usage(1.0), true);
        let is_enough = |expenses: &Expenses, in_loop| expenses.calls_enough(&contract, in_loop).is_some();
        assert_eq!((is_enough(&expenses, true), is_enough(&expenses, false)), (true, false));
        expenses.spend(&usage(1.5), false);
        assert!(is_enough(&expenses, false));
    }

    #[test]
    fn a_night_stays_until_another_is_entered() {
        let contract = sample::contract("x");
        let mut expenses = Expenses::default();
        expenses.count_call();
        let first = expenses.night_before(&contract, false, NightEnd::Open).unwrap();
        assert_eq!(first.spent.calls, 0, "a night counts no calls");
        expenses.enter(Some(first.clone()));
        expenses.enter(None);
        assert_eq!(expenses.last_night(), Some(&first));
        expenses.end_loop(&StopReason::Terminated);
        assert_eq!(expenses.night(&contract).end, NightEnd::Terminated);
    }
}
