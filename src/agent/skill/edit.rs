//! What is to become of a file.

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// The file is as wanted.
    Unchanged,
    /// Part of it is `ar`'s, but the user edited that part.
    UserEdited,
    /// It gets this content.
    Write(Vec<u8>),
    /// It goes, with as many of its folders as are empty then, at most these.
    Delete {
        /// The number of folders that `ar` made for it.
        folders: usize,
    },
}

/// A file that `ar` may not edit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// A whole file is the user's.
    #[error("exists and was not written by `ar init`")]
    File,
    /// The markers are incomplete or appear twice.
    #[error("has markers of `ar init` that do not match")]
    Markers,
    /// The file is not JSON, with the parser's words.
    #[error("is not valid JSON: {0}")]
    Json(String),
    /// A part of it is not an object.
    #[error("needs an object {0}")]
    Object(&'static str),
}

impl NotOurs {
    /// Returns a hint for the user, about the file at `path`.
    pub fn hint(&self, path: &str) -> String {
        match self {
            NotOurs::File => format!("move {path} to another name, then repeat the command"),
            NotOurs::Markers => format!("delete the lines `<!-- autoresearch:…` and what they enclose from {path}"),
            NotOurs::Json(_) | NotOurs::Object(_) => {
                format!("correct {path}, or move it to another name, then repeat the command")
            }
        }
    }
}

/// The change of a file, or why there is none.
pub(super) type Edited = Result<Edit, NotOurs>;

/// The bytes of an edit that writes.
#[cfg(test)]
pub(super) fn written(edit: Edited) -> Vec<u8> {
    match edit {
        Ok(Edit::Write(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}
