//! Working trees: HEAD, index, untracked and protected files of each, and the detection of tampering. Nothing here waits.

mod carrying;
mod clearing;
mod linked;
mod protected;
mod tampering;
mod working_tree;

pub(crate) use carrying::Carrying;
pub(crate) use linked::{SlotSetup, Tree, TreeOf, Trees, left_worktrees, open_seat, remove_trees};
pub(crate) use protected::{
    LARGEST_COPY, Protected, SETTINGS_BEFORE, copied_log, forget_copies, name_of, refuse_artifacts, remove_call_git,
};
pub(crate) use working_tree::{TreeFact, UntrackedFiles, UsersTree, Workspace};
