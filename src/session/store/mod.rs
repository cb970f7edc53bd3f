//! What all attempts of a session share: refs, journal, rows, memory files, notices. [`Store`] alone writes it; nothing here
//! waits, and nothing knows a working tree.

mod expectations;
mod jobs;
pub(super) mod open_attempt;
pub(super) mod requests;
mod writer;

pub(crate) use expectations::{Detection, Expected, Stamps};
pub use jobs::AGENT;
pub(crate) use jobs::{
    REVIEW, RUN, RUN_FILES, TREE_BEFORE, Walls, clear_run_folder, end_of_log, end_programs_in, guard_name, job_names,
    job_place, last_failed_log, listen, own_names, run_name, run_variables, watch_programs, watch_programs_until,
    writes_log,
};
pub(crate) use open_attempt::{
    Texts, add_said, describe, first_fresh_seed, is_being_replaced, journal_of_remains, left_at_tip, read_tag,
    trouble_text,
};
pub use requests::{Interrupt, Interrupts, SentMessage, drop_message, tell, waiting_messages};
pub(crate) use requests::{
    Listener, Notices, close_escalation, end_wait, forget_solved, is_reported, note_changed, receive_messages,
    remove_report, remove_reports, write_report,
};
pub use writer::open_backlog;
pub(crate) use writer::{Files, NO_KEEP, Store, memories, note_offer};
