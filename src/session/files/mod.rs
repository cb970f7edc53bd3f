//! What is read before a session is open: the places of `ar`'s files, the sessions of a repository, conventions, logs.
//! Nothing here writes to a session.

mod choosing;
mod command_lines;
mod conventions;
mod disk_space;
mod fetched;
mod ignored;
mod layout;
mod log_follower;
mod metric_files;
mod other_sessions;
mod ownership;
mod program_path;
mod read_cache;
mod reading;
mod refs;
mod seed;
mod sessions_folder;

pub(crate) use choosing::session_there;
pub use choosing::{Choice, Chosen, choose_session, find_session};
pub(crate) use command_lines::{check_command, program_of};
pub(crate) use conventions::read_program;
pub use conventions::{Conventions, PROGRAM, installed_agents, suggested_by_scripts};
pub(crate) use disk_space::{folder_with_space, full_elsewhere, has_space, refuse_full, refuse_spoilt};
pub(crate) use fetched::is_fetched;
pub(crate) use ignored::{IgnoredFiles, ignored_inputs, stamp};
pub use layout::refuse_tracked;
pub(crate) use layout::{INDEX_BEFORE, REPRO_FOLDER, UNFINISHED, clear_folder, exclude_own, is_own, remove_file};
pub use layout::{SETTINGS_FILE, exclude_pattern};
pub(crate) use log_follower::LogFollower;
pub use log_follower::read_log;
pub(crate) use metric_files::{file_with, is_pattern, last_changed, newest_file};
pub(crate) use other_sessions::{HeldSessions, Others, has_job, is_odd_ref, other_records, tag_of};
pub use ownership::await_other_host;
pub(crate) use ownership::{driven_elsewhere, is_driven, opened_elsewhere, refuse_elsewhere};
pub(crate) use program_path::own_path;
pub(crate) use read_cache::{Damage, Records};
pub(crate) use reading::{
    SESSIONS, expected_tip, is_session, lost_records, no_experiment, parse_record, read_baseline, read_history,
    read_messages, read_records, readable_refs, record_id, record_message, recorded_terms, refuse_changed,
    session_of_head, stored_contract,
};
pub use reading::{no_session, session_tags};
pub(crate) use refs::SessionRefs;
pub(crate) use seed::SEED;
pub use seed::{SEED_LINE, names_seed};
pub(crate) use sessions_folder::OwnFolder;
pub use sessions_folder::is_behind_wall;
