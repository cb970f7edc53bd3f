//! What a change touches, and what touches it: scope, files, hazards, repeats. Nothing here has seen a number.

pub(super) mod artifacts;
pub(super) mod conventions;
pub(super) mod disturbance;
pub(super) mod hazards;
pub(super) mod ignored;
pub(super) mod named_files;
pub(super) mod novelty;
pub(super) mod pythons;
pub(super) mod refs;
pub(super) mod scope;
pub(super) mod shadow;
pub(super) mod stall;
pub(super) mod wording;
