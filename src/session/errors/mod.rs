//! Errors of sessions: kind, text and hint of each. Nothing here reads or writes anything.

mod axes;
mod baseline;
mod branch;
mod command_role;
mod keeps;
mod layout;
mod message;
mod no_agent;
mod research;
mod score;
mod session;
mod texts;
mod trial;
mod verify;

pub use axes::AxesError;
pub use baseline::FailedBaseline;
pub use branch::BranchError;
pub use command_role::CommandRole;
pub use keeps::KeepsError;
pub use layout::LayoutError;
pub(crate) use message::LONGEST;
pub use message::MessageError;
pub use no_agent::NoAgent;
pub use research::ResearchError;
pub use score::ScoreError;
pub use session::{ErrorKind, SessionError};
pub use trial::TryError;
pub use verify::VerifyError;
