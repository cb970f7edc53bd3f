//! Verdicts: keep or discard, stale attempts, trains, rework. Nothing here says what runs next.

pub(super) mod judge;
mod limits;
mod outcome;
mod reproduce;
mod rework;
mod settle;
mod simplicity;
mod train_steps;
mod trains;

pub use judge::{Measured, axes_without_number, is_empty_baseline};
pub use outcome::{Verdict, decide, describe_failure, format_distance, format_gain, format_step, relative_gain};
pub use reproduce::{CRASHES_TO_CHECK, CameBack, came_back, failed_again, is_check_due};
pub use rework::{Again, FIXES, REWORKS, Ran, Task, again, again_on_slots};
pub use settle::{BeforeRun, before_run, judge_train, train_tolerance};
pub use train_steps::{Afresh, Car, LineStep, Merged, Standing, Tested, Trial, Why};
pub use trains::Line;
