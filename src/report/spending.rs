//! The limits of a night and of a session, how much of them is used, and the cost of the agent's calls.

use serde::Serialize;
use serde_json::{Value, json};

use super::status::SessionStatus;
use crate::domain::{Bound, CURRENCY, Contract, Spent, Tag, Tokens, money_text, tokens_text};
use crate::rules::{cap_of_tries, session_calls_enough, session_enough};

/// A cap that is reached.
pub(super) struct ReachedCap {
    /// Its flag.
    flag: &'static str,
    /// True if another night lifts it.
    is_of_night: bool,
}

impl ReachedCap {
    /// Commands that continue in spite of the cap, with their effects.
    pub(super) fn ways_on(&self, tag: &Tag, has_agent: bool) -> Vec<(String, &'static str)> {
        let flag = self.flag;
        match (self.is_of_night, has_agent) {
            (true, _) => vec![
                (format!("ar run --tag {tag}"), "begins another night"),
                (format!("ar resume {tag} {flag} N"), "continues this night by N more"),
            ],
            (false, true) => vec![(format!("ar run --tag {tag} {flag} N"), "continues up to a higher limit")],
            (false, false) => {
                vec![(format!("ar try -m \"what it changes\" --tag {tag} {flag} N"), "continues up to a higher limit")]
            }
        }
    }
}

impl SessionStatus {
    /// Counts the experiments of the night and of the session, if either is limited.
    pub(super) fn experiments_text(&self, contract: &Contract) -> Option<String> {
        let (all, of_session) = (self.history.experiments(), contract.caps.session_max_experiments);
        let in_session = match of_session {
            Some(limit) => format!("{all} of {limit} in the session"),
            None => format!("{all} in the session"),
        };
        match (&self.night, contract.max_experiments) {
            (Some(night), Some(limit)) => {
                Some(format!("{} of {limit} experiments tonight, {in_session}", night.experiments(&self.history)))
            }
            (None, Some(limit)) if of_session.is_none() => Some(format!("{all} of {limit} experiments made")),
            _ => of_session.map(|limit| format!("{all} of {limit} experiments in the session")),
        }
    }

    /// Sums up the cost of the calls of the night and of the session, if limited.
    pub(super) fn cost_text(&self, contract: &Contract) -> Option<String> {
        let spent = |spent: &Spent, limit| match spent.cost {
            None if self.spent.calls > 0 => format!("cost unknown, limit {}", money_text(limit)),
            cost => format!("{} of {} spent", money_text(cost.unwrap_or(0.0)), money_text(limit)),
        };
        let tonight = contract.max_cost.map(|limit| match &self.night {
            Some(night) => format!("{} tonight", spent(&night.spent, limit)),
            None => spent(&self.spent, limit),
        });
        match (tonight, contract.caps.session_max_cost, self.spent.cost) {
            (Some(tonight), None, Some(all)) => Some(format!("{tonight}, {} in the session", money_text(all))),
            (tonight, None, _) => tonight,
            (tonight, Some(limit), _) => Some(
                tonight
                    .into_iter()
                    .chain([format!("{} in the session", spent(&self.spent, limit))])
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        }
    }

    /// Sums up the tokens that the calls of the night and of the session used, if limited.
    pub(super) fn tokens_text(&self, contract: &Contract) -> Option<String> {
        let total = |spent: &Spent| spent.tokens.map_or(0, Tokens::total);
        let used =
            |spent: &Spent, limit| format!("{} of {} tokens used", tokens_text(total(spent)), tokens_text(limit));
        let in_session = match contract.caps.session_max_tokens {
            Some(limit) => used(&self.spent, limit),
            None => tokens_text(total(&self.spent)),
        };
        let in_session = format!("{in_session} in the session");
        match (&self.night, contract.max_tokens) {
            (Some(night), Some(limit)) => Some(format!("{} tonight, {in_session}", used(&night.spent, limit))),
            (None, Some(limit)) => Some(used(&self.spent, limit)),
            (_, None) => contract.caps.session_max_tokens.map(|_| in_session),
        }
    }

    /// The flag of the cap that is reached, if so: of the session's first, as another night does not lift them.
    pub(super) fn reached_cap(&self) -> Option<ReachedCap> {
        let contract = self.contract.as_ref()?;
        let (session, night) = (&contract.caps, self.night.as_ref());
        let is_full = session_enough(session.session_max_experiments, &self.history).is_some();
        if is_full {
            return Some(ReachedCap { flag: "--session-max-experiments", is_of_night: false });
        }
        if let Some(reason) = session_calls_enough(contract, &self.spent) {
            let is_cost = reason.is_rule(Bound::SessionMaxCost);
            let flag = if is_cost { "--session-max-cost" } else { "--session-max-tokens" };
            return Some(ReachedCap { flag, is_of_night: false });
        }
        let flag = match night {
            None => session_enough(cap_of_tries(contract, false), &self.history).map(|_| match self.is_fetched {
                true => "--max-experiments",
                false => "--session-max-experiments",
            }),
            Some(night) if night.experiments_enough(contract, &self.history).is_some() => Some("--max-experiments"),
            Some(night) => {
                night.calls_enough(contract, &self.spent).map(|reason| match reason.is_rule(Bound::MaxCost) {
                    true => "--max-cost",
                    false => "--max-tokens",
                })
            }
        };
        // A loop of a fetched session begins its first night here.
        flag.map(|flag| ReachedCap { flag, is_of_night: night.is_some() || self.is_fetched })
    }

    /// The night and how far it has come.
    pub(super) fn night_json(&self) -> Option<Value> {
        Some(self.night.as_ref()?.to_json(&self.history))
    }

    /// The caps that count all nights.
    pub(super) fn session_caps_json(&self) -> Option<Value> {
        let caps = &self.contract.as_ref()?.caps;
        Some(json!({
            "max_experiments": caps.session_max_experiments,
            "max_cost": caps.session_max_cost,
            "max_tokens": caps.session_max_tokens,
        }))
    }
}

/// The cost of all calls of a session's agent, including those that led to no experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cost {
    total: f64,
    per_experiment: Option<f64>,
    per_keep: Option<f64>,
    currency: &'static str,
}

impl Cost {
    /// The cost of so many experiments and keeps, the baseline not counted; absent where it is not known.
    pub(super) fn of(spent: &Spent, experiments: u32, keeps: u32) -> Option<Cost> {
        let total = spent.cost?;
        let per = |count: u32| (count > 0).then(|| total / f64::from(count));
        Some(Cost { total, per_experiment: per(experiments), per_keep: per(keeps), currency: CURRENCY })
    }
}

impl Cost {
    /// All of it, for people.
    pub(super) fn total_text(&self) -> String {
        money_text(self.total)
    }
}

/// Cost and tokens as a fact for people; absent where neither is known.
pub(super) fn cost_sentence(cost: Option<&Cost>, tokens: Option<Tokens>) -> Option<String> {
    let money = cost.map(|cost| {
        let mut text = money_text(cost.total);
        for (part, what) in [(cost.per_experiment, "experiment"), (cost.per_keep, "keep")] {
            text += &part.map(|part| format!("; {} per {what}", money_text(part))).unwrap_or_default();
        }
        text
    });
    let parts: Vec<String> = [money, tokens_sentence(tokens)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Tokens for people.
pub(super) fn tokens_sentence(tokens: Option<Tokens>) -> Option<String> {
    let Tokens { input, output, cached } = tokens?;
    let cached = if cached == 0 { String::new() } else { format!(" ({} of them cached)", tokens_text(cached)) };
    Some(format!("{} tokens in{cached}, {} out", tokens_text(input), tokens_text(output)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_told_per_experiment_and_per_keep() {
        let spent =
            Spent { calls: 9, tokens: Some(Tokens { input: 12_000, output: 340, cached: 8000 }), cost: Some(1.5) };
        let cost = Cost::of(&spent, 6, 2).unwrap();
        assert_eq!((cost.total, cost.per_experiment, cost.per_keep), (1.5, Some(0.25), Some(0.75)));
        let said = cost_sentence(Some(&cost), spent.tokens).unwrap();
        assert_eq!(said, "$1.50; $0.25 per experiment; $0.75 per keep; 12.0k tokens in (8.0k of them cached), 340 out");
        let none = Cost::of(&spent, 0, 0).unwrap();
        assert_eq!((none.per_experiment, none.per_keep), (None, None));
        assert_eq!(Cost::of(&Spent::default(), 1, 1), None);
        assert_eq!(cost_sentence(None, None), None);
    }
}
