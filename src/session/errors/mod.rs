//! Errors of sessions: kind, text and hint of each. Nothing here reads or writes anything.

mod experiments;
mod layout;
mod session;
mod settings;

pub use experiments::{BranchError, FailedBaseline, KeepsError, TryError, VerifyError};
pub use layout::{CommandRole, LayoutError, NoAgent};
pub use session::{ErrorKind, SessionError};
pub(crate) use settings::LONGEST;
pub use settings::{AxesError, MessageError, ResearchError, ScoreError};
