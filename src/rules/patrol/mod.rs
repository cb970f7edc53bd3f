//! What guardians, `ar status` and `ar doctor` conclude from observations.

pub(super) mod activity;
pub(super) mod alerts;
pub(super) mod beat;
pub(super) mod consistency;
pub(super) mod sanity;
pub(super) mod status;
pub(super) mod verdict;
