//! The metric in a JSON file that the run wrote.

use serde_json::value::RawValue;

use super::number::whole;
use super::search::Found;

/// An error when reading the number in a metric file.
#[derive(Debug, thiserror::Error)]
pub enum MetricFileError {
    /// The file is not a JSON document.
    #[error("the metric file is not JSON")]
    Syntax(#[source] serde_json::Error),
    /// The pointer leads nowhere.
    #[error("the metric file has nothing at `{pointer}`: `{missing}` is missing")]
    Missing {
        /// The pointer.
        pointer: String,
        /// The first part of it that is not there.
        missing: String,
    },
    /// The pointer is invalid.
    #[error("`{0}` is not a JSON pointer: it must be empty or start with `/`")]
    Pointer(String),
    /// It leads to something else.
    #[error("the value at `{pointer}` in the metric file is not a number: {found}")]
    NotANumber {
        /// The pointer.
        pointer: String,
        /// The text found there, at most 60 characters.
        found: String,
    },
}

/// Reads the number at `pointer` (RFC 6901, empty for the whole document) in a JSON document, its digits as written.
///
/// `NaN` and `Infinity`, which Python's `json` writes, are read as not finite; so is a number in a string read as one.
///
/// # Errors
///
/// The document is no JSON, the pointer leads nowhere, or to something that is no number.
pub fn metric_file(json: &[u8], pointer: &str) -> Result<Found, MetricFileError> {
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let json = quote_constants(json);
    let mut value: &RawValue = serde_json::from_slice(&json).map_err(MetricFileError::Syntax)?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(MetricFileError::Pointer(pointer.to_owned()));
    }
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        value = member(value, &key)
            .ok_or_else(|| MetricFileError::Missing { pointer: pointer.to_owned(), missing: key })?;
    }
    let text = value.get();
    let text = serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned());
    whole(text.as_bytes()).map(Found::from).ok_or_else(|| MetricFileError::NotANumber {
        pointer: pointer.to_owned(),
        found: text.chars().take(60).collect(),
    })
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
#[path = "file_tests.rs"]
mod tests;
