//! Ledgers of JSON lines, as pi-autoresearch writes them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::cell::quantity;
use super::columns::{Columns, memory_unit, metric_assumed, verdict};
use super::rows::{Ledger, OtherWords, Row, Said, Segment, assume_direction, value};
use super::status::{RowStatus, classify, failure};
use super::table::{Form, is_comment};
use super::text::TextLines;
use crate::domain::{Direction, count_of};
use crate::measure::quote_constants;

/// Reads JSON lines. A config line begins a segment: it says metric and direction of the rows behind it, or leaves them as they
/// were. The newest segment that has rows is read, unless another one is said; without a row, the newest config line has its say.
pub(super) fn read(text: &str, said: &Said<'_>) -> Ledger {
    let mut assumed = Vec::new();
    let mut reader = Reader::new(said, false);
    reader.lines(text);
    if reader.has_twins() {
        reader = Reader::new(said, true);
        reader.lines(text);
    }
    let empty = reader.without_rows();
    let Reader { mut segments, rows, chosen, is_numbered, has_own, guess, words, has_verdict, .. } = reader;
    let segment = chosen.or(empty).and_then(|place| segments.get(place)).cloned().unwrap_or_default();
    let metric = said.metric.map(str::to_owned).or(segment.metric).or_else(|| {
        assumed.push(match (&guess, has_own) {
            (None, true) => "the field `metric` holds the metric; `--metric NAME` names another".to_owned(),
            (guess, _) => metric_assumed(guess.as_ref().map(|(name, is_named)| (name.as_str(), *is_named)), "field"),
        });
        guess.map(|(name, _)| name)
    });
    let direction = said.direction.or(segment.direction);
    let direction = direction.unwrap_or_else(|| assume_direction(metric.as_deref(), &mut assumed));
    let elsewhere = segments.iter().map(|segment| segment.rows).sum::<usize>() - rows.len();
    let elsewhere = u32::try_from(elsewhere).unwrap_or(u32::MAX);
    // Rows in front of all config lines are a segment without a name.
    let is_configured = segments.iter().any(|segment| segment.metric.is_some() || segment.name.is_some());
    if !is_configured && !is_numbered {
        segments.clear();
    }
    if segments.len() > 1 && said.segment.is_none() {
        assumed.push(format!(
            "this is segment {}, the newest with rows of {}, and {} of the others left out; `--segment N` reads \
                another",
            segment.number,
            segments.len(),
            count_of(elsewhere, "row")
        ));
    }
    assumed.extend(words.sentence());
    Ledger {
        file: None,
        form: Form::JsonLines,
        metric,
        direction,
        assumed,
        columns: Vec::new(),
        has_verdict,
        rows,
        segments,
        elsewhere,
    }
}

#[derive(Default)]
struct Reader<'a> {
    said: Said<'a>,
    segments: Vec<Segment>,
    /// The rows of the chosen segment.
    rows: Vec<Row>,
    chosen: Option<usize>,
    /// True if segments are numbered by their position, and not as their rows say.
    by_position: bool,
    /// The number that the newest row with one says its segment has.
    own: Option<usize>,
    /// True if rows give the number of their segment.
    is_numbered: bool,
    /// True if rows of the chosen segment have a field `metric`.
    has_own: bool,
    /// The field that is taken for the metric, where nothing says it, and whether its name says so.
    guess: Option<(String, bool)>,
    keys: Keys,
    /// The unit of the metric's numbers.
    unit: String,
    words: OtherWords,
    has_verdict: bool,
}

impl<'a> Reader<'a> {
    fn new(said: &Said<'a>, by_position: bool) -> Self {
        Reader { said: *said, by_position, ..Reader::default() }
    }

    fn lines(&mut self, text: &str) {
        let mut lines = TextLines::new(text);
        while let Some(line) = lines.next() {
            if !line.trim().is_empty() && !is_comment(line) {
                self.line(lines.number, line);
            }
        }
    }

    /// Returns whether two segments have the same number.
    fn has_twins(&self) -> bool {
        let mut numbers = HashSet::new();
        self.segments.iter().any(|segment| !numbers.insert(segment.number))
    }

    /// The segment to read where it has no row: the one that is said, else the newest.
    fn without_rows(&self) -> Option<usize> {
        let is_wanted = |segment: &Segment| self.said.segment.is_none_or(|wanted| wanted == segment.number);
        self.segments.iter().rposition(|segment| segment.rows == 0 && is_wanted(segment))
    }

    fn line(&mut self, number: u32, text: &str) {
        // Python writes constants that JSON does not have.
        let quoted;
        let mut object = serde_json::from_str::<Object<'_>>(text);
        if object.is_err() {
            quoted = String::from_utf8(quote_constants(text.as_bytes())).unwrap_or_default();
            object = serde_json::from_str(&quoted);
        }
        match object {
            Ok(object) if object.is_config() => self.config(&object),
            object => {
                self.begin_row(object.as_ref().ok().and_then(Object::segment));
                if self.chosen != self.segments.len().checked_sub(1) {
                    return;
                }
                let row = match object {
                    Ok(object) => self.row(number, &object),
                    Err(_) => Row::malformed(number, text, "not a JSON object".to_owned()),
                };
                self.rows.push(row);
            }
        }
    }

    /// Begins a segment, or says more of the one that has no row yet. What a config line does not say stays.
    fn config(&mut self, object: &Object<'_>) {
        let before = self.segments.last().cloned().unwrap_or_default();
        if before.rows == 0 {
            self.segments.pop();
        }
        let next = if before.rows == 0 { before.number } else { before.number.saturating_add(1) };
        self.own = None;
        let said = |key: &str| object.get(key).map(text).map(Cow::into_owned);
        let direction = said("bestDirection").or_else(|| said("direction"));
        self.segments.push(Segment {
            number: if self.by_position { self.segments.len() } else { next },
            name: said("name").or(before.name),
            metric: said("metricName").or_else(|| said("primaryMetric")).or(before.metric),
            direction: match direction.as_deref() {
                Some("higher") => Some(Direction::Higher),
                Some("lower") => Some(Direction::Lower),
                _ => before.direction,
            },
            rows: 0,
        });
    }

    /// Counts a row in the newest segment, which becomes the chosen one with its first row, unless another one is said. `own` is
    /// the number of its segment that the row says itself; another one than before begins a segment.
    fn begin_row(&mut self, own: Option<usize>) {
        self.is_numbered |= own.is_some();
        let newest = self.segments.last();
        let before = self.own.or(newest.filter(|_| !self.by_position).map(|newest| newest.number));
        let is_other = own.is_some() && before.is_some() && own != before;
        if newest.is_none_or(|newest| newest.rows > 0 && is_other) {
            self.segments.push(Segment { rows: 0, ..newest.cloned().unwrap_or_default() });
        }
        self.own = own.or(self.own);
        let place = self.segments.len() - 1;
        let newest = &mut self.segments[place];
        newest.rows += 1;
        if newest.rows > 1 {
            return;
        }
        newest.number = if self.by_position { place } else { own.unwrap_or(newest.number) };
        if self.said.segment.is_none_or(|wanted| wanted == newest.number) {
            self.chosen = Some(place);
            self.rows.clear();
            self.words = OtherWords::default();
            self.unit.clear();
            self.guess = None;
            self.has_own = false;
            self.has_verdict = false;
        }
    }

    fn row(&mut self, line: u32, object: &Object<'_>) -> Row {
        let config = self.segments.last().and_then(|segment| segment.metric.as_deref());
        let own = object
            .get("metric")
            .filter(|_| self.said.metric.is_none() || config.is_none() || config == self.said.metric);
        if self.said.metric.or(config).is_none() && own.is_none() && self.guess.is_none() {
            self.guess = object.likely_metric();
        }
        self.has_own |= own.is_some();
        let metric = self.said.metric.or(config).or(self.guess.as_ref().map(|(name, _)| name.as_str()));
        let columns = self.keys.columns(object, metric);
        let field = |column: Option<usize>| column.map(|column| object.0[column].1);
        let named = || field(columns.metric).or_else(|| inside(object.get("metrics")?, metric?));
        let number = own.or_else(named);
        // A record of an experiment has its metric with its name.
        let number = number.map(|number| inside(number, "value").unwrap_or(number));
        let (value, problem) = value(&number.map(text).unwrap_or_default(), &mut self.unit);
        let status = columns.status.map_or(RowStatus::Other, |column| {
            let (name, cell) = &object.0[column];
            let cell = text(cell);
            let status = classify(&cell, verdict(name));
            self.has_verdict = true;
            if status == RowStatus::Other {
                self.words.add(&cell);
            }
            status
        });
        let memory_cell = field(columns.memory).map(text).unwrap_or_default();
        let memory_unit = columns.memory.and_then(|column| memory_unit(&object.0[column].0)).unwrap_or(1.0);
        let memory = quantity(&memory_cell);
        let is_zero = memory.as_ref().is_some_and(|found| found.value == 0.0);
        let said = [field(columns.status), number].into_iter().flatten().map(text).chain([memory_cell.clone()]);
        let said: Vec<_> = said.collect();
        let piece = |column: Option<usize>| field(column).map(|field| Box::from(text(field)));
        Row {
            line,
            commit: piece(columns.commit),
            value,
            memory_gb: memory.and_then(|found| found.memory(memory_unit)),
            status,
            failure: failure(status, said.iter().map(AsRef::as_ref)),
            description: piece(columns.description).unwrap_or_default(),
            problem: problem.map(Into::into),
        }
        .without_empty_zero(is_zero)
    }
}

/// The columns of the objects that have the same keys, which are found once.
#[derive(Default)]
struct Keys {
    names: Vec<String>,
    metric: Option<String>,
    columns: Columns,
}

impl Keys {
    fn columns(&mut self, object: &Object<'_>, metric: Option<&str>) -> Columns {
        let same = self.metric.as_deref() == metric && self.names.iter().map(String::as_str).eq(object.names());
        if !same || self.names.is_empty() {
            self.names = object.names().map(str::to_owned).collect();
            self.metric = metric.map(str::to_owned);
            self.columns = Columns::by_name(&self.names, metric);
        }
        self.columns
    }
}

/// The fields of a JSON object as they are written.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The value of a field; of one that stands there twice the last.
    fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_ref())
    }

    fn is_config(&self) -> bool {
        self.get("type").is_some_and(|kind| text(kind) == "config")
            || (self.get("metricName").is_some() && self.get("metric").is_none())
    }

    /// The number of the segment that a row says it is of.
    fn segment(&self) -> Option<usize> {
        text(self.get("segment")?).parse().ok()
    }

    fn likely_metric(&self) -> Option<(String, bool)> {
        let names: Vec<&str> = self.names().collect();
        let columns = Columns::by_name(&names, None);
        let found = columns.likely_metric(&names, |column| quantity(&text(self.0[column].1)).is_some());
        found.map(|(column, is_named)| (names[column].to_owned(), is_named))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((Unquoted(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A string or the name of a field, which is borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Unquoted<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value of a field of an object.
fn inside<'a>(object: &'a RawValue, key: &str) -> Option<&'a RawValue> {
    object.get().starts_with('{').then(|| serde_json::from_str::<Object<'a>>(object.get()).ok()?.get(key))?
}

/// A value as a cell has it: strings without their quotes, null as nothing, all else as it is written.
fn text(value: &RawValue) -> Cow<'_, str> {
    match value.get() {
        "null" => Cow::Borrowed(""),
        quoted if quoted.starts_with('"') => {
            serde_json::from_str(quoted).map_or(Cow::Borrowed(quoted), |Unquoted(text)| text)
        }
        written => Cow::Borrowed(written),
    }
}
