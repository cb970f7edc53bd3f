//! Sessions as readers see them: what `ar log`, `show`, `report` and `status` print. Nothing here writes to a session.

mod session_view;
mod status;

pub use session_view::*;
pub use status::*;
