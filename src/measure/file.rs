//! The metric in a file that the run wrote: JSON, JSON lines, CSV or TSV.

use std::path::Path;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::{MetricMention, whole};
use crate::domain::{Unit, few, plain_name};

/// Fields that hold the name of a number whose value is in a field of its own.
pub(super) const NAME_FIELDS: [&str; 5] = ["metric", "name", "key", "tag", "metric_name"];

/// Fields that hold such a value.
pub(super) const VALUE_FIELDS: [&str; 2] = ["value", "metric_value"];

/// The deepest object to search for a name.
const DEEPEST: usize = 8;

/// An error when reading the number in a metric file, as a clause about the file.
#[derive(Debug, thiserror::Error)]
pub enum MetricFileError {
    /// The file is not a JSON document.
    #[error("is not JSON")]
    Syntax,
    /// The place has something else.
    #[error("{0}")]
    NotANumber(String),
    /// There is no such place.
    #[error("{0}")]
    NoPlace(String),
}

/// Returns whether a file is read as a table with a header.
fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv") || end.eq_ignore_ascii_case("tsv"))
}

/// Reads the number at `place` in a file, its digits as written: the last non-empty cell of a column in a CSV or TSV file, by
/// the file's name, else the value at a JSON pointer (RFC 6901), in JSON lines that of the last line that has it. An empty
/// place is the whole document or, in a table or an object, the field of this name.
///
/// `NaN` and `Infinity`, which Python's `json` writes, are read as not finite; so is a number in a string read as one.
///
/// # Errors
///
/// The file is no JSON, the place does not exist or has no number.
pub fn metric_file(path: &Path, text: &[u8], place: &str, name: &str) -> Result<MetricMention, MetricFileError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if is_table(path) {
        return in_column(text, place, name);
    }
    let json = quote_constants(text);
    let lines = || json.split(|byte| *byte == b'\n').rev().filter(|line| !line.trim_ascii().is_empty());
    match in_document(&json, place, name) {
        // A run that ended in the middle of a line has begun the last one.
        Err(MetricFileError::Syntax) => {
            let mut found: Vec<_> = Vec::new();
            for line in lines() {
                match in_document(line, place, name) {
                    Err(MetricFileError::Syntax) => {}
                    // The last line has the place, so an earlier one has an earlier number.
                    Err(wrong @ MetricFileError::NotANumber(_)) if !place.is_empty() => return Err(wrong),
                    Err(missing) => found.push(missing),
                    number => return number,
                }
            }
            Err(found.into_iter().next().unwrap_or(MetricFileError::Syntax))
        }
        found => found,
    }
}

/// The place of a number of this name in a file, as [`metric_file`] takes it, if there is one.
pub fn place_of(path: &Path, text: &[u8], name: &str) -> Option<String> {
    if metric_file(path, text, "", name).is_ok() {
        return Some(String::new());
    }
    if is_table(path) {
        let columns = header(text).1;
        let is_meant = |column: &String| is_spelling(column, name) && metric_file(path, text, column, name).is_ok();
        return columns.into_iter().find(is_meant);
    }
    let line = text.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let read = |json: &[u8]| serde_json::from_slice(&quote_constants(json)).ok();
    let json: Json = read(text).or_else(|| read(line))?;
    pointer_to(&json, name)
}

fn in_document(json: &[u8], pointer: &str, name: &str) -> Result<MetricMention, MetricFileError> {
    let mut value: &RawValue = serde_json::from_slice(json).map_err(|_| MetricFileError::Syntax)?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        let what = format!("needs a JSON pointer, which is empty or starts with `/`: `{pointer}` is none");
        return Err(MetricFileError::NoPlace(what));
    }
    // The object whose value the number is.
    let mut holder = None;
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        holder = VALUE_FIELDS.contains(&key.as_str()).then_some(value);
        value = member(value, &key).ok_or_else(|| {
            let last = pointer.rsplit('/').next().unwrap_or_default();
            let elsewhere = serde_json::from_slice(json).ok().and_then(|all| pointer_to(&all, last));
            let elsewhere = elsewhere.map(|at| format!(", but a number is at `{at}`")).unwrap_or_default();
            MetricFileError::NoPlace(format!("has nothing at `{pointer}`: `{key}` is missing{elsewhere}"))
        })?;
    }
    if pointer.is_empty() {
        let named = NAME_FIELDS.iter().find(|field| {
            member(value, field).is_some_and(|it| serde_json::from_str::<String>(it.get()).is_ok_and(|it| it == name))
        });
        holder = named.map(|_| value);
        let of_name = || VALUE_FIELDS.iter().find_map(|field| member(value, field));
        value = named.map_or_else(|| member(value, name), |_| of_name()).unwrap_or(value);
    }
    let read = |value: &RawValue| serde_json::from_str::<String>(value.get()).ok();
    let unit = holder.and_then(|holder| member(holder, "unit")).and_then(read);
    number(pointer, &read(value).unwrap_or_else(|| value.get().to_owned()), unit)
}

fn in_column(text: &[u8], place: &str, name: &str) -> Result<MetricMention, MetricFileError> {
    let (mut table, columns) = header(text);
    let pointed = place.strip_prefix('/').map(|place| place.replace("~1", "/").replace("~0", "~"));
    let wanted = if place.is_empty() { name } else { place };
    let column = columns.iter().position(|column| column == wanted || pointed.as_ref() == Some(column));
    let Some(column) = column else {
        let what = format!("has no column `{wanted}`; its columns: {}", few(&columns).join(", "));
        return Err(MetricFileError::NoPlace(what));
    };
    let cells = table.byte_records().map_while(Result::ok).filter_map(|row| Some(row.get(column)?.to_owned()));
    let no_row = || MetricFileError::NoPlace(format!("has no value in the column `{wanted}`"));
    let last = cells.filter(|cell| !cell.is_empty()).last().ok_or_else(no_row)?;
    number(wanted, &String::from_utf8_lossy(&last), None)
}

/// A table, and the names of its columns.
fn header(text: &[u8]) -> (csv::Reader<&[u8]>, Vec<String>) {
    let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let delimiter = [b'\t', b','].into_iter().find(|sign| header.contains(sign)).unwrap_or(b';');
    let mut table =
        csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).trim(csv::Trim::All).from_reader(text);
    let names = table.byte_headers().into_iter().flatten();
    let columns = names.map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
    (table, columns)
}

/// Returns whether a column or the end of a pointer is the name in another spelling, or on data that nothing was fitted to.
fn is_spelling(place: &str, name: &str) -> bool {
    let (place, name) = (plain_name(place), plain_name(name));
    place.strip_suffix(&name).is_some_and(|before| matches!(before, "" | "val_" | "eval_" | "validation_"))
}

fn number(place: &str, text: &str, unit: Option<String>) -> Result<MetricMention, MetricFileError> {
    let value = whole(text.as_bytes()).map(|value| value.with_unit(unit.map(|unit| Unit::new(&unit))));
    let found = || text.chars().take(60).collect::<String>();
    value.ok_or_else(|| MetricFileError::NotANumber(format!("has no number at `{place}`: {}", found())))
}

/// The pointer to a number of this name, else to one in another spelling of it.
fn pointer_to(json: &Json, name: &str) -> Option<String> {
    let exact = |key: &str, _: &str| key == name;
    let similar = |key: &str, at: &str| is_spelling(key, name) || is_spelling(at, name);
    pointer_where(json, "", DEEPEST, &exact).or_else(|| pointer_where(json, "", DEEPEST, &similar))
}

/// The pointer to a number whose key and pointer pass a test, at most so many objects deep.
fn pointer_where(json: &Json, at: &str, depth: usize, is_meant: &dyn Fn(&str, &str) -> bool) -> Option<String> {
    json.as_object().filter(|_| depth > 0)?.iter().find_map(|(key, value)| {
        let at = at.to_owned() + &escaped(key);
        if value.is_number() && is_meant(key, &at) { Some(at) } else { pointer_where(value, &at, depth - 1, is_meant) }
    })
}

/// A key as a part of a pointer.
fn escaped(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn member<'a>(value: &'a RawValue, key: &str) -> Option<&'a RawValue> {
    use std::collections::HashMap;
    if let Ok(mut object) = serde_json::from_str::<HashMap<String, &'a RawValue>>(value.get()) {
        return object.remove(key);
    }
    let array = serde_json::from_str::<Vec<&'a RawValue>>(value.get()).ok()?;
    array.get(key.parse::<usize>().ok()?).copied()
}

/// Puts the constants that JSON does not have into quotes.
pub(crate) fn quote_constants(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut at = 0;
    let mut in_text = false;
    while at < json.len() {
        let constant = [&b"-Infinity"[..], b"Infinity", b"NaN"].into_iter().find(|word| json[at..].starts_with(word));
        match (in_text, json[at], constant) {
            (false, _, Some(word)) => {
                out.push(b'"');
                out.extend_from_slice(word);
                out.push(b'"');
                at += word.len();
                continue;
            }
            (true, b'\\', _) => {
                out.push(b'\\');
                at += 1;
            }
            (_, b'"', _) => in_text = !in_text,
            _ => {}
        }
        out.extend(json.get(at));
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str, pointer: &str) -> String {
        raw_of("m.json", json, pointer)
    }

    fn raw_of(file: &str, text: &str, place: &str) -> String {
        match metric_file(Path::new(file), text.as_bytes(), place, "val_loss") {
            Ok(MetricMention::Number(number)) => number.raw,
            Ok(MetricMention::NotFinite(raw)) => format!("not finite: {raw}"),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn a_pointer_leads_to_the_number_with_its_digits() {
        let json = r#"{"eval": {"loss": 1.834200, "a/b": [1, 2.50]}, "text": "say \"NaN\" twice", "s": "0.5"}"#;
        assert_eq!(raw(json, "/eval/loss"), "1.834200");
        assert_eq!(raw(json, "/eval/a~1b/1"), "2.50");
        assert_eq!(raw(json, "/s"), "0.5");
        assert_eq!(raw("0.25\n", ""), "0.25");
        assert_eq!(raw(r#"{"loss": NaN}"#, "/loss"), "not finite: NaN");
        assert_eq!(raw(r#"[-Infinity]"#, "/0"), "not finite: -Infinity");
        assert_eq!(raw("\u{feff}{\"a\": 3}", "/a"), "3");
    }

    #[test]
    fn what_is_no_number_is_named() {
        assert_eq!(raw(r#"{"a": null}"#, "/a"), "error: has no number at `/a`: null");
        assert_eq!(raw(r#"{"a": 1}"#, "/b/c"), "error: has nothing at `/b/c`: `b` is missing");
        assert_eq!(
            raw(r#"{"x": {"y/z": {"c": 1}}}"#, "/b/c"),
            "error: has nothing at `/b/c`: `b` is missing, but a number is at `/x/y~1z/c`"
        );
        assert_eq!(raw("{\"a\": 1", "/a"), "error: is not JSON");
        assert!(raw(r#"{"a": 1}"#, "a").starts_with("error: needs a JSON pointer"));
        assert!(metric_file(Path::new("m.json"), b"\"\\", "", "").is_err());
        let columns = "error: has no column `loss`; its columns: epoch, val_loss";
        assert_eq!(raw_of("m.csv", "epoch,val_loss\n1,0.5\n", "loss"), columns);
        assert_eq!(raw_of("m.csv", "epoch,val_loss\n1,\n", ""), "error: has no value in the column `val_loss`");
        assert_eq!(raw_of("m.csv", "val_loss\n0.5\nhigh\n", ""), "error: has no number at `val_loss`: high");
    }

    #[test]
    fn the_last_cell_of_a_column_counts() {
        let lightning = "epoch,step,train_loss,val_loss\n0,10,0.9,\n0,10,,0.7\n1,20,0.6,\n1,20,,0.51\n2,30,0.4,\n";
        for place in ["", "val_loss", "/val_loss"] {
            assert_eq!(raw_of("logs/metrics.csv", lightning, place), "0.51");
        }
        assert_eq!(raw_of("m.csv", lightning, "train_loss"), "0.4");
        assert_eq!(raw_of("m.tsv", "epoch\tval loss, mean\n1\t0.5\n", "val loss, mean"), "0.5");
        assert_eq!(raw_of("M.CSV", "\u{feff}\"val/loss\";\"n\"\r\n\"0.25\";1\r\n", "val/loss"), "0.25");
        assert_eq!(raw_of("m.csv", "val_loss\n0.5\nnan\n", ""), "not finite: nan");
    }

    #[test]
    fn the_last_line_with_the_number_counts() {
        let lines = "{\"val\": {\"loss\": 0.9}}\n{\"val\": {\"loss\": 0.80}}\n{\"train\": 0.1}\n{\"val\": {\"lo";
        assert_eq!(raw_of("log.jsonl", lines, "/val/loss"), "0.80");
        assert_eq!(raw_of("log.jsonl", "{\"a\": 1}\n{\"a\": 2}\n", "/b"), "error: has nothing at `/b`: `b` is missing");
        let named = "{\"metric\": \"val_loss\", \"value\": 0.7}\n{\"key\": \"lr\", \"value\": 0.1}\n";
        assert_eq!(raw_of("log.jsonl", named, ""), "0.7");
        assert_eq!(raw("{\"val_loss\": 0.6}", ""), "0.6");
        let null = "{\"val_loss\": 0.6}\n{\"val_loss\": null}\n";
        assert_eq!(
            raw_of("log.jsonl", null, "/val_loss"),
            "error: has no number at `/val_loss`: null",
            "no earlier one"
        );
    }

    #[test]
    fn the_unit_stands_beside_the_value() {
        for (json, place, expected) in [
            (r#"{"latency": {"value": 980, "unit": "ms"}}"#, "/latency/value", "980 ms"),
            (r#"{"metric": "val_loss", "unit": "s", "value": 1.5}"#, "", "1.5 s"),
            (r#"{"value": 2, "max": 980, "unit": "ms"}"#, "/max", "980"),
            (r#"{"value": "2 s", "unit": "ms"}"#, "/value", "2 s"),
        ] {
            let found = metric_file(Path::new("m.json"), json.as_bytes(), place, "val_loss");
            assert!(
                matches!(&found, Ok(MetricMention::Number(number)) if format!("{number:#}") == expected),
                "{json}: {found:?}"
            );
        }
    }

    #[test]
    fn the_place_of_a_name_in_a_file_is_found() {
        let place = |file: &str, text: &str| place_of(Path::new(file), text.as_bytes(), "val_loss");
        assert_eq!(place("m.csv", "epoch,val_loss\n1,0.5\n").as_deref(), Some(""));
        assert_eq!(place("m.json", "{\"eval\": {\"val_loss\": 1}}").as_deref(), Some("/eval/val_loss"));
        assert_eq!(place("m.jsonl", "{\"a\": 1}\n{\"eval\": {\"val_loss\": 1}}\n").as_deref(), Some("/eval/val_loss"));
        for column in ["Val_Loss", "val/loss", "val-loss", "valLoss"] {
            assert_eq!(place("m.csv", &format!("epoch,{column}\n1,0.5\n")).as_deref(), Some(column));
        }
        assert_eq!(place("m.json", "{\"val\": {\"loss\": 1}}").as_deref(), Some("/val/loss"));
        let loss = |text: &str| place_of(Path::new("m.json"), text.as_bytes(), "loss");
        assert_eq!(loss("{\"train_loss\": 2, \"eval_loss\": 1}").as_deref(), Some("/eval_loss"));
        let wrong = metric_file(Path::new("m.json"), b"{\"Val_Loss\": 1}", "/val_loss", "val_loss").unwrap_err();
        assert!(wrong.to_string().contains("`/Val_Loss`"), "{wrong}");
        assert_eq!(place("m.csv", "epoch,loss\n1,0.5\n"), None);
        assert_eq!(place("m.json", "[1, 2]"), None);
    }
}
