//! The cost of the agent's calls, per experiment and per keep.

use serde::Serialize;

use crate::domain::{CURRENCY, Spent, Tokens, money_text, tokens_text};

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
