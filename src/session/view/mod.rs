//! Sessions as readers see them: what `ar log`, `show`, `report` and `status` print. Nothing here writes to a session.

mod ratings;
mod session_view;
mod status;

pub(crate) use ratings::RATINGS;
pub use ratings::rating;
pub(crate) use session_view::NOTES;
pub use session_view::{SavedArtifacts, SessionView};
pub(crate) use status::StatusReader;
