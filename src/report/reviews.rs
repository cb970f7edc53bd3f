//! A sentence about keeps with an open review.

use crate::domain::{Record, count_of};
use crate::rules::History;

/// The keeps that the reviewer doubts or has not reviewed, if there are any.
pub(super) fn reviews_sentence(history: &History) -> Option<String> {
    let left = history.records().iter().filter(|record| record.open_review().is_some());
    let (unreviewed, doubted): (Vec<&Record>, Vec<&Record>) = left.partition(|record| record.is_unreviewed());
    let names: Vec<String> = doubted.iter().map(|record| record.id.to_string()).collect();
    let are = if unreviewed.len() == 1 { "is" } else { "are" };
    let parts = [
        (!doubted.is_empty()).then(|| format!("the reviewer doubts what was kept: {}", names.join(", "))),
        (!unreviewed.is_empty()).then(|| format!("{} {are} unreviewed", count_of(unreviewed.len(), "keep"))),
    ];
    parts.into_iter().flatten().reduce(|one, other| format!("{one}; {other}"))
}
