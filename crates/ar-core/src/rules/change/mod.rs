//! What a change touches, and what touches it: scope, files, hazards, repeats. Nothing here has seen a number.

mod artifacts;
mod conventions;
mod disturbance;
mod hazards;
mod ignored;
pub(super) mod named_files;
mod novelty;
mod pythons;
mod refs;
mod scope;
mod shadow;
pub(super) mod stall;
mod starting;
mod wording;

pub use artifacts::{ArtifactGlobs, ExperimentArtifacts, artifacts_to_drop};
pub use conventions::{Columns, Suggested, columns_of, own_loop, suggested};
pub use disturbance::{Disturbance, changed_text};
pub use hazards::{
    PORT, UV_LINK_MODE, candidates, editable_path, entries_into, is_package, links_from_cache, looks_in_tree,
    may_be_code, paths_into, port_of, says_where, syncs_environment, variables_of_slot, within,
};
pub use ignored::ignored_changes;
pub use named_files::{NamedFile, files_named};
pub use novelty::{fingerprint, is_same_change, measured_before, outside_cause};
pub use pythons::{Python, pythons_of};
pub use refs::{RefChanges, compare_refs};
pub use scope::glob;
pub use scope::{FileEdit, FileTerms, Forbidden, GlobError, LARGEST_ADDED, folders_of, takes_the_place};
pub use shadow::{is_bytecode, is_compiled, modules_behind};
pub use stall::question;
pub use starting::{likeliest, printed_metric, start_command};
pub use wording::{described, has_words};
