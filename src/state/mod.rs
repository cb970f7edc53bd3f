//! The state folder `.autoresearch/<tag>/`: contract, journal, event logs, memory files, lock.
//!
//! Everything here is plain files, written so that a power cut leaves the old or the new content, never a mixture.
//! Nothing here knows of git or decides anything.

mod copies;
mod durable;
mod error;
mod folder;
mod held;
mod ideas;
mod journal;
mod lesson_text;
mod lessons;
mod lock;
mod logs;
mod memory;
mod outage;
mod run_logs;
mod standing;
mod stop_request;
mod unsynced;

pub use copies::{COPIED_BYTES, COPIED_FILES, Copies, files_below};
pub use durable::{
    append_line, copy_beside, free_beside, free_name, in_writable_folder, is_odd, json_text, make_writable, move_away,
    move_command, move_no_folder_away, move_odd_away, move_to, open_regular, read_at_most, read_json, read_regular,
    read_tail, remove_left_over, replace_through, write_atomic, write_json, write_json_after, write_json_unsynced,
    write_unsynced,
};
pub use error::{SEE_DOCTOR, StateError, is_disk_full};
pub use folder::{
    Owner, OwnerLock, PROTECTED, SESSIONS_FOLDER, STATE_FILES, SessionFolder, UNTRACKED, lock_all, refuse_held,
};
pub use held::{FileStamp, Held, Mended};
pub use ideas::{Added, Backlog, IdeaFile};
pub use journal::{Aside, Journal, OpenExperiment, OpenOutage, PROGRESS, Status};
pub use lesson_text::LessonDamage;
pub use lessons::{LESSONS, LessonFile, LessonsError};
pub use lock::{APPEND_WAIT, GLANCE, lock_within, open_locked};
pub use logs::{EVENT_LOGS, EventLog, Level};
pub use memory::{DIRECTIONS, FINDINGS, ITERATIONS, Iteration, Memory};
pub use run_logs::{is_compressed, plain_log, read_log_tail};
pub use standing::standing;
pub use unsynced::Unsynced;
