//! Files as git, exec, ledger and state share them: durable writes, locks, bounded reads, stamps.
//!
//! Nothing here knows what a file is for.

mod age;
mod clone;
mod error;
mod links;
mod lock;
mod names;
mod read;
mod shared;
mod stamp;
mod standing;
mod unsynced;
mod write;

pub use age::age;
pub use clone::{clone_file, take_file};
pub use error::{FileError, absent, failed, if_exists, is_disk_full, is_missing};
pub use links::{is_made, make_links, written_to};
pub use lock::{APPEND_WAIT, GLANCE, is_at, lock_within, open_locked, share_within};
pub use names::{
    copy_beside, free_beside, free_name, in_writable_folder, make_all_writable, make_writable, move_away, move_command,
    move_no_folder_away, move_odd_away, move_to, remove_all,
};
pub use read::{TAIL, is_odd, open_regular, read_at_most, read_regular, read_tail};
pub use shared::is_shared;
pub use stamp::{CLOCK_LAG, FileStamp};
pub use standing::{OWN_FOLDER, make_folder, standing};
pub use unsynced::Unsynced;
pub use write::{
    append, append_line, create_folder, folder_of, remove_left_over, replace_through, write_after, write_atomic,
    write_unsynced,
};
