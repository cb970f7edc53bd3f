//! The usage of agent calls: model, tokens and cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::two_digits;

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

    /// Returns whether nothing was used yet.
    pub fn is_nothing(&self) -> bool {
        *self == Spent::default()
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
