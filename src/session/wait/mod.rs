//! Waiting, and everything that can happen meanwhile: requests, messages, events, pauses, outages, escalations. Nothing here
//! knows an attempt.

pub(super) mod checkpoints;
pub(super) mod clearance;
pub(super) mod escalation;
pub(super) mod events;
pub(super) mod gate;
pub(super) mod gpu_turn;
pub(super) mod guardians;
pub(super) mod hooks;
pub(super) mod log_keeping;
pub(super) mod new_messages;
pub(super) mod outage;
pub(super) mod shared;
pub(super) mod sleeping;
pub(super) mod supervise;
pub(super) mod surroundings;
pub(super) mod times;
