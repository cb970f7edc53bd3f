//! The state folder `.autoresearch/<tag>/`: contract, journal, event logs, memory files, lock.
//!
//! Everything here is plain files. A power cut leaves the old or the new content, never a mixture. Nothing here knows
//! of git. Only the journal decides something: what follows from itself and the records.

mod artifacts;
mod attempts;
mod copies;
mod escalations;
mod folder;
mod journal;
mod json;
mod lessons;
mod lines;
mod logs;
mod memory;
mod messages;
mod pauses;
mod presence;
mod turns;
mod user_folder;

pub use artifacts::{BeforeRun, Matching, SetAside, TakenArtifacts, artifacts_aside, forget_artifacts_of};
pub use attempts::{Aside, TreeState};
pub use copies::{COPIED_BYTES, COPIED_FILES, Copies, files_below};
pub use escalations::{EscalationFiles, Escalations};
pub use folder::{
    CARRIED, Owner, OwnerLock, PROTECTED, SESSIONS_FOLDER, STATE_FILES, SessionFolder, UNTRACKED, lock_all, refuse_held,
};
pub use journal::Journal;
pub use json::{
    PROGRESS, SEE_DOCTOR, StateError, json_text, read_json, write_json, write_json_after, write_json_unsynced,
};
pub use lessons::{LESSONS, LessonFile};
pub use lines::RepairedLines;
pub use logs::{
    EVENT_LOGS, EventLog, HEARTBEAT_LOG, Level, LoggedEnd, WORK_LOG, further_runs, plain_log, read_log_tail,
};
pub use memory::{Added, Backlog, FINDINGS, ITERATIONS, IdeaFile, Iteration, MEMORY_FILES, Memory};
pub use messages::{HeardMessages, MessageFile, MessageKey, MessageMarks, Stopping, StoppingBeside};
pub use pauses::{Checkpoints, OpenOutage, Pauses};
pub use presence::{Opener, Presence, Sleep};
pub use turns::{Calls, Rest, Results};
pub use user_folder::{
    GuardianFiles, GuardianLine, RESIDENT, RatedLine, Register, Registered, add_rating, guardian_folder, has_guardian,
    last_patrol, read_ratings, user_folder,
};
