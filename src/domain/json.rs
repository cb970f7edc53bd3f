//! JSON documents that do nothing to a terminal.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use super::acts;

/// Writes a JSON document, indented where that is asked for, in which whatever a terminal would act on is escaped. It goes
/// out piece by piece, in many small writes.
///
/// # Errors
///
/// `out` cannot be written to.
pub fn write_json(out: impl Write, document: &impl Serialize, indented: bool) -> io::Result<()> {
    let written = if indented {
        document.serialize(&mut Serializer::with_formatter(out, Safe(PrettyFormatter::new())))
    } else {
        document.serialize(&mut Serializer::with_formatter(out, Safe(CompactFormatter)))
    };
    Ok(written?)
}

/// The same as a text.
pub fn json_text(document: &impl Serialize, indented: bool) -> String {
    let mut text = Vec::new();
    // Neither memory nor a document of ours fails.
    let _ = write_json(&mut text, document, indented);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes what a formatter does, but for characters in strings that a terminal would act on.
struct Safe<F>(F);

impl<F: Formatter> Formatter for Safe<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // JSON itself escapes those of ASCII.
        if fragment.is_ascii() {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| acts(*c) && !c.is_ascii()) {
            // All of them are of four hexadecimal digits.
            write!(out, "{}\\u{:04x}", &rest[..at], u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    /// Of a number or a document that is written as it was found; such characters stand in its strings alone.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        self.write_string_fragment(out, fragment)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_json_document_says_the_same_and_does_nothing() {
        let document = json!({"a": "\u{1b}[5m\u{9b}5m\u{202e}é"});
        let text = json_text(&document, false);
        assert_eq!(text, r#"{"a":"\u001b[5m\u009b5m\u202eé"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }

    #[test]
    fn an_indented_document_is_laid_out_as_usual() {
        let document = json!({"a": [1, {"b": null}], "c": {}, "d": [], "é": "\"é\" \t"});
        assert_eq!(json_text(&document, true), serde_json::to_string_pretty(&document).unwrap());
    }
}
