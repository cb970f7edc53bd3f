//! What is read before a session is open: the places of `ar`'s files, the sessions of a repository, conventions, logs.
//! Nothing here writes to a session.

mod conventions;
mod layout;
mod reading;
mod run_files;
mod sessions;

pub use conventions::{Conventions, PROGRAM, installed_agents, suggested_by_scripts};
pub(crate) use conventions::{check_command, own_path, program_of, read_program};
pub(crate) use layout::{
    INDEX_BEFORE, IgnoredFiles, REPRO_FOLDER, SEED, UNFINISHED, clear_folder, exclude_own, folder_with_space,
    full_elsewhere, has_space, ignored_inputs, is_own, refuse_full, refuse_spoilt, remove_file, stamp,
};
pub use layout::{SEED_LINE, SETTINGS_FILE, exclude_pattern, names_seed, refuse_tracked};
pub(crate) use reading::{
    Damage, Records, SESSIONS, expected_tip, is_fetched, is_session, lost_records, no_experiment, parse_record,
    read_baseline, read_history, read_messages, read_records, readable_refs, record_id, record_message, recorded_terms,
    refuse_changed, session_of_head, stored_contract,
};
pub use reading::{no_session, session_tags};
pub use run_files::read_log;
pub(crate) use run_files::{LogFollower, file_with, is_pattern, last_changed, newest_file};
pub use sessions::{Choice, Chosen, await_other_host, choose_session, find_session, is_behind_wall};
pub(crate) use sessions::{
    HeldSessions, Others, OwnFolder, driven_elsewhere, has_job, is_driven, is_odd_ref, opened_elsewhere, other_records,
    refuse_elsewhere, session_there, tag_of,
};
