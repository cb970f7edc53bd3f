//! What all attempts of a session share: refs, journal, rows, memory files, notices. [`Store`] alone writes it; nothing here
//! waits, and nothing knows a working tree.

pub(super) mod contradiction;
mod expectations;
mod fresh_tags;
mod jobs;
mod log_excerpt;
mod memory;
mod messages;
pub(super) mod notices;
mod open_attempt;
mod owner;
mod repair;
mod requests;
mod trouble_report;
mod walls;
mod watchdog;
mod writer;

pub(crate) use contradiction::trouble_text;
pub(crate) use expectations::{Detection, Expected, Stamps};
pub(crate) use fresh_tags::{first_fresh_seed, read_tag, record_verified, write_tag};
pub use jobs::AGENT;
pub(crate) use jobs::{
    REVIEW, RUN, RUN_FILES, TREE_BEFORE, clear_run_folder, guard_name, job_names, job_place, run_name, run_variables,
};
pub(crate) use log_excerpt::{end_of_log, last_failed_log};
pub use memory::open_backlog;
pub(crate) use memory::{Files, memories, note_offer};
pub(crate) use messages::{ReceivedMessages, receive_messages};
pub use messages::{Told, drop_message, tell, waiting_messages};
pub(crate) use notices::{Notices, note_changed};
pub(crate) use open_attempt::{Texts, add_said, commit_of, describe, draft_of, is_being_replaced};
pub use repair::journal_of_remains;
pub(crate) use repair::{Remains, rebuilt_journal};
pub(crate) use requests::Listener;
pub use requests::{Interrupt, Interrupts};
pub(crate) use trouble_report::{
    close_escalation, end_wait, forget_solved, is_reported, remove_report, remove_reports, write_report,
};
pub(crate) use walls::{Walls, own_names, writes_log};
pub(crate) use watchdog::{end_programs_in, listen, watch_programs, watch_programs_until};
pub(crate) use writer::{NO_KEEP, Store, Written};
