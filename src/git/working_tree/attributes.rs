//! Ignore and attribute files, and attributes that would damage files on their way through gix.

use std::io::ErrorKind;
use std::path::Path;

use gix::bstr::{BStr, ByteSlice};
use gix::index::State;

use crate::fs::read_regular;
use crate::git::error::{At, GitError, Result};
use crate::git::path;

/// Refuses a repository whose attribute files ask for a working tree in UTF-16 or UTF-32: gix 0.90 writes such
/// files as UTF-8. Only the tracked `.gitattributes` and `info/attributes` are read.
pub(in crate::git) fn refuse_encodings(root: &Path, common_dir: &Path, index: &State) -> Result<()> {
    let mut tracked = index.entries().iter().map(|entry| entry.path(index)).filter(|path| is_attributes(path));
    tracked.try_for_each(|path| refuse_encoding_in(root, &path::to_path(path)))?;
    check(&common_dir.join("info").join("attributes"), Path::new("info/attributes"))
}

/// The same for one attribute file of the working tree.
pub(super) fn refuse_encoding_in(root: &Path, relative: &Path) -> Result<()> {
    check(&root.join(relative), relative)
}

/// Returns whether a path is that of an attribute file.
pub(super) fn is_attributes(path: &BStr) -> bool {
    path == ".gitattributes" || path.ends_with(b"/.gitattributes")
}

fn check(file: &Path, shown: &Path) -> Result<()> {
    let content = match read_regular(file) {
        Ok(content) => content,
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput) => {
            return Ok(());
        }
        Err(err) => return Err(err).at("reading", file),
    };
    match wide_encoding(&content) {
        Some(value) => Err(GitError::WorkingTreeEncoding { file: shown.to_owned(), value }),
        None => Ok(()),
    }
}

/// The first attribute of `content` that asks for UTF-16 or UTF-32, in any spelling.
fn wide_encoding(content: &[u8]) -> Option<String> {
    let words = content.lines().filter(|line| !line.trim_start().starts_with(b"#")).flat_map(|line| line.fields());
    words.map(|word| word.to_str_lossy()).find_map(|word| {
        let encoding = word.strip_prefix("working-tree-encoding=")?.to_ascii_lowercase().replace(['-', '_'], "");
        (encoding.starts_with("utf16") || encoding.starts_with("utf32") || encoding.starts_with("ucs"))
            .then(|| word.into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::wide_encoding;

    #[test]
    fn finds_wide_encodings_in_any_spelling() {
        let attribute = "working-tree-encoding=";
        for bad in ["UTF-16", "utf16le", "UTF-16LE-BOM", "UTF-32", "UCS-2"] {
            assert!(wide_encoding(format!("*.txt text\n*.rc text {attribute}{bad}\n").as_bytes()).is_some(), "{bad}");
        }
        assert_eq!(wide_encoding(b"# *.rc working-tree-encoding=UTF-16\n*.c working-tree-encoding=latin1\n"), None);
    }
}
