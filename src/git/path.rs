//! Paths and object names between this program's types and git's.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::index::fs::Metadata;
use gix::quote::ansi_c;
use gix::validate::path::{
    self as valid,
    component::{Mode, Options},
};

use super::{At, During, GitError, Result};
use crate::domain::CommitId;
use crate::fs::if_there;

/// Prefix of the names of `ar`'s temporary files in the repository's folder.
pub(in crate::git) const TEMPORARY: &str = "ar-tmp-";

/// A path of git as one of the file system.
pub(in crate::git) fn to_path(path: &BStr) -> PathBuf {
    gix::path::from_bstr(path).map_or_else(|_| PathBuf::from(path.to_str_lossy().as_ref()), |path| path.into_owned())
}

/// A path of the file system, relative to the working tree, as git has it.
pub(in crate::git) fn to_git(path: &Path) -> Result<BString> {
    Ok(gix::path::into_bstr(path).during("reading a file name")?.into_owned())
}

/// Reads the metadata of `relative` without following links; `None` if it is missing or part of its path is not a
/// folder.
pub(in crate::git) fn lstat(root: &Path, relative: &BStr) -> Result<Option<Metadata>> {
    let full = root.join(to_path(relative));
    let parents: Vec<&Path> = full.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    for dir in parents.into_iter().rev() {
        if !if_there(fs::symlink_metadata(dir)).at("reading", dir)?.is_some_and(|meta| meta.is_dir()) {
            return Ok(None);
        }
    }
    if_there(Metadata::from_path_no_follow(&full)).at("reading", &full)
}

/// Adds the files in a folder whose paths are meant, with `deep` also those below it; none where it is missing.
pub(in crate::git) fn collect_files(
    folder: &Path,
    deep: bool,
    is_meant: fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) -> Result<()> {
    for entry in if_there(fs::read_dir(folder)).at("reading", folder)?.into_iter().flatten() {
        let entry = entry.at("reading", folder)?;
        let (path, is_folder) = (entry.path(), entry.file_type().at("reading", folder)?.is_dir());
        if is_folder && deep {
            collect_files(&path, deep, is_meant, files)?;
        } else if !is_folder && is_meant(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// The permissions that a new file asks for, before the user's mask.
pub(in crate::git) fn permissions(executable: bool) -> Permissions {
    Permissions::from_mode(if executable { 0o777 } else { 0o666 })
}

/// The shortest part of a path, from its start, that git refuses to check out, on whatever system: `.GIT`, `git~1`, or a link
/// called `.gitmodules`.
pub(in crate::git) fn refused_part(path: &BStr, is_link: bool) -> Option<&BStr> {
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
pub(in crate::git) fn object_id(commit: &CommitId) -> Result<ObjectId> {
    parse_id(commit.as_str())
}

/// A full hexadecimal name as gix has it.
pub(in crate::git) fn parse_id(hex: &str) -> Result<ObjectId> {
    ObjectId::from_hex(hex.as_bytes())
        .map_err(|source| GitError::NotFound { spec: hex.to_owned(), source: Some(source.into()) })
}

/// A commit's name as this program has it.
pub(in crate::git) fn commit_id(id: impl Into<ObjectId>) -> CommitId {
    CommitId::new(id.into().to_string())
}

/// Quotes a path as git does when it holds quotes, backslashes, control characters or (with `quote_high`) bytes
/// beyond ASCII: `"caf\303\251"`. A path without them stays as it is.
pub(in crate::git) fn quote(path: &BStr, quote_high: bool) -> BString {
    let is_special = path.iter().any(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\'));
    if is_special || quote_high { ansi_c::quote(path).into_owned() } else { path.to_owned() }
}

/// Takes the quotes of [`quote`] off again; a path without quotes stays as it is. Nothing when they are torn.
pub(in crate::git) fn unquote(quoted: &str) -> Option<BString> {
    let (path, consumed) = ansi_c::undo(quoted.into()).ok()?;
    (consumed == quoted.len()).then(|| path.into_owned())
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
