//! Verdicts: keep or discard, stale attempts, trains, rework. Nothing here says what runs next.

mod ablate;
mod carried;
mod confirm;
mod control;
mod drift;
mod fresh;
pub(super) mod judge;
mod outcome;
mod repeats;
mod taint;
mod trains;

pub use ablate::{AblatingRun, AblationState, AblationTerms, ablation, most_ablating_runs};
pub use carried::{
    CARRIED_REPEATS, CarriedFate, Change, Effect, UntrackedFile, Without, Writer, always_stays, carried_clause,
    goes_with, set_aside_for, with_companions, without_numbers,
};
pub use confirm::{
    Bars, CONFIRMED, Estimate, KeepBar, MAX_FRESH, MIN_FRESH, NextStep, STRICT, estimate, next_step, passes_screen,
};
pub use control::{control_due, controlled, is_timed, kept_uncontrolled, moved_in_a_row};
pub use drift::{Checks, DriftCheck, Shift};
pub use fresh::{
    Contender, FreshStep, baseline_runs, baseline_with, fresh_groups, fresh_groups_besides, fresh_runs, fresh_step,
    is_confirmed, over_limit, session_noise, with_runs,
};
pub use judge::{Incomparable, Measurement, axes_without_number, is_empty_baseline, refuse_incomparable};
pub use outcome::{
    FIXES, MergedStep, REWORKS, Ran, ReworkCall, ReworkTask, Verdict, before_run, decide, describe_failure,
    format_distance, format_gain, format_step, judge_train, mean_tolerance, next_rework, next_rework_on_slots,
    relative_gain, train_tolerance,
};
pub use repeats::{
    CRASHES_TO_CHECK, CameBack, CheckReason, Noise, Repeats, Sample, Verified, came_back, check_due, failed_again,
    judge_pair, noise, repeat_limit, repeats, to_verify, verified,
};
pub use taint::{Company, GpuLook, OtherGpu, TAINT_REPEATS, taint, tainting};
pub use trains::{Afresh, Car, Incumbent, Line, LineStep, MergedChange, Tested, Trial, Why};
