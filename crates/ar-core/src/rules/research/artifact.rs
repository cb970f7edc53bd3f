//! The artifact of a research session: what all that was kept scores together.
//!
//! An iteration is judged by what it adds, and the artifact by what it has become. `ar score` prints the artifact's axes
//! beside those of the iteration. Which iterations were kept is known only once they are recorded, so the course is
//! worked out from the records.

use super::axes::{AxisValues, composite_number, in_form};
use crate::domain::{Composite, Contract, Form, Number, Outcome, Record};
use crate::rules::history::History;

/// The artifact's novelty is the mean over this many iterations.
pub const NOVELTY_WINDOW: usize = 5;

/// The name of the axis that no single state of the artifact has.
pub const NOVELTY: &str = "novelty";

/// The name under which a log says what an axis of the artifact is, or its composite.
pub fn artifact_metric(name: &str) -> String {
    format!("artifact_{name}")
}

/// The artifact as it stands after an iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactPoint {
    /// Its axes.
    pub axes: AxisValues,
    /// Their composite; `None` if one of them has no number.
    pub composite: Option<Number>,
}

impl ArtifactPoint {
    /// The artifact with these axes, of which four decimals count as in a log, put together in this form.
    pub fn new(composite: &Composite, form: Form, mut axes: AxisValues) -> ArtifactPoint {
        for value in axes.values_mut() {
            *value = value.and_then(composite_number).map(|number| number.value);
        }
        let composite = in_form(composite, form, &axes).and_then(composite_number);
        ArtifactPoint { axes, composite }
    }

    /// The composite's value.
    pub fn value(&self) -> Option<f64> {
        self.composite.as_ref().map(|number| number.value)
    }
}

/// The novelty of an iteration that was decided on; `None` for a baseline and for one without a number.
pub fn decided_novelty(record: &Record) -> Option<f64> {
    let novelty = record.metrics.get(NOVELTY).filter(|_| !record.id.is_baseline())?;
    record.metric.value.map(|_| novelty)
}

/// The mean novelty of the newest numbers of a course, `window` at most; `None` without any.
pub fn mean_novelty(course: &[f64], window: usize) -> Option<f64> {
    let newest = &course[course.len().saturating_sub(window)..];
    (!newest.is_empty()).then(|| newest.iter().sum::<f64>() / newest.len() as f64)
}

/// The artifact after each record of a session, in their order: `None` for a record without a number. Empty where the
/// session has no artifact with a composite of its own.
///
/// Novelty is the mean of the last [`NOVELTY_WINDOW`] iterations with a number, also of those that were discarded. All other
/// axes are those of the last keep.
pub fn artifact_course(contract: &Contract, history: &History) -> Vec<Option<ArtifactPoint>> {
    let Some((composite, form)) = contract.artifact() else { return Vec::new() };
    let mut novelties = Vec::new();
    let mut kept = AxisValues::new();
    let of_record = |record: &Record| {
        novelties.extend(decided_novelty(record));
        if record.outcome == Outcome::Keep {
            // An axis that research does not know is what the log says of it.
            let number = |name: &str| {
                let own = record.metrics.get(&artifact_metric(name));
                own.or_else(|| record.metrics.get(name).filter(|_| !crate::domain::RESEARCH_AXES.contains(&name)))
            };
            kept = composite.axes.keys().map(|name| (name.clone(), number(name))).collect();
        }
        record.metric.value?;
        let mut axes = kept.clone();
        if let Some(novelty) = axes.get_mut(NOVELTY) {
            *novelty = mean_novelty(&novelties, NOVELTY_WINDOW);
        }
        Some(ArtifactPoint::new(composite, form, axes))
    };
    history.records().iter().map(of_record).collect()
}
