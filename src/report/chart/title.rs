//! What stands above a picture of a chart.

use crate::domain::{count_of, cut};
use crate::report::Report;
use crate::rules::Point;

impl Report {
    /// What stands above a chart: how many experiments there were, how many were kept, and from where to where they led.
    pub fn chart_title(&self) -> String {
        let after_baseline = self.points.len().saturating_sub(1);
        let kept = self.summary.kept.iter().filter(|step| Some(step.index) != self.baseline).count();
        let experiments = count_of(u32::try_from(after_baseline).unwrap_or(u32::MAX), "experiment");
        let mut title = format!("{experiments}, {kept} kept");
        if let Some(tag) = &self.tag {
            title = format!("{tag}: {title}");
        }
        let value = |point: Option<&Point>| Some(point?.value.as_ref()?.to_string());
        if let (Some(from), Some(to), Some(metric)) = (value(self.baseline()), value(self.best()), &self.metric) {
            title += &format!(", {} from {from} to {to}", cut(metric, 40));
        }
        title
    }
}
