//! `autoresearch-lessons.md` as text: entries among the user's own text.
//!
//! An entry is a comment that names it, and the fields below. All other text and unchanged entries stay as they are,
//! byte for byte.

use std::collections::BTreeSet;
use std::fmt::Write;

use jiff::Timestamp;

use crate::domain::{FORMAT_VERSION, Lesson, LessonId, cut, exact_time, one_line};
use crate::rules::Fold;

/// The start of the line with the format's version.
const VERSION: &str = "<!-- autoresearch-lessons version ";
/// The title of a new file.
const TITLE: &str = "# Lessons";
/// The start of the line that names an entry.
const MARKER: &str = "<!-- lesson ";
/// The end of both.
const END: &str = " -->";

/// The most characters of a text in an entry.
const LONGEST: usize = 400;

/// Damage of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LessonDamage {
    /// It is not UTF-8.
    #[error("it is not UTF-8 text")]
    Encoding,
    /// A newer version of `ar` wrote it.
    #[error("it has format version {0}, and this program knows version {FORMAT_VERSION}")]
    Newer(u32),
    /// The text in the place of an entry is not one.
    #[error("line {line} begins an entry {problem}")]
    Entry {
        /// The line, from 1.
        line: usize,
        /// The problem with the entry.
        problem: &'static str,
    },
}

#[derive(Debug, Clone)]
enum Piece {
    /// Text outside entries.
    Text(String),
    /// An entry with its text in the file.
    Entry { lesson: Lesson, text: String },
}

impl Piece {
    /// What identifies it: the naming line of an entry, the lines of other text.
    fn parts(&self) -> impl Iterator<Item = &str> {
        let (text, most) = match self {
            Piece::Entry { text, .. } => (text, 1),
            Piece::Text(text) => (text, usize::MAX),
        };
        text.lines().take(most).map(str::trim).filter(|line| !line.is_empty() && !is_head(line))
    }
}

/// Whether a line belongs to the start of every file.
fn is_head(line: &str) -> bool {
    line.starts_with(VERSION) || line.trim() == TITLE
}

/// The content of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct LessonText {
    pieces: Vec<Piece>,
    has_version: bool,
}

impl LessonText {
    /// Parses a file's content.
    ///
    /// # Errors
    ///
    /// It is not text, has a newer format, or an entry that cannot be parsed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, LessonDamage> {
        let text = std::str::from_utf8(bytes).map_err(|_| LessonDamage::Encoding)?;
        let mut parsed = LessonText::default();
        let mut foreign = String::new();
        let mut lines = (1..).zip(text.split_inclusive('\n')).peekable();
        while let Some((number, line)) = lines.next() {
            if let Some(version) = between(line, VERSION) {
                let version: u32 = version.parse().map_err(|_| LessonDamage::Newer(u32::MAX))?;
                if version > FORMAT_VERSION {
                    return Err(LessonDamage::Newer(version));
                }
                parsed.has_version = true;
            }
            if !line.starts_with(MARKER) {
                foreign += line;
                continue;
            }
            let damaged = |problem| LessonDamage::Entry { line: number, problem };
            let id = between(line, MARKER).and_then(|id| id.parse::<LessonId>().ok());
            let id = id.ok_or_else(|| damaged("that has no name"))?;
            let mut entry = line.to_owned();
            let mut fields: Vec<(&str, String)> = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| field(line).is_some() || continues(line, &fields)) {
                entry += line;
                match (field(line), fields.last_mut()) {
                    (Some((name, value)), _) => fields.push((name, value.trim().to_owned())),
                    (None, Some((_, value))) => {
                        value.push(' ');
                        value.push_str(line.trim());
                    }
                    (None, None) => {}
                }
            }
            if let Some((_, blank)) = lines.next_if(|(_, line)| line.trim().is_empty()) {
                entry += blank;
            }
            let said = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            let time = said("time").and_then(|time| time.parse::<Timestamp>().ok());
            let lesson = Lesson {
                id,
                strategy: said("strategy").ok_or_else(|| damaged("without a strategy"))?,
                outcome: said("outcome").unwrap_or_default(),
                insight: said("insight").ok_or_else(|| damaged("without an insight"))?,
                context: said("context").unwrap_or_default(),
                experiment: said("experiment").unwrap_or_default(),
                time: time.ok_or_else(|| damaged("without a time"))?,
            };
            parsed.take_foreign(&mut foreign);
            parsed.pieces.push(Piece::Entry { lesson, text: entry });
        }
        parsed.take_foreign(&mut foreign);
        Ok(parsed)
    }

    fn take_foreign(&mut self, foreign: &mut String) {
        if !foreign.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(foreign)));
        }
    }

    /// The entries, in order.
    pub(super) fn lessons(&self) -> Vec<&Lesson> {
        let entries = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Entry { lesson, .. } => Some(lesson),
            Piece::Text(_) => None,
        });
        entries.collect()
    }

    /// Adds an entry at the end.
    pub(super) fn add(&mut self, lesson: Lesson) {
        if self.pieces.is_empty() {
            let head = format!("{VERSION}{FORMAT_VERSION}{END}\n{TITLE}\n\n");
            self.pieces.push(Piece::Text(head));
            self.has_version = true;
        }
        if !self.has_version {
            self.pieces.insert(0, Piece::Text(format!("{VERSION}{FORMAT_VERSION}{END}\n")));
            self.has_version = true;
        }
        self.push(entry(lesson));
    }

    /// Adds the content of `newer`, a file that another session started after this one was deleted. Returns `false`
    /// without a change if `newer` still has a part of this one or the user started it: then it was not deleted.
    pub(super) fn join(&mut self, newer: LessonText) -> bool {
        let own: BTreeSet<&str> = self.pieces.iter().flat_map(Piece::parts).collect();
        let is_there = newer.pieces.iter().flat_map(Piece::parts).any(|part| own.contains(part));
        if is_there || own.is_empty() || !newer.has_version {
            return false;
        }
        for piece in newer.pieces {
            match &piece {
                Piece::Entry { .. } => self.push(piece),
                Piece::Text(text) => {
                    let lines = text.split_inclusive('\n').filter(|line| !is_head(line));
                    let text: String = lines.collect();
                    if !text.trim().is_empty() {
                        self.push(Piece::Text(text));
                    }
                }
            }
        }
        true
    }

    /// Appends a piece after a blank line.
    fn push(&mut self, piece: Piece) {
        let gap = match self.pieces.last() {
            Some(Piece::Text(text) | Piece::Entry { text, .. }) if text.ends_with("\n\n") || text == "\n" => "",
            Some(Piece::Text(text) | Piece::Entry { text, .. }) if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        if !gap.is_empty() {
            self.pieces.push(Piece::Text(gap.to_owned()));
        }
        self.pieces.push(piece);
    }

    /// Replaces groups of entries by merged lines, each at the place of its first entry.
    pub(super) fn fold(&mut self, folds: Vec<Fold>) {
        let mut index = 0;
        let mut pieces = Vec::new();
        for piece in self.pieces.drain(..) {
            if matches!(piece, Piece::Text(_)) {
                pieces.push(piece);
                continue;
            }
            match folds.iter().find(|fold| fold.members.contains(&index)) {
                None => pieces.push(piece),
                Some(fold) if fold.members.first() == Some(&index) => pieces.push(entry(fold.line.clone())),
                Some(_) => {}
            }
            index += 1;
        }
        self.pieces = pieces;
    }

    /// The whole file.
    pub(super) fn text(&self) -> String {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) | Piece::Entry { text, .. } => text.as_str(),
        });
        texts.collect()
    }
}

/// Formats an entry. Its texts may come from an agent or a log, so each is cut to one line and cannot start a comment,
/// another element or a code block.
fn entry(lesson: Lesson) -> Piece {
    let mut text = format!("{MARKER}{}{END}\n", lesson.id);
    let time = exact_time(lesson.time);
    for (name, value) in [
        ("strategy", &lesson.strategy),
        ("outcome", &lesson.outcome),
        ("insight", &lesson.insight),
        ("context", &lesson.context),
        ("experiment", &lesson.experiment),
        ("time", &time),
    ] {
        if !value.is_empty() || matches!(name, "strategy" | "insight") {
            let _ = writeln!(text, "- **{name}**: {}", harmless(&cut(value, LONGEST)));
        }
    }
    text.push('\n');
    Piece::Entry { lesson, text }
}

/// A line of text without anything that starts a Markdown element.
fn harmless(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let begins = chars.peek().is_some_and(|next| next.is_alphabetic() || matches!(next, '!' | '/' | '?'));
        line.push(match c {
            '<' if begins => '‹',
            '`' => '\'',
            c => c,
        });
    }
    one_line(&line)
}

/// The text between `start` and the end of a comment on a line of its own.
fn between<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    Some(line.strip_prefix(start)?.trim_end().strip_suffix(END)?.trim())
}

/// The name and the value of a field.
fn field(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("- **")?.split_once("**:")
}

/// Whether a line continues the field before it, as in Markdown.
fn continues(line: &str, fields: &[(&str, String)]) -> bool {
    !fields.is_empty() && line.starts_with("  ") && !line.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lesson(point: &str, insight: &str) -> Lesson {
        Lesson {
            id: LessonId::Point { session: "t".into(), point: point.into() },
            strategy: "warm-up".into(),
            outcome: "keep".into(),
            insight: insight.into(),
            context: "t, val_bpb 2.0 → 1.9".into(),
            experiment: point.into(),
            time: "2026-11-20T22:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn what_was_deleted_comes_before_what_others_began_anew() {
        let text = |notes: &str, points: &[&str]| {
            let mut file = LessonText::parse(notes.as_bytes()).unwrap();
            points.iter().for_each(|point| file.add(lesson(point, "x")));
            LessonText::parse(file.text().as_bytes()).unwrap()
        };
        let mut whole = text("mine\n", &["1", "2"]);
        for still_there in [text("", &["2", "3"]), text("mine\n", &["3"]), text("a person's\n", &[])] {
            let before = whole.text();
            assert!(!whole.join(still_there));
            assert_eq!(whole.text(), before);
        }
        assert!(whole.join(text("", &["3"])));
        assert_eq!(whole.text(), text("mine\n", &["1", "2", "3"]).text());
    }

    #[test]
    fn an_entry_reads_as_a_person_would_write_it() {
        let mut file = LessonText::default();
        file.add(lesson("3", "short schedules\nneed <!-- no --> `long` warm-up, a < b"));
        let expected = "<!-- autoresearch-lessons version 1 -->\n# Lessons\n\n<!-- lesson t/3 -->\n- **strategy**: warm-up\n\
                        - **outcome**: keep\n- **insight**: short schedules need ‹!-- no --> 'long' warm-up, a < b\n\
                        - **context**: t, val_bpb 2.0 → 1.9\n- **experiment**: 3\n- **time**: 2026-11-20T22:00:00.000Z\n\n";
        assert_eq!(file.text(), expected);
        let read = LessonText::parse(expected.as_bytes()).unwrap();
        assert_eq!(read.lessons()[0].context, "t, val_bpb 2.0 → 1.9");
        assert_eq!(read.text(), expected);
    }

    #[test]
    fn what_people_write_between_stays_and_what_they_edit_is_read() {
        let text = "my notes\r\n\r\n<!-- lesson t/1 -->\r\n- **strategy**: depth\r\n- **insight**: deeper is\r\n  not better\r\n\
                    - **mine**: x\r\n- **time**: 2026-11-20T22:00:00Z\r\n* more\nno end";
        let mut file = LessonText::parse(text.as_bytes()).unwrap();
        assert_eq!(file.lessons()[0].insight, "deeper is not better");
        file.add(lesson("2", "x"));
        let written = file.text();
        let (_, rest) = written.split_once("version 1 -->\n").unwrap();
        assert!(rest.starts_with(&format!("{text}\n\n<!-- lesson t/2 -->\n")), "{written}");
        assert_eq!(LessonText::parse(written.as_bytes()).unwrap().lessons().len(), 2);
    }

    #[test]
    fn what_is_damaged_is_said() {
        let damage = |text: &[u8]| LessonText::parse(text).unwrap_err().to_string();
        assert_eq!(damage(b"\xff\n"), "it is not UTF-8 text");
        assert!(damage(b"<!-- autoresearch-lessons version 2 -->\n").contains("format version 2"));
        assert_eq!(damage(b"a\n<!-- lesson -->\n"), "line 2 begins an entry that has no name");
        assert_eq!(damage(b"<!-- lesson t/1 -->\n- **strategy**: x\n"), "line 1 begins an entry without an insight");
        assert_eq!(LessonText::parse(b"<!-- lessons of mine -->\n").unwrap().lessons().len(), 0);
    }

    /// Pieces of files, in any order: notes, entries, markers, torn ones.
    fn any_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<String>(),
            Just("\n".to_owned()),
            Just("# Notes of mine\r\n\r\n- **insight**: not an entry\n".to_owned()),
            Just("<!-- lesson ".to_owned()),
            Just(VERSION.to_owned()),
            "[a-z]{1,9}".prop_map(|point| entry(lesson(&point, "an insight")).into_text()),
        ];
        prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    impl Piece {
        fn into_text(self) -> String {
            match self {
                Piece::Text(text) | Piece::Entry { text, .. } => text,
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_lost_and_none_makes_it_panic(text in any_text(), said in any::<String>()) {
            let Ok(mut file) = LessonText::parse(text.as_bytes()) else { return Ok(()) };
            prop_assert_eq!(file.text(), text.as_str());
            let foreign = |file: &LessonText| {
                let texts = file.pieces.iter().filter_map(|piece| match piece {
                    Piece::Text(text) => Some(text.as_str()),
                    Piece::Entry { .. } => None,
                });
                texts.collect::<String>()
            };
            let before = foreign(&file);
            let all: Vec<usize> = (0..file.lessons().len()).collect();
            file.add(lesson("new", &said));
            if !all.is_empty() {
                let line = Lesson { id: LessonId::Folded { lessons: 9, kept: 1 }, ..lesson("x", &said) };
                file.fold(vec![Fold { members: all, line }]);
            }
            let again = LessonText::parse(file.text().as_bytes()).unwrap();
            prop_assert!(foreign(&again).contains(before.trim_end_matches(['\r', '\n'])));
            prop_assert_eq!(again.lessons().len(), file.lessons().len());
            prop_assert_eq!(&again.lessons().last().unwrap().insight, &harmless(&cut(&said, LONGEST)));
        }
    }
}
