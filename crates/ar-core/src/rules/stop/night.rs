//! A night: what the caps count. It begins with each typed `ar run`, unless the last loop did not end in good order.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::spending::{cost_enough, tokens_enough};
use crate::domain::{
    Asked, Bound, Contract, ExperimentId, Failure, FailureClass, Record, Spent, StopReason, Tokens, Usage, count_of,
};
use crate::rules::history::History;

/// The way in which a loop was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopCall {
    /// By `ar run`.
    Typed,
    /// By `ar run` in a batch job that Slurm started again, with the flags of the first time.
    Requeued,
    /// By `ar resume`, also a patrol's, or by a loop that opens its session again.
    Resumed,
}

/// The end of a night's last loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NightEnd {
    /// None: the loop is active, was killed, or left its run behind.
    #[default]
    Open,
    /// A SIGTERM: a person's, or that of a shutdown.
    Terminated,
    /// In good order.
    Over,
}

/// The caps of a night.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NightCaps {
    /// The number of experiments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiments: Option<u32>,
    /// The cost of the agent's calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Their tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl NightCaps {
    /// The caps that are asked for.
    pub fn of(asked: &Asked) -> NightCaps {
        NightCaps { experiments: asked.max_experiments, cost: asked.max_cost, tokens: asked.max_tokens }
    }

    /// The caps of a contract.
    pub fn in_contract(contract: &Contract) -> NightCaps {
        NightCaps { experiments: contract.max_experiments, cost: contract.max_cost, tokens: contract.max_tokens }
    }

    /// These caps, and where there is none that of `other`.
    pub fn or(self, other: NightCaps) -> NightCaps {
        NightCaps {
            experiments: self.experiments.or(other.experiments),
            cost: self.cost.or(other.cost),
            tokens: self.tokens.or(other.tokens),
        }
    }

    /// Makes them those of a contract.
    pub fn enter(self, contract: &mut Contract) {
        (contract.max_experiments, contract.max_cost, contract.max_tokens) = (self.experiments, self.cost, self.tokens);
    }
}

/// The night settings of one invocation of the loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tonight {
    /// True if it begins a night.
    pub begins: bool,
    /// True for a typed `ar run`.
    pub is_typed: bool,
    /// The caps that hold from now on.
    pub caps: NightCaps,
    /// The caps that count from now on, given to a loop that continues a night.
    pub anew: NightCaps,
    /// The duration of the night, if this invocation sets it: from now on for `ar resume`, else from the night's
    /// beginning.
    pub budget: Option<Duration>,
    /// True if this invocation sets the time of day at which the night ends.
    pub until: bool,
}

/// The moment at which an invocation of the loop enters its night.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// The place of the next record.
    pub next: u32,
    /// The duration of one night of the session.
    pub budget: Option<Duration>,
    /// The next time of day at which one ends.
    pub until: Option<Timestamp>,
}

/// A night, as the journal has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Night {
    /// When it began.
    #[serde(with = "crate::domain::millis")]
    pub began: Timestamp,
    /// Its caps.
    pub caps: NightCaps,
    /// The place of the first record that it counts.
    pub from: u32,
    /// The experiments since then that `ar try` made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<ExperimentId>,
    /// The usage of its calls.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent: Spent,
    /// When `--for` ends it.
    #[serde(default, with = "crate::domain::millis::option", skip_serializing_if = "Option::is_none")]
    pub ends: Option<Timestamp>,
    /// When `--until` ends it.
    #[serde(default, with = "crate::domain::millis::option", skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The end of its last loop.
    pub end: NightEnd,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Night {
    /// The night of a session whose journal knows none: it began with the session.
    pub fn since_the_start(contract: &Contract, spent: Spent, end: NightEnd) -> Night {
        Night {
            began: contract.created,
            caps: NightCaps::in_contract(contract),
            // It counts no calls.
            spent: Spent { calls: 0, ..spent },
            end,
            ..Night::default()
        }
    }

    /// The night that an invocation of the loop enters, after the one `before`.
    pub fn enter(before: Option<Night>, tonight: &Tonight, at: Moment) -> Night {
        let Moment { now, next, budget, until } = at;
        let ends = |budget: Option<Duration>| budget.and_then(|budget| now.checked_add(budget).ok());
        let begun =
            || Night { began: now, caps: tonight.caps, from: next, ends: ends(budget), until, ..Night::default() };
        let Some(mut night) = before.filter(|_| !tonight.begins) else { return begun() };
        (night.caps, night.end) = (tonight.caps, NightEnd::Open);
        if tonight.anew.experiments.is_some() {
            (night.from, night.apart) = (next, Vec::new());
        }
        if tonight.anew.cost.is_some() {
            night.spent.cost = None;
        }
        if tonight.anew.tokens.is_some() {
            night.spent.tokens = None;
        }
        night.ends = match (tonight.budget, night.ends) {
            (Some(budget), _) if tonight.is_typed => night.began.checked_add(budget).ok(),
            (Some(budget), _) => ends(Some(budget)),
            (None, None) => ends(budget),
            (None, ends) => ends,
        };
        if tonight.until || night.until.is_none() {
            night.until = until;
        }
        night
    }

    /// The times from a moment to its ends, by `--for` and by `--until`; zero for one that has passed.
    pub fn left(&self, now: Timestamp) -> (Option<Duration>, Option<Duration>) {
        let left = |end: Timestamp| Duration::try_from(end.duration_since(now)).unwrap_or_default();
        (self.ends.map(left), self.until.map(left))
    }

    /// Returns whether a typed `ar run` can continue the night. `same_boot` is true if the machine has not restarted
    /// since its last loop.
    pub fn is_unfinished(&self, same_boot: bool, now: Timestamp) -> bool {
        let is_cut_short = match self.end {
            NightEnd::Open => true,
            // On the same boot it was a person.
            NightEnd::Terminated => !same_boot,
            NightEnd::Over => false,
        };
        is_cut_short && [self.ends, self.until].into_iter().flatten().all(|end| now < end)
    }

    /// Notes the end of a loop.
    pub fn end_by(&mut self, reason: &StopReason) {
        self.end = match reason {
            StopReason::Detached => NightEnd::Open,
            StopReason::Terminated => NightEnd::Terminated,
            _ => NightEnd::Over,
        };
    }

    /// Notes who makes the experiment of a number: what `ar try` makes counts in the session only.
    pub fn allot(&mut self, id: ExperimentId, by_hand: bool) {
        // A number that was given up is given again.
        self.apart.retain(|apart| *apart != id);
        if by_hand {
            self.apart.push(id);
        }
    }

    /// Adds what a call used.
    pub fn spend(&mut self, usage: &Usage) {
        self.spent.add(usage.tokens, usage.cost);
    }

    /// Counts its records for which `counts`, without the baseline and those of `ar try`.
    fn count(&self, history: &History, counts: impl Fn(&Record) -> bool) -> u32 {
        let is_its = |record: &&Record| {
            record.sequence() >= self.from && !record.id.is_baseline() && !self.apart.contains(&record.id)
        };
        let count = history.records().iter().filter(is_its).filter(|record| counts(record)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Counts its experiments, without duplicates that were refused.
    pub fn experiments(&self, history: &History) -> u32 {
        let is_duplicate = |failure: &Failure| failure.class == FailureClass::Duplicate;
        self.count(history, |record| !(record.runs.is_empty() && record.failure.as_ref().is_some_and(is_duplicate)))
    }

    /// Counts its changes that were refused without a run.
    fn refusals(&self, history: &History) -> u32 {
        self.count(history, |record| record.failure.as_ref().is_some_and(|failure| failure.class.is_refusal()))
    }

    /// The number of experiments that its cap and the session's still allow; `None` if neither limits it.
    pub fn experiments_left(&self, contract: &Contract, history: &History) -> Option<u32> {
        let left = |limit: u32| limit.saturating_sub(self.experiments(history));
        let is_full = |limit| self.refusals(history) >= limit;
        let tonight = self.caps.experiments.map(|limit| if is_full(limit) { 0 } else { left(limit) });
        let of_session = contract.caps.session_max_experiments;
        let in_session = of_session.map(|limit| limit.saturating_sub(history.experiments()));
        tonight.into_iter().chain(in_session).min()
    }

    /// The cap that leaves no further experiment, its own or the session's.
    pub fn experiments_enough(&self, contract: &Contract, history: &History) -> Option<StopReason> {
        let (experiments, refusals) = (self.experiments(history), self.refusals(history));
        let refused = |limit: u32| {
            let text = format!("{} refused, as many as --max-experiments allows to run", count_of(refusals, "change"));
            StopReason::reached(Bound::Refusals, true, json!({"limit": limit, "refusals": refusals}), text)
        };
        let tonight = self.caps.experiments.and_then(|limit| match limit {
            limit if experiments >= limit => Some(StopReason::MaxExperiments { limit, experiments }),
            limit => (refusals >= limit).then(|| refused(limit)),
        });
        tonight.or_else(|| session_enough(contract.caps.session_max_experiments, history))
    }

    /// The cap on what calls use that is reached, its own or the session's, of which `spent` is everything.
    pub fn calls_enough(&self, contract: &Contract, spent: &Spent) -> Option<StopReason> {
        cost_enough(Bound::MaxCost, self.caps.cost, &self.spent)
            .or_else(|| tokens_enough(Bound::MaxTokens, self.caps.tokens, &self.spent))
            .or_else(|| session_calls_enough(contract, spent))
    }

    /// It as status shows it.
    pub fn to_json(&self, history: &History) -> Value {
        json!({
            "began": self.began,
            "experiments": self.experiments(history),
            "cost": self.spent.cost,
            "tokens": self.spent.tokens.map(Tokens::total),
        })
    }
}

/// The cap of a session on what calls use that is reached.
pub fn session_calls_enough(contract: &Contract, spent: &Spent) -> Option<StopReason> {
    let caps = &contract.caps;
    cost_enough(Bound::SessionMaxCost, caps.session_max_cost, spent)
        .or_else(|| tokens_enough(Bound::SessionMaxTokens, caps.session_max_tokens, spent))
}

/// The largest number of experiments that `ar try` may bring a session to: the session's own cap, else that of `ar.toml` as
/// long as no loop had a night.
pub fn cap_of_tries(contract: &Contract, has_night: bool) -> Option<u32> {
    contract.caps.session_max_experiments.or(contract.max_experiments.filter(|_| !has_night))
}

/// The reason to stop if a session has as many experiments as `limit` allows.
pub fn session_enough(limit: Option<u32>, history: &History) -> Option<StopReason> {
    let experiments = history.experiments();
    let limit = limit.filter(|limit| experiments >= *limit)?;
    let text = match experiments > limit {
        true => format!("the session already has {}, and its limit is {limit}", count_of(experiments, "experiment")),
        false => format!("the session reached its limit of {}", count_of(limit, "experiment")),
    };
    Some(StopReason::reached(
        Bound::SessionMaxExperiments,
        true,
        json!({"limit": limit, "experiments": experiments}),
        text,
    ))
}

#[cfg(test)]
#[path = "night_tests.rs"]
mod tests;
