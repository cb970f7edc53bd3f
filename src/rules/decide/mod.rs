//! Verdicts: keep or discard, stale attempts, trains, rework. Nothing here says what runs next.

pub(super) mod judge;
pub(super) mod limits;
pub(super) mod outcome;
pub(super) mod reproduce;
pub(super) mod rework;
pub(super) mod settle;
pub(super) mod simplicity;
pub(super) mod train_steps;
pub(super) mod trains;
