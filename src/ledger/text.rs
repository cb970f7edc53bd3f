//! The bytes of a ledger as text, and its physical lines.

use std::borrow::Cow;

use memchr::memchr;

/// Bytes to text: UTF-8, or UTF-16 by its mark; what is neither becomes replacement characters. UTF-8 is not copied.
pub(super) fn decode(mut bytes: Vec<u8>) -> String {
    let unit: fn([u8; 2]) -> u16 = match &bytes[..] {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            if bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            return String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        }
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The cells of a line: pieces of the text where they stand in it as they are.
pub(super) type Cells<'a> = Vec<Cow<'a, str>>;

/// The lines of a text without their ends. A carriage return ends a line only where the text has no line feed.
#[derive(Debug, Clone)]
pub(super) struct TextLines<'a> {
    rest: &'a str,
    end: u8,
    /// The number of the line that was given last, from 1.
    pub(super) number: u32,
}

impl<'a> TextLines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let end = if memchr(b'\n', text.as_bytes()).is_none() { b'\r' } else { b'\n' };
        TextLines { rest: text, end, number: 0 }
    }
}

impl<'a> Iterator for TextLines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let (line, rest) = match memchr(self.end, self.rest.as_bytes()) {
            Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
            None => (self.rest, ""),
        };
        self.rest = rest;
        Some(line.trim_end_matches('\r'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_their_text_does_it() {
        let lines = |text| TextLines::new(text).collect::<Vec<_>>();
        assert_eq!(lines("a\r\nb\r\r\n\nc\rd"), ["a", "b", "", "c\rd"]);
        assert_eq!(lines("a\rb\r"), ["a", "b"]);
        assert_eq!(lines(""), [] as [&str; 0]);
    }
}
