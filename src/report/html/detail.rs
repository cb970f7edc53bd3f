//! The details of one experiment on a page, beside its row, and the limits of their size.

use crate::domain::{Composite, ExperimentId, Note, Record, bytes_text};
use crate::measure::plain_text;
use crate::report::experiments::record_grid;
use crate::report::safe::safe_code;

/// The most lines of a change to show, from its start.
const DIFF_LINES: usize = 400;

/// The most lines of a log to show, from its end.
const LOG_LINES: usize = 50;

/// The most characters of a line to show.
const LINE_CHARS: usize = 400;

/// The most bytes of changes and logs on a page, so that telephones open it and mail accepts it. With 300 experiments,
/// each has 10 kB.
const PAGE_BYTES: usize = 3 << 20;

/// The room that a page still has for text.
#[derive(Debug)]
pub struct Room {
    left: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room { left: PAGE_BYTES }
    }
}

impl Room {
    /// Returns whether no room is left.
    pub fn is_used_up(&self) -> bool {
        self.left == 0
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// Some lines of a longer text, fit for a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines, without what ends them.
    pub lines: Vec<String>,
    /// The missing part, as a sentence; empty if nothing is missing.
    pub missing: String,
}

impl Excerpt {
    /// The first lines of a change.
    pub fn of_diff(diff: &[u8], room: &mut Room) -> Excerpt {
        let text = String::from_utf8_lossy(diff);
        let count = text.lines().count();
        let lines: Vec<String> = text.lines().take(DIFF_LINES).map(shown).collect();
        let left_out = count.saturating_sub(DIFF_LINES);
        let missing = match left_out {
            0 => String::new(),
            _ => format!("{left_out} more lines of {} are omitted", bytes_text(diff.len() as u64)),
        };
        Excerpt { lines, missing }.within(room)
    }

    /// The last lines of the end of a log.
    pub fn of_log(tail: &[u8], room: &mut Room) -> Excerpt {
        let text = plain_text(tail);
        let lines: Vec<&str> = text.lines().collect();
        let lines = lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| shown(line)).collect();
        Excerpt { lines, missing: String::new() }.within(room)
    }

    /// A sentence in the place of a text that is not there.
    pub fn absent(why: impl Into<String>) -> Excerpt {
        Excerpt { lines: Vec::new(), missing: why.into() }
    }

    /// The lines that a page still has room for.
    fn within(mut self, room: &mut Room) -> Excerpt {
        let mut bytes = 0;
        let fits = self.lines.iter().take_while(|line| {
            bytes += line.len() + 1;
            bytes <= room.left
        });
        let fitting = fits.count();
        if fitting < self.lines.len() {
            self.lines.truncate(fitting);
            self.missing = "the rest is omitted to keep the page short".to_owned();
        }
        room.take(bytes);
        self
    }
}

/// A line as it is shown, cut where it is too long.
fn shown(line: &str) -> String {
    let line = safe_code(line);
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The details of one experiment on a page, beside its row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detail {
    /// The experiment's number.
    pub id: ExperimentId,
    /// The facts of its record: their names, and what they are.
    pub facts: Vec<(String, String)>,
    /// Its change as a unified diff.
    pub diff: Excerpt,
    /// The end of its log.
    pub log: Excerpt,
}

impl Detail {
    /// Collects the details of an experiment: its record with the axes of `composite`, what changed since the experiment
    /// `had_to_beat`, its change, the end of its log and the user's notes.
    pub fn new(
        record: &Record,
        composite: Option<&Composite>,
        had_to_beat: Option<&Record>,
        diff: Excerpt,
        log: Excerpt,
        notes: &[Note],
    ) -> Detail {
        let grid = record_grid(record, composite, had_to_beat, None, notes, None);
        let facts = grid.rows().iter().filter_map(|row| match row.as_slice() {
            [name, value] => Some((name.clone(), value.clone())),
            _ => None,
        });
        Detail { id: record.id, facts: facts.collect(), diff, log }
    }

    /// The records in the order in which their details are let onto a page: the kept ones, then the newest.
    pub fn order(records: &[Record]) -> Vec<&Record> {
        use crate::domain::Outcome::Keep;
        let kept = records.iter().filter(|record| record.outcome == Keep);
        let others = records.iter().rev().filter(|record| record.outcome != Keep);
        kept.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let diff: String = (0..500).map(|line| format!("+line {line}\n")).collect();
        let shown = Excerpt::of_diff(diff.as_bytes(), &mut Room::default());
        assert_eq!((shown.lines.len(), shown.lines[399].as_str()), (400, "+line 399"));
        assert_eq!(shown.missing, "100 more lines of 4.9 kB are omitted");
        let long = Excerpt::of_diff("+é".repeat(5000).as_bytes(), &mut Room::default());
        assert_eq!(long.lines[0].chars().count(), LINE_CHARS + 1);
    }

    #[test]
    fn of_a_log_the_end_is_shown_without_escapes() {
        let log: String = (0..60).map(|line| format!("\u{1b}[31mstep {line}\u{7}\n")).collect();
        let shown = Excerpt::of_log(log.as_bytes(), &mut Room::default());
        assert_eq!((shown.lines.len(), shown.lines[49].as_str()), (50, "step 59"));
    }

    #[test]
    fn a_page_that_is_full_takes_no_more() {
        let mut room = Room { left: 10 };
        let first = Excerpt::of_diff(b"+123\n+456\n+789\n", &mut room);
        assert_eq!((first.lines.len(), room.is_used_up()), (2, true));
        assert!(first.missing.contains("the rest is omitted"), "{first:?}");
    }
}
