//! The loop: branch, propose, commit, run, measure, decide, record, settle.
//!
//! Everything below is wired together here, and nothing here prints: what happens is told as
//! [`Event`](crate::domain::Event)s to an [`Observer`].

mod attempt;
mod commands;
mod doctor;
mod errors;
mod files;
mod plan;
mod research;
mod store;
mod tree;
mod turn;
mod view;
mod wait;

pub use commands::branches::{FinalizeTerms, Finalized, Restored};
pub use commands::demo::{create_demo, create_research_demo, demo_terms, research_demo_terms};
pub use commands::import::Import;
pub use commands::new_files::commit_new_files;
pub use commands::repro::{Reproduced, Rerun, Rerunning};
pub use commands::status::{Lookout, inspect_all, inspect_sessions};
pub use commands::stop::{Stopped, StoppingBeside, ask_to_stop, end_run_only, note_stopped};
pub use doctor::examine_start;
pub use doctor::repair;
pub use doctor::{Examination, examine};
pub use errors::{
    AxesError, BranchError, CommandRole, ErrorKind, FailedBaseline, KeepsError, LayoutError, MessageError, NoAgent,
    ResearchError, ScoreError, SessionError, TryError,
};
pub use files::choosing::{Choice, Chosen, choose_session, find_session};
pub use files::conventions::{Conventions, PROGRAM, installed_agents};
pub use files::layout::{SETTINGS_FILE, exclude_pattern};
pub use files::log_end::read_log;
pub use files::reading::{no_session, session_tags};
pub use plan::Plan;
pub use plan::invocation::Drive;
pub use plan::loop_agent::{LoopWish, outer_agent};
pub(crate) use plan::next_session::has_user_commits;
pub use plan::next_session::session_checked_out;
pub use plan::terms::Wanted;
pub use research::commands::ask_subtopics;
pub use research::scoring::{Compared, Scored, ScoredOf, score};
pub use research::terms::RESEARCH_THRESHOLD;
pub use store::jobs::AGENT as AGENT_JOB;
pub use store::memory::open_backlog;
pub use store::messages::{Told, drop_message, tell, waiting_messages};
pub use store::repair::journal_of_remains;
pub use store::requests::{Interrupt, Interrupts};
pub use turn::Session;
pub use turn::late_reviews::review_keeps;
pub use turn::reopening::open_again;
pub use turn::trying::Tried;
pub use view::ratings::rating;
pub use view::saved_artifacts::SavedArtifacts;
pub use view::session_view::SessionView;
pub use wait::escalation::{Driven, Resumed};
pub use wait::events::Observer;
pub use wait::guardians::hear_guards;
