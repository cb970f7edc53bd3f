//! Ledgers of JSON objects, on a line each, as pi-autoresearch writes them, or in an array.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::columns::VALIDATION;
use super::{
    Cells, Ledger, LedgerForm, ReadOptions, Row, SAMPLE, SampleRows, Segment, Shape, TextLines, is_comment, ledger,
};
use crate::domain::{Direction, count_of};
use crate::measure::quote_constants;

/// Fields whose own fields are read as those of the row.
const NESTED: &[&str] =
    &["decision", "metric", "metrics", "outcome", "result", "results", "scores", "status", "summary"];

/// The deepest level of such objects in each other.
const DEEPEST: usize = 3;

/// An object with the line at which it begins.
type Item<'a> = (u32, Cow<'a, str>);

/// Reads JSON lines or an array. A config line begins a segment: it says metric and direction of the rows behind it, or leaves
/// them as they were. The newest segment that has rows is read, unless another one is said; without a row, the newest config
/// line has its say.
pub(super) fn read(text: &str, form: LedgerForm, said: &ReadOptions<'_>) -> Ledger {
    let whole = text;
    let (text, before) = inner_array(text).unwrap_or((text, 0));
    let form = if before > 0 { LedgerForm::JsonArray } else { form };
    let mut items = if form == LedgerForm::JsonArray { elements(text) } else { lines(text) };
    items.iter_mut().for_each(|(number, _)| *number += before - u32::from(before > 0));
    let mut reader = JsonReader::of(&items, said, false);
    if reader.has_twins() {
        reader = JsonReader::of(&items, said, true);
    }
    let empty = reader.without_rows();
    let JsonReader { mut segments, rows, chosen, is_numbered, .. } = reader;
    let segment = chosen.or(empty).and_then(|place| segments.get(place)).cloned().unwrap_or_default();
    let around = if before > 0 { fields_of(whole, 0) } else { None };
    let header = JsonHeader::of(&rows);
    let sample = SampleRows { rows: rows.iter().take(SAMPLE).filter_map(|item| header.cells(item)).collect() };
    let mut assumed = Vec::new();
    let config = segment.metric.as_deref();
    let mut shape = Shape::of_fields(form, said.metric.or(config), config, header.names.clone(), &sample, &mut assumed);
    let (names, cells): (Vec<_>, Vec<_>) =
        around.into_iter().flatten().map(|(name, cell)| (name, Cow::Owned(cell))).unzip();
    let around = SampleRows { rows: vec![cells] }.stated_direction(&names);
    shape.direction = segment.direction.or(shape.direction).or(around);
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
    let found = ledger(shape, said.direction, assumed, |reader| {
        let row = |item: &&Item<'_>| match header.cells(item) {
            Some(cells) => reader.row(item.0, &cells),
            None => Row::malformed(item.0, &item.1, "not a JSON object".to_owned()),
        };
        rows.iter().map(row).collect()
    });
    Ledger { segments, elsewhere, ..found }
}

/// Fields of an object that is a whole ledger, with its rows.
const ROWS: &[&str] = &[
    "attempts",
    "candidates",
    "data",
    "entries",
    "experiments",
    "history",
    "iterations",
    "records",
    "results",
    "rows",
    "runs",
    "trials",
];

/// The array with the rows of a ledger that is one object, and the line in which it begins.
fn inner_array(text: &str) -> Option<(&str, u32)> {
    let fields: HashMap<&str, &RawValue> = serde_json::from_str(text).ok()?;
    // A row may have such lists, too.
    if ["commit", "status", "outcome", "description"].iter().any(|name| fields.contains_key(name)) {
        return None;
    }
    let rows = ROWS.iter().filter_map(|name| fields.get(name)).map(|rows| rows.get());
    let is_of_objects = |rows: &&str| serde_json::from_str::<Vec<serde_json::Map<String, Value>>>(rows).is_ok();
    let rows = rows.filter(is_of_objects).max_by_key(|rows| rows.len())?;
    let start = rows.as_ptr().addr() - text.as_ptr().addr();
    Some((rows, u32::try_from(text[..start].matches('\n').count() + 1).ok()?))
}

fn lines(text: &str) -> Vec<Item<'_>> {
    let mut lines = TextLines::new(text);
    let mut items = Vec::new();
    while let Some(line) = lines.next() {
        if !line.trim().is_empty() && !is_comment(line) {
            items.push((lines.number, without_constants(line.trim_end().trim_end_matches(','))));
        }
    }
    items
}

/// The text without the constants of Python that JSON does not have.
fn without_constants(text: &str) -> Cow<'_, str> {
    let has_one = ["NaN", "Infinity"].iter().any(|word| text.contains(word));
    let quoted = has_one.then(|| String::from_utf8(quote_constants(text.as_bytes())).ok()).flatten();
    quoted.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The elements of an array; what is no JSON is the last of them.
fn elements(text: &str) -> Vec<Item<'static>> {
    let text = without_constants(text);
    let is_between = |c: char| c.is_whitespace() || matches!(c, '[' | ',' | ']');
    let (mut items, mut number, mut counted) = (Vec::new(), 1, 0);
    let mut rest = text.trim_start_matches(is_between);
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        number += u32::try_from(text[counted..at].matches('\n').count()).unwrap_or(u32::MAX);
        counted = at;
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let end = stream.next().and_then(Result::ok).map_or(rest.len(), |value| value.get().len());
        items.push((number, Cow::Owned(rest[..end].to_owned())));
        rest = rest[end..].trim_start_matches(is_between);
    }
    items
}

#[derive(Default)]
struct JsonReader<'a> {
    said: ReadOptions<'a>,
    segments: Vec<Segment>,
    /// The place of the segment of the newest row.
    current: usize,
    /// The segments since the newest config line, as the number that their rows say and their place.
    numbered: Vec<(usize, usize)>,
    /// The rows of the chosen segment.
    rows: Vec<&'a Item<'a>>,
    chosen: Option<usize>,
    /// True if segments are numbered by their position, and not as their rows say.
    by_position: bool,
    /// The number that the newest row with one says its segment has.
    own: Option<usize>,
    /// True if rows give the number of their segment.
    is_numbered: bool,
}

impl<'a> JsonReader<'a> {
    fn of(items: &'a [Item<'a>], said: &ReadOptions<'a>, by_position: bool) -> Self {
        let mut reader = JsonReader { said: *said, by_position, ..JsonReader::default() };
        items.iter().for_each(|item| reader.item(item));
        reader
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

    fn item(&mut self, item: &'a Item<'a>) {
        let object = serde_json::from_str::<Object<'_>>(&item.1).ok();
        if let Some(object) = object.as_ref().filter(|object| object.is_config()) {
            return self.config(object);
        }
        self.begin_row(object.as_ref().and_then(Object::segment));
        if self.chosen == Some(self.current) {
            self.rows.push(item);
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
        self.numbered.clear();
        let said = |key: &str| object.get(key).map(text).map(Cow::into_owned);
        let direction = said("bestDirection").or_else(|| said("direction"));
        self.segments.push(Segment {
            number: if self.by_position { self.segments.len() } else { next },
            name: said("name").or(before.name),
            metric: said("metricName").or_else(|| said("primaryMetric")).or(before.metric),
            direction: direction.as_deref().and_then(Direction::stated).or(before.direction),
            rows: 0,
        });
        self.current = self.segments.len() - 1;
    }

    /// Counts a row in the newest segment, which becomes the chosen one with its first row, unless another one is said. `own` is
    /// the number of its segment that the row says itself; another one than before begins a segment.
    fn begin_row(&mut self, own: Option<usize>) {
        self.is_numbered |= own.is_some();
        let newest = self.segments.last();
        let before = self.own.or(newest.filter(|_| !self.by_position).map(|newest| newest.number));
        let is_other = own.is_some() && before.is_some() && own != before;
        let again = self.numbered.iter().find(|(number, _)| own == Some(*number)).map(|(_, place)| *place);
        if again.is_none() && newest.is_none_or(|newest| newest.rows > 0 && is_other) {
            self.segments.push(Segment { rows: 0, ..newest.cloned().unwrap_or_default() });
        }
        self.own = own.or(self.own);
        let place = again.unwrap_or(if own.is_some() { self.segments.len() - 1 } else { self.current });
        self.current = place;
        if let Some(own) = own.filter(|_| again.is_none()) {
            self.numbered.push((own, place));
        }
        let segment = &mut self.segments[place];
        segment.rows += 1;
        if segment.rows > 1 {
            return;
        }
        segment.number = if self.by_position { place } else { own.unwrap_or(segment.number) };
        if self.said.segment.is_none_or(|wanted| wanted == segment.number) {
            self.chosen = Some(place);
            self.rows.clear();
        }
    }
}

/// The fields of the first rows, as the header of a table.
struct JsonHeader {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl JsonHeader {
    fn of(rows: &[&Item<'_>]) -> Self {
        let mut header = JsonHeader { names: Vec::new(), places: HashMap::new() };
        let fields = rows.iter().take(SAMPLE).filter_map(|item| fields_of(&item.1, 0));
        for (name, _) in fields.flatten() {
            if !header.places.contains_key(&name) {
                header.places.insert(name.clone(), header.names.len());
                header.names.push(name);
            }
        }
        header
    }

    /// The cells of a row; absent if it is not an object.
    fn cells(&self, item: &Item<'_>) -> Option<Cells<'static>> {
        let mut cells = vec![Cow::Borrowed(""); self.names.len()];
        for (name, cell) in fields_of(&item.1, 0)? {
            if let Some(&place) = self.places.get(&name) {
                cells[place] = Cow::Owned(cell);
            }
        }
        Some(cells)
    }
}

/// The fields of an object with their cells; those of nested objects only where it has none of that name itself.
fn fields_of(text: &str, depth: usize) -> Option<Vec<(String, String)>> {
    let object = serde_json::from_str::<Object<'_>>(text).ok()?;
    let mut nested = Vec::new();
    let mut fields = Vec::with_capacity(object.0.len());
    for (name, value) in &object.0 {
        let is_of_validation = VALIDATION.contains(&name.as_ref());
        let has_fields = depth < DEEPEST && (is_of_validation || NESTED.contains(&name.as_ref()));
        match has_fields.then(|| serde_json::from_str::<Object<'_>>(value.get()).ok()).flatten() {
            // Its loss is another one than that beside it.
            Some(inner) if is_of_validation => {
                fields.extend(
                    inner.0.iter().map(|(part, value)| (format!("{name}/{part}"), self::text(value).into_owned())),
                );
            }
            // A record of an experiment has its metric with its name.
            Some(metric) if name == "metric" => {
                let part = |key: &str| metric.get(key).map(|value| self::text(value).into_owned());
                fields.extend(part("value").map(|value| ("metric".to_owned(), value)));
                nested.extend(part("name").map(|name| ("metric_name".to_owned(), name)));
                nested.extend(part("direction").map(|direction| ("metric_direction".to_owned(), direction)));
            }
            Some(_) => nested.extend(fields_of(value.get(), depth + 1).unwrap_or_default()),
            None => fields.push((name.to_string(), self::text(value).into_owned())),
        }
    }
    nested.retain(|(name, _)| fields.iter().all(|(own, _)| own != name));
    fields.extend(nested);
    Some(fields)
}

/// The fields of a JSON object as they are written.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The value of a field; of one that stands there twice the last.
    fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    fn is_config(&self) -> bool {
        self.get("type").is_some_and(|kind| text(kind) == "config")
            || (self.get("metricName").is_some() && self.get("metric").is_none())
    }

    /// The number of the segment that a row says it is of.
    fn segment(&self) -> Option<usize> {
        text(self.get("segment")?).parse().ok()
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
