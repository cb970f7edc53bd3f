//! What an invocation is to do, decided before anything is written: session, terms, layout, agent, hazards.

pub(super) mod hazards;
pub(super) mod home;
pub(super) mod invocation;
pub(super) mod loop_agent;
pub(super) mod next_session;
pub(super) mod nights;
pub(super) mod placing;
pub(super) mod terms;

pub use invocation::Plan;
