//! Problems with an artifact or a source.

use serde::Serialize;

/// Something that is not as it must be, with its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file, relative to the repository's root.
    pub file: String,
    /// The line, from 1; 1 for what concerns the whole file.
    pub line: usize,
    /// A sentence without its first capital and its full stop.
    pub what: String,
}

impl Problem {
    /// A problem on a line of a file.
    pub fn at(file: &str, line: usize, what: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), line, what: what.into() }
    }
}
