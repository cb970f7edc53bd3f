//! The loop: branch, propose, commit, run, measure, decide, record, settle.
//!
//! Everything below is wired together here, and nothing here prints: what happens is told as
//! [`Event`](crate::domain::Event)s to an [`Observer`].

mod attempt;
mod commands;
mod doctor;
mod errors;
mod files;
mod handlers;
mod plan;
mod research;
mod run_loop;
mod store;
mod view;
mod wait;

pub use commands::*;
pub use doctor::*;
pub use errors::{Adopting, CommandRole, FailedBaseline, NoAgent, SessionError, TryError, VerifyError};
pub use files::{
    Choice, Chosen, Conventions, PROGRAM, SEED_LINE, SETTINGS_FILE, await_other_host, choose_session, exclude_pattern,
    find_session, installed_agents, is_behind_wall, no_session, read_log, refuse_tracked, session_tags,
    suggested_by_scripts, takes_seed,
};
pub(crate) use files::{opened_elsewhere, read_history};
pub use plan::*;
pub use research::*;
pub use run_loop::{Session, Tried, open_again, review_keeps};
pub(crate) use store::journal_of_remains;
pub use store::{
    AGENT as AGENT_JOB, Interrupt, Interrupts, SentMessage, drop_message, open_backlog, tell, waiting_messages,
};
pub use view::*;
pub use wait::{Driven, Observer, Resumed, hear_guardians};
