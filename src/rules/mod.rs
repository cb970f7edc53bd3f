//! The rules: pure functions over the history and the contract.
//!
//! Nothing here knows of git, files, processes, clocks or terminals; time is an argument.

mod change;
mod decide;
mod history;
mod patrol;
mod recover;
mod report;
mod research;
mod schedule;
mod stop;

#[cfg(test)]
#[path = "tests/sample.rs"]
pub(crate) mod sample;

pub use change::artifacts::{ArtifactGlobs, ExperimentArtifacts, artifacts_to_drop};
pub use change::conventions::{Columns, Suggested, columns_of, own_loop, suggested};
pub use change::disturbance::{Disturbance, changed_text};
pub use change::hazards::{
    candidates, editable_path, entries_into, is_package, looks_in_tree, may_be_code, paths_into, says_where,
    syncs_environment, variables_of_slot, within,
};
pub use change::ignored::ignored_changes;
pub use change::named_files::{NamedFile, files_named, named_files};
pub use change::novelty::{fingerprint, is_same_change, measured_before, outside_cause};
pub use change::pythons::{Python, pythons_of};
pub use change::refs::{RefChanges, compare_refs};
pub use change::scope::{FileEdit, FileTerms, Forbidden, GlobError, LARGEST_ADDED, folders_of, takes_the_place};
pub use change::shadow::{is_bytecode, is_compiled, modules_behind};
pub use change::stall::{question, stall};
pub use change::wording::{described, has_words};
pub use decide::judge::{Measured, axes_without_number, is_empty_baseline, judge};
pub use decide::outcome::{
    Verdict, decide, describe_failure, format_distance, format_gain, format_step, relative_gain,
};
pub use decide::reproduce::{CRASHES_TO_CHECK, CameBack, came_back, failed_again, is_check_due};
pub use decide::rework::{Again, FIXES, REWORKS, Ran, Task, again, again_on_slots};
pub use decide::settle::{BeforeRun, before_run, judge_train, train_tolerance};
pub use decide::train_steps::{Afresh, Car, LineStep, Merged, Standing, Tested, Trial, Why};
pub use decide::trains::Line;
pub use history::counts::{Counts, Ended};
pub use history::directions::{
    UNNAMED_LIMIT, directions_tried, is_tried, near_misses, same_direction, unnamed_in_a_row,
};
pub use history::environment::{environment_changes, environment_differences};
pub use history::find::{Unfound, find_experiment};
pub use history::meant::{SessionSign, session_meant};
pub use history::records::{History, gaps, lost_ids};
pub use history::select::{Candidate, Selection, SortBy, select, select_places};
pub use history::spread::{Elsewhere, Repeated, Spread, spread};
pub use history::why::{is_sound, why_not_kept};
pub use patrol::activity::{Activity, Seen, activity};
pub use patrol::alerts::alerts;
pub use patrol::beat::{is_beat_missing, pause_after_patrol};
pub use patrol::consistency::{OpenFound, OpenTrouble, Tip, judge_open, judge_space, judge_tip, worst};
pub use patrol::sanity::{CLOCK_PATIENCE, clock_jump, is_clock_behind};
pub use patrol::status::{
    LaneStatus, LanesStatus, OpenStatus, OutageStatus, SessionStatus, SleepStatus, UnrecordedTip, lanes_status,
};
pub use patrol::verdict::{
    Driver, GuardAction, Health, PatrolMemory, PatrolVerdict, Thresholds, Watched, interval, patrol,
};
pub use recover::recovery::{Found, LOST_RETRIES, RunFound, Step, recover};
pub use report::by_direction::{DirectionResult, by_direction};
pub use report::chance::how_to_repeat;
pub use report::compare::{Aspect, Compared, MEMORY, compare};
pub use report::evidence::{Evidence, Warning, listed};
pub use report::finalize::{kept_message, kept_steps, squashed_message};
pub use report::jumps::doubtful_gain;
pub use report::misses::{Margin, MarginBy, Miss, margin, misses};
pub use report::summary::{KeptStep, Point, Summary, summarize};
pub use report::time_split::{SHORTEST, TimeSplit, Waits, time_split};
pub use report::timeline::Course;
pub use report::warnings::warnings;
pub use research::artifact::{
    ArtifactPoint, NOVELTY, NOVELTY_WINDOW, artifact_course, artifact_metric, decided_novelty, mean_novelty,
};
pub use research::axes::{
    AxisValues, axis_means, axis_values, bring, brought, composite, composite_number, four_decimals, in_form, product,
    v2, weighted, worst_axis,
};
pub use research::ideas::{by_rank, draw, is_used, same_idea};
pub use research::insights::{keep_lesson, pivot_lesson, summary_lesson, summed_up};
pub use research::is_research::{calls_score, is_research};
pub use research::learned::{Learned, learned};
pub use research::lessons::{Fold, fold, heaviest_first};
pub use research::unranged::unranged;
pub use research::weights::{Fit, Likeness, NoFit, RatedSession, Weighed, Weights, weigh};
pub use schedule::cadence::{LastIteration, Pace, cadence_warning, pace};
pub use schedule::gpus::{
    GPU_MASKS, GPU_PATIENCE, GpuError, GpuPlan, GpuSlot, GpuTurn, any_gpu_turn, gpu_plan, gpu_turn, slot_variables,
    usable_gpus,
};
pub use schedule::retention::{ExperimentLogs, NEWEST_KEPT, logs_to_drop};
pub use schedule::shelving::{Left, Shelved, shelve};
pub use schedule::silence::{GpuLife, LifeSign, Quiet, Silence};
pub use schedule::slot_use::{
    RunOf, Slots, distinct_runs, gain_alone, gpu_hours, is_concurrent, lanes, run_seconds, slots,
};
pub use schedule::space::{spoilt_by_full_disk, too_little_space};
pub use schedule::starts::{
    Bar, Budgets, Call, Capacity, Demand, Expected, OpenAttempt, Place, Plan, Running, Situation, Start, Work,
    call_limit, calls_are_short, calls_that_feed, most_calls, schedule,
};
pub use stop::budget::{End, expected_call, expected_run, nearest_end, stop_before_experiment, stop_for_time};
pub use stop::course_rules::course as ended_by_course;
pub use stop::ending::{StopFacts, reached_goal, stop_before_next};
pub use stop::expenses::Expenses;
pub use stop::ladder_state::LadderState;
pub use stop::loop_agent::{AgentFacts, AgentLack, AgentSetting, LoopAgent, loop_agent};
pub use stop::night::{
    LoopCall, Moment, Night, NightCaps, NightEnd, Tonight, cap_of_tries, session_calls_enough, session_enough,
};
pub use stop::outage::{CallEnd, Patience, SoFar, outage, patience, pause_after_idle, pause_on, refused, retry_pause};
pub use stop::spending::{Reports, idle_limits, priced};
