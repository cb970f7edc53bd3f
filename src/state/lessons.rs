//! `autoresearch-lessons.md`: the lessons of all sessions of a repository. Sessions in several working trees write them
//! into one fenced part; all bytes outside it are the user's and stay.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::{StateError, lines};
use crate::crash;
use crate::domain::{Lesson, cut, exact_time, one_line};
use crate::fs::{failed, if_exists, open_regular, replace_through};
use crate::rules::fold;

/// The file's name, in the repository's root.
pub const LESSONS: &str = "autoresearch-lessons.md";

/// The largest file, in bytes: fifty entries take about thirty thousand, and the rest is for notes.
const LARGEST: u64 = 1 << 20;

/// The first and the last line of the fenced part.
const BEGIN: &str = "<!-- autoresearch-lessons version 1: ar rewrites this part, your notes stay outside it -->";
const END: &str = "<!-- end of autoresearch-lessons -->";
/// The title of the fenced part.
const TITLE: &str = "# Lessons";
/// The start and the end of the line that names an entry.
const MARKER: &str = "<!-- lesson ";
const MARKER_END: &str = " -->\n";
/// The start of a field, the end of its name, and the fields of an entry.
const FIELD: &str = "- **";
const IS: &str = "**: ";
const FIELDS: [&str; 6] = ["strategy", "outcome", "insight", "context", "experiment", "time"];

/// The most characters of a text in an entry.
const LONGEST: usize = 400;

/// The file.
#[derive(Debug, Clone)]
pub struct LessonFile {
    path: PathBuf,
}

impl LessonFile {
    /// Names the file of a repository, given its main worktree.
    pub fn new(main_worktree: &Path) -> Self {
        LessonFile { path: main_worktree.join(LESSONS) }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lessons, in order; empty if there is no file.
    ///
    /// # Errors
    ///
    /// It is not a regular file, larger than 1 MiB, or cannot be read.
    pub fn read(&self) -> Result<Vec<Lesson>, StateError> {
        Ok(LessonText::parse(&self.content()?).lessons)
    }

    /// The file's bytes; empty if there is no file. See [`read`](Self::read).
    pub fn content(&self) -> Result<Vec<u8>, StateError> {
        if !self.refuse_odd()? {
            return Ok(Vec::new());
        }
        let read = open_regular(&self.path).and_then(|mut file| bytes_of(&mut file));
        Ok(read.map_err(failed("read", &self.path))?)
    }

    /// Adds a lesson unless it exists, and merges old ones, except those of `spared` sessions. Temporary files are in
    /// `folder`. Everything is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The file is not a regular file, is read-only, cannot be written, or another process locks it for too long.
    pub fn add(&self, lesson: Lesson, spared: impl Fn(&str) -> bool, folder: &Path) -> Result<(), StateError> {
        let (_lock, bytes) = self.read_locked()?;
        crash::point("lessons.locked");
        let mut text = LessonText::parse(&bytes);
        if text.lessons.iter().any(|known| known.id == lesson.id) {
            return Ok(());
        }
        text.lessons.push(lesson);
        text.lessons = fold(text.lessons, spared);
        Ok(replace_through(folder, &self.path, &text.bytes())?)
    }

    /// Restores `content` if the file was deleted or emptied; returns whether it did.
    ///
    /// # Errors
    ///
    /// See [`add`](Self::add).
    pub fn restore(&self, content: &[u8], folder: &Path) -> Result<bool, StateError> {
        if content.trim_ascii().is_empty() {
            return Ok(false);
        }
        let (_lock, bytes) = self.read_locked()?;
        let is_empty = bytes.trim_ascii().is_empty();
        if is_empty {
            replace_through(folder, &self.path, content)?;
        }
        Ok(is_empty)
    }

    fn read_locked(&self) -> Result<(File, Vec<u8>), StateError> {
        self.refuse_odd()?;
        let mut file = lines::lock(&self.path)?;
        let bytes = bytes_of(&mut file).map_err(failed("read", &self.path))?;
        Ok((file, bytes))
    }

    /// Fails unless the path is free or a writable regular file; returns whether there is one. A link could lead
    /// anywhere.
    fn refuse_odd(&self) -> Result<bool, StateError> {
        let refuse = |why: &str| Err(failed("use", &self.path)(io::Error::other(why)).into());
        match if_exists(fs::symlink_metadata(&self.path)).map_err(failed("read", &self.path))? {
            None => Ok(false),
            Some(meta) if !meta.is_file() => refuse("it is not a regular file"),
            Some(meta) if meta.len() > LARGEST => refuse("it is larger than 1 MiB"),
            Some(meta) if meta.permissions().readonly() => refuse("it is read-only"),
            Some(_) => Ok(true),
        }
    }
}

fn bytes_of(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The content of the file: the lessons of the fenced part, and what is before and after it.
#[derive(Debug, Default)]
struct LessonText<'a> {
    before: &'a [u8],
    /// The lines of the fenced part that are no lessons, which are the user's.
    foreign: String,
    lessons: Vec<Lesson>,
    after: &'a [u8],
    is_fenced: bool,
}

impl<'a> LessonText<'a> {
    /// Finds the fenced part; without a whole one, all bytes are before it.
    fn parse(bytes: &'a [u8]) -> Self {
        let fenced = memmem::rfind(bytes, BEGIN.as_bytes()).and_then(|begin| {
            let from = begin + BEGIN.len();
            let end = from + memmem::find(&bytes[from..], END.as_bytes())?;
            let after = &bytes[end + END.len()..];
            let after = after.strip_prefix(b"\r").unwrap_or(after);
            let after = after.strip_prefix(b"\n").unwrap_or(after);
            let text = String::from_utf8_lossy(&bytes[from..end]).replace("\r\n", "\n");
            let mut entries = text.split(MARKER);
            let top = entries.next().unwrap_or_default().lines().filter(|line| !line.is_empty() && *line != TITLE);
            let mut foreign: String = top.map(|line| format!("{line}\n")).collect();
            let mut lessons = Vec::new();
            for text in entries {
                match read_entry(text, &mut foreign) {
                    Some(lesson) => lessons.push(lesson),
                    None => foreign += &format!("{MARKER}{}\n", text.trim_end()),
                }
            }
            Some(LessonText { before: &bytes[..begin], foreign, lessons, after, is_fenced: true })
        });
        fenced.unwrap_or(LessonText { before: bytes, ..LessonText::default() })
    }

    /// The whole file. A new part begins after a blank line, and foreign lines are before it.
    fn bytes(&self) -> Vec<u8> {
        let gap = match self.before {
            before if self.is_fenced || before.is_empty() || before.ends_with(b"\n\n") => "",
            before if before.ends_with(b"\n") => "\n",
            _ => "\n\n",
        };
        let part: String = self.lessons.iter().map(entry).collect();
        let part = format!("{gap}{}{BEGIN}\n{TITLE}\n\n{part}{END}\n", self.foreign);
        [self.before, part.as_bytes(), self.after].concat()
    }
}

/// Formats an entry. Its texts may come from an agent or a log, so each is cut to one line and cannot start a comment,
/// another element or a code block.
fn entry(lesson: &Lesson) -> String {
    let mut text = format!("{MARKER}{}{}", lesson.id, MARKER_END.trim_end());
    let time = exact_time(lesson.time);
    let Lesson { strategy, outcome, insight, context, experiment, .. } = lesson;
    for (name, value) in FIELDS.into_iter().zip([strategy, outcome, insight, context, experiment, &time]) {
        if !value.is_empty() {
            let _ = write!(text, "\n{FIELD}{name}{IS}{}", cut(&harmless(value), LONGEST));
        }
    }
    text + "\n\n"
}

/// Reads an entry, given without the start of its marker; `None` without a name or a time. Lines that the user added belong to
/// the text above them. Other fields, and lines behind the time, are foreign.
fn read_entry(text: &str, foreign: &mut String) -> Option<Lesson> {
    let (id, fields) = text.split_once(MARKER_END)?;
    let mut values: [Vec<&str>; FIELDS.len()] = Default::default();
    let (mut others, mut field) = (String::new(), None);
    for line in fields.lines().filter(|line| !line.trim().is_empty()) {
        let named = line.strip_prefix(FIELD).and_then(|line| line.split_once(IS));
        let known = named.and_then(|(name, value)| Some((FIELDS.iter().position(|known| *known == name)?, value)));
        match (known, field) {
            (Some((at, value)), _) if values[at].is_empty() => {
                values[at].push(value.trim());
                field = Some(at).filter(|at| FIELDS[*at] != "time");
            }
            (None, Some(at)) if named.is_none() => values[at].push(line.trim()),
            _ => {
                others += &format!("{line}\n");
                field = None;
            }
        }
    }
    let [strategy, outcome, insight, context, experiment, time] =
        values.map(|lines| lines.join(" ").trim_end().to_owned());
    let lesson =
        Lesson { id: id.parse().ok()?, strategy, outcome, insight, context, experiment, time: time.parse().ok()? };
    foreign.push_str(&others);
    Some(lesson)
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

    /// The file with a lesson more.
    fn with(bytes: &[u8], lesson: Lesson) -> Vec<u8> {
        let mut text = LessonText::parse(bytes);
        text.lessons.push(lesson);
        text.bytes()
    }

    #[test]
    fn an_entry_reads_as_a_person_would_write_it() {
        let expected = "<!-- lesson t/3 -->\n- **strategy**: warm-up\n\
                        - **outcome**: keep\n- **insight**: short schedules need ‹!-- no --> 'long' warm-up, a < b\n\
                        - **context**: t, val_bpb 2.0 → 1.9\n- **experiment**: 3\n- **time**: 2026-11-20T22:00:00.000Z\n\n";
        let expected = format!("{BEGIN}\n# Lessons\n\n{expected}{END}\n");
        let bytes = with(b"", lesson("3", "short schedules\nneed <!-- no --> `long` warm-up, a < b"));
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let read = LessonText::parse(expected.as_bytes());
        assert_eq!(read.lessons[0].context, "t, val_bpb 2.0 → 1.9");
        assert_eq!(read.bytes(), expected.as_bytes());
    }

    #[test]
    fn an_edited_entry_keeps_the_words_of_its_editor() {
        let own = String::from_utf8(with(b"", lesson("1", "deeper is better"))).unwrap();
        for (edited, insight) in [
            (own.replace("is better", "is\n  not better"), "deeper is not better"),
            (own.replace("is better", "is better\nso I say"), "deeper is better so I say"),
            (own.replace("- **strategy**: warm-up\n", ""), "deeper is better"),
            (own.replace(".000Z", "Z"), "deeper is better"),
        ] {
            let bytes = with(edited.as_bytes(), lesson("2", "x"));
            let lessons = LessonText::parse(&bytes).lessons;
            let read: Vec<_> = lessons.iter().map(|lesson| (lesson.id.to_string(), lesson.insight.as_str())).collect();
            assert_eq!(read, [("t/1".to_owned(), insight), ("t/2".to_owned(), "x")], "{edited}");
        }
    }

    #[test]
    fn lines_that_are_no_lessons_are_moved_before_the_part() {
        let own = String::from_utf8(with(b"notes\n", lesson("1", "deeper is better"))).unwrap();
        for (edited, moved) in [
            (own.replace(".000Z\n", ".000Z\nmy own remark\n"), "my own remark\n"),
            (own.replace("- **time**", "- **mine**: a field\n- **time**"), "- **mine**: a field\n"),
            (own.replace("# Lessons\n", "# Lessons\nread this first\n"), "read this first\n"),
            (
                own.replace("lesson t/1 -->", "lesson t/1 -->\n- **time**: today"),
                "- **time**: 2026-11-20T22:00:00.000Z",
            ),
            (own.trim_end().to_owned(), ""),
            (own.replace('\n', "\r\n"), ""),
        ] {
            let bytes = String::from_utf8(with(edited.as_bytes(), lesson("2", "x"))).unwrap();
            let before = bytes.split_once(BEGIN).unwrap().0;
            assert!(before.starts_with("notes") && before.contains(moved), "{edited:?}: {bytes}");
            assert_eq!(bytes.matches(BEGIN).count(), 1, "{bytes}");
            let count = if edited.contains("today") { 1 } else { 2 };
            assert_eq!(LessonText::parse(bytes.as_bytes()).lessons.len(), count, "{bytes}");
        }
    }

    /// Pieces of files, in any order: notes, entries, fences, torn ones.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<Vec<u8>>(),
            Just(b"\n".to_vec()),
            Just(b"# Notes of mine\r\n\r\n- **insight**: not an entry\n".to_vec()),
            Just(MARKER.into()),
            Just(BEGIN.into()),
            Just(END.into()),
            "[a-z]{1,9}".prop_map(|point| entry(&lesson(&point, "an insight")).into_bytes()),
        ];
        prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_none_makes_it_panic(bytes in any_bytes(), said in any::<String>()) {
            let before = LessonText::parse(&bytes);
            let count = before.lessons.len();
            let added = with(&bytes, lesson("new", &said));
            let after = LessonText::parse(&added);
            prop_assert!(after.before.starts_with(before.before) && after.after == before.after);
            prop_assert_eq!(after.lessons.len(), count + 1);
            prop_assert_eq!(&after.lessons.last().unwrap().insight, &cut(&harmless(&said), LONGEST));
            prop_assert_eq!(LessonText::parse(&after.bytes()).bytes(), after.bytes());
        }
    }
}
