//! JSON documents that cannot control a terminal.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::acts;

/// Writes a JSON document, optionally indented, and escapes everything that could control a terminal. It uses many
/// small writes.
///
/// # Errors
///
/// Writing to `out` failed.
pub fn write_json(out: impl Write, document: &impl Serialize, indented: bool) -> io::Result<()> {
    let layout = Layout { indented, depth: 0, is_empty: false };
    Ok(document.serialize(&mut serde_json::Serializer::with_formatter(out, layout))?)
}

/// Formats it as text.
pub fn json_text(document: &impl Serialize, indented: bool) -> String {
    let mut text = Vec::new();
    // Writing our own documents to memory cannot fail.
    let _ = write_json(&mut text, document, indented);
    String::from_utf8(text).unwrap_or_default()
}

/// The indentation of a level, in spaces.
const INDENT: usize = 2;

/// The longest separator of two values, so that it takes one write; no document of ours is deeper.
const SEPARATOR: &[u8] = b",\n                                                                ";

/// Formats a document in the usual way, and escapes what could control a terminal.
struct Layout {
    indented: bool,
    /// The nesting depth of the next value.
    depth: usize,
    /// Whether the innermost of them is still empty.
    is_empty: bool,
}

impl Layout {
    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        out.write_all(sign)
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !std::mem::take(&mut self.is_empty) {
            self.separate(out, true)?;
        }
        out.write_all(sign)
    }

    /// Moves to the next value, or to the end of the enclosing array or object.
    fn separate<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.is_empty = false;
        let indent = if self.indented { 1 + INDENT * self.depth } else { 0 };
        let end = (1 + indent).min(SEPARATOR.len());
        out.write_all(&SEPARATOR[usize::from(first)..end])
    }
}

impl Formatter for Layout {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // JSON itself escapes all ASCII control characters but the last.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| *c >= '\u{7f}' && acts(*c)) {
            // All of them have four hexadecimal digits.
            write!(out, "{}\\u{:04x}", &rest[..at], u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    /// For a number or a document that is written unchanged; only its strings can contain such characters.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        self.write_string_fragment(out, fragment)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.indented { b": " } else { b":" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
