//! Values in JSON: documents that cannot control a terminal, objects that are parsed late, moments, durations, and types that
//! files hold as people write them.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::acts;

/// Writes a JSON document, optionally indented, and escapes everything that could control a terminal. It uses many
/// small writes.
///
/// # Errors
///
/// Writing to `out` failed.
pub fn write_json(out: impl Write, document: &impl Serialize, indented: bool) -> io::Result<()> {
    let write = if indented { serde_json::to_writer_pretty } else { serde_json::to_writer };
    Ok(write(Escaped(out), document)?)
}

/// Formats it as text.
pub fn json_text(document: &impl Serialize, indented: bool) -> String {
    let mut text = Vec::new();
    // Writing our own documents to memory cannot fail.
    let _ = write_json(&mut text, document, indented);
    String::from_utf8(text).unwrap_or_default()
}

/// Escapes what could control a terminal. In a document it can only be in strings, and these are written in whole characters.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // JSON itself escapes all ASCII control characters but the last.
        if bytes.iter().all(|byte| *byte < 0x7f) {
            return self.0.write(bytes);
        }
        let mut rest = str::from_utf8(bytes).map_err(io::Error::other)?;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| *c >= '\u{7f}' && acts(*c)) {
            // All of them have four hexadecimal digits.
            write!(self.0, "{}\\u{:04x}", &rest[..at], u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_all(rest.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A JSON object kept as text, which takes a fraction of the memory, and parsed when a field is requested.
#[derive(Debug, Clone)]
pub struct Unparsed(Box<RawValue>);

impl Unparsed {
    /// Stores an object.
    ///
    /// # Errors
    ///
    /// JSON cannot represent it, for example keys that are not texts.
    pub fn of(object: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(object).map(Unparsed)
    }

    /// A field, if it exists and has that type.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(self.0.get()).ok()?;
        serde_json::from_str(fields.get(name)?.get()).ok()
    }

    fn value(&self) -> Option<Value> {
        serde_json::from_str(self.0.get()).ok()
    }
}

impl PartialEq for Unparsed {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl<'de> Deserialize<'de> for Unparsed {
    /// Reads any value: a group of fields that is flattened has no text to keep.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unparsed, D::Error> {
        Unparsed::of(&Value::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Serialize for Unparsed {
    /// Writes the object in the layout of the enclosing document.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

/// Returns whether a value is its type's default, for `skip_serializing_if`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Moments in files and documents, for `#[serde(with)]`: written as [`exact_time`](crate::domain::exact_time), read with any fraction.
pub mod millis {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::domain::exact_time;

    /// Writes a moment.
    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&exact_time(*at))
    }

    /// Reads a moment.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(deserializer)
    }

    /// The same for an optional moment.
    pub mod option {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp, exact_time};

        /// Writes a moment, or null.
        pub fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
            at.map(exact_time).serialize(serializer)
        }

        /// Reads a moment, or null.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
            Option::deserialize(deserializer)
        }
    }
}

/// Durations in JSON, as seconds with a fraction.
pub(super) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::domain) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }

    /// The same for a duration that may be absent.
    pub(in crate::domain) mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

        pub(in crate::domain) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
        }

        pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Option::<f64>::deserialize(deserializer)?
                .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(D::Error::custom))
                .transpose()
        }
    }
}

/// Makes `String` of a type and the other way round by its `Display` and `FromStr`, for `#[serde(try_from = "String", into =
/// "String")]`.
macro_rules! as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = <$type as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

pub(super) use as_text;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_json_document_says_the_same_and_does_nothing() {
        let document = json!({"a": "\u{1b}[5m\u{9b}5m\u{202e}é\u{7f}"});
        let text = json_text(&document, false);
        assert_eq!(text, r#"{"a":"\u001b[5m\u009b5m\u202eé\u007f"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }

    #[test]
    fn an_indented_document_is_laid_out_as_usual() {
        let document = json!({"a": [1, {"b": null}], "c": {}, "d": [], "e": [[], {"f": [[]]}], "é": "\"é\" \t"});
        assert_eq!(json_text(&document, true), serde_json::to_string_pretty(&document).unwrap());
        assert_eq!(json_text(&document, false), document.to_string());
    }
}
