//! What is read before a session is open: the places of `ar`'s files, the sessions of a repository, conventions, logs.
//! Nothing here writes to a session.

mod conventions;
mod layout;
mod reading;
mod run_files;
mod sessions;

pub use conventions::*;
pub use layout::*;
pub use reading::*;
pub use run_files::*;
pub use sessions::*;
