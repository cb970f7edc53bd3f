//! The cost of agent calls, of a session's and of a night's, and whether cost limits can act.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::{
    Bound, Contract, ExperimentId, Price, Prices, Spent, StopReason, Tokens, Usage, cut, money_text, one_line,
    tokens_text,
};
use crate::rules::{History, Night, NightEnd, cap_of_tries, session_calls_enough, session_enough};

/// The most characters of a model's name.
const MODEL: usize = 100;

/// The usage that an agent reports about its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    /// Tokens and cost.
    Cost,
    /// Only tokens.
    Tokens,
    /// Nothing known.
    Nothing,
}

/// The usage of a call, with its cost from the prices if the agent reports none, or zero for tokens with a price.
/// `named` is the model in the agent's command line, for agents that do not report it.
pub fn priced(usage: Usage, named: Option<&str>, prices: &Prices) -> Usage {
    let model = usage.model.or(named.map(str::to_owned)).map(|model| cut(&one_line(&model), MODEL));
    let cost = usage.cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
    let of_tokens = || {
        let tokens = usage.tokens.filter(|tokens| *tokens != Tokens::default())?;
        Some(price_of(model.as_deref(), prices)?.of(tokens))
    };
    let cost = match cost {
        Some(cost) if cost > 0.0 => Some(cost),
        cost => of_tokens().or(cost),
    };
    Usage { model, tokens: usage.tokens, cost }
}

/// The price of a model; for an unnamed model, the only price. A suffix in brackets, such as the context size, is not
/// part of a model's name.
fn price_of<'a>(model: Option<&str>, prices: &'a Prices) -> Option<&'a Price> {
    match model {
        Some(model) => prices.get(model).or_else(|| prices.get(model.split('[').next()?)),
        None => prices.values().next().filter(|_| prices.len() == 1),
    }
}

/// The reason to stop if calls cost as much as a cap allows.
pub(crate) fn cost_enough(cap: Bound, limit: Option<f64>, spent: &Spent) -> Option<StopReason> {
    let (limit, spent) = (limit?, spent.cost.unwrap_or(0.0));
    let text = || format!("the agent's calls cost {} of {}", money_text(spent), money_text(limit));
    (spent >= limit).then(|| StopReason::reached(cap, true, json!({"limit": limit, "spent": spent}), text()))
}

/// The reason to stop if calls used as many tokens as a cap allows.
pub(crate) fn tokens_enough(cap: Bound, limit: Option<u64>, spent: &Spent) -> Option<StopReason> {
    let (limit, spent) = (limit?, spent.tokens.map_or(0, Tokens::total));
    let text = || format!("the agent's calls used {} of {} tokens", tokens_text(spent), tokens_text(limit));
    (spent >= limit).then(|| StopReason::reached(cap, true, json!({"limit": limit, "spent": spent}), text()))
}

/// Notices at the start about limits that may not act with this agent.
pub fn idle_limits(contract: &Contract, reports: Reports, spent: &Spent) -> Option<String> {
    let is_priced = !contract.prices.is_empty() && reports != Reports::Nothing;
    let caps = &contract.caps;
    let limits_cost = contract.max_cost.or(caps.session_max_cost).is_some();
    let limits_tokens = contract.max_tokens.or(caps.session_max_tokens).is_some();
    let cost = limits_cost && spent.cost.is_none() && reports != Reports::Cost && !is_priced;
    let tokens = limits_tokens && spent.tokens.is_none() && reports == Reports::Nothing;
    let (limits, what) = match (cost, tokens) {
        (true, false) if reports == Reports::Tokens => {
            return Some(
                "--max-cost cannot act: the agent reports only tokens; add [prices.\"MODEL\"] with input, output and cached \
                 to ar.toml, or pass --max-tokens"
                    .into(),
            );
        }
        (true, false) => ("--max-cost acts", "its cost"),
        (false, true) => ("--max-tokens acts", "its tokens"),
        (true, true) => ("--max-cost and --max-tokens act", "its cost or tokens"),
        (false, false) => return None,
    };
    Some(format!("{limits} only if the agent reports {what}; ar does not know whether it does"))
}

/// The expenses of a session, with its night.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Expenses {
    /// The usage of all agent calls.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
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
    use crate::domain::{CommitId, Direction, MetricSource, MetricSpec};
    use crate::rules::sample;

    fn contract() -> Contract {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
        Contract::new(tag, metric, "true".into(), start, jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_cost_that_is_not_reported_comes_from_the_tokens() {
        let price = |input| Price { input, output: 10.0, cached: None };
        let one = Prices::from([("gpt-5".to_owned(), price(1.0))]);
        let two = Prices::from([("gpt-5".to_owned(), price(1.0)), ("other".to_owned(), price(2.0))]);
        let tokens = Some(Tokens { input: 1_000_000, output: 100_000, cached: 0 });
        let cost = |model: Option<&str>, cost, named, prices| {
            priced(Usage { model: model.map(Into::into), tokens, cost }, named, prices).cost
        };
        assert_eq!(cost(Some("gpt-5"), None, None, &two), Some(2.0));
        assert_eq!(cost(None, None, Some("gpt-5[1m]"), &two), Some(2.0));
        assert_eq!([cost(None, None, None, &one), cost(None, None, None, &two)], [Some(2.0), None]);
        assert_eq!([cost(Some("new"), None, None, &one), cost(Some("new"), Some(0.0), None, &one)], [None, Some(0.0)]);
        assert_eq!(
            [cost(Some("gpt-5"), Some(0.5), None, &one), cost(Some("gpt-5"), Some(0.0), None, &one)],
            [Some(0.5), Some(2.0)]
        );
        assert_eq!([cost(None, Some(f64::NAN), None, &two), cost(None, Some(-1.0), None, &two)], [None; 2]);
    }

    #[test]
    fn limits_end_the_loop_when_they_are_reached() {
        let spent = Spent { calls: 3, tokens: Some(Tokens { input: 90, output: 10, cached: 80 }), cost: Some(2.0) };
        let limited = |max_cost, max_tokens| {
            let reason =
                cost_enough(Bound::MaxCost, max_cost, &spent).or(tokens_enough(Bound::MaxTokens, max_tokens, &spent));
            reason.map(|reason| serde_json::to_value(reason).unwrap())
        };
        assert_eq!([limited(None, None), limited(Some(2.01), Some(101))], [None, None]);
        assert_eq!(limited(Some(2.0), None), Some(json!({"kind": "max_cost", "limit": 2.0, "spent": 2.0})));
        assert_eq!(limited(None, Some(100)), Some(json!({"kind": "max_tokens", "limit": 100, "spent": 100})));
    }

    #[test]
    fn a_limit_that_may_not_act_is_told() {
        let prices = Prices::from([("m".to_owned(), Price { input: 1.0, output: 1.0, cached: None })]);
        let told = |cost: bool, tokens: bool, prices: &Prices, reports| {
            let max_cost = cost.then_some(1.0);
            let contract = Contract { max_cost, max_tokens: tokens.then_some(1), prices: prices.clone(), ..contract() };
            idle_limits(&contract, reports, &Spent::default())
                .map(|said| said.split([':', ';']).next().unwrap().to_owned())
        };
        let none = Prices::new();
        assert_eq!(told(true, true, &none, Reports::Cost), None);
        assert_eq!(told(true, true, &none, Reports::Tokens).as_deref(), Some("--max-cost cannot act"));
        assert_eq!(
            [told(true, true, &prices, Reports::Tokens), told(false, true, &none, Reports::Tokens)],
            [None, None]
        );
        assert_eq!(
            told(true, true, &none, Reports::Nothing).as_deref(),
            Some("--max-cost and --max-tokens act only if the agent reports its cost or tokens")
        );
        let unknown = told(true, false, &prices, Reports::Nothing);
        assert_eq!(unknown.as_deref(), Some("--max-cost acts only if the agent reports its cost"));
    }

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
