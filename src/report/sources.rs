//! The sources of a research session, as `ar score` printed them in the logs of its experiments.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sections::Section;
use crate::domain::{Outcome, Record, count_of};
use crate::rules::four_decimals;
use crate::score::{
    CLAIMS_REMOVED, DIVERSITY_BY, FIRST_STORED, NOISY_SOURCES, SOURCES_CITED, SOURCES_KEPT, SOURCES_STORED, by_metric,
};

/// Figures about the sources of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sources {
    /// The number of sources cited so far.
    cited: usize,
    /// The number of sources that a kept iteration both stored and relied on.
    first_stored: usize,
    /// The number of claims that kept iterations removed from the artifact.
    claims_removed: usize,
    /// The number of kept sources, and of those that any iteration stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<usize>,
    /// The mean diversity of the experiments by organisation, medium and year, 0..1, each where it is known.
    diversity: BTreeMap<&'static str, Option<f64>>,
}

impl Sources {
    /// Sums up what records say of sources; nothing where none was scored by `ar score`.
    pub(super) fn of(records: &[Record]) -> Option<Sources> {
        let numbers = |name: &str| -> Vec<f64> {
            let all = records.iter().filter_map(|record| record.metrics.get(name));
            all.filter(|number| number.is_finite()).collect()
        };
        let cited = numbers(SOURCES_CITED).into_iter().reduce(f64::max)?;
        let of_kept = |name: &str| {
            let kept = records.iter().filter(|record| record.outcome == Outcome::Keep);
            kept.filter_map(|record| record.metrics.get(name)).sum::<f64>() as usize
        };
        let mean =
            |numbers: Vec<f64>| (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
        let diversity = DIVERSITY_BY.map(|by| (by, mean(numbers(&by_metric(by)))));
        Some(Sources {
            cited: cited as usize,
            first_stored: of_kept(FIRST_STORED),
            claims_removed: of_kept(CLAIMS_REMOVED),
            kept: records
                .iter()
                .rfind(|it| it.outcome == Outcome::Keep)
                .and_then(|it| it.metrics.get(SOURCES_KEPT))
                .map(|it| it as usize),
            stored: numbers(SOURCES_STORED).into_iter().reduce(f64::max).map(|it| it as usize),
            diversity: diversity.into(),
        })
    }

    /// The share of the stored sources that is kept; `None` in a session whose scorer did not count them.
    pub(super) fn kept_ratio(&self) -> Option<f64> {
        let (kept, stored) = self.kept.zip(self.stored)?;
        (stored > 0).then(|| kept as f64 / stored as f64)
    }

    /// They as a part of a report.
    pub(super) fn section(&self) -> Section {
        let mut lines = vec![format!(
            "{} cited, {} of them first stored by the iteration that relies on them",
            count_of(self.cited, "source"),
            self.first_stored
        )];
        if let (Some(ratio), Some(kept), Some(stored)) = (self.kept_ratio(), self.kept, self.stored) {
            lines.push(format!("{kept} of {} kept: {ratio:.2}", count_of(stored, "stored source")));
        }
        let known = self.diversity.iter().filter_map(|(by, value)| Some(format!("{by} {}", four_decimals((*value)?))));
        let known: Vec<String> = known.collect();
        if !known.is_empty() {
            lines.push(format!("mean diversity by {}", known.join(", by ")));
        }
        if self.claims_removed > 0 {
            let removed = count_of(self.claims_removed, "claim");
            lines.push(format!(
                "kept iterations removed {removed} of earlier ones: compare the artifact with their commits"
            ));
        }
        if self.cited > NOISY_SOURCES {
            lines.push(format!("with more than {NOISY_SOURCES} sources, source diversity is mostly noise"));
        }
        Section::lines("sources", lines.into_iter().map(|line| (line, None)))
    }
}
