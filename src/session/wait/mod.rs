//! Waiting, and everything that can happen meanwhile: requests, messages, events, pauses, outages, escalations. Nothing here
//! knows an attempt.

mod checkpoints;
mod clearance;
mod escalation;
mod events;
mod gate;
mod gpu_turn;
mod guardians;
mod hooks;
mod log_keeping;
mod new_messages;
mod outage;
mod shared;
mod sleeping;
mod supervise;
mod surroundings;
mod times;

pub(crate) use checkpoints::write_in_folder;
pub(crate) use clearance::{Clearance, clear};
pub use escalation::{Driven, Resumed};
pub(crate) use escalation::{escalate_agent, escalate_error, needed, report_unopened, trouble_of};
pub(crate) use events::Events;
pub use events::Observer;
pub(crate) use gate::{gate_of_call, gate_of_run};
pub(crate) use gpu_turn::await_gpus;
pub use guardians::hear_guardians;
pub(crate) use guardians::{guardian_lines, interval_of, register, take_in_guardians};
pub(crate) use hooks::Alerted;
pub(crate) use outage::wait_out;
pub(crate) use shared::{Heartbeat, Shared};
pub(crate) use sleeping::Paced;
pub(crate) use supervise::{Deadline, Ending, Exited, Waiter};
pub(crate) use surroundings::Place;
pub(crate) use times::Times;
