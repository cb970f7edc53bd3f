//! The lines above a chart, and above a page.

use crate::domain::{count_of, cut, one_line, percent_text};
use crate::report::Report;
use crate::report::analysis::Times;
use crate::rules::Point;

/// The most characters of a name.
const SHOWN: usize = 40;

impl Report {
    /// The two lines above a chart. The first counts the experiments and the keeps, and names baseline and best value
    /// with the gain in per cent. The second says what was verified, and then [`about`](Report::about).
    pub fn chart_title(&self) -> String {
        let after_baseline = self.points.len().saturating_sub(1);
        let kept = self.summary.kept.iter().filter(|step| Some(step.index) != self.baseline).count();
        let experiments = count_of(after_baseline, "experiment");
        let mut title = format!("{experiments}, {kept} kept");
        let value = |point: Option<&Point>| Some(point?.value.as_ref()?.to_string());
        if let (Some(from), Some(to), Some(metric)) = (value(self.baseline()), value(self.best()), &self.metric) {
            title += &format!(", {} from {from} to {to}", cut(metric, SHOWN));
        }
        if let Some(gain) = self.summary.relative_gain.filter(|gain| *gain != 0.0) {
            let way = if gain > 0.0 { "better" } else { "worse" };
            title += &format!(" ({} {way})", percent_text(gain.abs()));
        }
        let lines = [self.verified_text(), Some(self.about()).filter(|about| !about.is_empty())];
        format!("{title}\n{}", lines.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// The origin of the data, as far as it is known: repository, session, hours, GPU, agent and model, cost.
    pub fn about(&self) -> String {
        let repository = self.origin.first().filter(|name| !name.is_empty()).cloned();
        let tag = self.tag.as_ref().map(|tag| format!("session {tag}"));
        let span = self.times.as_ref().filter(|times| times.hours * 3600.0 >= 1.0).map(Times::span);
        let more = self.origin.iter().skip(1).filter(|part| !part.is_empty()).cloned();
        let cost = self.cost().map(|cost| cost.total_text());
        let parts = [repository, tag, span].into_iter().flatten().chain(more).chain(cost);
        parts.map(|part| cut(&one_line(&part), SHOWN)).collect::<Vec<_>>().join(", ")
    }
}
