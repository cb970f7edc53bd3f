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
    /// The search for it; absent if the log does not give it.
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
    /// The search for memory.
    memory: Search,
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
        Ok(Mentions { metric, axes: Vec::new(), memory: Search::names(&MEMORY), memory_gb: None })
    }

    /// Looks for these names, too, as for the name of a metric.
    pub(super) fn look_for<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.axes.extend(names.filter(|name| is_printable(name)).map(Mention::named));
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
        self.memory.backwards(lines, range, |which, reading| {
            let Reading::Value(_, Value::Finite(number)) = reading.named(MEMORY[which]) else { return false };
            let number = number.named(MEMORY[0]);
            let is_memory = number.unit.as_ref().is_some_and(Unit::is_bytes);
            self.memory_gb = Some(number.value).filter(|_| is_memory).or(self.memory_gb);
            is_memory
        });
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
