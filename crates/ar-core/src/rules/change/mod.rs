//! What a change touches, and what touches it: scope, files, hazards, repeats. Nothing here has seen a number.

pub(super) mod agent_words;
mod artifacts;
pub(super) mod conventions;
mod disturbance;
mod hazards;
mod novelty;
mod scope;

pub use agent_words::{described, has_words, question};
pub use artifacts::{ArtifactGlobs, ExperimentArtifacts, artifacts_to_drop};
pub use conventions::{
    Columns, NamedFile, Suggested, columns_of, files_named, likeliest, own_loop, printed_metric, start_command,
    suggested,
};
pub use disturbance::{Disturbance, RefChanges, changed_text, compare_refs, ignored_changes};
pub use hazards::{
    PORT, Python, UV_LINK_MODE, candidates, editable_path, entries_into, is_bytecode, is_compiled, is_package,
    links_from_cache, looks_in_tree, may_be_code, modules_behind, paths_into, port_of, pythons_of, says_where,
    syncs_environment, variables_of_slot, within,
};
pub use novelty::{fingerprint, is_same_change, measured_before, outside_cause};
pub use scope::{FileEdit, FileTerms, Forbidden, GlobError, LARGEST_ADDED, folders_of, glob, takes_the_place};
