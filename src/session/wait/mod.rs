//! Waiting, and everything that can happen meanwhile: requests, messages, events, pauses, outages, escalations. Nothing here
//! knows an attempt.

mod checkpoints;
mod escalation;
mod events;
mod gate;
mod guardians;
mod pauses;
mod shared;
mod supervise;
mod surroundings;

pub(crate) use checkpoints::write_in_folder;
pub use escalation::{Driven, Resumed};
pub(crate) use escalation::{escalate_agent, escalate_error, needed, report_unopened, trouble_of};
pub use events::Observer;
pub(crate) use events::{Alerted, Events};
pub(crate) use gate::{CallPermit, await_call_permit, await_gpus, gate_of_call, gate_of_run};
pub use guardians::hear_guardians;
pub(crate) use guardians::{guardian_lines, interval_of, register, take_in_guardians};
pub(crate) use pauses::{Began, PauseOutcome, wait_out};
pub(crate) use shared::{Heartbeat, Shared};
pub(crate) use supervise::{Deadline, Exited, WaitEnd, Waiter};
pub(crate) use surroundings::Machine;
