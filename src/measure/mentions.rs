//! What a log says of the metric and of memory, wherever its lines are read.

use std::ops::Range;

use super::name::RIGHT;
use super::search::{Found, Hits, Named, Pattern, PatternError};
use super::skim::Skim;
use crate::domain::{MetricSource, MetricSpec, Number};

/// Names of memory, and how many of their unit make a GiB.
const MEMORY: [(&str, f64); 2] = [("memory_gb", 1.0), ("peak_vram_mb", 1024.0)];

/// Looks for the metric and for memory, and remembers what their last mentions said.
#[derive(Debug)]
pub(super) struct Mentions {
    metric: Metric,
    hits: Hits,
    /// The names of memory with their units; none where nobody asks any more.
    memory_names: Vec<(Named, f64)>,
    /// What the last mention of memory that is finite said, in GiB.
    memory: Option<f64>,
}

/// How the metric is looked for.
#[derive(Debug)]
enum Metric {
    Named { name: String, search: Box<Named> },
    Pattern { name: String, search: Box<Pattern> },
    Elsewhere,
}

impl Metric {
    /// The same search from the start of a line on.
    fn anew(&self) -> Metric {
        match self {
            Metric::Named { name, search } => Metric::Named { name: name.clone(), search: search.clone() },
            Metric::Pattern { name, search } => Metric::Pattern { name: name.clone(), search: Box::new(search.anew()) },
            Metric::Elsewhere => Metric::Elsewhere,
        }
    }
}

impl Mentions {
    /// See [`Scanner::new`](super::Scanner::new).
    pub(super) fn new(spec: &MetricSpec) -> Result<Self, PatternError> {
        let metric = match &spec.source {
            MetricSource::Log if spec.name.trim().is_empty() || spec.name.contains(['\n', '\r']) => {
                return Err(PatternError::Name(spec.name.clone()));
            }
            MetricSource::Log => {
                Metric::Named { name: spec.name.clone(), search: Box::new(Named::new(spec.name.trim())) }
            }
            MetricSource::Regex(pattern) => {
                Metric::Pattern { name: spec.name.clone(), search: Box::new(Pattern::new(pattern)?) }
            }
            MetricSource::File { .. } => Metric::Elsewhere,
        };
        Ok(Mentions::of(metric))
    }

    fn of(metric: Metric) -> Self {
        let memory_names = MEMORY.map(|(name, unit)| (Named::new(name), unit)).to_vec();
        Mentions { metric, hits: Hits::default(), memory_names, memory: None }
    }

    /// Looks for the same, and knows nothing yet.
    pub(super) fn anew(&self) -> Self {
        Mentions::of(self.metric.anew())
    }

    /// Looks for what these do not know yet.
    pub(super) fn missing(&self) -> Self {
        let metric = if self.hits.found.is_some() { Metric::Elsewhere } else { self.metric.anew() };
        let memory_names = if self.memory.is_some() { Vec::new() } else { self.memory_names.clone() };
        Mentions { memory_names, ..Mentions::of(metric) }
    }

    /// Whether nothing is left to be looked for in earlier lines.
    pub(super) fn are_known(&self) -> bool {
        let has_metric = self.hits.found.is_some() || matches!(self.metric, Metric::Elsewhere);
        has_metric && self.memory.is_some()
    }

    /// Takes what earlier lines said.
    pub(super) fn put_before(&mut self, earlier: Mentions) {
        self.hits.found = self.hits.found.take().or(earlier.hits.found);
        self.hits.finite = self.hits.finite.take().or(earlier.hits.finite);
        self.memory = self.memory.or(earlier.memory);
    }

    /// The last finite number of the metric.
    pub(super) fn last(&self) -> Option<&Number> {
        self.hits.finite.as_ref()
    }

    /// What finds the lines with these names, where names are all that is looked for.
    pub(super) fn skim(&self) -> Option<Skim> {
        let metric = match &self.metric {
            Metric::Named { search, .. } => Some(search.name()),
            Metric::Pattern { .. } => return None,
            Metric::Elsewhere => None,
        };
        let memory = self.memory_names.iter().map(|(search, _)| search.name());
        Skim::new(&metric.into_iter().chain(memory).collect::<Vec<_>>())
    }

    /// Looks at the names that begin in a range of plain bytes. No earlier ones come later.
    pub(super) fn look(&mut self, plain: &[u8], names: Range<usize>) {
        if let Metric::Named { search, .. } = &self.metric {
            let (found, finite) = search.last_in(plain, names.clone());
            self.hits.go_on(found, finite.map(|(_, number)| number));
        }
        let memory = self.memory_names.iter().filter_map(|(search, unit)| {
            let (_, finite) = search.last_in(plain, names.clone());
            finite.map(|(at, number)| (at, number.value / unit))
        });
        self.memory = memory.max_by_key(|(at, _)| *at).map(|(_, memory)| memory).or(self.memory);
    }

    /// Goes on matching the metric's pattern, where it has one; `end` says that no more bytes come.
    pub(super) fn match_pattern(&mut self, plain: &[u8], end: bool) {
        if let Metric::Pattern { search, .. } = &mut self.metric {
            search.push(plain, end, &mut self.hits);
        }
    }

    /// How far a name with its right side can reach, in bytes.
    pub(super) fn reach(&self) -> usize {
        let metric = match &self.metric {
            Metric::Named { search, .. } => search.name().len(),
            _ => 0,
        };
        MEMORY.map(|(name, _)| name.len()).into_iter().fold(metric, usize::max) + RIGHT
    }

    /// What the metric's and memory's last mentions said. `metrics` say the same of the metric.
    pub(super) fn finish(self, metrics: &mut Vec<(String, Number)>) -> (Option<Found>, Option<f64>) {
        let found = self.hits.found;
        if let Metric::Named { name, .. } | Metric::Pattern { name, .. } = self.metric {
            match &found {
                Some(Found::Number(number)) => match metrics.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => known.clone_from(number),
                    None => metrics.push((name, number.clone())),
                },
                _ => metrics.retain(|(known, _)| *known != name),
            }
        }
        (found, self.memory)
    }
}
