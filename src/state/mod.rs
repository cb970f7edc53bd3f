//! The state folder `.autoresearch/<tag>/`: contract, journal, event logs, memory files, lock.
//!
//! Everything here is plain files. A power cut leaves the old or the new content, never a mixture. Nothing here knows
//! of git. Only the journal decides something: what follows from itself and the records.

mod artifacts;
mod attempts;
mod copies;
mod escalations;
mod folder;
mod hidden;
mod journal;
mod json;
mod lessons;
mod lines;
mod logs;
mod memory;
mod messages;
mod pauses;
mod presence;
mod turns;
mod user_folder;

pub use artifacts::*;
pub use attempts::*;
pub use copies::*;
pub use escalations::*;
pub use folder::*;
pub use hidden::*;
pub use journal::*;
pub use json::*;
pub use lessons::*;
pub use lines::*;
pub use logs::*;
pub use memory::*;
pub use messages::*;
pub use pauses::*;
pub use presence::*;
pub use turns::*;
pub use user_folder::*;
