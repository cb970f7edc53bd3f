//! Waiting, and everything that can happen meanwhile: requests, messages, events, pauses, outages, escalations. Nothing here
//! knows an attempt.

mod checkpoints;
mod context;
mod escalation;
mod events;
mod gate;
mod pauses;
mod supervise;

pub(crate) use checkpoints::write_in_folder;
pub(crate) use context::{Heartbeat, SessionContext};
pub use escalation::{Driven, Resumed, hear_guardians};
pub(crate) use escalation::{
    escalate_agent, escalate_error, guardian_lines, interval_of, needed, register, report_unopened, take_in_guardians,
    trouble_of,
};
pub use events::Observer;
pub(crate) use events::{Alerted, Events};
pub(crate) use gate::{Machine, await_call_permit, await_gpus, gate_of_call, gate_of_run};
pub(crate) use pauses::{Began, PauseOutcome, wait_out};
pub(crate) use supervise::{Deadline, Exited, WaitEnd, Waiter};
