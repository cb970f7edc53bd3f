//! A night: what the caps count. It begins with each typed `ar run`, unless the last loop did not end in good order.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::domain::{
    Asked, Bound, Contract, ExperimentId, Failure, FailureClass, Record, Spent, StopReason, Tokens, Usage, count_of,
};
use crate::rules::{History, cost_enough, tokens_enough};

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
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
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
    pub unknown_fields: Map<String, Value>,
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

    /// Counts its records for which `counts`, without the baseline, second looks and those of `ar try`.
    fn count(&self, history: &History, counts: impl Fn(&Record) -> bool) -> u32 {
        let is_its = |record: &&Record| {
            let is_apart = self.apart.contains(&record.id) || record.is_second_look();
            record.sequence() >= self.from && !record.id.is_baseline() && !is_apart
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
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::domain::{OutageKind, Tokens};
    use crate::rules::sample::{contract, record};

    const HOUR: i64 = 3600;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * HOUR).unwrap()
    }

    fn moment(hours: i64, next: u32) -> Moment {
        Moment { now: at(hours), next, budget: None, until: None }
    }

    fn caps(experiments: u32) -> NightCaps {
        NightCaps { experiments: Some(experiments), ..NightCaps::default() }
    }

    fn begins(caps: NightCaps) -> Tonight {
        Tonight { begins: true, is_typed: true, caps, anew: NightCaps::default(), budget: None, until: false }
    }

    fn resumes(caps: NightCaps) -> Tonight {
        Tonight { begins: false, is_typed: false, ..begins(caps) }
    }

    fn history(count: u32) -> History {
        History::new((0..=count).map(|id| record(json!({"id": id, "value": "1"}))).collect())
    }

    #[test]
    fn a_typed_run_continues_only_a_night_that_was_cut_short() {
        let night = Night::enter(None, &begins(caps(3)), moment(0, 1));
        let after = |reason: StopReason| {
            let mut night = night.clone();
            night.end_by(&reason);
            [true, false].map(|same_boot| night.is_unfinished(same_boot, at(1)))
        };
        assert!(night.is_unfinished(true, at(1)), "killed");
        assert_eq!(after(StopReason::Detached), [true, true]);
        assert_eq!(after(StopReason::Terminated), [false, true], "by a person, and by a shutdown");
        for reason in [
            StopReason::Interrupted { requested: false },
            StopReason::Interrupted { requested: true },
            StopReason::MaxExperiments { limit: 3, experiments: 3 },
            StopReason::Error { detail: "the disk is full".into() },
            StopReason::Outage {
                reason: OutageKind::Offline,
                said: String::new(),
                until: None,
                until_text: None,
                seconds: 1.0,
            },
        ] {
            assert_eq!(after(reason), [false, false]);
        }
    }

    #[test]
    fn a_night_whose_time_is_over_has_no_rest() {
        let budget = Some(Duration::from_secs(8 * HOUR as u64));
        let enter =
            |before, tonight: &Tonight, hours| Night::enter(before, tonight, Moment { budget, ..moment(hours, 1) });
        let night = enter(None, &begins(NightCaps::default()), 0);
        assert_eq!([7, 8].map(|hours| night.is_unfinished(true, at(hours))), [true, false]);
        let resumed = enter(Some(night.clone()), &resumes(NightCaps::default()), 3);
        assert_eq!(resumed.ends, Some(at(8)), "its end is fixed");
        let longer = Tonight { budget: Some(Duration::from_secs(2 * HOUR as u64)), ..resumes(NightCaps::default()) };
        assert_eq!(enter(Some(night.clone()), &longer, 9).ends, Some(at(11)), "from now on");
        let typed = Tonight { begins: false, budget, ..begins(NightCaps::default()) };
        assert_eq!(enter(Some(night), &typed, 3).ends, Some(at(8)), "the same line again");
    }

    #[test]
    fn caps_count_from_the_beginning_of_a_night_or_from_their_own() {
        let night = Night::enter(None, &begins(caps(2)), moment(0, 3));
        let contract = contract("true");
        let left = |night: &Night, count| night.experiments_left(&contract, &history(count));
        assert_eq!([2, 3, 4, 5].map(|count| left(&night, count)), [Some(2), Some(1), Some(0), Some(0)]);
        let resumed = Night::enter(Some(night.clone()), &resumes(caps(2)), moment(1, 4));
        assert_eq!((left(&resumed, 4), resumed.began), (Some(0), night.began));
        let given = Tonight { anew: caps(5), ..resumes(caps(5)) };
        let resumed = Night::enter(Some(night.clone()), &given, moment(1, 5));
        assert_eq!([left(&resumed, 4), left(&resumed, 6)], [Some(5), Some(3)]);
        let next = Night::enter(Some(night), &begins(NightCaps::default()), moment(24, 5));
        assert_eq!((left(&next, 50), next.began), (None, at(24)), "a flag's cap holds for its night");
    }

    #[test]
    fn what_is_made_by_hand_counts_in_the_session_only() {
        let mut night = Night::enter(None, &begins(caps(9)), moment(0, 1));
        night.allot(2.into(), true);
        night.allot(3.into(), true);
        assert_eq!(night.experiments(&history(4)), 2);
        // The change of experiment 3 was rolled back, and the loop has its number now.
        night.allot(3.into(), false);
        assert_eq!(night.experiments(&history(4)), 3);
    }

    #[test]
    fn calls_count_for_the_night_and_for_the_session() {
        let mut contract = contract("true");
        contract.caps.session_max_cost = Some(10.0);
        let spent =
            |cost| Spent { calls: 1, tokens: Some(Tokens { input: 50, ..Tokens::default() }), cost: Some(cost) };
        let limits = NightCaps { cost: Some(2.0), tokens: Some(100), ..NightCaps::default() };
        let mut night = Night::enter(None, &begins(limits), moment(0, 1));
        let rule = |night: &Night, all| match night.calls_enough(&contract, &spent(all)) {
            Some(StopReason::Reached(reached)) => Some(reached.rule),
            _ => None,
        };
        assert_eq!([rule(&night, 9.0), rule(&night, 10.0)], [None, Some(Bound::SessionMaxCost)]);
        let usage =
            |cost| Usage { model: None, tokens: Some(Tokens { input: 50, ..Tokens::default() }), cost: Some(cost) };
        night.spend(&usage(1.0));
        assert_eq!(rule(&night, 5.0), None);
        night.spend(&usage(0.5));
        assert_eq!(rule(&night, 5.0), Some(Bound::MaxTokens));
        let anew = NightCaps { tokens: Some(100), ..NightCaps::default() };
        let mut night = Night::enter(Some(night), &Tonight { anew, ..resumes(limits) }, moment(1, 1));
        assert_eq!(rule(&night, 5.0), None);
        night.spend(&usage(0.5));
        assert_eq!(rule(&night, 5.0), Some(Bound::MaxCost), "its own cap counts on");
    }

    #[test]
    fn a_refused_duplicate_uses_up_no_experiment_until_the_cap_is_reached_by_refusals() {
        let night = Night::enter(None, &begins(caps(3)), moment(0, 1));
        let run = json!([{"command": "", "seed": null, "started": "2026-11-20T22:00:00Z", "seconds": 1.0, "exit": 0,
        "signal": null, "value": null}]);
        let history = |classes: &[&str]| {
            let refused = |(at, class): (usize, &&str)| match *class {
                "" => record(json!({"id": at + 1, "value": "1", "runs": run})),
                "duplicate after a run" => {
                    record(json!({"id": at + 1, "runs": run, "failure": {"class": "duplicate", "excerpt": ""}}))
                }
                class => record(json!({"id": at + 1, "failure": {"class": class, "excerpt": ""}, "runs": []})),
            };
            let baseline = record(json!({"id": 0, "value": "1"}));
            History::new([baseline].into_iter().chain(classes.iter().enumerate().map(refused)).collect())
        };
        let contract = contract("true");
        for (classes, left, reached) in [
            (&["", "duplicate", "duplicate"][..], 2, None),
            (&["", "scope", "duplicate after a run"], 0, Some("max_experiments")),
            (&["", "duplicate", "duplicate", "duplicate"], 0, Some("refusals")),
            (&["scope", "duplicate", "duplicate"], 0, Some("refusals")),
            (&["", "", "duplicate", "duplicate", ""], 0, Some("max_experiments")),
        ] {
            let history = history(classes);
            assert_eq!(night.experiments_left(&contract, &history), Some(left), "{classes:?}");
            let reason = night.experiments_enough(&contract, &history).map(|it| serde_json::to_value(it).unwrap());
            assert_eq!(reason.as_ref().map(|it| it["kind"].as_str().unwrap()), reached, "{classes:?}");
        }
    }

    #[test]
    fn the_night_of_an_older_session_began_with_it() {
        let mut contract = contract("true");
        contract.max_experiments = Some(4);
        let night = Night::since_the_start(&contract, Spent::default(), NightEnd::Over);
        let enough = |count| night.experiments_enough(&contract, &history(count));
        assert_eq!((enough(3), enough(4)), (None, Some(StopReason::MaxExperiments { limit: 4, experiments: 4 })));
        assert_eq!([cap_of_tries(&contract, false), cap_of_tries(&contract, true)], [Some(4), None]);
    }
}
