//! Mentions of the metric, the axes and memory in the lines of a log.

use std::ops::Range;

use super::number::Value;
use super::search::{Found, PatternError, Search};
use crate::domain::{MetricSource, MetricSpec, Number};

/// Names of memory, and how many of their unit make a GiB.
const MEMORY: [(&str, f64); 2] = [("memory_gb", 1.0), ("peak_vram_mb", 1024.0)];

/// Looks for a name or a pattern, and remembers what its last mention said.
#[derive(Debug)]
struct Mention {
    /// The name; absent if the log does not give it.
    name: Option<String>,
    /// The search for it; absent if nothing is left to find.
    search: Option<Search>,
    /// The last mention.
    found: Option<Found>,
    /// The last finite number.
    finite: Option<Number>,
}

impl Mention {
    fn of(name: Option<String>, search: Option<Search>) -> Self {
        Mention { name, search, found: None, finite: None }
    }

    /// Looks for a name, which a log can print.
    fn named(name: &str) -> Self {
        Mention::of(Some(name.to_owned()), Some(Search::names(&[name.trim()])))
    }

    /// Looks for the same, and knows nothing yet.
    fn anew(&self) -> Self {
        Mention::of(self.name.clone(), self.search.clone())
    }

    /// Looks for it unless it is known.
    fn missing(&self) -> Self {
        let mut missing = self.anew();
        missing.search.take_if(|_| self.found.is_some());
        missing
    }

    /// Returns whether earlier lines can no longer change the result.
    fn is_known(&self) -> bool {
        self.found.is_some() || self.search.is_none()
    }

    fn put_before(&mut self, earlier: Mention) {
        self.found = self.found.take().or(earlier.found);
        self.finite = self.finite.take().or(earlier.finite);
    }

    fn look(&mut self, lines: &[u8], range: &Range<usize>) {
        let Some(search) = &self.search else { return };
        let mut last = None;
        search.backwards(lines, range, |_, value| {
            let finite = if let Value::Finite(number) = &value { Some(number.clone()) } else { None };
            last.get_or_insert_with(|| Found::from(value));
            let is_finite = finite.is_some();
            self.finite = finite.or(self.finite.take());
            is_finite
        });
        self.found = last.or(self.found.take());
    }

    /// Makes `metrics` and the names that are not finite say the same of it.
    fn put_into(self, metrics: &mut Vec<(String, Number)>, not_finite: &mut Vec<String>) -> Option<Found> {
        let Some(name) = self.name else { return self.found };
        not_finite.retain(|known| *known != name);
        match &self.found {
            Some(Found::Number(number)) => match metrics.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.clone_from(number),
                None => metrics.push((name, number.clone())),
            },
            found => {
                metrics.retain(|(known, _)| *known != name);
                not_finite.extend(found.is_some().then_some(name));
            }
        }
        self.found
    }
}

/// Returns whether a log can print `name`.
fn is_printable(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains(['\n', '\r'])
}

/// Looks for the metric, for axes and for memory, and remembers what their last mentions said.
#[derive(Debug)]
pub(super) struct Mentions {
    metric: Mention,
    axes: Vec<Mention>,
    /// The search for memory; absent if nothing is left to find.
    memory: Option<Search>,
    /// The last finite number of memory, in GiB.
    memory_gb: Option<f64>,
}

impl Mentions {
    /// See [`Scanner::new`](super::Scanner::new).
    pub(super) fn new(spec: &MetricSpec) -> Result<Self, PatternError> {
        let metric = match &spec.source {
            MetricSource::Log if !is_printable(&spec.name) => return Err(PatternError::Name(spec.name.clone())),
            MetricSource::Log => Mention::named(&spec.name),
            MetricSource::Regex(pattern) => Mention::of(Some(spec.name.clone()), Some(Search::pattern(pattern)?)),
            MetricSource::File { .. } => Mention::of(None, None),
        };
        let memory = Some(Search::names(&MEMORY.map(|(name, _)| name)));
        Ok(Mentions { metric, axes: Vec::new(), memory, memory_gb: None })
    }

    /// Looks for these names, too, as for the name of a metric.
    pub(super) fn look_for<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.axes.extend(names.filter(|name| is_printable(name)).map(Mention::named));
    }

    /// Looks for the same, and knows nothing yet.
    pub(super) fn anew(&self) -> Self {
        let axes = self.axes.iter().map(Mention::anew).collect();
        Mentions { metric: self.metric.anew(), axes, memory: self.memory.clone(), memory_gb: None }
    }

    /// Looks for what these do not know yet.
    pub(super) fn missing(&self) -> Self {
        let axes = self.axes.iter().map(Mention::missing).collect();
        let memory = self.memory.clone().filter(|_| self.memory_gb.is_none());
        Mentions { metric: self.metric.missing(), axes, memory, memory_gb: None }
    }

    /// Returns whether earlier lines can no longer change the results.
    pub(super) fn are_known(&self) -> bool {
        self.metric.is_known() && self.axes.iter().all(Mention::is_known) && self.memory_gb.is_some()
    }

    /// Takes what earlier lines said.
    pub(super) fn put_before(&mut self, earlier: Mentions) {
        self.metric.put_before(earlier.metric);
        self.axes.iter_mut().zip(earlier.axes).for_each(|(axis, earlier)| axis.put_before(earlier));
        self.memory_gb = self.memory_gb.or(earlier.memory_gb);
    }

    /// The last finite number of the metric.
    pub(super) fn last(&self) -> Option<&Number> {
        self.metric.finite.as_ref()
    }

    /// Reads the mentions that begin in a range of some lines. The lines come in their order, as they are in the log.
    pub(super) fn look(&mut self, lines: &[u8], range: &Range<usize>) {
        self.metric.look(lines, range);
        self.axes.iter_mut().for_each(|axis| axis.look(lines, range));
        if let Some(search) = &self.memory {
            search.backwards(lines, range, |which, value| {
                let Value::Finite(number) = value else { return false };
                self.memory_gb = Some(number.value / MEMORY[which].1);
                true
            });
        }
    }

    /// The last mentions of the metric and of memory. Makes `metrics` and the names that are not finite say the same of the
    /// metric and of the axes.
    pub(super) fn finish(
        self,
        metrics: &mut Vec<(String, Number)>,
        not_finite: &mut Vec<String>,
    ) -> (Option<Found>, Option<f64>) {
        for axis in self.axes {
            axis.put_into(metrics, not_finite);
        }
        (self.metric.put_into(metrics, not_finite), self.memory_gb)
    }
}
