//! The stages of an attempt: call, check, run, guards, review, line of winners, record. Nothing here decides what comes next.

pub(super) mod agent_commits;
pub(super) mod agent_training;
pub(super) mod artifacts;
pub(super) mod calling;
pub(super) mod change_checks;
pub(super) mod disturbance;
pub(super) mod exploring;
pub(super) mod guarding;
pub(super) mod incumbent_check;
pub(super) mod joining;
pub(super) mod left_over;
pub(super) mod lifecycle;
pub(super) mod line;
pub(super) mod measuring;
pub(super) mod merging;
pub(super) mod proposing;
pub(super) mod recording;
pub(super) mod reviewing;
pub(super) mod reviews;
pub(super) mod reworking;
pub(super) mod rounds;
pub(super) mod run_log;
pub(super) mod running;
pub(super) mod searching;
pub(super) mod seat_calls;
pub(super) mod trial;

pub(super) use lifecycle::{Attempt, Attempted};
