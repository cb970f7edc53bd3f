//! A section between markers in a file of the user's.
//!
//! The section ends without a line break where the file did, so the bytes around it say what was there before.

use std::ops::Range;

use memchr::memmem;

use super::edit::{Edit, Edited, NotOurs};
use super::fingerprint::{fingerprint, with_line_feeds};

const BEGIN: &str = "<!-- autoresearch:begin";
const END: &str = "<!-- autoresearch:end -->";

/// A section that was found.
struct Section {
    /// Both markers and what is between them.
    range: Range<usize>,
    /// The text between them, with line feeds.
    text: Vec<u8>,
    is_edited: bool,
    line_end: &'static str,
}

/// Adds the section at the end, or brings it up to date where it is.
pub(super) fn install(found: Option<&[u8]>, text: &str) -> Edited {
    let Some(found) = found else { return Ok(Edit::Write([&block(text, "\n")[..], b"\n"].concat())) };
    if let Some(section) = find(found)? {
        return Ok(match section.text == text.as_bytes() {
            _ if section.is_edited => Edit::UserEdited,
            true => Edit::Unchanged,
            false => {
                let new = block(text, section.line_end);
                Edit::Write([&found[..section.range.start], &new, &found[section.range.end..]].concat())
            }
        });
    }
    let line_end = line_end(found);
    let (before, after) = match found {
        [] => ("".into(), ""),
        [.., b'\n'] => (line_end.to_owned(), line_end),
        _ => (line_end.repeat(2), ""),
    };
    Ok(Edit::Write([found, before.as_bytes(), &block(text, line_end), after.as_bytes()].concat()))
}

/// Takes the section out again, with the line breaks that came with it.
pub(super) fn remove(found: &[u8]) -> Edited {
    let Some(section) = find(found)? else { return Ok(Edit::Unchanged) };
    if section.is_edited {
        return Ok(Edit::UserEdited);
    }
    let (before, after) = (&found[..section.range.start], &found[section.range.end..]);
    let line_end = section.line_end.as_bytes();
    let shorter = |text: &'_ [u8], times: usize| -> usize {
        (0..times).fold(text.len(), |len, _| text[..len].strip_suffix(line_end).map_or(len, <[u8]>::len))
    };
    let rest = after.strip_prefix(line_end);
    let kept = match rest {
        Some(_) => shorter(before, 1),
        None if after.is_empty() => shorter(before, 2),
        None => before.len(),
    };
    let left = [&before[..kept], rest.unwrap_or(after)].concat();
    Ok(if left.is_empty() && rest.is_some() { Edit::Delete { folders: 0 } } else { Edit::Write(left) })
}

fn block(text: &str, line_end: &str) -> Vec<u8> {
    let hash = fingerprint(text.as_bytes());
    let block = format!("{BEGIN} sha256={hash}; written by `ar init --skill agents` -->\n{text}{END}");
    block.replace('\n', line_end).into_bytes()
}

fn line_end(text: &[u8]) -> &'static str {
    let (all, of_windows) = (memchr::memchr_iter(b'\n', text).count(), memmem::find_iter(text, b"\r\n").count());
    if of_windows * 2 > all { "\r\n" } else { "\n" }
}

fn find(found: &[u8]) -> Result<Option<Section>, NotOurs> {
    let begins: Vec<usize> = memmem::find_iter(found, BEGIN).collect();
    let ends: Vec<usize> = memmem::find_iter(found, END).collect();
    let (start, end) = match (begins.as_slice(), ends.as_slice()) {
        ([], []) => return Ok(None),
        ([start], [end]) if start < end => (*start, *end),
        _ => return Err(NotOurs::Markers),
    };
    let inside = &found[start..end];
    let text_at = memchr::memchr(b'\n', inside).ok_or(NotOurs::Markers)? + 1;
    let (mark, text) = inside.split_at(text_at);
    let hash = mark.strip_prefix(BEGIN.as_bytes()).and_then(|mark| mark.strip_prefix(b" sha256="));
    let is_edited = !hash.is_some_and(|hash| hash.starts_with(fingerprint(text).as_bytes()));
    let line_end = if mark.ends_with(b"\r\n") { "\r\n" } else { "\n" };
    Ok(Some(Section { range: start..end + END.len(), text: with_line_feeds(text), is_edited, line_end }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::edit::written;
    use super::*;

    #[test]
    fn a_file_of_the_section_alone_goes_and_an_empty_one_stays() {
        let made = written(install(None, "text\n"));
        assert_eq!(remove(&made), Ok(Edit::Delete { folders: 0 }));
        let in_empty = written(install(Some(b""), "text\n"));
        assert_eq!(remove(&in_empty), Ok(Edit::Write(Vec::new())));
    }

    #[test]
    fn a_section_is_brought_up_to_date_in_its_place_and_keeps_its_line_breaks() {
        let old = written(install(Some(b"# Mine\r\n"), "old\n"));
        let old = [&old[..], b"after\r\n"].concat();
        let new = written(install(Some(&old), "new\n"));
        assert_eq!(install(Some(&new), "new\n"), Ok(Edit::Unchanged));
        assert_eq!(remove(&new), Ok(Edit::Write(b"# Mine\r\nafter\r\n".to_vec())));
        assert!(!with_line_feeds(&new).contains(&b'\r'));
    }

    #[test]
    fn an_edited_section_and_broken_markers_are_left() {
        let made = String::from_utf8(written(install(Some(b"mine\n"), "text\n"))).unwrap();
        let edited = made.replace("text", "my text");
        assert_eq!(install(Some(edited.as_bytes()), "text\n"), Ok(Edit::UserEdited));
        assert_eq!(remove(edited.as_bytes()), Ok(Edit::UserEdited));
        for broken in [made.replace(END, ""), format!("{made}{made}"), format!("{END}\n{BEGIN}")] {
            assert_eq!(install(Some(broken.as_bytes()), "text\n"), Err(NotOurs::Markers), "{broken}");
        }
        assert_eq!(remove(b"mine"), Ok(Edit::Unchanged));
    }

    proptest! {
        #[test]
        fn whatever_was_there_comes_back(found in "(a|b|\r|\n|\r\n|\u{e4}){0,12}", more in "(\n|c){0,4}") {
            let made = written(install(Some(found.as_bytes()), "text\n"));
            prop_assert_eq!(install(Some(&made), "text\n"), Ok(Edit::Unchanged));
            prop_assert_eq!(remove(&made), Ok(Edit::Write(found.clone().into_bytes())));
            // Text that the user writes below stays as well.
            let below = [&made[..], more.as_bytes()].concat();
            if let Ok(Edit::Write(left)) = remove(&below) {
                prop_assert!(left.starts_with(found.as_bytes()));
                prop_assert_eq!(left.iter().filter(|byte| **byte == b'c').count(), more.matches('c').count());
            }
        }
    }
}
