//! The loop: slots, seats, the line of winners, and what is recorded of experiments beside each other.

mod baseline;
mod calls;
mod clearance;
mod first_model;
mod gpu_turn;
mod line;
mod merging;
mod recording;
mod recover;
mod reviews;
mod scheduler;
mod trees;
mod trial;

pub(super) use baseline::{check_baseline, forget_repeats, repeat_in_other_slots};
pub(super) use first_model::{leave_other_models, refuse_other_model};
pub(super) use gpu_turn::await_any_gpu;
pub(super) use recording::join_line;
pub(super) use trees::{SlotSetup, open_seat, open_slot, remove_trees};
pub(super) use trial::judge_trial;
