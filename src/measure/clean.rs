//! Raw log bytes to plain ones: byte order marks, UTF-16 and terminal escapes.

use memchr::memchr;

/// The byte that begins an escape.
pub(super) const ESC: u8 = 0x1b;

/// How long a control sequence may be before its start is taken for stray bytes, in bytes.
const LONGEST_CONTROL: usize = 64;

/// How long an operating system command (title, hyperlink) may be, in bytes.
const LONGEST_STRING: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Encoding {
    Undecided,
    Bytes,
    Utf16 { big_endian: bool },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Escape {
    Ground,
    Started,
    Intermediate,
    Control(usize),
    Text(usize),
    TextEnding(usize),
}

/// The byte order mark at the start of a log: how its bytes are to be read, and how long the mark is.
fn mark(head: &[u8]) -> Option<(Encoding, usize)> {
    match head {
        [0xff, 0xfe, ..] => Some((Encoding::Utf16 { big_endian: false }, 2)),
        [0xfe, 0xff, ..] => Some((Encoding::Utf16 { big_endian: true }, 2)),
        [0xef, 0xbb, 0xbf, ..] => Some((Encoding::Bytes, 3)),
        _ => None,
    }
}

/// Whether a log begins with a byte order mark: its first three bytes, or all of them, decide.
pub fn has_mark(head: &[u8]) -> bool {
    mark(head).is_some()
}

/// Takes a log's bytes in any pieces and gives them without byte order mark and terminal escapes, UTF-16 as UTF-8.
///
/// Escapes that move the cursor to another line or column end the line. The output does not depend on how the input
/// was cut.
#[derive(Debug)]
pub(super) struct Cleaner {
    encoding: Encoding,
    escape: Escape,
    /// The log's first bytes until they say whether they are a mark.
    head: Vec<u8>,
    /// Half of a UTF-16 unit.
    half: Option<u8>,
    /// The first unit of a surrogate pair.
    surrogate: Option<u16>,
}

impl Cleaner {
    pub(super) fn new() -> Self {
        Cleaner { encoding: Encoding::Undecided, escape: Escape::Ground, head: Vec::new(), half: None, surrogate: None }
    }

    /// For bytes that begin behind a line break, where no escape is open, of a log without a mark.
    pub(super) fn behind_break() -> Self {
        Cleaner { encoding: Encoding::Bytes, ..Cleaner::new() }
    }

    /// Whether it is known by now that the log's bytes are taken as they are.
    pub(super) fn is_bytes(&self) -> bool {
        self.encoding == Encoding::Bytes
    }

    /// Appends what `chunk` amounts to.
    pub(super) fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let mut rest = chunk;
        while self.encoding == Encoding::Undecided {
            let Some((&byte, after)) = rest.split_first() else { return };
            self.head.push(byte);
            rest = after;
            self.decide(false);
            if self.encoding != Encoding::Undecided {
                let head = std::mem::take(&mut self.head);
                self.decode(&head, out);
            }
        }
        self.decode(rest, out);
    }

    /// Appends what was held back when the log is over.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.encoding == Encoding::Undecided {
            self.decide(true);
            let head = std::mem::take(&mut self.head);
            self.decode(&head, out);
        }
        if self.surrogate.take().is_some() {
            self.strip("\u{fffd}".as_bytes(), out);
        }
    }

    /// Reads the byte order mark; drops it from `head`.
    fn decide(&mut self, complete: bool) {
        let (encoding, mark) = match (mark(&self.head), self.head.as_slice()) {
            (Some(mark), _) => mark,
            (None, [0xff] | [0xfe] | [0xef] | [0xef, 0xbb]) if !complete => return,
            (None, _) => (Encoding::Bytes, 0),
        };
        self.encoding = encoding;
        self.head.drain(..mark);
    }

    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Encoding::Utf16 { big_endian } = self.encoding else { return self.strip(bytes, out) };
        let mut text = String::with_capacity(bytes.len());
        for &byte in bytes {
            let Some(first) = self.half.take() else {
                self.half = Some(byte);
                continue;
            };
            let unit = if big_endian { [first, byte] } else { [byte, first] };
            self.unit(u16::from_be_bytes(unit), &mut text);
        }
        self.strip(text.as_bytes(), out);
    }

    fn unit(&mut self, unit: u16, text: &mut String) {
        match (self.surrogate.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let code = 0x10000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(unit) - 0xdc00);
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (lonely, _) => {
                if lonely.is_some() {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
                if (0xd800..=0xdbff).contains(&unit) {
                    self.surrogate = Some(unit);
                } else {
                    text.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
        }
    }

    fn strip(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while at < bytes.len() {
            if self.escape == Escape::Ground {
                let plain = memchr(ESC, &bytes[at..]).unwrap_or(bytes.len() - at);
                out.extend_from_slice(&bytes[at..at + plain]);
                at += plain;
                let Some((_, behind)) = bytes[at..].split_first() else { return };
                at += 1;
                match control_sequence(behind) {
                    Some((length, last)) => {
                        at += length;
                        out.extend(moved(last));
                    }
                    None => self.escape = Escape::Started,
                }
            } else if self.step(bytes[at], out) {
                at += 1;
            }
        }
    }

    /// One byte within an escape; false when the byte is no part of it and must be looked at again.
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

/// The length and the last byte of the control sequence whose escape byte stands before `bytes`, if all of it is there.
fn control_sequence(bytes: &[u8]) -> Option<(usize, u8)> {
    let parameters = bytes.strip_prefix(b"[")?;
    let length = parameters.iter().take(LONGEST_CONTROL).take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
    let last = *parameters.get(length)?;
    matches!(last, 0x40..=0x7e).then_some((length + 2, last))
}

/// What stands for a control sequence in the plain text, by its last byte.
fn moved(last: u8) -> Option<u8> {
    match last {
        b'A' | b'B' | b'E'..=b'H' | b'd' | b'f' => Some(b'\n'),
        b'C' | b'D' => Some(b' '),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(chunks: &[&[u8]]) -> Vec<u8> {
        let (mut cleaner, mut out) = (Cleaner::new(), Vec::new());
        for chunk in chunks {
            cleaner.push(chunk, &mut out);
        }
        cleaner.finish(&mut out);
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
}
