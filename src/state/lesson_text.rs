//! `autoresearch-lessons.md` as bytes: `ar`'s own entries among the text of others.
//!
//! An entry is exactly what `ar` writes: a comment that names it, its fields, a blank line. All other bytes, also those of
//! an entry that the user has edited, are text that stays as it is.

use std::fmt::Write;

use crate::domain::{FORMAT_VERSION, Lesson, cut, exact_time, one_line};
use crate::rules::Fold;

/// The start of a new file.
fn head() -> String {
    format!("<!-- autoresearch-lessons version {FORMAT_VERSION} -->\n# Lessons\n\n")
}

/// The start of the line that names an entry.
const MARKER: &str = "<!-- lesson ";
/// Its end.
const END: &str = " -->";
/// The start of a field.
const FIELD: &str = "- **";
/// The end of a field's name.
const IS: &str = "**: ";

/// The most characters of a text in an entry.
const LONGEST: usize = 400;

#[derive(Debug, Clone)]
enum Piece {
    /// Bytes outside entries.
    Text(Vec<u8>),
    Entry(Lesson),
}

/// The content of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct LessonText {
    pieces: Vec<Piece>,
}

impl LessonText {
    /// Finds the entries in a file's content.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut pieces = Vec::new();
        let (mut text_from, mut at) = (0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let Some((lesson, length)) = read_entry(rest) else {
                at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
                continue;
            };
            if text_from < at {
                pieces.push(Piece::Text(bytes[text_from..at].to_vec()));
            }
            pieces.push(Piece::Entry(lesson));
            at += length;
            text_from = at;
        }
        if text_from < at {
            pieces.push(Piece::Text(bytes[text_from..].to_vec()));
        }
        LessonText { pieces }
    }

    /// The entries, in order.
    pub(super) fn lessons(&self) -> Vec<&Lesson> {
        let entries = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Entry(lesson) => Some(lesson),
            Piece::Text(_) => None,
        });
        entries.collect()
    }

    /// Returns whether a line names this lesson, also above fields that the user has edited.
    pub(super) fn has(&self, lesson: &Lesson) -> bool {
        let names = |line: &[u8]| line.trim_ascii_end() == marker(lesson).as_bytes();
        self.pieces.iter().any(|piece| match piece {
            Piece::Entry(known) => known.id == lesson.id,
            Piece::Text(text) => text.split(|byte| *byte == b'\n').any(names),
        })
    }

    /// Adds an entry at the end, after a blank line.
    pub(super) fn add(&mut self, lesson: Lesson) {
        let gap = match self.pieces.last() {
            None => head(),
            Some(Piece::Text(text)) if !text.ends_with(b"\n") => "\n\n".to_owned(),
            Some(Piece::Text(text)) if !text.ends_with(b"\n\n") => "\n".to_owned(),
            Some(_) => String::new(),
        };
        if !gap.is_empty() {
            self.pieces.push(Piece::Text(gap.into_bytes()));
        }
        self.pieces.push(Piece::Entry(lesson));
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
                Some(fold) if fold.members.first() == Some(&index) => pieces.push(Piece::Entry(fold.line.clone())),
                Some(_) => {}
            }
            index += 1;
        }
        self.pieces = pieces;
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let bytes = self.pieces.iter().flat_map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Entry(lesson) => entry(lesson).into_bytes(),
        });
        bytes.collect()
    }
}

/// The line that names an entry.
fn marker(lesson: &Lesson) -> String {
    format!("{MARKER}{}{END}", lesson.id)
}

/// Formats an entry. Its texts may come from an agent or a log, so each is cut to one line and cannot start a comment,
/// another element or a code block.
fn entry(lesson: &Lesson) -> String {
    let mut text = marker(lesson) + "\n";
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
            let _ = writeln!(text, "{FIELD}{name}{IS}{}", cut(&harmless(value), LONGEST));
        }
    }
    text.push('\n');
    text
}

/// The entry at the start of `bytes`, with its length; `None` unless each byte is as `ar` writes it.
fn read_entry(bytes: &[u8]) -> Option<(Lesson, usize)> {
    if !bytes.starts_with(MARKER.as_bytes()) {
        return None;
    }
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut length = lines.next()?.len();
    for line in lines {
        length += line.len();
        if !line.starts_with(FIELD.as_bytes()) {
            break;
        }
    }
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let (first, fields) = text.split_once('\n')?;
    let value = |name: &str| {
        let mut all = fields.lines().filter_map(|line| line.strip_prefix(FIELD)?.split_once(IS));
        all.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    };
    let lesson = Lesson {
        id: first.strip_prefix(MARKER)?.strip_suffix(END)?.parse().ok()?,
        strategy: value("strategy")?,
        outcome: value("outcome").unwrap_or_default(),
        insight: value("insight")?,
        context: value("context").unwrap_or_default(),
        experiment: value("experiment").unwrap_or_default(),
        time: value("time")?.parse().ok()?,
    };
    (entry(&lesson) == text).then_some((lesson, length))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::LessonId;

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

    fn text(file: &LessonText) -> String {
        String::from_utf8(file.bytes()).unwrap()
    }

    #[test]
    fn an_entry_reads_as_a_person_would_write_it() {
        let mut file = LessonText::default();
        file.add(lesson("3", "short schedules\nneed <!-- no --> `long` warm-up, a < b"));
        let expected = "<!-- autoresearch-lessons version 1 -->\n# Lessons\n\n<!-- lesson t/3 -->\n- **strategy**: warm-up\n\
                        - **outcome**: keep\n- **insight**: short schedules need ‹!-- no --> 'long' warm-up, a < b\n\
                        - **context**: t, val_bpb 2.0 → 1.9\n- **experiment**: 3\n- **time**: 2026-11-20T22:00:00.000Z\n\n";
        assert_eq!(text(&file), expected);
        let read = LessonText::parse(expected.as_bytes());
        assert_eq!(read.lessons()[0].context, "t, val_bpb 2.0 → 1.9");
        assert_eq!(text(&read), expected);
    }

    #[test]
    fn an_entry_that_is_not_as_it_was_written_is_text_of_its_editor() {
        let own = entry(&lesson("1", "deeper is better"));
        assert_eq!(LessonText::parse(own.as_bytes()).lessons().len(), 1);
        for edited in [
            own.replace('\n', "\r\n"),
            own.replace("- **time**", "- **mine**: x\n- **time**"),
            own.replace("is better", "is\n  not better"),
            own.replace("- **strategy**: warm-up\n", ""),
            own.replace(".000Z", "Z"),
            own.trim_end().to_owned(),
            own.trim_end().to_owned() + "\n* more\n",
        ] {
            let mut file = LessonText::parse(edited.as_bytes());
            assert_eq!(file.lessons().len(), 0, "{edited}");
            assert!(file.has(&lesson("1", "")) && !file.has(&lesson("2", "")), "{edited}");
            file.add(lesson("2", "x"));
            assert!(text(&file).starts_with(&edited), "{edited}");
            assert_eq!(LessonText::parse(&file.bytes()).lessons().last().unwrap().experiment, "2", "{edited}");
        }
    }

    /// Pieces of files, in any order: notes, entries, markers, torn ones.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<Vec<u8>>(),
            Just(b"\n".to_vec()),
            Just(b"# Notes of mine\r\n\r\n- **insight**: not an entry\n".to_vec()),
            Just(MARKER.into()),
            Just(head().into()),
            "[a-z]{1,9}".prop_map(|point| entry(&lesson(&point, "an insight")).into_bytes()),
        ];
        prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_none_makes_it_panic(bytes in any_bytes(), said in any::<String>()) {
            let mut file = LessonText::parse(&bytes);
            prop_assert_eq!(file.bytes(), bytes.clone());
            let all: Vec<usize> = (0..file.lessons().len()).collect();
            file.add(lesson("new", &said));
            let added = file.bytes();
            prop_assert!(added.starts_with(&bytes));
            let again = LessonText::parse(&added);
            prop_assert_eq!(again.lessons().len(), all.len() + 1);
            prop_assert_eq!(&again.lessons().last().unwrap().insight, &cut(&harmless(&said), LONGEST));
            if !all.is_empty() {
                let line = Lesson { id: LessonId::Folded { lessons: 9, kept: 1 }, ..lesson("x", &said) };
                file.fold(vec![Fold { members: all, line }]);
                let foreign = |file: &LessonText| {
                    let texts = file.pieces.iter().filter_map(|piece| match piece {
                        Piece::Text(text) => Some(text.clone()),
                        Piece::Entry(_) => None,
                    });
                    texts.collect::<Vec<_>>().concat()
                };
                let folded = LessonText::parse(&file.bytes());
                prop_assert_eq!(foreign(&folded), foreign(&again));
                prop_assert_eq!(folded.lessons().len(), 2);
            }
        }
    }
}
