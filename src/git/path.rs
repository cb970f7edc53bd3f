//! Paths and object names between this program's types and git's.

use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::validate::path::{
    self as valid,
    component::{Mode, Options},
};

use super::error::During;
use super::{GitError, Result};
use crate::domain::CommitId;

/// A path of git as one of the file system.
pub(super) fn to_path(path: &BStr) -> PathBuf {
    gix::path::from_bstr(path).map_or_else(|_| PathBuf::from(path.to_str_lossy().as_ref()), |path| path.into_owned())
}

/// A path of the file system, relative to the working tree, as git has it.
pub(super) fn to_git(path: &Path) -> Result<BString> {
    Ok(gix::path::into_bstr(path).during("reading a file name")?.into_owned())
}

/// The shortest part of a path, from its start, that git refuses to check out, on whatever system: `.GIT`, `git~1`, or a link
/// called `.gitmodules`.
pub(super) fn refused_part(path: &BStr, is_link: bool) -> Option<&BStr> {
    let options = Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    let ends = path.find_iter("/").chain([path.len()]);
    let mut start = 0;
    for end in ends {
        let mode = (is_link && end == path.len()).then_some(Mode::Symlink);
        if valid::component(path[start..end].as_bstr(), mode, options).is_err() {
            return Some(path[..end].as_bstr());
        }
        start = end + 1;
    }
    None
}

/// A commit's name as gix has it.
pub(super) fn object_id(commit: &CommitId) -> Result<ObjectId> {
    parse_id(commit.as_str())
}

/// A full hexadecimal name as gix has it.
pub(super) fn parse_id(hex: &str) -> Result<ObjectId> {
    ObjectId::from_hex(hex.as_bytes())
        .map_err(|source| GitError::NotFound { spec: hex.to_owned(), source: Some(source.into()) })
}

/// A commit's name as this program has it.
pub(super) fn commit_id(id: impl Into<ObjectId>) -> CommitId {
    CommitId::new(id.into().to_string())
}

/// Quotes a path as git does when it holds quotes, backslashes, control characters or (with `quote_high`) bytes
/// beyond ASCII: `"caf\303\251"`. A path without them stays as it is.
pub(super) fn quote(path: &BStr, quote_high: bool) -> BString {
    let special =
        |byte: u8| byte < 0x20 || byte == 0x7f || byte == b'"' || byte == b'\\' || (quote_high && byte >= 0x80);
    if !path.iter().copied().any(special) {
        return path.to_owned();
    }
    let mut quoted = BString::from("\"");
    for &byte in path.iter() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', byte]),
            0x07 => quoted.extend(b"\\a"),
            0x08 => quoted.extend(b"\\b"),
            b'\t' => quoted.extend(b"\\t"),
            b'\n' => quoted.extend(b"\\n"),
            0x0b => quoted.extend(b"\\v"),
            0x0c => quoted.extend(b"\\f"),
            b'\r' => quoted.extend(b"\\r"),
            byte if special(byte) => quoted.extend(format!("\\{byte:03o}").bytes()),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Takes the quotes of [`quote`] off again; a path without quotes stays as it is. Nothing when they are torn.
pub(super) fn unquote(quoted: &str) -> Option<BString> {
    let Some(inner) = quoted.strip_prefix('"') else { return Some(quoted.into()) };
    let mut bytes = inner.strip_suffix('"')?.bytes();
    let mut path = BString::default();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        path.push(match bytes.next()? {
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            byte @ (b'"' | b'\\') => byte,
            first => {
                let digits = [first, bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?
            }
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquotes_what_it_quotes() {
        for path in [&b"a b"[..], b"\"q\"", b"t\tn\n\x01\x7f", b"\xff\xfe.bin", "caf\u{e9} \u{1f600}".as_bytes()] {
            for high in [true, false] {
                let quoted = quote(path.into(), high);
                if let Ok(text) = std::str::from_utf8(&quoted) {
                    assert_eq!(unquote(text), Some(path.into()));
                }
            }
        }
        assert_eq!(unquote("\"torn"), None);
        assert_eq!(unquote("\"\\9\""), None);
    }

    #[test]
    fn knows_the_part_that_git_refuses() {
        let part = |path: &str, is_link| refused_part(path.into(), is_link).map(ToString::to_string);
        for (path, refused) in
            [("a/.Git/config", "a/.Git"), (".git", ".git"), ("git~1", "git~1"), ("x/.git /y", "x/.git ")]
        {
            assert_eq!(part(path, false).as_deref(), Some(refused), "{path}");
        }
        assert_eq!(part("a/.gitmodules", true).as_deref(), Some("a/.gitmodules"));
        for path in ["a/.gitmodules", "a/.gitignore", "git", "con", "a b", "aux.py"] {
            assert_eq!(part(path, false), None, "{path}");
        }
    }

    #[test]
    fn quotes_as_git_does() {
        assert_eq!(quote("a b/c".into(), true), "a b/c");
        assert_eq!(quote("caf\u{e9}".into(), true), r#""caf\303\251""#);
        assert_eq!(quote("caf\u{e9}".into(), false), "caf\u{e9}");
        assert_eq!(quote("t\tq\"b\\\u{1}".into(), true), r#""t\tq\"b\\\001""#);
    }
}
