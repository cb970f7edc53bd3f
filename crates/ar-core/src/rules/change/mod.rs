//! The change itself: scope, files, hazards, repeats. Nothing here has seen a number.

pub(super) mod agent_words;
mod artifacts;
pub(super) mod conventions;
mod hazards;
mod scope;

pub use agent_words::{described, has_words, question};
pub use artifacts::{ArtifactGlobs, ExperimentArtifacts, artifacts_to_drop};
pub use conventions::{
    Columns, NamedFile, Suggested, columns_of, files_named, likeliest, own_loop, printed_metric, start_command,
    suggested,
};
pub use hazards::{
    Disturbance, PORT, Python, RefChanges, UV_LINK_MODE, candidates, changed_text, compare_refs, editable_path,
    entries_into, ignored_changes, is_bytecode, is_compiled, is_package, links_from_cache, looks_in_tree, may_be_code,
    modules_behind, paths_into, port_of, pythons_of, says_where, syncs_environment, variables_of_slot, within,
};
pub use scope::{
    FileEdit, FileTerms, Forbidden, GlobError, LARGEST_ADDED, fingerprint, folders_of, glob, is_same_change,
    measured_before, outside_cause, takes_the_place,
};
