//! The lines of a log that may mention a name, found without taking the escapes out of all the others.

use std::collections::BTreeSet;

use aho_corasick::Span;
use aho_corasick::packed::{Config, Searcher};
use memchr::{memchr2, memrchr2};

use super::clean::{Cleaner, ESC};

/// In how many bytes, on average, there is one place to look at where it is worth looking at them: each takes as long as
/// cleaning some hundred bytes.
const SPARSE: usize = 512;

/// How many places are looked at in any case.
const FEW: usize = 8;

/// How much of a log is cleaned at a time to see how a name goes on, in bytes: an escape for a colour and what stands behind it.
const STEP: usize = 16;

/// The search for lines that have any of some names once the escapes are taken out.
///
/// A name stands there in one piece, or an escape stands within it. Then a byte of the name that is not its last one is followed by
/// the escape's first byte: two bytes in a row that are as quick to find as a name, and for all names in one pass.
#[derive(Debug)]
pub(super) struct Skim {
    names: Vec<Vec<u8>>,
    searcher: Searcher,
}

impl Skim {
    /// The search for these names, where they and the machine allow for one.
    pub(super) fn new(names: &[&[u8]]) -> Option<Skim> {
        let mut patterns: BTreeSet<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
        for name in names {
            patterns.extend(name[..name.len() - 1].iter().map(|byte| vec![*byte, ESC]));
        }
        let searcher = Config::new().builder().extend(patterns).build()?;
        Some(Skim { names: names.iter().map(|name| name.to_vec()).collect(), searcher })
    }

    /// Gives each of some whole lines, from behind a line break on, that may mention a name; false where it gives up because there
    /// are too many places to look at.
    pub(super) fn lines(&self, lines: &[u8], mut take: impl FnMut(&[u8])) -> bool {
        let mut left = lines.len() / SPARSE + FEW;
        let (mut from, mut given) = (0, 0);
        while let Some(hit) = self.searcher.find_in(lines, Span::from(from..lines.len())) {
            if left == 0 {
                return false;
            }
            left -= 1;
            let end = hit.end();
            if lines[end - 1] == ESC && !self.goes_on(&lines[..end - 1], &lines[end - 1..]) {
                from = end;
                continue;
            }
            let start = memrchr2(b'\n', b'\r', &lines[given..hit.start()]).map_or(given, |brk| given + brk + 1);
            given = memchr2(b'\n', b'\r', &lines[end..]).map_or(lines.len(), |brk| end + brk + 1);
            take(&lines[start..given]);
            from = given;
        }
        true
    }

    /// Whether a name that begins at the end of `before` goes on with what begins with an escape.
    fn goes_on(&self, before: &[u8], escape: &[u8]) -> bool {
        self.names
            .iter()
            .any(|name| (1..name.len()).any(|at| before.ends_with(&name[..at]) && begins(escape, &name[at..])))
    }
}

/// Whether `bytes` begin with a text once the escapes are taken out.
fn begins(bytes: &[u8], text: &[u8]) -> bool {
    let (mut cleaner, mut plain) = (Cleaner::behind_break(), Vec::new());
    for piece in bytes.chunks(STEP) {
        cleaner.push(piece, &mut plain);
        let length = plain.len().min(text.len());
        if plain[..length] != text[..length] {
            return false;
        }
        if length == text.len() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Option<Vec<String>> {
        let skim = Skim::new(&[b"val_bpb", b"memory_gb"]).unwrap();
        let mut lines = Vec::new();
        let is_whole = skim.lines(text, |line| lines.push(String::from_utf8_lossy(line).into_owned()));
        is_whole.then_some(lines)
    }

    #[test]
    fn only_lines_are_given_that_may_mention_a_name() {
        let text = "step 1\rval_bpb: 1\nv\u{1b}[1mal_bpb\n\u{1b}[1m\u{1b}[0mm\u{1b}[1m|\rval\u{1b}]0;_bpb\u{7}_bpb\nval\u{1b}[1m_\n";
        let expected = ["val_bpb: 1\n", "v\u{1b}[1mal_bpb\n", "val\u{1b}]0;_bpb\u{7}_bpb\n"];
        assert_eq!(found(text.as_bytes()).unwrap(), expected);
        assert_eq!(found(b"memory_gb").unwrap(), ["memory_gb"]);
        assert_eq!(found(b"1\nm\x1b[0m memory_gb").unwrap(), ["m\u{1b}[0m memory_gb"], "from its start");
        assert_eq!(found(b"").unwrap(), [""; 0]);
    }

    #[test]
    fn too_many_places_are_given_up() {
        assert_eq!(found(&b"val_bpb\n".repeat(1000)), None);
        assert_eq!(found(&b"m\x1b[1m".repeat(1000)), None);
    }
}
