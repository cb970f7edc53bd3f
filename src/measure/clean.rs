//! Raw log bytes to plain ones: byte order marks, UTF-16 and terminal escapes. Foreign text is made safe for a terminal.

use memchr::memchr;

use crate::domain::acts;

/// The byte that starts an escape.
const ESC: u8 = 0x1b;

/// Bytes after which the start of a control sequence counts as stray bytes.
const LONGEST_CONTROL: usize = 64;

/// Longest operating system command (title, hyperlink), in bytes.
const LONGEST_STRING: usize = 4096;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Encoding {
    #[default]
    Undecided,
    Bytes,
    Utf16 {
        big_endian: bool,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Escape {
    #[default]
    Ground,
    Started,
    Intermediate,
    Control(usize),
    Text(usize),
    TextEnding(usize),
}

/// The encoding that a byte order mark at the start of a log announces, and the length of the mark.
fn mark(head: &[u8]) -> Option<(Encoding, usize)> {
    match head {
        [0xff, 0xfe, ..] => Some((Encoding::Utf16 { big_endian: false }, 2)),
        [0xfe, 0xff, ..] => Some((Encoding::Utf16 { big_endian: true }, 2)),
        [0xef, 0xbb, 0xbf, ..] => Some((Encoding::Bytes, 3)),
        _ => None,
    }
}

/// Decodes a log that comes in any pieces: drops its byte order mark and turns UTF-16 into UTF-8.
///
/// The output does not depend on how the input was cut.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    encoding: Encoding,
    /// Bytes that make neither a mark nor a character yet.
    held: Vec<u8>,
}

impl Decoder {
    /// Appends the decoded `chunk`.
    pub(super) fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        if self.encoding == Encoding::Bytes {
            return out.extend_from_slice(chunk);
        }
        self.held.extend_from_slice(chunk);
        self.decode(false, out);
    }

    /// Appends what was held back at the end of the log.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.decode(true, out);
    }

    /// Appends what can be decoded; `complete` says that no more bytes come.
    fn decode(&mut self, complete: bool, out: &mut Vec<u8>) {
        if self.encoding == Encoding::Undecided {
            let (encoding, mark) = match (mark(&self.held), self.held.as_slice()) {
                (Some(mark), _) => mark,
                (None, [] | [0xff] | [0xfe] | [0xef] | [0xef, 0xbb]) if !complete => return,
                (None, _) => (Encoding::Bytes, 0),
            };
            self.encoding = encoding;
            self.held.drain(..mark);
        }
        let Encoding::Utf16 { big_endian } = self.encoding else { return out.append(&mut self.held) };
        let unit = |pair: &[u8]| u16::from_be_bytes(if big_endian { [pair[0], pair[1]] } else { [pair[1], pair[0]] });
        let mut units: Vec<u16> = self.held.chunks_exact(2).map(unit).collect();
        // The first half of a surrogate pair.
        units.pop_if(|last| !complete && (0xd800..=0xdbff).contains(last));
        self.held.drain(..2 * units.len());
        let text = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        out.extend_from_slice(text.collect::<String>().as_bytes());
    }
}

/// Removes terminal escapes from text that comes in any pieces.
///
/// Escapes that move the cursor to another line or column end the line. No escape reaches beyond a line break. The output
/// does not depend on how the input was cut.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    escape: Escape,
}

impl Cleaner {
    /// Appends `bytes` without escapes.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while at < bytes.len() {
            if self.escape == Escape::Ground {
                let plain = memchr(ESC, &bytes[at..]).unwrap_or(bytes.len() - at);
                out.extend_from_slice(&bytes[at..at + plain]);
                at += plain;
                if at < bytes.len() {
                    self.escape = Escape::Started;
                    at += 1;
                }
            } else if self.step(bytes[at], out) {
                at += 1;
            }
        }
    }

    /// Takes one byte within an escape; false if the byte does not belong to it and must be read again.
    fn step(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        let (next, taken) = match self.escape {
            Escape::Ground => (Escape::Ground, false),
            Escape::Started => match byte {
                b'[' => (Escape::Control(0), true),
                b']' | b'P' | b'X' | b'^' | b'_' => (Escape::Text(0), true),
                0x20..=0x2f => (Escape::Intermediate, true),
                0x30..=0x7e => (Escape::Ground, true),
                ESC => (Escape::Started, true),
                _ => (Escape::Ground, false),
            },
            Escape::Intermediate => match byte {
                0x20..=0x2f => (Escape::Intermediate, true),
                0x30..=0x7e => (Escape::Ground, true),
                _ => (Escape::Ground, false),
            },
            Escape::Control(length) => match byte {
                0x20..=0x3f if length < LONGEST_CONTROL => (Escape::Control(length + 1), true),
                0x40..=0x7e => {
                    out.extend(moved(byte));
                    (Escape::Ground, true)
                }
                _ => (Escape::Ground, false),
            },
            Escape::Text(length) => match byte {
                0x07 | 0x18 | 0x1a => (Escape::Ground, true),
                ESC => (Escape::TextEnding(length), true),
                b'\n' | b'\r' => (Escape::Ground, false),
                _ if length < LONGEST_STRING => (Escape::Text(length + 1), true),
                _ => (Escape::Ground, false),
            },
            Escape::TextEnding(_) => match byte {
                b'\\' => (Escape::Ground, true),
                _ => (Escape::Started, false),
            },
        };
        self.escape = next;
        taken
    }
}

/// The replacement for a control sequence in plain text, by the sequence's last byte.
fn moved(last: u8) -> Option<u8> {
    match last {
        b'A' | b'B' | b'E'..=b'H' | b'd' | b'f' => Some(b'\n'),
        b'C' | b'D' => Some(b' '),
        _ => None,
    }
}

/// Makes foreign text that comes in any pieces harmless: removes escapes, other control characters and those that change the
/// direction of writing. A carriage return that overwrites a line ends it, and invalid UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub struct PlainText {
    decoder: Decoder,
    cleaner: Cleaner,
    /// True if the last byte was a carriage return.
    returned: bool,
    /// The first bytes of a character beyond ASCII.
    begun: Vec<u8>,
}

impl PlainText {
    /// The plain text of the next piece.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(chunk.len());
        self.decoder.push(chunk, &mut text);
        self.without_controls(&text)
    }

    /// The text that was held back, at the end of the input.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.decoder.finish(&mut text);
        let mut rest = self.without_controls(&text);
        self.give_up_begun(&mut rest);
        rest
    }

    fn without_controls(&mut self, text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len());
        self.cleaner.push(text, &mut bytes);
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if std::mem::take(&mut self.returned) && !matches!(byte, b'\n' | b'\r') {
                out.push(b'\n');
            }
            if byte >= 0x80 {
                self.push_beyond_ascii(byte, &mut out);
                continue;
            }
            self.give_up_begun(&mut out);
            match byte {
                b'\r' => self.returned = true,
                b'\n' | b'\t' => out.push(byte),
                0..0x20 | 0x7f => {}
                byte => out.push(byte),
            }
        }
        out
    }

    /// Takes a byte of a character beyond ASCII, and appends the character once it is complete, unless it is unsafe to show.
    fn push_beyond_ascii(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte >= 0xc0 {
            self.give_up_begun(out);
        }
        self.begun.push(byte);
        match std::str::from_utf8(&self.begun) {
            Ok(text) => {
                if !text.contains(acts) {
                    out.extend(text.as_bytes());
                }
                self.begun.clear();
            }
            Err(error) if error.error_len().is_some() => self.give_up_begun(out),
            Err(_) => {}
        }
    }

    /// Appends the replacement character for an incomplete one. If its bytes stayed, they could form another character with those
    /// behind a removed one.
    fn give_up_begun(&mut self, out: &mut Vec<u8>) {
        if !self.begun.is_empty() {
            out.extend("\u{fffd}".as_bytes());
            self.begun.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(chunks: &[&[u8]]) -> Vec<u8> {
        let (mut decoder, mut cleaner, mut out) = (Decoder::default(), Cleaner::default(), Vec::new());
        let mut decoded = Vec::new();
        for chunk in chunks {
            decoder.push(chunk, &mut decoded);
            cleaner.push(&std::mem::take(&mut decoded), &mut out);
        }
        decoder.finish(&mut decoded);
        cleaner.push(&decoded, &mut out);
        out
    }

    #[test]
    fn escapes_are_dropped_wherever_the_chunks_end() {
        let log: &[u8] = b"\x1b[1;32mval\x1b[0m\x1b[K: \x1b]8;;http://x\x1b\\1.5\x1b]8;;\x07\x1b(B\nnext\x1b[2Aline";
        for cut in 0..=log.len() {
            assert_eq!(clean(&[&log[..cut], &log[cut..]]), b"val: 1.5\nnext\nline", "cut at {cut}");
        }
    }

    #[test]
    fn an_escape_that_never_ends_does_not_swallow_the_log() {
        assert_eq!(clean(&[b"\x1b]0;title\nval: 1"]), b"\nval: 1");
        let mut endless = b"\x1b[".to_vec();
        endless.extend([b'1'; 100]);
        assert_eq!(clean(&[&endless]).len(), 100 - LONGEST_CONTROL);
    }

    #[test]
    fn utf_16_is_read_by_its_mark() {
        let text = "val: 1.5 µ\u{1f600}\n";
        for big_endian in [false, true] {
            let bytes: Vec<u8> = std::iter::once(0xfeff)
                .chain(text.encode_utf16())
                .flat_map(|unit| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect();
            for cut in 0..=bytes.len() {
                assert_eq!(clean(&[&bytes[..cut], &bytes[cut..]]), text.as_bytes());
            }
        }
        assert_eq!(clean(&[b"\xef\xbb\xbfval: 1"]), b"val: 1");
        assert_eq!(clean(&[b"\xef\xbb"]), b"\xef\xbb");
    }

    #[test]
    fn nothing_is_left_that_a_terminal_obeys_however_it_is_cut() {
        let text =
            "a\u{1b}[31mred\u{1b}[0m\u{7}\r\nstep 1\rstep 2\r\r\nµ§\u{9b}31mx\u{8}\t\u{202e}你\u{2066}end".as_bytes();
        for cut in 0..=text.len() {
            let mut plain = PlainText::default();
            let mut out = plain.push(&text[..cut]);
            out.extend(plain.push(&text[cut..]));
            out.extend(plain.finish());
            assert_eq!(String::from_utf8(out).unwrap(), "ared\nstep 1\nstep 2\nµ§31mx\t你end", "{cut}");
        }
    }

    #[test]
    fn what_is_left_of_broken_characters_makes_no_new_ones() {
        let mut plain = PlainText::default();
        let mut out = plain.push(b"a\xc2\xc2\x9b\x9bb\xe2\x80\xe2\x80\xae\xaec\xe2");
        out.extend(plain.finish());
        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}");
    }
}
