//! The rules: pure functions over the history and the contract.
//!
//! Nothing here knows of git, files, processes, clocks or terminals; time comes in as an argument.

mod activity;
mod alerts;
mod budget;
mod decide;
mod directions;
mod doctor;
mod environment;
mod history;
mod ideas;
mod insights;
mod ladder;
mod lessons;
mod limits;
mod novelty;
mod outage;
mod recovery;
mod refs;
mod reset;
mod retention;
mod rework;
mod scope;
mod simplicity;
mod space;
mod stall;
mod stop;
mod summary;
mod tools;

pub use activity::{Activity, Seen, activity};
pub use alerts::alerts;
pub use budget::{End, expected_call, expected_run, nearest_end, stop_for_time};
pub use decide::{Verdict, decide, describe_failure, format_distance, format_gain, relative_gain};
pub use directions::{directions_tried, near_misses, same_direction};
pub use doctor::{OpenFound, OpenTrouble, Tip, gaps, judge_open, judge_space, judge_tip, worst};
pub use environment::{environment_changes, environment_differences};
pub use history::History;
pub use ideas::{draw, same_idea};
pub use insights::{keep_lesson, pivot_lesson, summary_lesson, summed_up};
pub use ladder::{Turn, climb, climb_all, turn_of};
pub use lessons::{Fold, fold, heaviest_first};
pub use limits::unmet;
pub use novelty::{fingerprint, measured_before};
pub use outage::{CallEnd, Patience, SoFar, outage, patience};
pub use recovery::{Found, LOST_RETRIES, RunFound, Step, recover};
pub use refs::{RefChanges, compare_refs};
pub use retention::{ExperimentLogs, NEWEST_KEPT, logs_to_drop};
pub use rework::{Again, FIXES, REWORKS, Task, again};
pub use scope::{FileEdit, FileTerms, GlobError, LARGEST_ADDED};
pub use simplicity::{Rivals, decide_by_simplicity};
pub use space::{spoilt_by_full_disk, too_little_room};
pub use stall::{question, stall};
pub use stop::{NO_CHANGE_LIMIT, reached_goal, stop_before_next};
pub use summary::{KeptStep, Point, Summary, summarize};
pub use tools::{Tool, tools_of};
