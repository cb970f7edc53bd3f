//! Mentions of the metric, the axes and memory in the lines of a log.

use std::ops::Range;

use super::claims::Claims;
use super::name::Reading;
use super::number::Value;
use super::search::{Found, PatternError, Search};
use crate::domain::{COMPOSITE, MetricSource, MetricSpec, Number, Unit, few, nearest};

/// Names of memory; the first one's unit is the result's.
const MEMORY: [&str; 2] = ["memory_gb", "peak_vram_mb"];

/// Looks for a name or a pattern, and remembers what its mentions said, as far as they can count.
#[derive(Debug)]
struct Mention {
    /// The name; absent if the log does not give it.
    name: Option<String>,
    /// The search for it; absent if nothing is left to find.
    search: Option<Search>,
    claims: Claims,
}

impl Mention {
    fn of(name: Option<String>, search: Option<Search>) -> Self {
        Mention { name, search, claims: Claims::default() }
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
        missing.search.take_if(|_| self.claims.are_settled());
        missing
    }

    /// Returns whether earlier lines can no longer change the result.
    fn is_known(&self) -> bool {
        self.claims.are_settled() || self.search.is_none()
    }

    fn look(&mut self, lines: &[u8], range: &Range<usize>) {
        let Some(search) = &self.search else { return };
        let name = self.name.as_deref().unwrap_or_default();
        let mut claims = Claims::default();
        search.backwards(lines, range, |_, reading| {
            claims.put_before(Claims::of(reading.named(name)));
            claims.are_settled() && claims.last_finite().is_some()
        });
        claims.put_before(std::mem::take(&mut self.claims));
        self.claims = claims;
    }

    /// Makes `metrics` and the names that are not finite say the same of it.
    fn put_into(self, metrics: &mut Vec<(String, Number)>, not_finite: &mut Vec<String>) -> Claims {
        let Some(name) = self.name else { return self.claims };
        not_finite.retain(|known| *known != name);
        match self.claims.found() {
            Some(Found::Number(number)) => match metrics.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.clone_from(number),
                None => metrics.push((name, number.clone())),
            },
            found => {
                metrics.retain(|(known, _)| *known != name);
                not_finite.extend(found.is_some().then_some(name));
            }
        }
        self.claims
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
        let memory = Some(Search::names(&MEMORY));
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
        self.metric.claims.put_before(earlier.metric.claims);
        self.axes.iter_mut().zip(earlier.axes).for_each(|(axis, earlier)| axis.claims.put_before(earlier.claims));
        self.memory_gb = self.memory_gb.or(earlier.memory_gb);
    }

    /// Says what the log has instead of the metric's number: several behind its name, or one behind a similar name.
    pub(super) fn instead(&self, metrics: &[(String, Number)]) -> Option<String> {
        let Mention { name, claims, .. } = &self.metric;
        let name = name.as_deref().filter(|name| claims.found().is_none() && *name != COMPOSITE)?;
        if !claims.several().is_empty() {
            let numbers = few(claims.several()).join(", ");
            return Some(format!("several numbers follow {name}, and any of them can be meant: {numbers}"));
        }
        let (other, number) = nearest(name, metrics.iter().map(|(name, _)| name))
            .and_then(|near| metrics.iter().find(|(name, _)| name == near))?;
        Some(format!("the run printed no {name}, but {other}: {number}"))
    }

    /// The last finite number of the metric.
    pub(super) fn last(&self) -> Option<&Number> {
        self.metric.claims.last_finite()
    }

    /// Reads the mentions that begin in a range of some lines. The lines come in their order, as they are in the log.
    pub(super) fn look(&mut self, lines: &[u8], range: &Range<usize>) {
        self.metric.look(lines, range);
        self.axes.iter_mut().for_each(|axis| axis.look(lines, range));
        if let Some(search) = &self.memory {
            search.backwards(lines, range, |which, reading| {
                let Reading::Value(_, Value::Finite(number)) = reading.named(MEMORY[which]) else { return false };
                let number = number.named(MEMORY[0]);
                let is_memory = number.unit.as_ref().is_some_and(Unit::is_bytes);
                self.memory_gb = Some(number.value).filter(|_| is_memory).or(self.memory_gb);
                is_memory
            });
        }
    }

    /// The mentions of the metric, and the last one of memory. Makes `metrics` and the names that are not finite say the same of the
    /// metric and of the axes.
    pub(super) fn finish(
        self,
        metrics: &mut Vec<(String, Number)>,
        not_finite: &mut Vec<String>,
    ) -> (Claims, Option<f64>) {
        for axis in self.axes {
            axis.put_into(metrics, not_finite);
        }
        (self.metric.put_into(metrics, not_finite), self.memory_gb)
    }
}
