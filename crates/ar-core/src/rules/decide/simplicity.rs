//! Simpler programs with about the same value.

use super::outcome::{Verdict, exceeds, format_distance};
use crate::domain::{DiffStat, Direction, ExperimentId, MetricSpec, Number, Outcome};

/// The values to beat: the incumbent's and the best ever kept. They differ after a simplification that worsened the
/// value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rivals<'a> {
    /// The incumbent's experiment.
    pub(crate) id: ExperimentId,
    /// Its value.
    pub(crate) incumbent: &'a Number,
    /// The best value ever kept.
    pub(crate) best: &'a Number,
}

/// The verdict if simplicity decides: the value is within `margin` (0 or more, in the metric's unit) of the
/// incumbent's. Then a change that deletes more lines than it adds is kept, and one that adds more is not. `None` if
/// the values decide.
///
/// The criterion is that of Karpathy's program.md: a small gain is not worth ugly complexity, but an equal value with
/// less code is. Repeated simplifications cannot drift: each must be within the margin of the best value, too.
pub(crate) fn decide_by_simplicity(
    metric: &MetricSpec,
    measured: &Number,
    rivals: Rivals<'_>,
    margin: f64,
    diff: DiffStat,
) -> Option<Verdict> {
    let Rivals { id, incumbent, best } = rivals;
    let distance = (measured.value - incumbent.value).abs();
    if exceeds(distance, margin, measured, incumbent) {
        return None;
    }
    let lines = format!("+{} -{} lines", diff.added, diff.deleted);
    let name = &metric.name;
    let within = format!("{name} {measured} is within {margin} of {incumbent} of experiment {id}");
    if diff.deleted > diff.added {
        let behind = match metric.direction {
            Direction::Lower => measured.value - best.value,
            Direction::Higher => best.value - measured.value,
        };
        if exceeds(behind, margin, measured, best) {
            let size = format_distance(measured, best);
            let reason =
                format!("{within}, but {size} behind the best, {best}, which is more than a simplification may cost");
            return Some(Verdict { outcome: Outcome::Discard, reason });
        }
        return Some(Verdict { outcome: Outcome::Keep, reason: format!("simplification: {within}, with {lines}") });
    }
    (diff.added > diff.deleted)
        .then(|| Verdict { outcome: Outcome::Discard, reason: format!("{within}, which is not worth {lines}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::MetricSource;

    fn verdict(measured: &str, incumbent: &str, best: &str, added: u32, deleted: u32) -> Option<(Outcome, String)> {
        let metric = MetricSpec { name: "val_bpb".into(), direction: Direction::Lower, source: MetricSource::Log };
        let number = |text: &str| text.parse::<Number>().unwrap();
        let (incumbent, best) = (number(incumbent), number(best));
        let rivals = Rivals { id: 3.into(), incumbent: &incumbent, best: &best };
        let diff = DiffStat { files: 1, added, deleted };
        let verdict = decide_by_simplicity(&metric, &number(measured), rivals, 0.01, diff)?;
        Some((verdict.outcome, verdict.reason))
    }

    #[test]
    fn near_the_incumbent_what_deletes_is_kept_and_what_adds_is_not() {
        let outcome = |measured, added, deleted| verdict(measured, "1.00", "1.00", added, deleted).map(|(it, _)| it);
        assert_eq!(outcome("1.01", 2, 9), Some(Outcome::Keep), "exactly at the margin");
        assert_eq!(outcome("1.02", 2, 9), None, "worse by more");
        assert_eq!(outcome("0.995", 9, 2), Some(Outcome::Discard), "a small gain that costs lines");
        assert_eq!(outcome("0.98", 9, 2), None, "a gain");
        assert_eq!(outcome("0.995", 2, 2), None, "neither");
        let (_, reason) = verdict("1.005", "1.00", "1.00", 2, 9).unwrap();
        assert_eq!(reason, "simplification: val_bpb 1.005 is within 0.01 of 1.00 of experiment 3, with +2 -9 lines");
    }

    #[test]
    fn simplifications_in_a_row_do_not_drift_away() {
        assert_eq!(verdict("1.009", "1.005", "1.00", 0, 5).unwrap().0, Outcome::Keep);
        let (outcome, reason) = verdict("1.014", "1.005", "1.00", 0, 5).unwrap();
        assert_eq!(outcome, Outcome::Discard);
        assert!(reason.contains("0.014 behind the best, 1.00"), "{reason}");
    }
}
