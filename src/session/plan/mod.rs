//! The plan of an invocation, made before anything is written: session, terms, layout, agent, hazards.

mod invocation;
mod next_session;
mod placing;
mod terms;

pub use invocation::*;
pub use next_session::*;
pub(crate) use placing::*;
pub use terms::*;
