//! Agent calls: their usage and cost, outages, stalls, what the agent says besides its proposal, and a reviewer's answer.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::Display;

use super::{NewIdea, Outcome, Record, two_digits};

/// The currency of all costs, in which agents report theirs.
pub const CURRENCY: &str = "USD";

/// Tokens that a model read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// All tokens read, those from a cache included.
    pub input: u64,
    /// The tokens written.
    pub output: u64,
    /// The tokens read from a cache.
    pub cached: u64,
}

impl Tokens {
    /// All tokens read and written.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    fn plus(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
        }
    }
}

/// The prices of a model, per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of tokens read.
    pub input: f64,
    /// The price of tokens written.
    pub output: f64,
    /// The price of tokens read from a cache; by default the price of other tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
}

impl Price {
    /// Returns the cost of these tokens.
    pub fn of(&self, tokens: Tokens) -> f64 {
        let cached = tokens.cached.min(tokens.input);
        let fresh = (tokens.input - cached) as f64 * self.input;
        (fresh + cached as f64 * self.cached.unwrap_or(self.input) + tokens.output as f64 * self.output) / 1e6
    }

    /// Returns whether all three are valid prices: finite and not negative.
    pub fn is_valid(&self) -> bool {
        [self.input, self.output, self.cached.unwrap_or(0.0)].iter().all(|price| price.is_finite() && *price >= 0.0)
    }
}

/// The prices of models by name.
pub type Prices = BTreeMap<String, Price>;

/// The usage of one or more agent calls, as far as the agent reports it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// The model.
    pub model: Option<String>,
    /// Its tokens.
    pub tokens: Option<Tokens>,
    /// The cost.
    pub cost: Option<f64>,
}

impl Usage {
    /// Adds the usage of another call; the newest call that names a model sets it.
    pub fn add(&mut self, other: Usage) {
        self.model = other.model.or(self.model.take());
        self.tokens = sum(self.tokens, other.tokens, Tokens::plus);
        self.cost = sum(self.cost, other.cost, |one, other| one + other);
    }
}

/// The usage of all agent calls of a session, also those without an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// The calls that no outage cut short.
    pub calls: u32,
    /// The tokens, if an agent reported any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The cost, if known for any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Spent {
    /// Adds the usage of a call.
    pub fn add(&mut self, tokens: Option<Tokens>, cost: Option<f64>) {
        self.tokens = sum(self.tokens, tokens, Tokens::plus);
        self.cost = sum(self.cost, cost, |one, other| one + other);
    }
}

fn sum<T>(one: Option<T>, other: Option<T>, add: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(add(one, other)),
        (one, other) => one.or(other),
    }
}

/// Formats an amount of money with the currency's sign, to the cent, or with two digits if smaller.
pub fn money_text(amount: f64) -> String {
    if amount == 0.0 || amount.abs() >= 0.1 { format!("${amount:.2}") } else { format!("${}", two_digits(amount)) }
}

/// Formats a number of tokens, from a thousand up in thousands or millions.
pub fn tokens_text(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// The cause of an outage, displayed as a clause about the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum OutageKind {
    /// Its program, or the shell that starts it, cannot start.
    #[strum(to_string = "the agent cannot be started")]
    NotStarted,
    /// Its rate limit is reached.
    #[strum(to_string = "the agent's rate limit")]
    RateLimit,
    /// Its account has no credit.
    #[strum(to_string = "the agent is out of credit")]
    Credit,
    /// It is not logged in, or its key is not valid.
    #[strum(to_string = "the agent is not logged in")]
    Login,
    /// Its model's service is overloaded or down.
    #[strum(to_string = "the agent's service is overloaded")]
    Overloaded,
    /// It cannot reach its model's service.
    #[strum(to_string = "the agent is offline")]
    Offline,
    /// It fails without changes or a known message.
    #[strum(to_string = "the agent failed")]
    Failed,
}

impl OutageKind {
    /// Returns what the user can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            OutageKind::NotStarted => {
                "install what its command line needs, or name another agent with --agent; agent.log in the newest \
                    folder of the \
                 session's runs has all its output"
            }
            OutageKind::RateLimit => "wait for the limit to be lifted, or name another agent with --agent",
            OutageKind::Credit => "buy credit, or name another agent with --agent",
            OutageKind::Login => "log in to the agent",
            OutageKind::Overloaded => "wait, or name another agent with --agent",
            OutageKind::Offline => "check the network",
            OutageKind::Failed => {
                "check its command line; its output is in agent.log in the newest folder of the session's runs"
            }
        }
    }
}

/// A call of the agent that failed in an outage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The reason.
    pub kind: OutageKind,
    /// The line of its output that reports it; for [`OutageKind::Failed`] its exit and its last line.
    pub said: String,
    /// When it ends, if the agent names a time; never in the past when it was read.
    #[serde(default, with = "crate::domain::millis::option")]
    pub until: Option<Timestamp>,
}

/// The cause of an outage in an agent's machine-readable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its message.
    pub said: String,
    /// The HTTP status of its service, if it names one.
    pub status: Option<u16>,
    /// When a limit resets, if a field of its own names that.
    pub until: Option<Timestamp>,
}

impl Refusal {
    /// Creates a refusal that has only a message.
    pub fn saying(said: String) -> Refusal {
        Refusal { said, status: None, until: None }
    }
}

/// The way in which an agent call stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stall {
    /// It changed no file.
    NoChange,
    /// It ended in a question.
    Question,
}

/// Facts on the last agent call for the next one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastCall {
    /// Its last words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The question at its end.
    pub question: Option<String>,
    /// The time limit in seconds at which `ar` terminated it.
    pub ended_after: Option<f64>,
    /// The cap at which `ar` terminated it before its time limit, in words: `silent for 10 min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_for: Option<String>,
    /// The reason that `ar` ignored its proposal, or a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_error: Option<String>,
    /// True if its change named no direction although a new one was required.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unnamed: bool,
    /// True if it committed and then reset its change, which `ar` measured nevertheless.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// The number of its commits if more than one: they are one change.
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub commits: u32,
    /// The number of its rows that `ar` removed from results.tsv.
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub rows: u32,
    /// The ignored files that changed during the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// Something that `ar` writes down for an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub enum Said {
    /// An idea for the backlog.
    Idea(NewIdea),
    /// The number of an idea to drop.
    Drop {
        /// The number.
        idea: u32,
    },
    /// Another text for an idea.
    Edit {
        /// Its number.
        idea: u32,
        /// The new text, on one line.
        text: String,
    },
    /// A note on an experiment.
    Note {
        /// The experiment, as the user names it.
        experiment: String,
        /// The note, on one line.
        text: String,
        /// The session, if named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
    },
}

/// The verdict on a change: its value was earned, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ReviewVerdict {
    /// The change itself brought it about.
    Earned,
    /// Something else did. A change that is reviewed before it is kept is discarded.
    NotEarned,
    /// The reviewer cannot tell. The change is kept and flagged.
    Unclear,
    /// The reviewer gave no answer that counts. The change is kept, and reviewed again when the loop ends.
    Unreviewed,
}

/// A review of an experiment whose number would be kept, or is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// The verdict.
    pub verdict: ReviewVerdict,
    /// The reason, on one line; for `unreviewed`, the reason for the missing verdict. May be empty.
    pub why: String,
    /// The duration of the review, in seconds.
    pub seconds: f64,
    /// The tokens that it used, if it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The cost of the review, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Review {
    /// A verdict with its reason, without a word of what it took.
    pub fn of(verdict: ReviewVerdict, why: impl Into<String>) -> Review {
        Review { verdict, why: why.into(), seconds: 0.0, tokens: None, cost: None }
    }

    /// Verdict and reason in a sentence: `not earned: train.py:3 prints the metric`.
    pub fn sentence(&self) -> String {
        let verdict = self.verdict.to_string().replace('_', " ");
        if self.why.is_empty() { verdict } else { format!("{verdict}: {}", self.why) }
    }
}

impl Record {
    /// The review of a keep that is no plain yes: it is doubted, or there is no verdict yet.
    pub fn open_review(&self) -> Option<&Review> {
        let review = self.proof.review.as_ref().filter(|review| review.verdict != ReviewVerdict::Earned);
        review.filter(|_| self.outcome == Outcome::Keep)
    }

    /// Returns whether it is a keep without a review so far.
    pub fn is_unreviewed(&self) -> bool {
        self.open_review().is_some_and(|review| review.verdict == ReviewVerdict::Unreviewed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let tokens = Tokens { input: 1_000_000, output: 200_000, cached: 400_000 };
        let price = Price { input: 1.0, output: 10.0, cached: Some(0.1) };
        assert!((price.of(tokens) - (0.6 + 0.04 + 2.0)).abs() < 1e-9);
        assert!((Price { cached: None, ..price }.of(tokens) - 3.0).abs() < 1e-9);
        assert!(!Price { input: -1.0, ..price }.is_valid() && !Price { output: f64::NAN, ..price }.is_valid());
        let odd = Tokens { input: 1, output: 0, cached: u64::MAX };
        assert!(price.of(odd) < 1.0);
    }

    #[test]
    fn what_is_not_reported_adds_nothing() {
        let mut usage = Usage { cost: Some(0.5), ..Usage::default() };
        usage.add(Usage {
            model: Some("a".into()),
            tokens: Some(Tokens { input: u64::MAX, ..Tokens::default() }),
            cost: None,
        });
        usage.add(Usage {
            tokens: Some(Tokens { input: 1, output: 2, cached: 0 }),
            cost: Some(0.25),
            ..Usage::default()
        });
        let tokens = Tokens { input: u64::MAX, output: 2, cached: 0 };
        assert_eq!(usage, Usage { model: Some("a".into()), tokens: Some(tokens), cost: Some(0.75) });
        assert_eq!(tokens.total(), u64::MAX);
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!([0.0, 12.345, 0.5, 0.00123].map(money_text), ["$0.00", "$12.35", "$0.50", "$0.0012"]);
        assert_eq!([999, 1200, 3_400_000].map(tokens_text), ["999", "1.2k", "3.4M"]);
    }
}
