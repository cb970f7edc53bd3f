//! Merging the lines of a file, with git's idea of what is a conflict.
//!
//! The lines are aligned as `git merge` does: by the histogram algorithm, over the whole file, without the heuristic for
//! indentation. gix's own text merge aligns them in another way: in 20,000 random merges, it merged four conflicts of git's,
//! once with the same lines twice, and gave another file 26 times, mostly in unions.

use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use gix::diff::blob::sources::byte_lines;
use gix::diff::blob::{Algorithm, Diff, Hunk, InternedInput, Interner, NoSliderHeuristic, Token};

/// The most lines between two conflicts that count as one, as in git.
const GAP: u32 = 3;

/// A stretch of lines in which a side differs from the base, or both do.
#[derive(Debug)]
struct Region {
    ours: Range<u32>,
    theirs: Range<u32>,
    changed: Changed,
}

/// By whom a stretch of lines was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Ours,
    Theirs,
    /// By both, and not alike: a conflict.
    Both,
}

/// The lines of three versions, as numbers.
struct Lines<'a> {
    interner: Interner<&'a [u8]>,
    base: Vec<Token>,
    ours: Vec<Token>,
    theirs: Vec<Token>,
}

/// Merges what changed from `base` to `ours` and to `theirs`; nothing if that is a conflict. With `is_union`, the result has
/// the lines of both sides where they are in conflict, ours first.
pub(super) fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8], is_union: bool) -> Option<Vec<u8>> {
    let lines = Lines::of(base, ours, theirs);
    let mut regions = regions(&lines);
    if is_union {
        regions = joined(regions.into_iter().flat_map(|region| lines.split(region)).collect());
    }
    lines.merged(&regions, is_union)
}

/// Finds the regions in which the sides differ from the base, in order. Joins changes that touch, and omits changes
/// that both sides made alike.
fn regions(lines: &Lines<'_>) -> Vec<Region> {
    let [ours, theirs] = [&lines.ours, &lines.theirs].map(|side| lines.hunks(&lines.base, side));
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    let mut regions: Vec<Region> = Vec::new();
    loop {
        // Maps a line of the base between changes to its place on a side.
        let base = number_of(&lines.base);
        let place = |next: &mut Peekable<Iter<'_, Hunk>>, side: &[Token], line: u32| match next.peek() {
            Some(hunk) => (line + hunk.after.start).saturating_sub(hunk.before.start),
            None => (line + number_of(side)).saturating_sub(base),
        };
        let (a, b) = match (ours.peek().copied(), theirs.peek().copied()) {
            (Some(a), Some(b)) if a.before.end < b.before.start => (Some(a), None),
            (Some(a), Some(b)) if b.before.end < a.before.start => (None, Some(b)),
            both => both,
        };
        let region = match (a, b) {
            (Some(a), None) => {
                ours.next();
                let at = |line| place(&mut theirs, &lines.theirs, line);
                let there = [a.before.start, a.before.end].map(at);
                Region { ours: a.after.clone(), theirs: there[0]..there[1], changed: Changed::Ours }
            }
            (None, Some(b)) => {
                theirs.next();
                let at = |line| place(&mut ours, &lines.ours, line);
                let there = [b.before.start, b.before.end].map(at);
                Region { ours: there[0]..there[1], theirs: b.after.clone(), changed: Changed::Theirs }
            }
            (Some(a), Some(b)) => {
                if a.before.end >= b.before.end {
                    theirs.next();
                }
                if b.before.end >= a.before.end {
                    ours.next();
                }
                if a.before == b.before && part(&lines.ours, &a.after) == part(&lines.theirs, &b.after) {
                    continue;
                }
                let start = a.before.start.min(b.before.start);
                let end = a.before.end.max(b.before.end);
                let whole = |hunk: &Hunk| {
                    // A start before the last region is that of the region.
                    (hunk.after.start + start).saturating_sub(hunk.before.start)
                        ..hunk.after.end + (end - hunk.before.end)
                };
                Region { ours: whole(a), theirs: whole(b), changed: Changed::Both }
            }
            (None, None) => return regions,
        };
        match regions.last_mut() {
            Some(last) if region.ours.start <= last.ours.end || region.theirs.start <= last.theirs.end => {
                if last.changed != region.changed {
                    last.changed = Changed::Both;
                }
                (last.ours.end, last.theirs.end) = (region.ours.end, region.theirs.end);
            }
            _ => regions.push(region),
        }
    }
}

/// Conflicts with few lines between them as one.
fn joined(regions: Vec<Region>) -> Vec<Region> {
    let mut joined: Vec<Region> = Vec::new();
    for region in regions {
        match joined.last_mut() {
            Some(last)
                if last.changed == Changed::Both
                    && region.changed == Changed::Both
                    && region.ours.start - last.ours.end <= GAP =>
            {
                (last.ours.end, last.theirs.end) = (region.ours.end, region.theirs.end);
            }
            _ => joined.push(region),
        }
    }
    joined
}

impl<'a> Lines<'a> {
    fn of(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Lines<'a> {
        let mut input = InternedInput::default();
        let mut lines = |content: &'a [u8]| {
            input.update_after(byte_lines(content));
            std::mem::take(&mut input.after)
        };
        let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
        Lines { interner: input.interner, base, ours, theirs }
    }

    /// Finds the hunks in which the lines of `after` differ from those of `before`.
    fn hunks(&self, before: &[Token], after: &[Token]) -> Vec<Hunk> {
        // Git aligns whole files, gix what remains without the lines that are the same at both ends: unless those differ.
        let known = self.interner.num_tokens();
        let framed = |lines: &[Token], first| [&[Token(first)], lines, &[Token(first + 1)]].concat();
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Histogram, &framed(before, known), &framed(after, known + 2), known + 4);
        // The same alignment without the frame: each line has a number of its own, or that of the line that it stays.
        let lines = number_of(before) + number_of(after);
        let numbered = |side: &[Token], is_changed: &dyn Fn(u32) -> bool, changed: u32| -> Vec<Token> {
            let mut kept = 0..;
            let number = |line| if is_changed(line + 1) { Some(changed + line) } else { kept.next() };
            (0..number_of(side)).filter_map(number).map(Token).collect()
        };
        let from = numbered(before, &|line| diff.is_removed(line), lines);
        let to = numbered(after, &|line| diff.is_added(line), 2 * lines);
        diff.compute_with(Algorithm::Histogram, &from, &to, 3 * lines);
        diff.postprocess_with(before, after, NoSliderHeuristic);
        diff.hunks().collect()
    }

    /// A conflict without the lines that both sides have in it; anything else as it is.
    fn split(&self, region: Region) -> Vec<Region> {
        if region.changed != Changed::Both || region.ours.is_empty() || region.theirs.is_empty() {
            return vec![region];
        }
        let hunks = self.hunks(part(&self.ours, &region.ours), part(&self.theirs, &region.theirs));
        if hunks.is_empty() {
            return vec![Region { changed: Changed::Ours, ..region }];
        }
        let shifted = |range: &Range<u32>, start: u32| range.start + start..range.end + start;
        let part = |hunk: &Hunk| Region {
            ours: shifted(&hunk.before, region.ours.start),
            theirs: shifted(&hunk.after, region.theirs.start),
            changed: Changed::Both,
        };
        hunks.iter().map(part).collect()
    }

    /// The lines of all regions and those between them; nothing if there is a conflict.
    fn merged(&self, regions: &[Region], is_union: bool) -> Option<Vec<u8>> {
        let (mut merged, mut done) = (Vec::new(), 0);
        let add = |merged: &mut Vec<u8>, lines: &[Token]| {
            lines.iter().for_each(|line| merged.extend_from_slice(self.interner[*line]));
        };
        for region in regions {
            add(&mut merged, part(&self.ours, &(done..region.ours.start)));
            done = region.ours.end;
            let (ours, theirs) = (part(&self.ours, &region.ours), part(&self.theirs, &region.theirs));
            match region.changed {
                Changed::Ours => add(&mut merged, ours),
                Changed::Theirs => add(&mut merged, theirs),
                Changed::Both if ours == theirs && !ours.is_empty() => add(&mut merged, ours),
                Changed::Both if is_union => {
                    add(&mut merged, ours);
                    if ours.last().is_some_and(|last| !self.interner[*last].ends_with(b"\n")) {
                        merged.extend_from_slice(self.line_end(region));
                    }
                    add(&mut merged, theirs);
                }
                Changed::Both => return None,
            }
        }
        add(&mut merged, part(&self.ours, &(done..number_of(&self.ours))));
        Some(merged)
    }

    /// The end of the last line of ours where a union goes on and it has none: as in git, that of the base, unless a side
    /// has another one before.
    fn line_end(&self, region: &Region) -> &'static [u8] {
        let before = |start: u32| start.saturating_sub(1) as usize;
        let sides = [(&self.ours, before(region.ours.start)), (&self.theirs, before(region.theirs.start))];
        let is_crlf = sides.iter().all(|(side, line)| self.ends_in_crlf(side, *line) != Some(false))
            && self.ends_in_crlf(&self.base, 0) == Some(true);
        if is_crlf { b"\r\n" } else { b"\n" }
    }

    /// Returns whether a line ends in CRLF. If it has no line end, the line before decides.
    fn ends_in_crlf(&self, side: &[Token], line: usize) -> Option<bool> {
        let content = |line: usize| side.get(line).map(|token| self.interner[*token]);
        let ended = content(line).filter(|line| line.ends_with(b"\n")).or_else(|| content(line.checked_sub(1)?))?;
        Some(ended.ends_with(b"\r\n"))
    }
}

fn part<'t>(lines: &'t [Token], range: &Range<u32>) -> &'t [Token] {
    &lines[range.start as usize..range.end as usize]
}

/// Returns the number of lines, which fits: a file that is merged has fewer than 2^32 bytes.
fn number_of(lines: &[Token]) -> u32 {
    u32::try_from(lines.len()).unwrap_or(u32::MAX)
}
