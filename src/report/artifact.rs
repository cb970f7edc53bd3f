//! The artifact of a research session: as data, in words, as a part of a report, and as a panel of a chart.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sections::Section;
use crate::domain::{COMPOSITE, Composite, Contract, ExperimentId, Form, Number};
use crate::report::axes::axes_sentence;
use crate::rules::{ArtifactPoint, AxisValues, History, artifact_course, artifact_metric};

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
pub(super) fn artifact_section(course: &[Option<ArtifactData>]) -> Option<Section> {
    let last = course.iter().flatten().next_back()?;
    let numbers = course.iter().flatten().filter_map(|point| Some((point, point.composite.as_ref()?)));
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
