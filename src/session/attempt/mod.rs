//! The stages of an attempt: call, check, run, guards, review, line of winners, record. Nothing here decides what comes next.

mod calling;
mod change_checks;
mod confirming;
mod during_call;
mod incumbent_check;
mod left_over;
mod lifecycle;
mod line;
mod measuring;
mod proposing;
mod recording;
mod reviewing;
mod reworking;
mod running;
mod searching;

pub(crate) use calling::Purpose;
pub(crate) use incumbent_check::{RunAgain, to_base};
pub(crate) use left_over::{
    await_files, end_first_jobs, end_further_runs, end_jobs, end_late_review, settle_left_artifacts,
};
pub(crate) use lifecycle::{
    Attempted, MeasuredChange, RunningChange, Stage, facts_of, job_of, leave_as_idea, pick_up, take_steps,
};
pub(crate) use line::{Chains, close_trials, discard, find_entry, open_trial, settle_line};
pub(crate) use measuring::{MeasuringRun, metric_file_stamp, read_metric_file};
pub(crate) use proposing::{Called, ask_for_text, call_again, commit_change, open_call, propose, text_due};
pub(crate) use reviewing::{ReviewCall, review, review_tree, to_review};
pub(crate) use reworking::make_fresh;
