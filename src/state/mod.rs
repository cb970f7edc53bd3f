//! The state folder `.autoresearch/<tag>/`: contract, journal, event logs, memory files, lock.
//!
//! Everything here is plain files. A power cut leaves the old or the new content, never a mixture. Nothing here knows
//! of git. Only the journal decides something: what follows from itself and the records.

mod against_records;
mod artifacts;
mod calls;
mod checkpoints;
mod copies;
mod error;
mod escalation_files;
mod escalations;
mod folder;
mod guardian_files;
mod ideas;
mod journal;
mod json;
mod lessons;
mod lines;
mod logs;
mod memory;
mod messages;
mod open_run;
mod pauses;
mod presence;
mod ratings;
mod register;
mod results;
mod run_logs;
mod sleep;
mod stop_request;
mod stopping;
mod tree_state;
mod turns;
mod user_folder;
mod volatile_folder;
mod winners;

pub use artifacts::{BeforeRun, Matching, SetAside, Taken, artifacts_aside, forget_artifacts_of};
pub use calls::Calls;
pub use checkpoints::Checkpoints;
pub use copies::{COPIED_BYTES, COPIED_FILES, Copies, files_below};
pub use error::{SEE_DOCTOR, StateError};
pub use escalation_files::EscalationFiles;
pub use escalations::Escalations;
pub use folder::{
    CARRIED, Owner, OwnerLock, PROTECTED, SESSIONS_FOLDER, STATE_FILES, SessionFolder, UNTRACKED, lock_all, refuse_held,
};
pub use guardian_files::{GuardianFiles, GuardianLine, RESIDENT, guardian_folder, has_guardian, last_patrol};
pub use ideas::{Added, Backlog, IdeaFile};
pub use journal::{Journal, OpenAttempt, OpenExperiment, Ported};
pub use json::{PROGRESS, json_text, read_json, write_json, write_json_after, write_json_unsynced};
pub use lessons::{LESSONS, LessonFile};
pub use lines::{RepairedLines, drop_damaged_lines};
pub use logs::{EVENT_LOGS, EventLog, HEARTBEAT_LOG, Level, LoggedEnd, WORK_LOG};
pub use memory::{FINDINGS, ITERATIONS, Iteration, MEMORY_FILES, Memory};
pub use messages::{HeardMessages, MessageFile, MessageKey, MessageMarks};
pub use open_run::{MOST_EVICTIONS, OpenRun};
pub use pauses::{OpenOutage, Pauses};
pub use presence::{Opener, Presence};
pub use ratings::{RatedLine, add_rating, read_ratings};
pub use register::{Register, Registered};
pub use results::Results;
pub use run_logs::{further_runs, plain_log, read_log_tail};
pub use sleep::Sleep;
pub use stopping::{Stopping, StoppingBeside};
pub use tree_state::{Aside, TreeState};
pub use turns::Rest;
pub use user_folder::user_folder;
