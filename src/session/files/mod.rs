//! What is read before a session is open: the places of `ar`'s files, the sessions of a repository, conventions, logs.
//! Nothing here writes to a session.

pub(super) mod choosing;
pub(super) mod command_lines;
pub(super) mod conventions;
pub(super) mod disk_space;
pub(super) mod fetched;
pub(super) mod ignored;
pub(super) mod layout;
pub(super) mod log_end;
pub(super) mod log_follower;
pub(super) mod other_sessions;
pub(super) mod program_path;
pub(super) mod read_cache;
pub(super) mod reading;
pub(super) mod refs;
pub(super) mod sessions_folder;
pub(super) mod timeline;
