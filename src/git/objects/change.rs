//! One file that changed.

use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::BString;
use gix::index::entry::Mode;

/// One file as the index or a tree has it.
pub(in crate::git) type Version = (Mode, ObjectId);

/// One file in which two trees differ, with what each has.
#[derive(Debug, Clone)]
pub(in crate::git) struct TreeChange {
    pub(in crate::git) path: BString,
    pub(in crate::git) old: Option<Version>,
    pub(in crate::git) new: Option<Version>,
}

/// The kind of difference between two versions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or its executable bit changed.
    Modified,
    /// It was a file and is a symbolic link, or the like.
    TypeChanged,
}

impl ChangeKind {
    /// Returns the kind of difference. Both sides are missing only for a file in conflict, or one only meant to be
    /// added.
    pub(in crate::git) fn of(old: Option<Version>, new: Option<Version>) -> ChangeKind {
        let file = |mode| matches!(mode, Mode::FILE | Mode::FILE_EXECUTABLE);
        match (old, new) {
            (None, _) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some((old, _)), Some((new, _))) if old == new || (file(old) && file(new)) => ChangeKind::Modified,
            _ => ChangeKind::TypeChanged,
        }
    }
}

/// The kind of a tree's entry at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A symbolic link.
    Link,
    /// The commit of a repository of its own: a submodule.
    Repository,
}

impl EntryKind {
    pub(in crate::git) fn of(mode: Mode) -> EntryKind {
        match mode {
            Mode::SYMLINK => EntryKind::Link,
            Mode::COMMIT => EntryKind::Repository,
            _ => EntryKind::File,
        }
    }
}

/// One file that differs from the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The file, relative to the working tree.
    pub path: PathBuf,
    /// The kind of difference.
    pub kind: ChangeKind,
    /// Its kind of entry; for a deleted file, the former kind.
    pub entry: EntryKind,
    /// The size of its new content in git, in bytes; 0 when it is deleted.
    pub size: u64,
}
