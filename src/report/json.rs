//! A report as a JSON document; docs/report.md says what each field is.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::each::Each;
use super::found::{Details, Report};
use super::sections;
use crate::domain::FORMAT_VERSION;
use crate::rules::Point;

/// Written field by field, so that a document of a million experiments is never in memory.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let summary = &self.summary;
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("version", &FORMAT_VERSION)?;
        fields.serialize_entry("headline", &self.headline())?;
        fields.serialize_entry("tag", &self.tag)?;
        fields.serialize_entry("metric", &self.metric)?;
        fields.serialize_entry("direction", &self.direction)?;
        fields.serialize_entry("counts", &self.counts)?;
        fields.serialize_entry("baseline", &self.baseline())?;
        fields.serialize_entry("best", &self.best())?;
        fields.serialize_entry("artifacts", &self.artifacts)?;
        fields.serialize_entry("gain", &summary.gain)?;
        fields.serialize_entry("relative_gain", &summary.relative_gain)?;
        fields.serialize_entry("keep_rate", &summary.keep_rate)?;
        sections::failed_fields(self, &mut fields)?;
        fields.serialize_entry("longest_streak", &summary.longest_streak)?;
        let streak = summary.streak.map(|(first, last)| [self.points[first].id, self.points[last].id]);
        fields.serialize_entry("streak", &streak)?;
        fields.serialize_entry("times", &self.times)?;
        fields.serialize_entry("slots", &self.slots)?;
        fields.serialize_entry("gain_per_experiment", &self.gain_per_experiment())?;
        fields.serialize_entry("gain_per_gpu_hour", &self.gain_per_gpu_hour())?;
        fields.serialize_entry("time_split", &self.time_split)?;
        fields.serialize_entry("cost", &self.cost())?;
        fields.serialize_entry("tokens", &self.spent.tokens)?;
        fields.serialize_entry("flagged", &self.flagged)?;
        fields.serialize_entry("ended", &self.ended)?;
        sections::fields(self, &mut fields)?;
        if self.details.is_empty() {
            fields.serialize_entry("experiments", &Each(|| self.points.iter()))?;
        } else {
            fields.serialize_entry("experiments", &Each(|| self.recorded()))?;
        }
        fields.serialize_entry("assumed", &self.assumed)?;
        let unread = || self.unread.iter().map(|(line, why)| json!({"line": line, "why": why}));
        fields.serialize_entry("unread", &Each(unread))?;
        fields.end()
    }
}

impl Report {
    fn recorded(&self) -> impl Iterator<Item = impl Serialize> {
        let recorded = self.points.iter().zip(&self.details);
        recorded.map(|(point, details)| Recorded { point, details })
    }
}

/// One experiment with all that is known of it.
#[derive(Serialize)]
struct Recorded<'a> {
    #[serde(flatten)]
    point: &'a Point,
    #[serde(flatten)]
    details: &'a Details,
}
