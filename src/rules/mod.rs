//! The rules: pure functions over the history and the contract.
//!
//! Nothing here knows of git, files, processes, clocks or terminals; time is an argument.

mod activity;
mod alerts;
mod artifact;
mod artifacts;
mod axes;
mod beat;
mod budget;
mod by_direction;
mod cadence;
mod chance;
mod compare;
mod conventions;
mod counts;
mod course;
mod decide;
mod directions;
mod disturbance;
mod doctor;
mod doubts;
mod environment;
mod evidence;
mod expenses;
mod finalize;
mod find;
mod gpus;
mod hazards;
mod history;
mod ideas;
mod ignored;
mod insights;
mod judge;
mod jumps;
mod ladder;
mod ladder_state;
mod lanes;
mod learned;
mod lessons;
mod limits;
mod loop_agent;
mod meant;
mod median;
mod misses;
mod named_files;
mod night;
mod novelty;
mod outage;
mod patrol;
mod pythons;
mod recovery;
mod refs;
mod reproduce;
mod research;
mod reset;
mod retention;
mod rework;
mod ridge;
#[cfg(test)]
#[path = "tests/sample.rs"]
pub(crate) mod sample;
mod sanity;
mod schedule;
mod scope;
mod select;
mod settle;
mod shadow;
mod shelving;
mod silence;
mod simplicity;
mod space;
mod spending;
mod spread;
mod stall;
mod status;
mod stop;
mod stop_rules;
mod summary;
mod time_split;
mod train_steps;
mod trains;
mod unranged;
mod warnings;
mod waste;
mod weights;
mod why;
mod wording;

pub use activity::{Activity, Seen, activity};
pub use alerts::alerts;
pub use artifact::{
    ArtifactPoint, NOVELTY, NOVELTY_WINDOW, artifact_course, artifact_metric, decided_novelty, mean_novelty,
};
pub use artifacts::{ArtifactGlobs, ExperimentArtifacts, artifacts_to_drop};
pub use axes::{
    AxisValues, axis_means, axis_values, bring, brought, composite, composite_number, four_decimals, in_form, product,
    v2, weighted, worst_axis,
};
pub use beat::{is_beat_missing, pause_after_patrol};
pub use budget::{End, expected_call, expected_run, nearest_end, stop_before_experiment, stop_for_time};
pub use by_direction::{DirectionResult, by_direction};
pub use cadence::{LastIteration, Pace, cadence_warning, pace};
pub use chance::how_to_repeat;
pub use compare::{Aspect, Compared, MEMORY, compare};
pub use conventions::{Columns, Suggested, columns_of, own_loop, suggested};
pub use counts::{Counts, Ended};
pub use course::Course;
pub use decide::{Verdict, decide, describe_failure, format_distance, format_gain, format_step, relative_gain};
pub use directions::{UNNAMED_LIMIT, directions_tried, is_tried, near_misses, same_direction, unnamed_in_a_row};
pub use disturbance::{Disturbance, changed_text};
pub use doctor::{OpenFound, OpenTrouble, Tip, gaps, judge_open, judge_space, judge_tip, worst};
pub use environment::{environment_changes, environment_differences};
pub use evidence::{Evidence, Warning, listed};
pub use expenses::Expenses;
pub use finalize::{kept_message, kept_steps, squashed_message};
pub use find::{Unfound, find_experiment};
pub use gpus::{
    GPU_MASKS, GPU_PATIENCE, GpuError, GpuPlan, GpuSlot, GpuTurn, any_gpu_turn, gpu_plan, gpu_turn, slot_variables,
    usable_gpus,
};
pub use hazards::{
    candidates, editable_path, entries_into, is_package, looks_in_tree, may_be_code, paths_into, says_where,
    syncs_environment, variables_of_slot, within,
};
pub use history::{History, lost_ids};
pub use ideas::{by_rank, draw, is_used, same_idea};
pub use ignored::ignored_changes;
pub use insights::{keep_lesson, pivot_lesson, summary_lesson, summed_up};
pub use judge::{Measured, NO_NUMBER_FOR, is_empty_baseline, judge};
pub use jumps::doubtful_gain;
pub use ladder_state::LadderState;
pub use lanes::{RunOf, Slots, distinct_runs, gain_alone, gpu_hours, is_concurrent, lanes, run_seconds, slots};
pub use learned::{Learned, learned};
pub use lessons::{Fold, fold, heaviest_first};
pub use loop_agent::{AgentFacts, AgentLack, AgentSetting, LoopAgent, loop_agent};
pub use meant::{SessionSign, session_meant};
pub use misses::{Margin, MarginBy, Miss, margin, misses};
pub use named_files::{NamedFile, files_named, named_files};
pub use night::{
    LoopCall, Moment, Night, NightCaps, NightEnd, SESSION_FULL, Tonight, cap_of_tries, session_calls_enough,
    session_enough,
};
pub use novelty::{fingerprint, is_same_change, measured_before, outside_cause};
pub use outage::{CallEnd, Patience, SoFar, outage, patience, pause_after_idle, pause_on, refused, retry_pause};
pub use patrol::{Driver, GuardAction, Health, PatrolMemory, PatrolVerdict, Thresholds, Watched, interval, patrol};
pub use pythons::{Python, pythons_of};
pub use recovery::{Found, LOST_RETRIES, RunFound, Step, recover};
pub use refs::{RefChanges, compare_refs, is_of_experiment};
pub use reproduce::{CRASHES_TO_CHECK, CameBack, came_back, failed_again, is_check_due};
pub use research::{calls_score, is_research};
pub use retention::{ExperimentLogs, NEWEST_KEPT, logs_to_drop};
pub use rework::{Again, FIXES, REWORKS, Ran, Task, again, again_on_slots};
pub use sanity::{CLOCK_PATIENCE, clock_jump, is_clock_behind};
pub use schedule::{
    Bar, Budgets, Call, Capacity, Demand, Expected, OpenAttempt, Place, Plan, Running, Situation, Start, Work,
    call_limit, calls_are_short, calls_that_feed, most_calls, schedule,
};
pub use scope::{FileEdit, FileTerms, Forbidden, GlobError, LARGEST_ADDED, folders_of, takes_the_place};
pub use select::{Candidate, Selection, SortBy, select, select_places};
pub use settle::{BeforeRun, before_run, judge_train, train_tolerance};
pub use shadow::{is_bytecode, is_compiled, modules_behind};
pub use shelving::{Left, Shelved, shelve};
pub use silence::{GpuLife, LifeSign, Quiet, Silence};
pub use space::{spoilt_by_full_disk, too_little_room};
pub use spending::{Reports, idle_limits, priced};
pub use spread::{Elsewhere, Repeated, Spread, spread};
pub use stall::{question, stall};
pub use status::{
    LaneStatus, LanesStatus, OpenStatus, OutageStatus, SessionStatus, SleepStatus, UnrecordedTip, lanes_status,
};
pub use stop::{NO_CHANGE, StopFacts, reached_goal, stop_before_next};
pub use stop_rules::course as ended_by_course;
pub use summary::{KeptStep, Point, Summary, summarize};
pub use time_split::{SHORTEST, TimeSplit, Waits, time_split};
pub use train_steps::{Afresh, Car, LineStep, Merged, Standing, Tested, Trial, Why};
pub use trains::Line;
pub use unranged::unranged;
pub use warnings::warnings;
pub use weights::{Fit, Likeness, NoFit, RatedSession, Weighed, Weights, weigh};
pub use why::{is_sound, why_not_kept};
pub use wording::{described, has_words};
