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
mod wall;

#[doc(hidden)]
#[path = "tests/sample.rs"]
pub mod sample;

pub use change::agent_words::stall;
pub use change::conventions::named_files;
pub use change::{
    ArtifactGlobs, Columns, Disturbance, ExperimentArtifacts, FileEdit, FileTerms, Forbidden, GlobError, LARGEST_ADDED,
    NamedFile, PORT, Python, RefChanges, Suggested, UV_LINK_MODE, artifacts_to_drop, candidates, changed_text,
    columns_of, compare_refs, described, editable_path, entries_into, files_named, fingerprint, folders_of, glob,
    has_words, ignored_changes, is_bytecode, is_compiled, is_package, is_same_change, likeliest, links_from_cache,
    looks_in_tree, may_be_code, measured_before, modules_behind, outside_cause, own_loop, paths_into, port_of,
    printed_metric, pythons_of, question, says_where, start_command, suggested, syncs_environment, takes_the_place,
    variables_of_slot, within,
};
pub use decide::judge::judge;
pub use decide::{
    AblatingRun, AblationState, AblationTerms, Afresh, Bars, CARRIED_REPEATS, CONFIRMED, CRASHES_TO_CHECK, CameBack,
    Car, CarriedFate, Change, CheckReason, Checks, Company, Contender, DriftCheck, Effect, Estimate, FIXES, FreshStep,
    GpuLook, Incomparable, Incumbent, KeepBar, Line, LineStep, MAX_FRESH, MIN_FRESH, Measurement, MergedChange,
    MergedStep, NextStep, Noise, OtherGpu, REWORKS, Ran, Repeats, ReworkCall, ReworkTask, STRICT, Sample, Shift,
    TAINT_REPEATS, Tested, Trial, UntrackedFile, Verdict, Verified, Why, Without, Writer, ablation, always_stays,
    axes_without_number, baseline_runs, baseline_with, before_run, came_back, carried_clause, check_due, control_due,
    controlled, decide, describe_failure, estimate, failed_again, format_distance, format_gain, format_step,
    fresh_groups, fresh_groups_besides, fresh_runs, fresh_step, goes_with, is_confirmed, is_empty_baseline, is_timed,
    judge_pair, judge_train, kept_uncontrolled, mean_tolerance, most_ablating_runs, moved_in_a_row, next_rework,
    next_rework_on_slots, next_step, noise, over_limit, passes_screen, refuse_incomparable, relative_gain,
    repeat_limit, repeats, session_noise, set_aside_for, taint, tainting, to_verify, train_tolerance, verified,
    with_companions, with_runs, without_numbers,
};
pub use history::comparable::spread;
pub use history::select::select;
pub use history::{
    Candidate, CountedOutcome, Counts, History, OtherBaseline, Repeated, Selection, SessionSign, SortBy, Spread,
    UNNAMED_LIMIT, Unfound, directions_tried, environment_changes, environment_differences, find_experiment, gaps,
    is_sound, is_tried, lost_ids, near_misses, same_direction, select_places, session_meant, unnamed_in_a_row,
    why_not_kept,
};
pub use patrol::watching::{activity, alerts};
pub use patrol::{
    Activity, AttemptStatus, CLOCK_PATIENCE, DriverClaim, GuardianAction, Health, LaneStatus, LanesStatus,
    Observations, OpenFound, OpenTrouble, OtherHost, OutageStatus, Ownership, PatrolFacts, PatrolMemory, PatrolVerdict,
    SessionDriver, SleepStatus, Thresholds, Tip, UnrecordedTip, clock_jump, interval, is_beat_missing, is_clock_behind,
    judge_open, judge_space, judge_tip, lanes_status, ownership, patrol, pause_after_patrol, worst,
};
pub use recover::{
    AttemptFacts, CACHED, EngineWord, Fate, JOB_START, JobState, KnownJob, LOST_RETRIES, LossCause, NOT_CACHED,
    RunFound, Step, WrittenExit, fate, next_pause, recover, slurm_duration, slurm_limit, slurm_refused,
};
pub use report::compare::{compare, confounds, confounds_of_keep};
pub use report::patterns::{by_direction, by_file, expectations};
pub use report::summary::{keep_hours, misses, time_split};
pub use report::warnings::warnings;
pub use report::{
    Aspect, Compared, Confound, DirectionResult, Evidence, Expectation, FileResult, KeepHours, KeptStep, MEMORY,
    Margin, MarginBy, Miss, Patterns, Point, Quantity, SHORTEST, SessionFacts, Summary, Tally, TimeSplit, WallCounts,
    Warning, doubted_numbers, doubtful_gain, how_to_repeat, kept_message, kept_steps, listed, margin, squashed_message,
    summarize,
};
pub use research::axes::{is_research, unranged};
pub use research::memory::learned;
pub use research::{
    ArtifactPoint, AxisValues, Fit, Learned, Likeness, NOVELTY, NOVELTY_WINDOW, NoFit, RatedSession, Weighed, Weights,
    artifact_course, artifact_metric, axis_means, axis_values, bring, brought, by_rank, calls_score, composite,
    composite_number, decided_novelty, draw, fold, four_decimals, idea_key, in_form, is_used, keep_lesson,
    mean_novelty, newest_first, offered_state, pivot_lesson, product, summary_lesson, summed_up, v2, weigh, weighted,
    worst_axis,
};
pub use schedule::{
    AttemptPlace, Bar, Budgets, BusySlot, CallStart, Capacity, Demand, Durations, ExperimentLogs, GPU_MASKS,
    GPU_PATIENCE, GpuLife, GpuPlan, GpuSlot, GpuTurn, LastIteration, LifeSign, NEWEST_KEPT, OpenAtEnd, Pace,
    PendingAttempt, Quiet, RunOf, Shelved, Silence, Situation, SlotWork, Slots, Start, Starts, any_gpu_turn,
    cadence_warning, call_limit, calls_are_short, calls_that_feed, distinct_runs, gain_alone, gpu_hours, gpu_plan,
    gpu_turn, is_concurrent, is_full_of_log, lanes, logs_to_drop, most_calls, pace, run_seconds, schedule, shelve,
    slot_variables, slots, spoilt_by_full_disk, too_little_space, usable_gpus,
};
pub use stop::loop_agent::loop_agent;
pub use stop::outage::outage;
pub use stop::{
    AgentFacts, AgentLack, AgentSetting, CallEnd, Expenses, LadderState, LoopAgent, LoopCall, LoopEnd, Moment, Night,
    NightCaps, NightEnd, Patience, Reports, SoFar, StopFacts, Tonight, cap_of_tries, course as ended_by_course,
    expected_call, expected_run, idle_limit, idle_limits, is_verified_after, kept_to_verify, nearest_end, patience,
    pause_after_idle, pause_on, priced, reached_goal, refused, retry_pause, session_calls_enough, session_enough,
    stop_before_experiment, stop_before_next, stop_for_time, verified_without_end,
};
pub use wall::{Access, CallMounts, JobPlaces, Mount, Places, Wall, WalledRole, protected_mounts, wall};
