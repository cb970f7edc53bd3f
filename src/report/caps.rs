//! Limits of a night and of a session, and how much of them is used.

use serde_json::{Value, json};

use super::session_status::SessionStatus;
use crate::domain::{Bound, Contract, Spent, Tag, Tokens, money_text, tokens_text};
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
