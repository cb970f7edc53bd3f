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
mod run_loop;
mod store;
mod tree;
mod view;
mod wait;

pub use commands::{
    Ablation, FinalizeTerms, Finalized, FreshNews, FreshTerms, Import, Reproduced, Rerun, Rerunning, Restored,
    StatusWatcher, Stopped, StoppingBeside, VerifiedSide, ablate, ask_to_stop, commit_new_files, create_demo,
    create_research_demo, demo_terms, end_run_only, inspect_all, inspect_sessions, note_stopped, probe,
    research_demo_terms, verify,
};
pub use doctor::{Examination, examine, examine_job, examine_start, repair};
pub use errors::{Adopting, CommandRole, FailedBaseline, NoAgent, SessionError, TryError, VerifyError};
pub use files::{
    Choice, Chosen, Conventions, PROGRAM, SEED_LINE, SETTINGS_FILE, await_other_host, choose_session, exclude_pattern,
    find_session, installed_agents, is_behind_wall, names_seed, no_session, read_log, refuse_tracked, session_tags,
    suggested_by_scripts,
};
pub(crate) use files::{opened_elsewhere, read_history};
pub(crate) use plan::has_user_commits;
pub use plan::{Drive, LoopWish, Plan, Wanted, outer_agent, session_checked_out};
pub use research::{ComparedState, RESEARCH_THRESHOLD, Scored, ScoredOf, ask_subtopics, score};
pub use run_loop::{Session, Tried, open_again, review_keeps};
pub(crate) use store::journal_of_remains;
pub use store::{
    AGENT as AGENT_JOB, Interrupt, Interrupts, SentMessage, drop_message, open_backlog, tell, waiting_messages,
};
pub use view::{SavedArtifacts, SessionView, rating};
pub use wait::{Driven, Observer, Resumed, hear_guardians};
