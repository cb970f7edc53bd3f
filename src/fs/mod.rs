//! Files as git, exec, ledger and state share them: durable writes, locks, bounded reads, stamps.
//!
//! Nothing here knows what a file is for.

mod clone;
mod lock;
mod names;
mod read;
mod write;

pub use clone::{clone_file, is_made, make_links, take_file, written_to};
pub use lock::{APPEND_WAIT, GLANCE, is_at, is_shared, lock_within, open_locked, share_within};
pub use names::{
    copy_beside, free_beside, free_name, in_writable_folder, make_all_writable, make_writable, move_away, move_command,
    move_irregular_away, move_no_folder_away, move_to, remove_all,
};
pub use read::{
    CLOCK_LAG, FileStamp, TAIL, age, is_irregular, open_regular, program_on_path, read_at_most, read_regular,
    read_tail, wait_until_newer,
};
pub use write::{
    FileError, OWN_FOLDER, Unsynced, absent, append, append_line, create_folder, failed, folder_of, if_exists,
    is_disk_full, is_missing, make_folder, remove_left_over, replace_through, retry_if_removed, write_after,
    write_atomic, write_unsynced,
};
