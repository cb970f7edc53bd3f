//! Foreign text, made safe for a terminal.

use super::clean::{Cleaner, Decoder};
use crate::domain::acts;

/// Makes foreign text that comes in any pieces harmless: removes escapes, other control characters and those that change the
/// direction of writing. A carriage return that overwrites a line ends it, and invalid UTF-8 becomes U+FFFD.
#[derive(Debug)]
pub struct PlainText {
    decoder: Decoder,
    cleaner: Cleaner,
    /// True if the last byte was a carriage return.
    returned: bool,
    /// The first bytes of a character beyond ASCII.
    begun: Vec<u8>,
}

impl Default for PlainText {
    fn default() -> Self {
        PlainText { decoder: Decoder::new(), cleaner: Cleaner::new(), returned: false, begun: Vec::new() }
    }
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
