//! Mentions of the metric, the axes and memory in the lines of a log: finding them, by name or by a pattern, and choosing
//! those that count.
//!
//! Of the mentions of one process, the last counts. If it is of a part, the last one of the whole run counts instead, wherever it
//! stands. Rank 0 and lines that name no process come before other processes.

use std::ops::Range;

use memchr::{memchr2, memmem, memrchr2};
use regex::bytes::Regex;

use super::extent::{Extent, Extents, Process};
use super::name::{BETWEEN, LEFT, RIGHT, Reading, contains, is_blank, is_decoration, is_stale, reading_between};
use super::{MetricMention, Tables, whole};
use crate::domain::{
    COMPOSITE, ErrorKind, MetricSource, MetricSpec, Number, PartOf, Unit, UserError, few, nearest, refuse,
};

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
    /// The tables with the name in their header, which count where no mention does.
    tables: Tables,
}

impl Mention {
    fn of(name: Option<String>, search: Option<Search>) -> Self {
        Mention { name, search, claims: Claims::default(), tables: Tables::default() }
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
            claims.prepend(Claims::of(reading.named(name)));
            claims.are_settled() && claims.last_finite().is_some()
        });
        claims.prepend(std::mem::take(&mut self.claims));
        self.claims = claims;
        // Pieces of a line are no rows.
        if let Search::Names(names) = search
            && range.end == lines.len()
            && self.claims.found().is_none()
        {
            let start = if range.start == 0 { Some(0) } else { memchr2(b'\n', b'\r', lines).map(|brk| brk + 1) };
            self.tables.read(&lines[start.unwrap_or(lines.len())..], &names[0]);
        }
    }

    /// Takes what tables say, now that all lines are read.
    fn settle(&mut self) {
        let is_open = self.claims.found().is_none() && self.claims.several().is_empty();
        if let Some(reading) = self.tables.reading().filter(|_| is_open) {
            self.claims = Claims::of(reading.named(self.name.as_deref().unwrap_or_default()));
        }
    }

    /// Makes `metrics` and the names that are not finite say the same of it.
    fn put_into(self, metrics: &mut Vec<(String, Number)>, not_finite: &mut Vec<String>) -> Claims {
        let Some(name) = self.name else { return self.claims };
        not_finite.retain(|known| *known != name);
        match self.claims.found() {
            Some(MetricMention::Number(number)) => match metrics.iter_mut().find(|(known, _)| *known == name) {
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
    pub(super) fn new(spec: &MetricSpec) -> Result<Self, UserError> {
        let metric = match &spec.source {
            MetricSource::Log if !is_printable(&spec.name) => {
                let text = format!("`{}` cannot be the name of a metric in a log", spec.name);
                return Err(refuse(ErrorKind::Usage, text)
                    .hint("give the metric's name as the log prints it: `--metric val_bpb`"));
            }
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

    /// Takes what tables say, now that all lines are read.
    pub(super) fn settle(&mut self) {
        self.metric.settle();
        self.axes.iter_mut().for_each(Mention::settle);
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
        let in_table = || self.metric.tables.last().filter(|_| self.metric.claims.found().is_none());
        self.metric.claims.last_finite().or_else(in_table)
    }

    /// Reads the mentions that begin in a range of some lines. The lines come in their order, as they are in the log.
    pub(super) fn look(&mut self, lines: &[u8], range: &Range<usize>) {
        self.metric.look(lines, range);
        self.axes.iter_mut().for_each(|axis| axis.look(lines, range));
        self.memory.backwards(lines, range, |which, reading| {
            let Reading::Value(_, MetricMention::Number(number)) = reading.named(MEMORY[which]) else { return false };
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

/// The most processes beside rank 0 to remember; those that printed last stay.
const MOST_PROCESSES: usize = 64;

/// The mentions of one process.
#[derive(Debug, Clone, Default)]
struct ProcessMentions {
    last: Option<MetricMention>,
    /// True if the last one is of a part.
    is_part: bool,
    /// The last part.
    part: Option<String>,
    /// True if there are several parts.
    has_parts: bool,
    /// The last mention of the whole run that counts before those of parts.
    whole: Option<MetricMention>,
    /// The last mean of several numbers, which counts before those of parts, and where there is nothing else.
    mean: Option<MetricMention>,
    /// The last finite number of the whole run.
    finite: Option<Number>,
    /// The last finite number of a part.
    finite_part: Option<Number>,
}

impl ProcessMentions {
    fn of(extent: Extent, found: MetricMention) -> ProcessMentions {
        let finite = found.clone().number();
        match extent {
            Extent::Whole => {
                ProcessMentions { last: Some(found.clone()), whole: Some(found), finite, ..ProcessMentions::default() }
            }
            Extent::SoFar => ProcessMentions { last: Some(found), finite, ..ProcessMentions::default() },
            Extent::Derived => ProcessMentions { whole: Some(found), ..ProcessMentions::default() },
            Extent::Mean => ProcessMentions { mean: Some(found), ..ProcessMentions::default() },
            Extent::Part(part) => ProcessMentions {
                last: Some(found),
                is_part: true,
                part: Some(part),
                finite_part: finite,
                ..ProcessMentions::default()
            },
        }
    }

    fn prepend(&mut self, earlier: ProcessMentions) {
        if self.last.is_none() {
            (self.last, self.is_part) = (earlier.last, earlier.is_part);
        }
        self.has_parts |= earlier.has_parts || matches!((&self.part, &earlier.part), (Some(a), Some(b)) if a != b);
        self.part = self.part.take().or(earlier.part);
        self.whole = self.whole.take().or(earlier.whole);
        self.mean = self.mean.take().or(earlier.mean);
        self.finite = self.finite.take().or(earlier.finite);
        self.finite_part = self.finite_part.take().or(earlier.finite_part);
    }

    /// Returns whether the last mention is of one part of several, and the log has none of the whole run.
    fn is_part_alone(&self) -> bool {
        self.is_part && self.has_parts && self.whole.is_none() && self.mean.is_none()
    }

    fn is_settled(&self) -> bool {
        self.last.is_some() && (!self.is_part || self.whole.is_some())
    }

    fn found(&self) -> Option<&MetricMention> {
        let of_parts = self.whole.as_ref().or(self.mean.as_ref()).filter(|_| self.is_part);
        of_parts.or(self.last.as_ref()).or(self.mean.as_ref())
    }
}

/// The mentions of all processes, as far as they can count.
#[derive(Debug, Default)]
pub(super) struct Claims {
    main: ProcessMentions,
    /// The same, with lines that have a field such as `rank=16`. They count unless a line has `rank=0`.
    all: ProcessMentions,
    /// The lowest number of such a field.
    lowest: Option<u32>,
    /// Those of other processes, the last one first.
    others: Vec<(Process, ProcessMentions)>,
    /// The one of these that printed first.
    first: Option<Process>,
    /// The numbers of the last mention that can mean any of several.
    several: Vec<String>,
}

impl Claims {
    pub(super) fn of(reading: Reading) -> Claims {
        match reading {
            Reading::Several(several) => Claims { several, ..Claims::default() },
            Reading::Value(standing, value) => {
                let claim = ProcessMentions::of(standing.extent, value);
                match standing.process {
                    Process::Main => Claims { main: claim.clone(), all: claim, ..Claims::default() },
                    Process::Field(rank) => {
                        let main = if rank == 0 { claim.clone() } else { ProcessMentions::default() };
                        Claims { main, all: claim, lowest: Some(rank), ..Claims::default() }
                    }
                    other => Claims { others: vec![(other, claim)], first: Some(other), ..Claims::default() },
                }
            }
        }
    }

    /// Takes what earlier lines say. In which order neighbours are put together does not matter.
    pub(super) fn prepend(&mut self, earlier: Claims) {
        self.main.prepend(earlier.main);
        self.all.prepend(earlier.all);
        self.lowest = self.lowest.into_iter().chain(earlier.lowest).min();
        for (process, claim) in earlier.others {
            match self.others.iter().position(|(known, _)| *known == process) {
                Some(at) => self.others[at].1.prepend(claim),
                None => self.others.push((process, claim)),
            }
        }
        self.others.truncate(MOST_PROCESSES);
        self.first = earlier.first.or(self.first);
        if self.several.is_empty() {
            self.several = earlier.several;
        }
    }

    /// Returns whether earlier lines can no longer change what was found.
    pub(super) fn are_settled(&self) -> bool {
        self.main.is_settled() && self.lowest.is_none_or(|rank| rank == 0)
    }

    /// The mentions of rank 0 and of lines that name no process.
    fn main(&self) -> &ProcessMentions {
        if self.lowest == Some(0) { &self.main } else { &self.all }
    }

    /// The claim that counts: rank 0, else the lowest rank, else the process that printed first.
    fn chosen(&self) -> &ProcessMentions {
        let of = |process: Option<Process>| self.others.iter().find(|(other, _)| Some(*other) == process);
        let rank = || self.others.iter().filter(|(it, _)| matches!(it, Process::Rank(_))).min_by_key(|(it, _)| *it);
        let other = || rank().or_else(|| of(self.first)).or(self.others.last()).map(|(_, claim)| claim);
        let main = self.main();
        Some(main).filter(|main| main.last.is_some()).or_else(other).unwrap_or(main)
    }

    pub(super) fn found(&self) -> Option<&MetricMention> {
        self.chosen().found()
    }

    /// The part of the run that the number is about.
    pub(super) fn part(&self) -> Option<PartOf> {
        let is_of_process = self.main().last.is_none() && self.others.len() > 1;
        let of_split = || self.chosen().is_part_alone().then_some(PartOf::Split);
        if is_of_process { Some(PartOf::Process) } else { of_split() }
    }

    /// The last finite number, as a point of a curve: never one of several parts, nor of another rank than the first.
    pub(super) fn last_finite(&self) -> Option<&Number> {
        let is_rank = self.main().last.is_none() && self.others.iter().any(|(it, _)| matches!(it, Process::Rank(_)));
        let claim = Some(self.chosen()).filter(|_| !is_rank)?;
        claim.finite.as_ref().or(claim.finite_part.as_ref().filter(|_| !claim.has_parts))
    }

    /// The numbers of the last mention that can mean any of them, where no mention counts.
    pub(super) fn several(&self) -> &[String] {
        if self.found().is_some() { &[] } else { &self.several }
    }
}

/// Number of words to check before a name.
const WORDS: usize = 4;

/// Returns whether `left`, the line up to a name, marks all numbers behind it as not this run's. Either its last tag names
/// another run, such as `[baseline]`, or it ends inside a call with a text as its argument, as in `print('val_bpb: 0.1')`.
pub(super) fn is_elsewhere(left: &str) -> bool {
    let tag = left.rfind(']').and_then(|end| Some(&left[left[..end].rfind('[')? + 1..end]));
    tag.is_some_and(is_of_another_run) || is_in_call(left)
}

/// Returns whether the last words of `text` name another run: `best`, `previous run:`, `(old)`, `best so far`. Ignores
/// brackets and punctuation around them.
pub(super) fn is_of_another_run(text: &str) -> bool {
    let mut rest = text;
    let mut far = false;
    for _ in 0..WORDS {
        rest = rest.trim_end_matches(|c: char| is_blank(c) || is_decoration(c) || ":()[]{}<>-—–|│┃".contains(c));
        let word = word_before(rest);
        if is_stale(word) || (far && word.eq_ignore_ascii_case("so")) || word.eq_ignore_ascii_case("so_far") {
            return true;
        }
        far = word.eq_ignore_ascii_case("far");
        if !far && !contains(BETWEEN, word) {
            return false;
        }
        rest = &rest[..rest.len() - word.len()];
    }
    false
}

/// The word at the end of `text`.
pub(super) fn word_before(text: &str) -> &str {
    text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Returns whether `left` ends inside a quoted text that is the first argument of a call.
fn is_in_call(left: &str) -> bool {
    left.match_indices('(').any(|(at, _)| {
        let is_call = left[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        // `f"…"`, `rb'…'`
        let argument = left[at + 1..].trim_start_matches(|c: char| "bBfFrRuU".contains(c));
        let quote = argument.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'));
        is_call && quote.is_some_and(|quote| !argument[1..].contains(quote))
    })
}

/// Finds mentions in lines without escapes.
#[derive(Debug)]
pub(super) enum Search {
    /// By names.
    Names(Vec<memmem::Finder<'static>>),
    /// By a regular expression with one group, line by line.
    Pattern(Regex),
}

impl Search {
    /// Searches for names.
    pub(super) fn names(names: &[&str]) -> Self {
        Search::Names(names.iter().map(|name| memmem::Finder::new(name).into_owned()).collect())
    }

    /// Searches for a pattern.
    ///
    /// # Errors
    ///
    /// The pattern is invalid, or has not exactly one group.
    pub(super) fn pattern(pattern: &str) -> Result<Self, UserError> {
        let regex = Regex::new(pattern).map_err(|error| {
            refuse(ErrorKind::Usage, "cannot parse the metric's pattern").caused_by(error).hint(concat!(
                "put the pattern in single quotes and escape `(`, `[`, `+` with a backslash: ",
                r"`--metric-regex 'loss \(mean\): ([0-9.]+)'`"
            ))
        })?;
        let groups = regex.captures_len() - 1;
        if groups != 1 {
            let text = format!("the metric's pattern `{pattern}` has {groups} groups, not one");
            return Err(refuse(ErrorKind::Usage, text).hint(
                "put parentheses around the number and nothing else; `(?:…)` groups without counting: \
                 `--metric-regex 'loss: ([0-9.]+)'`",
            ));
        }
        Ok(Search::Pattern(regex))
    }

    /// Passes the mentions that begin in a range of `lines` to `take`, last one first, until it returns true.
    /// Each comes with the index of its name.
    pub(super) fn backwards(&self, lines: &[u8], range: &Range<usize>, mut take: impl FnMut(usize, Reading) -> bool) {
        match self {
            Search::Names(names) => {
                let mut found = Vec::new();
                for (which, name) in names.iter().enumerate() {
                    let mut at = range.start;
                    while let Some(offset) = name.find(&lines[at..]).filter(|offset| at + offset < range.end) {
                        found.push((at + offset, which));
                        at += offset + 1;
                    }
                }
                found.sort_unstable();
                for (at, which) in found.into_iter().rev() {
                    if named_value(lines, at, names[which].needle()).is_some_and(|reading| take(which, reading)) {
                        return;
                    }
                }
            }
            Search::Pattern(regex) => {
                let mut end = lines.len();
                loop {
                    let start = memrchr2(b'\n', b'\r', &lines[..end]).map_or(0, |brk| brk + 1);
                    let values: Vec<MetricMention> = regex
                        .captures_iter(&lines[start..end])
                        .filter(|found| found.get(0).is_some_and(|all| range.contains(&(start + all.start()))))
                        .filter_map(|found| whole(found.get(1)?.as_bytes()))
                        .collect();
                    if values.into_iter().rev().any(|value| take(0, Reading::Value(Extents::WHOLE, value))) {
                        return;
                    }
                    let Some(before) = start.checked_sub(1) else { return };
                    end = before;
                }
            }
        }
    }
}

/// The mention of a name at `at`, if it is the metric's own.
fn named_value(plain: &[u8], at: usize, name: &[u8]) -> Option<Reading> {
    let behind = &plain[at + name.len()..];
    let behind = &behind[..behind.len().min(RIGHT)];
    let line_end = memchr2(b'\n', b'\r', behind);
    let before = &plain[at.saturating_sub(LEFT)..at];
    let left = &before[memrchr2(b'\n', b'\r', before).map_or(0, |brk| brk + 1)..];
    let right = &behind[..line_end.unwrap_or(behind.len())];
    let is_cut = line_end.is_none() && behind.len() == RIGHT;
    reading_between(std::str::from_utf8(name).ok()?, left, right, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_come_last_one_first_until_one_is_taken() {
        let log = [&b"a: 1\nb: 2\n"[..], &b"step 7\n".repeat(5000), b"a: 3 | b: 4\nb: x\n"].concat();
        let mut seen = Vec::new();
        Search::names(&["a", "b"]).backwards(&log, &(0..log.len()), |which, reading| {
            if let Reading::Value(_, MetricMention::Number(number)) = reading {
                seen.push((which, number.raw));
            }
            seen.len() == 3
        });
        assert_eq!(seen, [(1, "4".to_owned()), (0, "3".to_owned()), (1, "2".to_owned())]);
    }
}
