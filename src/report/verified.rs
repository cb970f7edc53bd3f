//! What fresh runs say of a session's experiments, and of which they say nothing.

use super::analysis::Report;
use super::sections::Section;
use crate::domain::{ExperimentId, Number, VerifiedPair, count_of, experiment_names};
use crate::rules::{History, KeptStep, Repeats, fresh_groups, repeats};

/// The most pairs to show, and the most experiments to name that are not verified.
const MOST: usize = 8;

/// What fresh runs say of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Verified {
    /// The experiments against those of the same session, for each point of the report.
    own: Vec<Vec<VerifiedPair>>,
    /// Its experiments against those of other sessions.
    across: Vec<VerifiedPair>,
    /// True if fresh runs could tell something of its numbers that is not known.
    tells_more: bool,
}

impl Verified {
    /// Takes what was verified, for a report whose points are these experiments. A command that gives one number for every
    /// seed has nothing to verify, and neither have experiments that were not run here.
    fn of(history: &History, ids: impl Iterator<Item = ExperimentId>) -> Verified {
        let made = || history.verified().iter().filter(|pair| pair.runs > 0);
        let of = |id| made().filter(|pair| pair.a.own().is_some() && pair.b.own() == Some(id)).cloned().collect();
        Verified {
            own: ids.map(of).collect(),
            across: made().filter(|pair| pair.a.own().is_none()).cloned().collect(),
            tells_more: history.records().iter().all(|record| record.imported.is_none())
                && repeats(&fresh_groups(history)) != Repeats::Exact,
        }
    }
}

impl Report {
    /// The same with what was verified of the session whose records it is of.
    #[must_use]
    pub fn with_verified(mut self, history: &History) -> Report {
        self.verified = Verified::of(history, self.points.iter().map(|point| point.id));
        self
    }

    /// What fresh runs say of the experiment at a place among the points against another one.
    pub(super) fn verified(&self, index: usize, against: Option<usize>) -> Option<&VerifiedPair> {
        let other = self.points.get(against?)?.id;
        self.verified.own.get(index)?.iter().find(|pair| pair.a.own() == Some(other))
    }

    /// Says in the headline what fresh runs say of the best experiment against the baseline, or that there were none.
    pub(super) fn verified_text(&self) -> Option<String> {
        let best = self.summary.best?;
        let Some(VerifiedPair { runs, difference, low, high, .. }) = self.verified(best, self.baseline) else {
            let is_claimed = self.summary.gain.is_some_and(|gain| gain > 0.0);
            return (is_claimed && self.can_verify()).then(|| "not verified".to_owned());
        };
        let decimals = self.decimals();
        let said = match () {
            () if *low > 0.0 => "verified on",
            () if *high < 0.0 => "refuted by",
            () => "not confirmed by",
        };
        Some(format!(
            "{said} {runs} fresh runs of each: {difference:+.decimals$} ({low:+.decimals$} to {high:+.decimals$})"
        ))
    }

    /// The part with all pairs that fresh runs compared, and the keeps of which they say nothing.
    pub(super) fn verified_section(&self) -> Option<Section> {
        let pairs: Vec<&VerifiedPair> = self.verified.own.iter().flatten().collect();
        let mut lines: Vec<_> = pairs.iter().rev().take(MOST).map(|pair| (self.pair_text(pair), None)).collect();
        lines.reverse();
        if let Some(more) = pairs.len().checked_sub(MOST).filter(|more| *more > 0) {
            lines.insert(0, (format!("{} of earlier experiments", count_of(more, "comparison")), None));
        }
        let is_verified = |step: &KeptStep| self.verified.own.get(step.index).is_some_and(|pairs| !pairs.is_empty());
        let kept = self.summary.kept.iter().filter(|step| step.gain.is_some() && Some(step.index) != self.baseline);
        let open: Vec<ExperimentId> =
            kept.filter(|step| !is_verified(step)).map(|step| self.points[step.index].id).collect();
        if !open.is_empty() && self.can_verify() {
            let (line, next) = match (pairs.is_empty(), open.len() > MOST) {
                (true, _) => ("nothing yet".to_owned(), "`ar verify` compares the best experiment with the baseline"),
                (false, true) => (format!("not verified: {}", count_of(open.len(), "keep")), NEXT),
                (false, false) => (format!("not verified: {}", experiment_names(&open)), NEXT),
            };
            lines.push((line, Some(next.to_owned())));
        }
        let title =
            if pairs.is_empty() { "verified by fresh runs" } else { "verified by fresh runs, positive is better" };
        (!lines.is_empty()).then(|| Section::lines(title, lines))
    }

    /// The part with comparisons with experiments of other sessions.
    pub(super) fn across_section(&self) -> Option<Section> {
        let lines: Vec<_> = across_texts(self).into_iter().map(|line| (line, None)).collect();
        (!lines.is_empty()).then(|| Section::lines("compared with other sessions, positive is better", lines))
    }

    fn pair_text(&self, pair: &VerifiedPair) -> String {
        let VerifiedPair { a, b, runs, difference, low, high, .. } = pair;
        let (a, b, decimals) = (a.text(), b.text(), self.decimals());
        let interval = format!("{difference:+.decimals$} ({low:+.decimals$} to {high:+.decimals$})");
        format!("{b} against {a}: {interval} on {runs} fresh runs of each")
    }

    /// Research decides by a score, which is no noisy number.
    fn can_verify(&self) -> bool {
        self.verified.tells_more && self.sources().is_none()
    }

    fn decimals(&self) -> usize {
        self.best().and_then(|point| point.value.as_ref()).map_or(4, Number::decimals).clamp(1, 12)
    }
}

/// What fresh runs say of a session's experiments against those of other sessions, a line each.
pub(super) fn across_texts(report: &Report) -> Vec<String> {
    report.verified.across.iter().map(|pair| report.pair_text(pair)).collect()
}

/// How to verify one experiment.
const NEXT: &str = "`ar verify N` compares experiment N with the one that it was made on";
