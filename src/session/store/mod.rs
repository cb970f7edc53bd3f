//! What all attempts of a session share: refs, journal, rows, memory files, notices. [`Store`] alone writes it; nothing here
//! waits, and nothing knows a working tree.

pub(super) mod contradiction;
pub(super) mod earlier_logs;
pub(super) mod expectations;
pub(super) mod jobs;
pub(super) mod log_excerpt;
pub(super) mod memory;
pub(super) mod messages;
pub(super) mod notices;
pub(super) mod open_attempt;
pub(super) mod repair;
pub(super) mod requests;
pub(super) mod trouble_report;
pub(super) mod watchdog;
pub(super) mod writer;

pub(super) use writer::Store;
