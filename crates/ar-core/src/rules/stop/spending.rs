//! The cost of agent calls, and whether cost limits can act.

use serde_json::json;

use crate::domain::{
    Bound, Contract, Price, Prices, Spent, StopReason, Tokens, Usage, cut, money_text, one_line, tokens_text,
};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CommitId, Direction, MetricSource, MetricSpec};

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
}
