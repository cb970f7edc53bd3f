//! A file that is `ar`'s alone, known by a mark at its end.

use memchr::memmem;

use super::edit::{Edit, Edited, NotOurs};
use super::fingerprint::{fingerprint, with_line_feeds};

/// How the mark begins. It goes on with the hash of the text before it, and the number of folders that were made.
const MARK: &str = "<!-- autoresearch:file sha256=";

/// A file with a mark.
struct Marked<'a> {
    /// The text before the mark.
    text: &'a [u8],
    folders: usize,
    is_edited: bool,
}

/// Writes the text, unless somebody else's file is there, or one that the user edited.
pub(super) fn install(found: Option<&[u8]>, text: &str, note: &str, folders: usize) -> Edited {
    let Some(found) = found else { return Ok(Edit::Write(marked(text, note, folders))) };
    let Some(old) = read(found) else { return Err(NotOurs::File) };
    Ok(match with_line_feeds(old.text) == text.as_bytes() {
        _ if old.is_edited => Edit::UserEdited,
        true => Edit::Unchanged,
        false => Edit::Write(marked(text, note, old.folders)),
    })
}

/// Deletes the file, unless it is somebody else's or the user edited it.
pub(super) fn remove(found: &[u8]) -> Edit {
    match read(found) {
        None => Edit::Unchanged,
        Some(Marked { is_edited: true, .. }) => Edit::UserEdited,
        Some(Marked { folders, .. }) => Edit::Delete { folders },
    }
}

fn marked(text: &str, note: &str, folders: usize) -> Vec<u8> {
    format!("{text}\n{MARK}{} folders={folders}; {note} -->\n", fingerprint(text.as_bytes())).into_bytes()
}

fn read(found: &[u8]) -> Option<Marked<'_>> {
    let at = memmem::rfind(found, MARK.as_bytes())?;
    let before = &found[..at];
    let before = before.strip_suffix(b"\n")?;
    let text = before.strip_suffix(b"\r").unwrap_or(before);
    let mark = std::str::from_utf8(&found[at + MARK.len()..]).ok()?;
    let (hash, rest) = mark.split_once(" folders=")?;
    let (folders, rest) = rest.split_once(';')?;
    let (_, after) = rest.split_once("-->")?;
    let is_edited = hash != fingerprint(text) || !after.trim().is_empty();
    Some(Marked { text, folders: folders.parse().ok()?, is_edited })
}

#[cfg(test)]
mod tests {
    use super::super::edit::written;
    use super::*;

    #[test]
    fn a_file_of_ours_is_replaced_by_a_newer_text_and_keeps_the_count_of_its_folders() {
        let old = written(install(None, "old\n", "note", 3));
        assert_eq!(install(Some(&old), "old\n", "note", 0), Ok(Edit::Unchanged));
        let new = written(install(Some(&old), "new\n", "note", 0));
        assert_eq!(remove(&new), Edit::Delete { folders: 3 });
        let as_windows: Vec<u8> = String::from_utf8(old).unwrap().replace('\n', "\r\n").into_bytes();
        assert_eq!(install(Some(&as_windows), "old\n", "note", 0), Ok(Edit::Unchanged));
        assert_eq!(remove(&as_windows), Edit::Delete { folders: 3 });
    }

    #[test]
    fn what_the_user_wrote_or_edited_stays() {
        assert_eq!(install(Some(b"mine"), "text\n", "note", 0), Err(NotOurs::File));
        assert_eq!(remove(b"mine"), Edit::Unchanged);
        let text = String::from_utf8(written(install(None, "text\n", "note", 1))).unwrap();
        for edited in [text.replace("text", "my text"), format!("{text}more\n"), format!("x{text}")] {
            assert_eq!(install(Some(edited.as_bytes()), "text\n", "note", 0), Ok(Edit::UserEdited), "{edited}");
            assert_eq!(remove(edited.as_bytes()), Edit::UserEdited, "{edited}");
        }
    }
}
