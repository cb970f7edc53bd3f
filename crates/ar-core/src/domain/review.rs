//! An independent reviewer's answer on a keep: whether its value was earned.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::{Outcome, Record, Tokens};

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
        let review = self.review.as_ref().filter(|review| review.verdict != ReviewVerdict::Earned);
        review.filter(|_| self.outcome == Outcome::Keep)
    }

    /// Returns whether it is a keep without a review so far.
    pub fn is_unreviewed(&self) -> bool {
        self.open_review().is_some_and(|review| review.verdict == ReviewVerdict::Unreviewed)
    }
}
