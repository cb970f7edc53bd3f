//! Research artifacts: their terms, claims, scores, and the commands of `research.toml`. Nothing here knows the loop.

pub(super) mod commands;
pub(super) mod files;
pub(super) mod headings;
pub(super) mod new_claims;
pub(super) mod past;
pub(super) mod scoring;
pub(super) mod terms;
