//! A whole log as text that does nothing to a terminal.

use super::clean::Cleaner;

/// Takes text of others in any pieces and gives it without escapes and other control characters. A carriage return that
/// overwrites a line ends it.
#[derive(Debug)]
pub struct PlainText {
    cleaner: Cleaner,
    /// A carriage return was the last byte.
    returned: bool,
    /// The first byte of a control character beyond ASCII was the last one.
    half: bool,
}

impl Default for PlainText {
    fn default() -> Self {
        PlainText { cleaner: Cleaner::new(), returned: false, half: false }
    }
}

impl PlainText {
    /// What the next piece amounts to.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(chunk.len());
        self.cleaner.push(chunk, &mut clean);
        self.without_controls(&clean)
    }

    /// What was held back when all is there.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut clean = Vec::new();
        self.cleaner.finish(&mut clean);
        let mut rest = self.without_controls(&clean);
        if self.half {
            rest.push(C1);
        }
        rest
    }

    fn without_controls(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if std::mem::take(&mut self.returned) && !matches!(byte, b'\n' | b'\r') {
                out.push(b'\n');
            }
            if std::mem::take(&mut self.half) {
                if (0x80..0xa0).contains(&byte) {
                    continue;
                }
                out.push(C1);
            }
            match byte {
                b'\r' => self.returned = true,
                C1 => self.half = true,
                b'\n' | b'\t' => out.push(byte),
                0..0x20 | 0x7f => {}
                byte => out.push(byte),
            }
        }
        out
    }
}

/// The first byte in UTF-8 of the control characters U+0080 to U+009F, and of signs such as §.
const C1: u8 = 0xc2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_a_terminal_obeys_however_it_is_cut() {
        let text = "a\u{1b}[31mred\u{1b}[0m\u{7}\r\nstep 1\rstep 2\r\r\nµ§\u{9b}31mx\u{8}\tend".as_bytes();
        for cut in 0..=text.len() {
            let mut plain = PlainText::default();
            let mut out = plain.push(&text[..cut]);
            out.extend(plain.push(&text[cut..]));
            out.extend(plain.finish());
            assert_eq!(String::from_utf8(out).unwrap(), "ared\nstep 1\nstep 2\nµ§31mx\tend", "{cut}");
        }
    }
}
