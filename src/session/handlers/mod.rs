//! Changes of refs, rows and working trees: acts, the trees with HEAD, index, untracked and protected files, and the detection of
//! tampering. Nothing here waits.

mod carrying;
mod clearing;
#[cfg(test)]
mod conformance_tests;
mod linked;
mod protected;
mod refs;
mod rows;
mod tampering;
mod working_tree;

pub(crate) use carrying::Carrying;
pub(crate) use linked::{
    SlotSetup, Tree, TreeOf, Trees, left_worktrees, make_review_tree, open_seat, remove_review_tree, remove_trees,
};
pub(crate) use protected::{
    LARGEST_COPY, Protected, SETTINGS_BEFORE, copied_log, forget_copies, name_of, refuse_artifacts, remove_call_git,
};
pub(crate) use refs::{SessionRefs, record_verified, write_tag};
pub(crate) use working_tree::{TreeFact, UntrackedFiles, UsersTree, Workspace};
