//! Sessions as readers see them: what `ar log`, `show`, `report` and `status` print. Nothing here writes to a session.

pub(super) mod ratings;
pub(super) mod saved_artifacts;
pub(super) mod session_view;
pub(super) mod status;
