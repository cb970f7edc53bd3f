//! Files as git, exec, ledger and state share them: durable writes, locks, bounded reads, stamps.
//!
//! Nothing here knows what a file is for.

mod lock;
mod names;
mod read;
mod write;

pub use lock::{APPEND_WAIT, GLANCE, is_at, is_shared, lock_within, open_locked, share_within};
pub use names::{
    clone_file, copy_beside, free_beside, free_name, in_writable_folder, is_made, make_all_writable, make_links,
    make_writable, move_away, move_command, move_irregular_away, move_no_folder_away, move_to, remove_all, take_file,
    written_to,
};
pub use read::{
    CLOCK_LAG, FileStamp, TAIL, age, is_irregular, open_regular, program_on_path, read_at_most, read_regular,
    read_tail, wait_until_newer, wait_until_older,
};
pub use write::{
    FileError, OWN_FOLDER, Unsynced, absent, append, append_line, create_folder, failed, folder_of, if_exists,
    is_disk_full, is_missing, make_folder, remove_left_over, replace_through, retry_if_removed, write_after,
    write_atomic, write_unsynced,
};
