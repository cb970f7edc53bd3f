//! What a log says of the metric and of memory, wherever its lines are read.

use std::ops::Range;

use super::number::Value;
use super::search::{Found, PatternError, Search};
use crate::domain::{MetricSource, MetricSpec, Number};

/// Names of memory, and how many of their unit make a GiB.
const MEMORY: [(&str, f64); 2] = [("memory_gb", 1.0), ("peak_vram_mb", 1024.0)];

/// Looks for the metric and for memory, and remembers what their last mentions said.
#[derive(Debug)]
pub(super) struct Mentions {
    /// The metric's name; absent if the log does not give the metric.
    name: Option<String>,
    /// How to find the metric; absent if there is nothing left to find.
    metric: Option<Search>,
    /// How to find memory, likewise.
    memory: Option<Search>,
    /// The last mention of the metric.
    found: Option<Found>,
    /// The last finite number of the metric.
    finite: Option<Number>,
    /// The last finite number of memory, in GiB.
    memory_gb: Option<f64>,
}

impl Mentions {
    /// See [`Scanner::new`](super::Scanner::new).
    pub(super) fn new(spec: &MetricSpec) -> Result<Self, PatternError> {
        let metric = match &spec.source {
            MetricSource::Log if spec.name.trim().is_empty() || spec.name.contains(['\n', '\r']) => {
                return Err(PatternError::Name(spec.name.clone()));
            }
            MetricSource::Log => Some(Search::names(&[spec.name.trim()])),
            MetricSource::Regex(pattern) => Some(Search::pattern(pattern)?),
            MetricSource::File { .. } => None,
        };
        let memory = Some(Search::names(&MEMORY.map(|(name, _)| name)));
        let name = metric.is_some().then(|| spec.name.clone());
        Ok(Mentions { name, metric, memory, found: None, finite: None, memory_gb: None })
    }

    /// Looks for the same, and knows nothing yet.
    pub(super) fn anew(&self) -> Self {
        let (metric, memory) = (self.metric.clone(), self.memory.clone());
        Mentions { name: self.name.clone(), metric, memory, found: None, finite: None, memory_gb: None }
    }

    /// Looks for what these do not know yet.
    pub(super) fn missing(&self) -> Self {
        let mut missing = self.anew();
        missing.metric.take_if(|_| self.found.is_some());
        missing.memory.take_if(|_| self.memory_gb.is_some());
        missing
    }

    /// Whether earlier lines can change nothing.
    pub(super) fn are_known(&self) -> bool {
        (self.found.is_some() || self.metric.is_none()) && self.memory_gb.is_some()
    }

    /// Takes what earlier lines said.
    pub(super) fn put_before(&mut self, earlier: Mentions) {
        self.found = self.found.take().or(earlier.found);
        self.finite = self.finite.take().or(earlier.finite);
        self.memory_gb = self.memory_gb.or(earlier.memory_gb);
    }

    /// The last finite number of the metric.
    pub(super) fn last(&self) -> Option<&Number> {
        self.finite.as_ref()
    }

    /// Reads the mentions that begin in a range of some lines. The lines come in their order, as they are in the log.
    pub(super) fn look(&mut self, lines: &[u8], range: &Range<usize>) {
        if let Some(search) = &self.metric {
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
        if let Some(search) = &self.memory {
            search.backwards(lines, range, |which, value| {
                let Value::Finite(number) = value else { return false };
                self.memory_gb = Some(number.value / MEMORY[which].1);
                true
            });
        }
    }

    /// The last mentions of the metric and of memory. Makes `metrics` say the same of the metric.
    pub(super) fn finish(self, metrics: &mut Vec<(String, Number)>) -> (Option<Found>, Option<f64>) {
        if let Some(name) = self.name {
            match &self.found {
                Some(Found::Number(number)) => match metrics.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => known.clone_from(number),
                    None => metrics.push((name, number.clone())),
                },
                _ => metrics.retain(|(known, _)| *known != name),
            }
        }
        (self.found, self.memory_gb)
    }
}
