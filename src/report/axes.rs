//! The axes of experiments, and the artifact and the sources of a research session: in words, as parts of a report, and as data.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Align, Details, Grid, Mark, Panel, Report, Section, text};
use crate::domain::{Axis, COMPOSITE, Composite, Contract, ExperimentId, Form, Number, Outcome, Record, count_of};
use crate::rules;
use crate::rules::{
    ArtifactPoint, AxisValues, History, artifact_course, artifact_metric, bring, brought, four_decimals, in_form,
};
use crate::score::{
    CLAIMS_REMOVED, DIVERSITY_BY, FIRST_STORED, NOISY_SOURCES, SOURCES_CITED, SOURCES_KEPT, SOURCES_STORED, by_metric,
};

/// Statistics of an axis over a session's experiments, without the baseline. Its values are mapped to 0..1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct AxisCourse<'a> {
    name: &'a str,
    /// Its share in the weighted form.
    weight: f64,
    /// The value below which it is weak.
    floor: f64,
    /// The mean, the least and the largest of its numbers.
    mean: f64,
    least: f64,
    largest: f64,
    /// The number of the last experiment that has one.
    last: f64,
    /// The value of the best experiment.
    of_best: Option<f64>,
    /// The number of experiments below the floor, and of those with a value.
    below_floor: usize,
    count: usize,
}

impl Report {
    /// The axes as a chart shows them, the worst first; before them the composite, where another metric decides, and that of
    /// the artifact of a research session. The marks are those of the experiments.
    pub(super) fn panels(&self, marks: &[Mark]) -> Vec<Panel> {
        let Some(composite) = &self.composite else { return Vec::new() };
        let panel = |name: &str, floor, number: &dyn Fn(&Details) -> Option<(f64, f64)>| {
            let marks: Vec<Mark> = marks
                .iter()
                .zip(&self.details)
                .map(|(mark, details)| {
                    let found = number(details);
                    let raw = found.map_or_else(String::new, |(printed, _)| four_decimals(printed));
                    Mark { value: found.map(|(_, value)| value), raw, ..mark.clone() }
                })
                .collect();
            let values = self.without_baseline().filter_map(|place| marks.get(place)?.value);
            let figure = mean(&values.collect::<Vec<_>>()).map(|mean| ("mean", mean));
            Panel { name: name.to_owned(), figure, floor, marks }
        };
        let mut panels: Vec<Panel> = composite
            .axes
            .iter()
            .map(|(name, axis)| {
                panel(name, Some(axis.floor()), &|details| {
                    let printed = printed(details.axes.as_ref()?, name)?;
                    Some((printed, bring(printed, axis.range)))
                })
            })
            .collect();
        // Panels without any value come first, as elsewhere.
        let rank = |panel: &Panel| panel.figure.map_or(-1.0, |(_, mean)| mean);
        panels.sort_by(|one, other| rank(one).total_cmp(&rank(other)));
        if self.metric_name() != COMPOSITE {
            let whole = |details: &Details| {
                let value = rules::composite(composite, details.axes.as_ref()?)?;
                Some((value, value))
            };
            panels.insert(0, panel(COMPOSITE, None, &whole));
        }
        let of_artifact = |details: &Details| {
            let value = details.artifact.as_ref()?.composite.as_ref()?.value;
            Some((value, value))
        };
        if self.details.iter().any(|details| details.artifact.is_some()) {
            let artifact = panel(&artifact_name(), None, &of_artifact);
            let last = artifact.marks.iter().rev().find_map(|mark| mark.value);
            panels.insert(0, Panel { figure: last.map(|value| ("now", value)), ..artifact });
        }
        panels
    }

    /// The course of each axis that has numbers, the worst first: by the mean.
    pub(super) fn axes(&self) -> Vec<AxisCourse<'_>> {
        let axes = self.composite.iter().flat_map(|composite| &composite.axes);
        let mut courses: Vec<AxisCourse<'_>> = axes.filter_map(|(name, axis)| self.course_of(name, axis)).collect();
        courses.sort_by(|one, other| one.mean.total_cmp(&other.mean));
        courses
    }

    fn course_of<'a>(&'a self, name: &'a str, axis: &Axis) -> Option<AxisCourse<'a>> {
        let at = |place: usize| Some(bring(printed(self.details.get(place)?.axes.as_ref()?, name)?, axis.range));
        let numbers: Vec<f64> = self.without_baseline().filter_map(at).collect();
        Some(AxisCourse {
            name,
            weight: axis.weight,
            floor: axis.floor(),
            mean: mean(&numbers)?,
            least: numbers.iter().copied().reduce(f64::min)?,
            largest: numbers.iter().copied().reduce(f64::max)?,
            last: *numbers.last()?,
            of_best: self.summary.best.and_then(at),
            below_floor: numbers.iter().filter(|number| **number < axis.floor()).count(),
            count: numbers.len(),
        })
    }

    /// The places of the experiments that count in the chart and the table of the axes: all but the baseline.
    fn without_baseline(&self) -> impl Iterator<Item = usize> {
        (0..self.details.len()).filter(|place| Some(*place) != self.summary.baseline)
    }
}

/// The number of an axis as the log has it, if it is finite.
fn printed(values: &AxisValues, name: &str) -> Option<f64> {
    values.get(name).copied().flatten().filter(|value| value.is_finite())
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// The axes as a part of a report, where there are some.
pub(super) fn axes_section(report: &Report) -> Option<Section> {
    let axes = report.axes();
    let grid = Grid::of(
        &axes,
        &[
            ("axis", Align::Left, &|axis: &&AxisCourse| axis.name.to_owned()),
            ("mean", Align::Right, &|axis| four_decimals(axis.mean)),
            ("least", Align::Right, &|axis| four_decimals(axis.least)),
            ("largest", Align::Right, &|axis| four_decimals(axis.largest)),
            ("last", Align::Right, &|axis| four_decimals(axis.last)),
            ("of the best", Align::Right, &|axis| text(axis.of_best.map(four_decimals))),
            ("below the floor", Align::Right, &|axis| format!("{} of {}", axis.below_floor, axis.count)),
        ],
    )
    .sparing(["least", "largest", "last"]);
    (!axes.is_empty()).then(|| Section::table("axes from 0 to 1, the worst first", grid))
}

/// The axes from the worst to the best, each with its value. In brackets follows its value in 0..1, if that differs or
/// the axis has a range. Axes without a value come first. `None` if no axis has one.
pub(super) fn axes_sentence(composite: &Composite, values: &AxisValues) -> Option<String> {
    let mut axes: Vec<(&str, Option<f64>)> = brought(composite, values).collect();
    if axes.iter().all(|(_, value)| value.is_none()) {
        return None;
    }
    axes.sort_by(|(_, one), (_, other)| one.unwrap_or(-1.0).total_cmp(&other.unwrap_or(-1.0)));
    let said = |(name, value): (&str, Option<f64>)| {
        let Some((value, number)) = value.zip(values.get(name).copied().flatten()) else {
            return format!("{name} without a number");
        };
        let has_range = composite.axes.get(name).is_some_and(|axis| axis.range.is_some());
        let of_range =
            if has_range || value != number { format!(" ({})", four_decimals(value)) } else { String::new() };
        format!("{name} {number}{of_range}")
    };
    Some(axes.into_iter().map(said).collect::<Vec<_>>().join(", "))
}

/// Lists the combined value of the axes in each form. `None` where a form has no value.
pub(super) fn forms_sentence(composite: &Composite, values: &AxisValues) -> Option<String> {
    let forms = [Form::Weighted, Form::Multiplicative, Form::V2];
    let each = forms.map(|form| Some(format!("{form} {}", four_decimals(in_form(composite, form, values)?))));
    Some(each.into_iter().collect::<Option<Vec<_>>>()?.join(", "))
}

/// The score of the artifact after an iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArtifactData {
    axes: AxisValues,
    /// The axes combined.
    #[serde(serialize_with = "value_of")]
    pub(super) composite: Option<Number>,
    form: Form,
    /// The iteration.
    #[serde(skip)]
    after: ExperimentId,
    #[serde(skip)]
    of: Composite,
}

fn value_of<S: serde::Serializer>(number: &Option<Number>, to: S) -> Result<S::Ok, S::Error> {
    number.as_ref().map(|number| number.value).serialize(to)
}

impl ArtifactData {
    /// The artifact after each record of a session, in their order; nothing where it has no score of its own.
    pub(super) fn course(contract: &Contract, history: &History) -> Vec<Option<ArtifactData>> {
        let Some((of, form)) = contract.artifact() else { return Vec::new() };
        let points = artifact_course(contract, history);
        let data = |(point, after): (Option<ArtifactPoint>, ExperimentId)| {
            let ArtifactPoint { axes, composite } = point?;
            Some(ArtifactData { axes, composite, form, after, of: of.clone() })
        };
        points.into_iter().zip(history.records().iter().map(|record| record.id)).map(data).collect()
    }

    /// The same by experiment.
    pub fn by_experiment(contract: Option<&Contract>, history: &History) -> BTreeMap<ExperimentId, ArtifactData> {
        let course = contract.map(|contract| ArtifactData::course(contract, history)).unwrap_or_default();
        course.into_iter().flatten().map(|data| (data.after, data)).collect()
    }

    /// The artifact as it stands.
    pub(super) fn newest(contract: &Contract, history: &History) -> Option<ArtifactData> {
        ArtifactData::course(contract, history).into_iter().flatten().next_back()
    }

    /// It in words, the worst axis first.
    pub(super) fn sentence(&self) -> String {
        let whole = self.composite.as_ref().map_or("no composite yet", |number| number.raw.as_str());
        let axes = axes_sentence(&self.of, &self.axes).map(|axes| format!(": {axes}")).unwrap_or_default();
        format!("{whole} ({}){axes}", self.form)
    }
}

/// The course of the artifact as a part of a report: how it stands, and when it was best.
pub(super) fn artifact_section(report: &Report) -> Option<Section> {
    let course = report.details.iter().filter_map(|details| details.artifact.as_ref());
    let last = course.clone().next_back()?;
    let numbers = course.filter_map(|point| Some((point, point.composite.as_ref()?)));
    let best = numbers.reduce(|best, other| if other.1.value > best.1.value { other } else { best });
    let mut lines = vec![format!("after experiment {}: {}", last.after, last.sentence())];
    if let Some((point, number)) = best.filter(|(point, _)| point.after != last.after) {
        lines.push(format!("at its best after experiment {}: {}", point.after, number.raw));
    }
    Some(Section::lines("the artifact, in which all that was kept counts", lines.into_iter().map(|line| (line, None))))
}

/// The metric name of the artifact's composite.
pub(super) fn artifact_name() -> String {
    artifact_metric(COMPOSITE)
}

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
        let diversity = DIVERSITY_BY.map(|by| (by, mean(&numbers(&by_metric(by)))));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_axis_comes_first_and_one_without_a_number_before_it() {
        let mut composite = Composite::preset("equal").unwrap_or_default();
        composite.axes.insert("latency".into(), Axis { weight: 0.25, floor: None, range: Some([200.0, 20.0]) });
        let numbers =
            [("claim_density", 0.77), ("source_diversity", 0.91), ("topic_coverage", 0.51), ("latency", 56.0)];
        let mut values: AxisValues = numbers.map(|(name, number)| (name.to_owned(), Some(number))).into();
        assert_eq!(
            axes_sentence(&composite, &values).as_deref(),
            Some(
                "novelty without a number, topic_coverage 0.51, claim_density 0.77, latency 56 (0.8000), \
                 source_diversity 0.91"
            )
        );
        assert_eq!(forms_sentence(&composite, &values), None);
        values.insert("novelty".into(), Some(77.0));
        assert!(axes_sentence(&composite, &values).is_some_and(|text| text.ends_with(", novelty 77 (1.0000)")));
        values.insert("novelty".into(), Some(0.77));
        composite.axes.remove("latency");
        // (0.77 + 0.91 + 0.51 + 0.77) / 4, their product, and √0.51 times their harmonic mean.
        assert_eq!(
            forms_sentence(&composite, &values).as_deref(),
            Some("weighted 0.7400, multiplicative 0.2752, v2 0.5050")
        );
        assert_eq!(axes_sentence(&composite, &AxisValues::new()), None);
    }
}
