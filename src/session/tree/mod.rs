//! Working trees: HEAD, index, untracked and protected files of each, and the detection of tampering. Nothing here waits.

pub(super) mod artifact_files;
pub(super) mod clearing;
pub(super) mod linked;
pub(super) mod protected;
pub(super) mod settings_file;
pub(super) mod tampering;
pub(super) mod working_tree;

pub(super) use working_tree::Workspace;
