//! One working tree, and all that is known of it.

use super::protected::Protected;
use crate::git::{Look, Untracked};
use crate::rules::FileTerms;
use crate::state::FileStamp;

/// A working tree in which experiments are made and run.
pub(super) struct Workspace {
    /// Which files an experiment may change.
    pub(super) file_terms: FileTerms,
    /// The files that no experiment may change.
    pub(super) protected: Protected,
    pub(super) untracked: UntrackedFiles,
    /// What was seen of the working tree when the run was over, as long as nobody can have been active since.
    pub(super) look: Option<Look>,
}

/// The untracked files that are no part of the next change.
pub(super) struct UntrackedFiles {
    /// Those that were there when the last experiment was settled, or the agent was called.
    pub(super) known: Option<Untracked>,
    /// The file that says so, as this process wrote it.
    pub(super) written: Option<FileStamp>,
    /// Whether they are still so, since nothing was done after they were listed.
    pub(super) is_current: bool,
}
