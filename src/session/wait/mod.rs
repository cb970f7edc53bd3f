//! Waiting, and everything that can happen meanwhile: requests, messages, events, pauses, outages, escalations. Nothing here
//! knows an attempt.

mod checkpoints;
mod context;
mod escalation;
mod events;
mod gate;
mod pauses;
mod supervise;

pub(crate) use checkpoints::*;
pub(crate) use context::*;
pub use escalation::*;
pub use events::*;
pub(crate) use gate::*;
pub(crate) use pauses::*;
pub(crate) use supervise::*;
