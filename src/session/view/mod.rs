//! Sessions as readers see them: what `ar log`, `show`, `report` and `status` print. Nothing here writes to a session.

mod session_view;
mod status;

pub(crate) use session_view::NOTES;
pub use session_view::{SavedArtifacts, SessionView, rating};
pub(crate) use status::StatusReader;
