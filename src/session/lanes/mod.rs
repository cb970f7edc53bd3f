//! Several experiments at once: slots, seats, the line of winners, and what is recorded of them.

mod baseline;
mod calls;
mod gpu_turn;
mod line;
mod merging;
mod recording;
mod recover;
mod scheduler;
mod trees;
mod trial;

pub(super) use trees::SlotSetup;
